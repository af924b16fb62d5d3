//! A local socket that only its owner can reach, also in a folder with a long name.

use std::{
    fs, io,
    os::{
        fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd},
        unix::net::{UnixListener, UnixStream},
    },
    path::Path,
    time::Duration,
};

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
    net::{
        AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, recv, send,
        sockopt::{Timeout, set_socket_timeout, socket_domain, socket_type},
    },
};

use crate::{
    files, identity,
    pidfd::{self, PidFd},
};

/// How many connections may wait to be accepted: twenty clients that start at once are far below it.
const WAITING_MAX: i32 = 1024;

/// Who is at the other end of a connection, as the kernel noted when it was made (`SO_PEERCRED`, unix(7)).
#[derive(Debug)]
pub struct Peer {
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
    /// Process, or 0 if it is not visible from our pid namespace.
    pub pid: i32,
    /// Hold of the very process that connected, if it was still there.
    pub(crate) hold: Option<PidFd>,
}

/// Listens at `dir/name`. A socket left there by a dead process is removed, so the caller must hold the lock that says
/// there is no living one; anything that is not a socket is left alone and is an error.
pub fn listen(dir: &Path, name: &str) -> io::Result<UnixListener> {
    let path = dir.join(name);
    match files::is_socket(&path)? {
        Some(true) => fs::remove_file(&path)?,
        Some(false) => return Err(io::Error::new(io::ErrorKind::AlreadyExists, "it is in the way and not a socket")),
        None => {}
    }
    let socket = new_socket()?;
    // The name gets the mode of the socket, less the umask (unix(7)): so it is never open to others, not for a moment.
    rustix::fs::fchmod(&socket, Mode::from_raw_mode(files::FILE_MODE))?;
    let address = Address::of(dir, name)?;
    rustix::net::bind(&socket, &address.address)?;
    rustix::fs::chmod(&path, Mode::from_raw_mode(files::FILE_MODE))?;
    rustix::net::listen(&socket, WAITING_MAX)?;
    Ok(socket.into())
}

/// Whether somebody could not be accepted because the process or the machine has no descriptor or memory to give (accept(2)).
pub fn is_shortage(error: &io::Error) -> bool {
    let shortages = [Errno::NOMEM, Errno::NFILE, Errno::MFILE, Errno::NOBUFS];
    Errno::from_io_error(error).is_some_and(|errno| shortages.contains(&errno))
}

/// Connects to `dir/name`: [`io::ErrorKind::NotFound`] without a socket, [`io::ErrorKind::ConnectionRefused`] with a dead one.
///
/// Nothing with it waits longer than `patience` for the other side to take or to send anything, the connecting neither: then
/// it is [`io::ErrorKind::WouldBlock`].
pub fn connect(dir: &Path, name: &str, patience: Duration) -> io::Result<UnixStream> {
    let address = Address::of(dir, name)?;
    let socket = new_socket()?;
    for way in [Timeout::Send, Timeout::Recv] {
        set_socket_timeout(&socket, way, Some(patience))?;
    }
    rustix::net::connect(&socket, &address.address)?;
    Ok(socket.into())
}

impl Peer {
    /// Whether it has ended. One whose pid is not of our namespace cannot be looked for, and counts as alive.
    pub fn has_ended(&self) -> io::Result<bool> {
        match &self.hold {
            Some(hold) => hold.has_ended(),
            None => Ok(self.pid > 0 && identity::who(self.pid).is_err()),
        }
    }
}

/// Who is at the other end of `stream`.
pub fn peer(stream: impl AsFd) -> io::Result<Peer> {
    // SAFETY: the option is a `struct ucred` (unix(7)).
    let cred = unsafe { option(stream.as_fd(), libc::SO_PEERCRED, libc::ucred { pid: 0, uid: 0, gid: 0 }) }?;
    let hold = match pidfd::of_socket(stream.as_fd()) {
        // Before Linux 6.5 the pid is all there is. It could have been given away since the connection was made; the
        // time for that is between connect and accept.
        Ok(None) => PidFd::open_pid(cred.pid).ok(),
        Ok(hold) => hold,
        Err(_) => None,
    };
    Ok(Peer { uid: cred.uid, gid: cred.gid, pid: cred.pid, hold })
}

/// Reads a socket option into `value` (getsockopt(2)).
///
/// # Safety
///
/// `T` must be the type of the option, and any bytes must be a valid `T`.
pub(crate) unsafe fn option<T>(socket: BorrowedFd<'_>, name: libc::c_int, mut value: T) -> io::Result<T> {
    let mut len = libc::socklen_t::try_from(size_of::<T>()).map_err(io::Error::other)?;
    let place = (&raw mut value).cast();
    // SAFETY: `value` and `len` are valid for the write, and `len` is the size of `value`; the rest is the caller's word.
    let answer = unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, name, place, &raw mut len) };
    if answer == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

fn new_socket() -> io::Result<OwnedFd> {
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?)
}

/// The address of a socket file. A path over 107 bytes does not fit (unix(7)), so it goes through a descriptor of its
/// folder, which must stay open while the address is used.
struct Address {
    address: SocketAddrUnix,
    _dir: Option<OwnedFd>,
}

impl Address {
    fn of(dir: &Path, name: &str) -> io::Result<Self> {
        if let Ok(address) = SocketAddrUnix::new(dir.join(name)) {
            return Ok(Self { address, _dir: None });
        }
        let dir = rustix::fs::open(dir, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let address = SocketAddrUnix::new(format!("/proc/self/fd/{}/{name}", dir.as_raw_fd()))?;
        Ok(Self { address, _dir: Some(dir) })
    }
}

/// Whether this is a Unix socket that carries bytes; one of a network may take a part of what it is given ([`send_now`]).
pub fn is_stream(end: impl AsFd) -> bool {
    socket_type(end.as_fd()).is_ok_and(|kind| kind == SocketType::STREAM)
        && socket_domain(end).is_ok_and(|domain| domain == AddressFamily::UNIX)
}

/// Reads what is there, whatever the flags of the socket's description, which others may have as well; 0 at its end.
pub fn receive_now(end: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(recv(end, buffer, RecvFlags::DONTWAIT)?.0)
}

/// Writes what there is room for, whatever the flags of the socket's description, which others may have as well.
///
/// Of up to 4096 bytes a Unix socket takes all or none: it makes one buffer of them (`unix_stream_sendmsg`, `net/unix/af_unix.c`).
pub fn send_now(end: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    Ok(send(end, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::{Scratch, alone};
    use std::{
        io::{Read as _, Write as _},
        os::unix::fs::MetadataExt as _,
        path::PathBuf,
    };

    const PATIENCE: Duration = Duration::from_secs(30);

    fn talk(dir: &Path) {
        let listener = listen(dir, "daemon.sock").unwrap();
        assert_eq!(fs::symlink_metadata(dir.join("daemon.sock")).unwrap().mode() & 0o7777, 0o600);
        let mut client = connect(dir, "daemon.sock", PATIENCE).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(b"ping").unwrap();
        let mut said = [0; 4];
        server.read_exact(&mut said).unwrap();
        assert_eq!(&said, b"ping");
        let peer = peer(&server).unwrap();
        assert_eq!(peer.uid, crate::process::effective_uid());
        assert_eq!(peer.pid, i32::try_from(std::process::id()).unwrap());
        assert!(!peer.hold.unwrap().has_ended().unwrap());
    }

    fn long(scratch: &Scratch) -> PathBuf {
        let mut dir = scratch.path().to_path_buf();
        while dir.as_os_str().len() < 300 {
            dir.push("a-folder-with-a-rather-long-name-in-it");
        }
        fs::create_dir_all(&dir).unwrap();
        dir
    }

    #[test]
    fn it_works_in_short_and_in_long_folders() {
        let scratch = Scratch::new();
        talk(scratch.path());
        talk(&long(&scratch));
    }

    #[test]
    fn a_dead_socket_is_replaced_and_told_apart_from_a_missing_one() {
        // Alone, because a process that another test just starts holds our descriptors until its exec.
        if !alone("socket::tests::a_dead_socket_is_replaced_and_told_apart_from_a_missing_one") {
            return;
        }
        let scratch = Scratch::new();
        for dir in [scratch.path(), &long(&scratch)] {
            assert_eq!(connect(dir, "daemon.sock", PATIENCE).unwrap_err().kind(), io::ErrorKind::NotFound);
            drop(listen(dir, "daemon.sock").unwrap());
            assert_eq!(connect(dir, "daemon.sock", PATIENCE).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
            talk(dir);
        }
    }

    #[test]
    fn who_neither_accepts_nor_reads_is_not_waited_for_for_ever() {
        let scratch = Scratch::new();
        let _listener = listen(scratch.path(), "daemon.sock").unwrap();
        let patience = Duration::from_millis(20);
        let mut client = connect(scratch.path(), "daemon.sock", patience).unwrap();
        assert_eq!(client.write_all(&vec![0; 8 << 20]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert_eq!(client.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_file_in_the_way_is_left_alone() {
        let scratch = Scratch::new();
        fs::write(scratch.path().join("daemon.sock"), "precious").unwrap();
        let error = listen(scratch.path(), "daemon.sock").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(scratch.path().join("daemon.sock")).unwrap(), b"precious");
    }

    #[test]
    fn a_peer_that_has_gone_is_seen_to_have_gone() {
        let scratch = Scratch::new();
        let listener = listen(scratch.path(), "daemon.sock").unwrap();
        let script = "import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])";
        let socket = scratch.path().join("daemon.sock");
        let status = std::process::Command::new("python3").args(["-c", script]).arg(socket).status().unwrap();
        assert!(status.success());
        let (server, _) = listener.accept().unwrap();
        let peer = peer(&server).unwrap();
        assert!(peer.hold.is_none_or(|hold| hold.has_ended().unwrap_or(true)));
    }

    #[test]
    fn nobody_is_kept_waiting_on_a_socket_that_waits() {
        let (one, other) = UnixStream::pair().unwrap();
        let mut buffer = [0; 8192];
        let network = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(is_stream(&one) && !is_stream(network) && !is_stream(fs::File::open("/dev/null").unwrap()));
        assert_eq!(receive_now(&one, &mut buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        // All or nothing, until there is no room.
        let mut sent = 0;
        let full = loop {
            match send_now(&other, &[7; 4096]) {
                Ok(length) => sent += length,
                Err(error) => break error,
            }
        };
        assert_eq!((full.kind(), sent % 4096), (io::ErrorKind::WouldBlock, 0));
        drop(other);
        while sent > 0 {
            sent -= receive_now(&one, &mut buffer).unwrap();
        }
        assert_eq!(receive_now(&one, &mut buffer).unwrap(), 0);
        assert_eq!(send_now(&one, b"x").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
