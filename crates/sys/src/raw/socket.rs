//! A connection to a local socket (unix(7)), as the front makes it.

use super::{Errno, Fd, Result, call};

/// Numbers of the calls, which nobody else makes; there is no front on other machines (`x86_64.rs`).
mod nr {
    pub(super) const SOCKET: usize = 41;
    pub(super) const CONNECT: usize = 42;
    pub(super) const RECVFROM: usize = 45;
    pub(super) const SENDMSG: usize = 46;
    pub(super) const GETSOCKOPT: usize = 55;
}

/// Longest path in the address of a socket (unix(7)), without its NUL.
const PATH_BYTES_MAX: usize = 107;
const DONTWAIT: usize = 0x40;

/// Who listens at the other end, as the kernel noted when he began to.
pub(crate) struct Peer {
    pub(crate) uid: u32,
    /// The very process (pidfd): readable once it has ended.
    pub(crate) hold: Fd,
}

/// Connects to the socket at this path, and does not wait for it: its queue may be full for as long as its owner is stopped.
pub(crate) fn connect(path: &[u8]) -> Result<Fd> {
    const UNIX: u16 = 1;
    const STREAM_NONBLOCK_CLOEXEC: usize = 1 | 0o4000 | 0o2_000_000;
    // `struct sockaddr_un`: the family, then the path and its NUL.
    let mut address = [0_u8; 2 + PATH_BYTES_MAX + 1];
    let (family, place) = address.split_at_mut(2);
    family.copy_from_slice(&UNIX.to_ne_bytes());
    place
        .get_mut(..PATH_BYTES_MAX)
        .and_then(|place| place.get_mut(..path.len()))
        .ok_or(Errno::EINVAL)?
        .copy_from_slice(path);
    // SAFETY: plain numbers.
    let socket = unsafe { call(nr::SOCKET, [usize::from(UNIX), STREAM_NONBLOCK_CLOEXEC, 0]) }.map(Fd::owned)?;
    // SAFETY: the address lives until the call is over, and is as long as is said.
    unsafe { call(nr::CONNECT, [socket.number() as usize, address.as_ptr() as usize, 2 + path.len() + 1]) }?;
    Ok(socket)
}

/// Who listens there; an error if he was gone when he was looked for.
pub(crate) fn peer(socket: &Fd) -> Result<Peer> {
    const PEERCRED: usize = 17;
    const PEERPIDFD: usize = 77;
    // `struct ucred`: process, user, group.
    let mut who = [0_u32; 3];
    option(socket, PEERCRED, &mut who)?;
    let [pid, uid, _] = who;
    let mut hold = [u32::MAX];
    let hold = match option(socket, PEERPIDFD, &mut hold) {
        Ok(()) => Fd::owned(hold[0] as usize),
        // Before Linux 6.5 the pid is all there is.
        Err(_) => super::process::handle(pid as i32)?,
    };
    Ok(Peer { uid, hold })
}

fn option(socket: &Fd, name: usize, value: &mut [u32]) -> Result<()> {
    const SOL_SOCKET: usize = 1;
    let mut length = size_of_val(value) as u32;
    let places = (value.as_mut_ptr() as usize, &raw mut length as usize);
    // SAFETY: value and length live until the call is over, and the kernel writes no more than the length.
    unsafe { call(nr::GETSOCKOPT, [socket.number() as usize, SOL_SOCKET, name, places.0, places.1]) }.map(drop)
}

/// Sends the pieces one after the other in one go, as far as they are taken at once.
pub(crate) fn send<const N: usize>(socket: &Fd, pieces: [&[u8]; N]) -> Result<usize> {
    const NOSIGNAL: usize = 0x4000;
    let vectors = pieces.map(|piece| [piece.as_ptr() as usize, piece.len()]);
    // `struct msghdr`: name and its length, the vectors and how many, control data and its length, flags.
    let message = [0, 0, vectors.as_ptr() as usize, N, 0, 0, 0];
    // SAFETY: message, vectors and pieces live until the call is over.
    unsafe { call(nr::SENDMSG, [socket.number() as usize, message.as_ptr() as usize, NOSIGNAL | DONTWAIT]) }
}

/// Reads what is there and leaves it there.
pub(crate) fn peek<'a>(socket: &Fd, buffer: &'a mut [u8]) -> Result<&'a [u8]> {
    const PEEK: usize = 2;
    let (place, length) = (buffer.as_mut_ptr() as usize, buffer.len());
    // SAFETY: the buffer is writable for its length.
    let read = unsafe { call(nr::RECVFROM, [socket.number() as usize, place, length, PEEK | DONTWAIT, 0, 0]) }?;
    buffer.get(..read).ok_or(Errno::EINVAL)
}
