//! The TCP sockets of this machine and the processes that hold them; and whether a tree has opened a port.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{self, BufRead as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    ops::ControlFlow,
};

use crate::identity;
use crate::socket::is_shortage;

/// The state `TCP_LISTEN` in `/proc/net/tcp` (proc(5), `include/net/tcp_states.h`).
const LISTEN: u8 = 0x0a;
/// The state `TCP_SYN_SENT`.
const SYN_SENT: u8 = 0x02;

/// How many processes of a tree are looked into: a server is near its root, and a fork bomb is none.
const MEMBERS_MAX: usize = 4096;

/// Whether a process of the tree listens on this port, at this address or at all. A listening socket takes connections,
/// so nobody need connect to it; and one of a stranger does not count.
///
/// The tree is everything below `keeper` and `main`, and the session of `main`. Sockets are looked for in the network of
/// `main`, which may be a namespace of its own.
pub fn is_open_by(keeper: i32, main: i32, host: Option<IpAddr>, port: u16) -> io::Result<bool> {
    let sockets = listening(main, host, port)?;
    if sockets.is_empty() {
        return Ok(false);
    }
    for pid in tree(keeper, main)? {
        if holds(pid, &sockets)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The inodes of sockets that listen on the port, in the network of this process.
fn listening(pid: i32, host: Option<IpAddr>, port: u16) -> io::Result<BTreeSet<u64>> {
    let mut inodes = BTreeSet::new();
    let at = |address: IpAddr| host.is_none_or(|host| address.is_unspecified() || address == host);
    each_socket(&pid.to_string(), |socket| {
        if socket.state == LISTEN && socket.local.port() == port && at(socket.local.ip()) {
            inodes.insert(socket.inode);
        }
        ControlFlow::Continue(())
    })?;
    Ok(inodes)
}

/// One line of `/proc/net/tcp` or `tcp6`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Socket {
    /// Its own end.
    pub(crate) local: SocketAddr,
    /// The other end, unspecified for one that listens.
    pub(crate) remote: SocketAddr,
    state: u8,
    /// What processes hold it by; 0 once none does.
    pub(crate) inode: u64,
}

impl Socket {
    /// Whether it only asks for a connection that nobody has answered yet.
    pub(crate) fn is_asking(&self) -> bool {
        self.state == SYN_SENT
    }
}

/// Shows every TCP socket in the network of this process (a pid, or `self`) until it is told to stop. A line is read at a
/// time: a busy machine has hundreds of thousands.
pub(crate) fn each_socket(process: &str, mut look: impl FnMut(Socket) -> ControlFlow<()>) -> io::Result<()> {
    for name in ["tcp", "tcp6"] {
        match each_of_table(&format!("/proc/{process}/net/{name}"), &mut look) {
            Ok(ControlFlow::Break(())) => return Ok(()),
            Ok(ControlFlow::Continue(())) => {}
            // A kernel without IPv6, or a process that has just gone.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            Err(error) => return Err(identity::gone(error)),
        }
    }
    Ok(())
}

fn each_of_table(path: &str, look: &mut impl FnMut(Socket) -> ControlFlow<()>) -> io::Result<ControlFlow<()>> {
    let mut table = io::BufReader::new(fs::File::open(path)?);
    let mut line = String::new();
    while table.read_line(&mut line)? > 0 {
        // The first line has the names of the columns.
        if let Some(socket) = parse_socket(&line)
            && look(socket).is_break()
        {
            return Ok(ControlFlow::Break(()));
        }
        line.clear();
    }
    Ok(ControlFlow::Continue(()))
}

/// Reads `sl local rem st … inode`, addresses in hexadecimal (proc(5)).
fn parse_socket(line: &str) -> Option<Socket> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (local, remote) = (parse_end(fields.next()?)?, parse_end(fields.next()?)?);
    let state = u8::from_str_radix(fields.next()?, 16).ok()?;
    // After the state: queues, timer, retransmits, uid, timeout.
    let inode = fields.nth(5)?.parse().ok()?;
    Some(Socket { local, remote, state, inode })
}

fn parse_end(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    Some(SocketAddr::new(parse_address(address)?, u16::from_str_radix(port, 16).ok()?))
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
///
/// An error only where we have no descriptor or memory left to look with (`socket::is_shortage`).
pub(crate) fn holds(pid: i32, sockets: &BTreeSet<u64>) -> io::Result<bool> {
    let entries = match fs::read_dir(format!("/proc/{pid}/fd")) {
        Ok(entries) => entries,
        Err(error) if is_shortage(&error) => return Err(error),
        Err(_) => return Ok(false),
    };
    Ok(entries.flatten().filter_map(|entry| fs::read_link(entry.path()).ok()).any(|target| {
        let inode = target.to_str().and_then(|text| text.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok());
        inode.is_some_and(|inode| sockets.contains(&inode))
    }))
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
        let end = |port: u16| SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
        let listener = Socket { local: end(8080), remote: end(0), state: LISTEN, inode: 4242 };
        assert_eq!(parse_socket(line), Some(listener));
        let connected = Socket { remote: end(1), state: 1, ..listener };
        assert_eq!(parse_socket(&line.replace(":0000 0A ", ":0001 01 ")), Some(connected));
        assert_eq!(parse_socket("  sl  local_address rem_address   st tx_queue rx_queue tr tm->when"), None);
    }
}
