//! Whether a TCP port is open, and whether it is this tree that opened it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use crate::identity;

/// The state `TCP_LISTEN` in `/proc/net/tcp` (proc(5), `include/net/tcp_states.h`).
const LISTEN: &str = "0A";

/// How many processes of a tree are looked into: a server is near its root, and a fork bomb is none.
const MEMBERS_MAX: usize = 4096;

/// Whether a process of the tree listens on this port, at this address or at all. A listening socket takes connections,
/// so nobody need connect to it; and one of a stranger does not count.
///
/// The tree is everything below `keeper` and `main`, and the session of `main`. Sockets are looked for in the network of
/// `main`, which may be a namespace of its own.
pub fn is_open_by(keeper: i32, main: i32, host: Option<IpAddr>, port: u16) -> io::Result<bool> {
    let sockets = listening(main, host, port)?;
    Ok(!sockets.is_empty() && tree(keeper, main)?.into_iter().any(|pid| holds(pid, &sockets)))
}

/// The inodes of sockets that listen on the port, in the network of this process.
fn listening(pid: i32, host: Option<IpAddr>, port: u16) -> io::Result<BTreeSet<u64>> {
    let mut inodes = BTreeSet::new();
    for name in ["tcp", "tcp6"] {
        match fs::read_to_string(format!("/proc/{pid}/net/{name}")) {
            Ok(table) => inodes.extend(table.lines().skip(1).filter_map(|line| listener(line, host, port))),
            // A kernel without IPv6, or a process that has just gone.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            Err(error) => return Err(identity::gone(error)),
        }
    }
    Ok(inodes)
}

/// The inode of the socket of this line, if it listens there: `sl local rem st … inode`, addresses in hexadecimal.
fn listener(line: &str, host: Option<IpAddr>, port: u16) -> Option<u64> {
    let mut fields = line.split_ascii_whitespace();
    let (address, found) = fields.nth(1)?.split_once(':')?;
    if u16::from_str_radix(found, 16).ok()? != port || fields.nth(1)? != LISTEN {
        return None;
    }
    let address = parse_address(address)?;
    let here = host.is_none_or(|host| address.is_unspecified() || address == host);
    // After the state: queues, timer, retransmits, uid, timeout.
    fields.nth(5)?.parse().ok().filter(|_| here)
}

/// Words of 32 bits in the byte order of the machine.
fn parse_address(text: &str) -> Option<IpAddr> {
    let word = |at: usize| u32::from_str_radix(text.get(8 * at..8 * at + 8)?, 16).ok().map(u32::to_ne_bytes);
    match text.len() {
        8 => Some(Ipv4Addr::from(word(0)?).into()),
        32 => {
            let mut bytes = [0; 16];
            for (at, four) in bytes.chunks_mut(4).enumerate() {
                four.copy_from_slice(&word(at)?);
            }
            // A socket of IPv6 that serves IPv4 is at `::`, or at a mapped address.
            Some(Ipv6Addr::from(bytes).to_canonical())
        }
        _ => None,
    }
}

/// The processes below `keeper` and `main`, `main` itself, and those of its session.
fn tree(keeper: i32, main: i32) -> io::Result<Vec<i32>> {
    let mut below: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    let mut members = BTreeSet::from([main]);
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Ok(stat) = identity::stat(pid) else { continue };
        below.entry(stat.ppid).or_default().push(pid);
        if stat.session == main {
            members.insert(pid);
        }
    }
    let mut queue: Vec<i32> = members.iter().copied().chain([keeper]).collect();
    while let Some(parent) = queue.pop() {
        for child in below.remove(&parent).unwrap_or_default() {
            if members.len() >= MEMBERS_MAX {
                break;
            }
            members.insert(child);
            queue.push(child);
        }
    }
    Ok(members.into_iter().collect())
}

/// Whether the process has one of the sockets open. One that is gone, or may not be looked into, has none.
fn holds(pid: i32, sockets: &BTreeSet<u64>) -> bool {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    entries.flatten().filter_map(|entry| fs::read_link(entry.path()).ok()).any(|target| {
        let inode = target.to_str().and_then(|text| text.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok());
        inode.is_some_and(|inode| sockets.contains(&inode))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_port_counts_only_for_the_tree_that_opened_it() {
        let own = i32::try_from(std::process::id()).unwrap();
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let loopback = Some(IpAddr::from(Ipv4Addr::LOCALHOST));
        assert!(is_open_by(0, own, loopback, port).unwrap());
        assert!(is_open_by(0, own, None, port).unwrap());
        assert!(!is_open_by(0, own, Some(IpAddr::from([127, 0, 0, 9])), port).unwrap());

        let mut stranger = std::process::Command::new("/bin/cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let pid = i32::try_from(stranger.id()).unwrap();
        assert!(!is_open_by(pid, pid, loopback, port).unwrap(), "the port is open, and is not theirs");
        drop(stranger.stdin.take());
        stranger.wait().unwrap();

        drop(listener);
        assert!(!is_open_by(0, own, loopback, port).unwrap());
    }

    #[test]
    fn addresses_are_read_as_the_kernel_writes_them() {
        if cfg!(target_endian = "little") {
            assert_eq!(parse_address("0100007F"), Some(IpAddr::from(Ipv4Addr::LOCALHOST)));
            assert_eq!(parse_address("00000000000000000000000001000000"), Some(IpAddr::from(Ipv6Addr::LOCALHOST)));
            assert_eq!(parse_address("0000000000000000FFFF00000100007F"), Some(IpAddr::from(Ipv4Addr::LOCALHOST)));
        }
        assert_eq!(parse_address("zz"), None);
        let line = "   0: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4242 1";
        assert_eq!(listener(line, None, 8080), Some(4242));
        assert_eq!(listener(line, None, 8081), None);
        assert_eq!(listener(&line.replace(" 0A ", " 01 "), None, 8080), None);
    }
}
