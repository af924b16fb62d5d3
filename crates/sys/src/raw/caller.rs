//! What a process is asked for about itself, as the front hands it on.

use core::ffi::CStr;

use super::{Errno, Fd, Result, call, nr};

/// Numbers of the calls, which nobody else makes; there is no front on other machines (`x86_64.rs`).
mod own {
    pub(super) const GETCWD: usize = 79;
    pub(super) const GETPRIORITY: usize = 140;
}

/// What lies at a path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Directory,
    Socket,
    /// A file that somebody may execute.
    Program,
    Other,
}

/// Whether a link at the end of a path is followed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Follow {
    Yes,
    No,
}

/// What lies there (statx(2)).
pub(crate) fn kind(path: &CStr, follow: Follow) -> Result<Kind> {
    const HERE: usize = -100_isize as usize;
    const SYMLINK_NOFOLLOW: usize = 0x100;
    const TYPE_AND_MODE: usize = 1 | 2;
    // `struct statx` has 256 bytes: the mode is in the two from 28 on, little endian as the machines of the front are.
    let mut words = [0_u64; 32];
    let flags = if follow == Follow::Yes { 0 } else { SYMLINK_NOFOLLOW };
    let places = (path.as_ptr() as usize, words.as_mut_ptr() as usize);
    // SAFETY: the path ends with NUL, and the words are as many as the kernel writes.
    unsafe { call(nr::STATX, [HERE, places.0, flags, TYPE_AND_MODE, places.1]) }?;
    let mode = words[3] >> 32 & 0xffff;
    Ok(match mode >> 12 {
        0o04 => Kind::Directory,
        0o14 => Kind::Socket,
        0o10 if mode & 0o111 != 0 => Kind::Program,
        _ => Kind::Other,
    })
}

/// The working directory, as the kernel calls it; one that is gone, or that cannot be reached from the root folder, is an error.
pub(crate) fn directory(buffer: &mut [u8]) -> Result<&CStr> {
    let (place, length) = (buffer.as_mut_ptr() as usize, buffer.len());
    // SAFETY: the buffer is writable for its length.
    let length = unsafe { call(own::GETCWD, [place, length]) }?;
    let path =
        buffer.get(..length).filter(|path| path.starts_with(b"/") && path.ends_with(b"\0")).ok_or(Errno::ENOENT)?;
    // SAFETY: the kernel ends it with its only NUL.
    Ok(unsafe { CStr::from_bytes_with_nul_unchecked(path) })
}

/// The file mode creation mask, which can only be read by setting it (umask(2)).
pub(crate) fn umask() -> u32 {
    // SAFETY: plain numbers; this process has one thread.
    unsafe {
        let mask = call(nr::UMASK, [0o077]).unwrap_or(0o022);
        let _ = call(nr::UMASK, [mask]);
        mask as u32
    }
}

/// The nice value; the kernel answers with 20 less it, which is never an error number (getpriority(2)).
pub(crate) fn nice() -> i32 {
    // SAFETY: plain numbers.
    unsafe { call(own::GETPRIORITY, [0, 0]) }.map_or(0, |answer| 20 - answer as i32)
}

/// A soft resource limit (prlimit(2)).
pub(crate) fn limit(resource: usize) -> Result<u64> {
    let mut pair = [0_u64; 2];
    // SAFETY: the pair (`struct rlimit64`) lives until the call is over.
    unsafe { call(nr::PRLIMIT64, [0, resource, 0, pair.as_mut_ptr() as usize]) }?;
    Ok(pair[0])
}

/// Has a write to a pipe that nobody reads fail, instead of ending this process.
pub(crate) fn ignore_broken_pipes() {
    const PIPE: usize = 13;
    const IGNORE: u64 = 1;
    // `struct sigaction` of the kernel: what to do, then flags and a mask, all zero.
    let action = [IGNORE, 0, 0, 0];
    // SAFETY: the action lives until the call is over.
    let _ = unsafe { call(nr::RT_SIGACTION, [PIPE, action.as_ptr() as usize, 0, 8]) };
}

/// Writes to a standard descriptor until all is written; else how much was.
pub(crate) fn say(number: i32, bytes: &[u8]) -> core::result::Result<(), usize> {
    // It is not ours to close.
    let fd = core::mem::ManuallyDrop::new(Fd::owned(number as usize));
    let mut done = 0;
    while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
        match super::file::write(&fd, rest) {
            Ok(0) => return Err(done),
            Ok(count) => done += count,
            Err(Errno::EINTR) => {}
            Err(_) => return Err(done),
        }
    }
    Ok(())
}
