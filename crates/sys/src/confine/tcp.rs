//! How confined whoever made a TCP connection on this machine is.
//!
//! A TCP socket does not say who is at its other end, as a local one does (unix(7)). But the other end is a socket of the
//! same network: `/proc/net/tcp` has its inode, and `/proc/PID/fd` of each process that holds it has a link to it (proc(5)).
//! The look is at those who hold it now, not at who made it, so it comes after the request was read and before it is
//! carried out. Address and port alone would not do: once a connection is broken, a stranger may have them for his own.
//! As long as ours is not, they are nobody else's.
//!
//! Not seen: a holder that may not be looked into (another user's, or one that is not dumpable, prctl(2)) beside one that
//! may; a free program that speaks for others, such as a proxy.

use std::{
    fs, io,
    net::{IpAddr, SocketAddr, TcpStream},
    ops::ControlFlow,
    time::{Duration, Instant},
};

use super::Confinement;
use crate::{
    pidfd::PidFd,
    port::{each_socket, holds},
    socket::is_shortage,
};

/// How many holders are looked at. A connection is one process's, for a moment also its child's.
const HOLDERS_MAX: usize = 64;

impl Confinement {
    /// Why somebody who holds the other end of a TCP connection on this machine is more confined than this one; nothing if
    /// nobody is.
    ///
    /// - [`io::ErrorKind::NotFound`]: the other end was closed meanwhile, or is not in our network namespace.
    /// - [`io::ErrorKind::PermissionDenied`]: it is there, and no process that we may look into holds it.
    /// - [`io::ErrorKind::TimedOut`]: the machine has so many sockets and processes that `patience` was over.
    pub fn beyond_over_tcp(&self, stream: &TcpStream, patience: Duration) -> io::Result<Option<&'static str>> {
        let until = Instant::now() + patience;
        let there = other_end(stream)?;
        let inode = inode(stream.local_addr()?, there, until)?;
        let found = self.beyond_of_holders(inode, until);
        // A connection that is not broken after the look was not during the look.
        other_end(stream).and(found)
    }

    fn beyond_of_holders(&self, inode: u64, until: Instant) -> io::Result<Option<&'static str>> {
        let socket = [inode].into();
        let mut seen = 0;
        for entry in fs::read_dir("/proc")? {
            in_time(until)?;
            let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            // Held before the look: what is then seen of this pid is of one process.
            let hold = match PidFd::open_pid(pid) {
                Ok(hold) => hold,
                // Not that nobody may be looked into, but that nobody can be.
                Err(error) if is_shortage(&error) => return Err(error),
                Err(_) => continue,
            };
            if !holds(pid, &socket)? {
                continue;
            }
            if seen == HOLDERS_MAX {
                let what = format!("more than {HOLDERS_MAX} processes hold the connection");
                return Err(io::Error::other(what));
            }
            match Self::of(pid) {
                // Who has ended holds nothing, and the pid may have been another's.
                _ if hold.has_ended()? => {}
                Ok(theirs) => {
                    seen += 1;
                    if let Some(why) = theirs.beyond(self) {
                        return Ok(Some(why));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        if seen > 0 {
            return Ok(None);
        }
        Err(io::Error::new(io::ErrorKind::PermissionDenied, "no process that we may look into holds the connection"))
    }
}

/// A broken connection has no other end (getpeername(2): `ENOTCONN`).
fn other_end(stream: &TcpStream) -> io::Result<SocketAddr> {
    stream.peer_addr().map_err(|error| match error.kind() {
        io::ErrorKind::NotConnected => io::ErrorKind::NotFound.into(),
        _ => error,
    })
}

/// The inode of the socket whose ends are these, seen from the other side.
fn inode(here: SocketAddr, there: SocketAddr, until: Instant) -> io::Result<u64> {
    let (here, there) = (canonical(here), canonical(there));
    let (mut found, mut late) = (None, Ok(()));
    each_socket("self", |socket| {
        // Whoever asks for a connection with these very ends is about to learn that they are in use.
        if (socket.local, socket.remote) == (there, here) && !socket.is_asking() {
            found = Some(socket.inode);
        }
        late = in_time(until);
        if found.is_some() || late.is_err() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    // One that nobody holds any more is sent to its end by the kernel, without an inode.
    match found {
        Some(inode) if inode != 0 => Ok(inode),
        _ => late.and(Err(io::ErrorKind::NotFound.into())),
    }
}

/// An address of IPv4 may stand in a socket of IPv6; scopes and flow labels are not in the table.
fn canonical(end: SocketAddr) -> SocketAddr {
    let ip: IpAddr = end.ip().to_canonical();
    SocketAddr::new(ip, end.port())
}

fn in_time(until: Instant) -> io::Result<()> {
    if Instant::now() < until {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::TimedOut,
        "the machine has too many sockets and processes to look through in time",
    ))
}

#[cfg(test)]
mod tests {
    use super::super::NO_NEW_PRIVS;
    use super::*;
    use std::net::TcpListener;
    use std::os::fd::OwnedFd;
    use std::process::{Command, Stdio};

    use rustix::net::{AddressFamily, SocketType, sockopt};

    fn look(server: &TcpStream) -> Result<Option<&'static str>, io::ErrorKind> {
        Confinement::own().unwrap().beyond_over_tcp(server, Duration::from_mins(1)).map_err(|error| error.kind())
    }

    fn listener() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    #[test]
    fn a_peer_is_found_by_the_socket_it_holds() {
        for (address, by) in [("127.0.0.1", "127.0.0.1"), ("127.0.0.1", "::ffff:127.0.0.1"), ("::1", "::1")] {
            // A machine may have no IPv6.
            let Ok(listener) = TcpListener::bind((address, 0)) else { continue };
            let Ok(client) = TcpStream::connect((by, listener.local_addr().unwrap().port())) else { continue };
            let (server, _) = listener.accept().unwrap();
            assert_eq!(look(&server), Ok(None), "{by}");
            drop(client);
            assert_eq!(look(&server), Err(io::ErrorKind::NotFound), "{by}");
        }
    }

    #[test]
    fn one_confined_holder_is_enough() {
        let (listener, address) = listener();
        let client = TcpStream::connect(address).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let mut child = Command::new("setpriv")
            .args(["--no-new-privs", "cat"])
            .stdin(Stdio::from(OwnedFd::from(client.try_clone().unwrap())))
            .stdout(Stdio::from(OwnedFd::from(client.try_clone().unwrap())))
            .spawn()
            .unwrap();
        // What comes back was said by cat(1), which has put on what it is to wear.
        io::Write::write_all(&mut server, b"x").unwrap();
        io::Read::read_exact(&mut server, &mut [0]).unwrap();
        assert_eq!(look(&server), Ok(Some(NO_NEW_PRIVS)), "we hold it too, and are free");
        server.shutdown(std::net::Shutdown::Write).unwrap();
        child.wait().unwrap();
        assert_eq!(look(&server), Ok(None));
        drop(client);
        assert_eq!(look(&server), Err(io::ErrorKind::NotFound));
    }

    #[test]
    fn nobody_lends_his_freedom_to_a_connection_that_had_his_port_before() {
        let (listener, address) = listener();
        let broken = TcpStream::connect(address).unwrap();
        let port = broken.local_addr().unwrap().port();
        let (first, _) = listener.accept().unwrap();
        // Closed so, it is broken off at once and its port is free (socket(7)).
        sockopt::set_socket_linger(&broken, Some(Duration::ZERO)).unwrap();
        drop(broken);
        let next = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        rustix::net::bind(&next, &SocketAddr::from(([127, 0, 0, 1], port))).unwrap();
        rustix::net::connect(&next, &address).unwrap();
        let (second, there) = listener.accept().unwrap();
        assert_eq!(there.port(), port);
        assert_eq!(look(&second), Ok(None));
        assert_eq!(look(&first), Err(io::ErrorKind::NotFound));
    }

    #[test]
    fn a_look_takes_no_longer_than_it_may() {
        let (listener, address) = listener();
        let client = TcpStream::connect(address).unwrap();
        let (server, _) = listener.accept().unwrap();
        let late = Confinement::own().unwrap().beyond_over_tcp(&server, Duration::ZERO).unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        drop(client);
    }
}
