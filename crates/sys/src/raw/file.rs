//! Files, FIFOs and directories.

use core::ffi::CStr;

use super::{Errno, Result, call, nr};

/// Flags of open(2) that the keeper uses; but for one the same number on all machines that it runs on.
pub(crate) mod flag {
    pub(crate) const RDONLY: usize = 0;
    pub(crate) const WRONLY: usize = 0o1;
    pub(crate) const RDWR: usize = 0o2;
    pub(crate) const CREAT: usize = 0o100;
    pub(crate) const NOCTTY: usize = 0o400;
    pub(crate) const EXCL: usize = 0o200;
    pub(crate) const TRUNC: usize = 0o1000;
    pub(crate) const NONBLOCK: usize = 0o4000;
    /// The two machines differ (fcntl.h).
    pub(crate) const NOFOLLOW: usize = if cfg!(target_arch = "aarch64") { 0o100_000 } else { 0o400_000 };
    pub(super) const CLOEXEC: usize = 0o2_000_000;
    /// Only a place in the file system, not to be read (open(2)).
    pub(crate) const PATH: usize = 0o10_000_000;
}

/// `AT_FDCWD`: paths start at the working directory.
const HERE: usize = -100_isize as usize;

/// An open file, closed when dropped. All of them are close-on-exec, so that the task inherits none.
#[derive(Debug)]
pub(crate) struct Fd(i32);

impl Fd {
    /// Takes over a number that the kernel has just given us.
    pub(super) fn owned(number: usize) -> Self {
        Self(number as i32)
    }

    /// What this process was given as its stdin.
    pub(crate) fn standard_input() -> Self {
        Self(0)
    }

    /// The number.
    pub(crate) fn number(&self) -> i32 {
        self.0
    }

    fn word(&self) -> usize {
        self.0 as usize
    }
}

impl Drop for Fd {
    fn drop(&mut self) {
        // SAFETY: the number is ours, and nobody uses it after this.
        let _ = unsafe { call(nr::CLOSE, [self.word()]) };
    }
}

/// Opens `path`; new files get mode 0600.
pub(crate) fn open(path: &CStr, flags: usize) -> Result<Fd> {
    open_from(HERE, path, flags)
}

/// Opens a file of the task's folder for reading. What somebody has put in its place is not followed, and holds nobody up.
pub(crate) fn open_to_read(path: &CStr) -> Result<Fd> {
    open(path, flag::RDONLY | flag::NOFOLLOW | flag::NONBLOCK | flag::NOCTTY)
}

/// Opens `name` in `directory`.
pub(crate) fn open_in(directory: &Fd, name: &CStr, flags: usize) -> Result<Fd> {
    open_from(directory.word(), name, flags)
}

fn open_from(place: usize, path: &CStr, flags: usize) -> Result<Fd> {
    loop {
        // SAFETY: `path` ends with NUL and outlives the call.
        let answer = unsafe { call(nr::OPENAT, [place, path.as_ptr() as usize, flags | flag::CLOEXEC, 0o600]) };
        match answer {
            Err(Errno::EINTR) => {}
            other => return other.map(Fd::owned),
        }
    }
}

/// Makes a directory with mode 0700.
pub(crate) fn make_directory(path: &CStr) -> Result<()> {
    // SAFETY: `path` ends with NUL and outlives the call.
    unsafe { call(nr::MKDIRAT, [HERE, path.as_ptr() as usize, 0o700]) }.map(drop)
}

/// Removes an empty directory.
pub(crate) fn remove_directory(path: &CStr) -> Result<()> {
    remove(HERE, path, REMOVE_DIRECTORY)
}

/// Removes an empty directory in `directory`.
pub(crate) fn remove_directory_in(directory: &Fd, name: &CStr) -> Result<()> {
    remove(directory.word(), name, REMOVE_DIRECTORY)
}

/// Removes a name that is no directory's.
pub(crate) fn unlink(path: &CStr) -> Result<()> {
    remove(HERE, path, 0)
}

/// `AT_REMOVEDIR` of unlinkat(2).
const REMOVE_DIRECTORY: usize = 0x200;

fn remove(place: usize, path: &CStr, how: usize) -> Result<()> {
    // SAFETY: `path` ends with NUL and outlives the call.
    unsafe { call(nr::UNLINKAT, [place, path.as_ptr() as usize, how]) }.map(drop)
}

/// Where the symbolic link `path` leads to; an error too if that does not fit into `buffer` with its NUL.
pub(crate) fn read_link<'a>(path: &CStr, buffer: &'a mut [u8]) -> Result<&'a CStr> {
    let place = (buffer.as_mut_ptr() as usize, buffer.len());
    // SAFETY: `path` ends with NUL, and the buffer is writable for its length; both outlive the call.
    let length = unsafe { call(nr::READLINKAT, [HERE, path.as_ptr() as usize, place.0, place.1]) }?;
    *buffer.get_mut(length).ok_or(Errno::EINVAL)? = 0;
    CStr::from_bytes_until_nul(buffer).map_err(|_| Errno::EINVAL)
}

/// Reads up to `buffer.len()` bytes.
pub(crate) fn read(fd: &Fd, buffer: &mut [u8]) -> Result<usize> {
    // SAFETY: the buffer is writable for its length.
    unsafe { call(nr::READ, [fd.word(), buffer.as_mut_ptr() as usize, buffer.len()]) }
}

/// Writes up to `bytes.len()` bytes.
pub(crate) fn write(fd: &Fd, bytes: &[u8]) -> Result<usize> {
    // SAFETY: the bytes are readable for their length.
    unsafe { call(nr::WRITE, [fd.word(), bytes.as_ptr() as usize, bytes.len()]) }
}

/// Reads at an offset until the buffer is full or the file ends: a disk that is far away may give less at once.
pub(crate) fn read_at(fd: &Fd, buffer: &mut [u8], offset: u64) -> Result<usize> {
    whole(buffer.len(), |done| {
        let rest = buffer.get_mut(done..).unwrap_or_default();
        let (place, length) = (rest.as_mut_ptr() as usize, rest.len());
        // SAFETY: the rest of the buffer is writable for its length.
        unsafe { call(nr::PREAD64, [fd.word(), place, length, offset as usize + done]) }
    })
}

/// Writes at an offset, all of it unless there is an error: a disk may take less at once.
pub(crate) fn write_at(fd: &Fd, bytes: &[u8], offset: u64) -> Result<usize> {
    whole(bytes.len(), |done| {
        let rest = bytes.get(done..).unwrap_or_default();
        // SAFETY: the rest of the bytes is readable for its length.
        unsafe { call(nr::PWRITE64, [fd.word(), rest.as_ptr() as usize, rest.len(), offset as usize + done]) }
    })
}

/// Calls until `length` bytes are moved, or no more are; an error after some of them is the next call's.
fn whole(length: usize, mut piece: impl FnMut(usize) -> Result<usize>) -> Result<usize> {
    let mut done = 0;
    while done < length {
        match piece(done) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(Errno::EINTR) => {}
            Err(error) if done == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(done)
}

/// The length of a file; moves its position to the end.
pub(crate) fn seek_end(fd: &Fd) -> Result<u64> {
    const SEEK_END: usize = 2;
    // SAFETY: plain numbers.
    unsafe { call(nr::LSEEK, [fd.word(), 0, SEEK_END]) }.map(|at| at as u64)
}

/// Opens a FIFO of the task's folder; a link or anything else in its place is `EINVAL` or `ELOOP`.
pub(crate) fn open_pipe(path: &CStr, how: usize) -> Result<Fd> {
    let fd = open(path, how | flag::NOFOLLOW | flag::NOCTTY)?;
    // A file has a position, a pipe has none (lseek(2)).
    match seek_end(&fd) {
        Err(Errno::ESPIPE) => Ok(fd),
        _ => Err(Errno::EINVAL),
    }
}

/// How many names a file has; nothing where that is not said (statx(2)).
pub(crate) fn names(fd: &Fd) -> Option<u32> {
    // `struct statx` has 256 bytes: what it says (`stx_mask`) is in the first four, the number of names in those from 16 on.
    const WORDS: usize = 32;
    const EMPTY_PATH: usize = 0x1000;
    const NLINK: usize = 4;
    let mut words = [0_u64; WORDS];
    let place = words.as_mut_ptr() as usize;
    // SAFETY: the path ends with NUL, and the words are as many as the kernel writes.
    unsafe { call(nr::STATX, [fd.word(), c"".as_ptr() as usize, EMPTY_PATH, NLINK, place]) }.ok()?;
    (words[0] & NLINK as u64 != 0).then_some(words[2] as u32)
}

/// Moves the position of a file.
pub(crate) fn seek_to(fd: &Fd, offset: u64) -> Result<()> {
    const SEEK_SET: usize = 0;
    // SAFETY: plain numbers.
    unsafe { call(nr::LSEEK, [fd.word(), offset as usize, SEEK_SET]) }.map(drop)
}

/// Frees the blocks of `from..to` without changing the length (fallocate(2), `PUNCH_HOLE | KEEP_SIZE`).
pub(crate) fn punch(fd: &Fd, from: u64, to: u64) -> Result<()> {
    const PUNCH_HOLE_KEEP_SIZE: usize = 2 | 1;
    // SAFETY: plain numbers.
    unsafe { call(nr::FALLOCATE, [fd.word(), PUNCH_HOLE_KEEP_SIZE, from as usize, (to - from) as usize]) }.map(drop)
}

/// How many bytes may still be written to the file system of a file; nothing where it does not say (fstatfs(2)).
pub(crate) fn free(fd: &Fd) -> Option<u64> {
    const BLOCKS: usize = 2;
    const AVAILABLE: usize = 4;
    const UNIT: usize = 9;
    let words = file_system(fd)?;
    (words[BLOCKS] > 0).then(|| words[AVAILABLE].saturating_mul(words[UNIT]))
}

/// Whether a file is of the file system of cgroups, version 2 (linux/magic.h).
pub(crate) fn is_of_cgroups(fd: &Fd) -> bool {
    const CGROUP2_SUPER_MAGIC: u64 = 0x6367_7270;
    file_system(fd).is_some_and(|[kind, ..]| kind == CGROUP2_SUPER_MAGIC)
}

/// `struct statfs` as words of the machine: the first is the kind, the third the size, the fifth what is free of it for us, in
/// units of the tenth (asm-generic/statfs.h, where a word has 64 bits).
fn file_system(fd: &Fd) -> Option<[u64; 15]> {
    let mut words = [0; 15];
    // SAFETY: the words are writable, and at least as many as the kernel writes.
    unsafe { call(nr::FSTATFS, [fd.word(), words.as_mut_ptr() as usize]) }.ok()?;
    Some(words)
}

/// Moves up to `most` bytes from a pipe into a file at `offset`, or between a pipe and a device, without waiting.
///
/// Inside the kernel, so that a SIGKILL cannot fall between "read" and "written".
pub(crate) fn splice(pipe: &Fd, to: &Fd, offset: Option<u64>, most: usize) -> Result<usize> {
    const MOVE_NONBLOCK: usize = 1 | 2;
    let at = offset.unwrap_or(0);
    let place = if offset.is_some() { &raw const at as usize } else { 0 };
    // SAFETY: `at` lives until the call is over.
    unsafe { call(nr::SPLICE, [pipe.word(), 0, to.word(), place, most, MOVE_NONBLOCK]) }
}

/// Copies `count` bytes at `offset` of one file to the position of another, inside the kernel.
pub(crate) fn send(from: &Fd, offset: u64, count: usize, to: &Fd) -> Result<usize> {
    let at = offset;
    // SAFETY: `at` lives until the call is over.
    unsafe { call(nr::SENDFILE, [to.word(), from.word(), &raw const at as usize, count]) }
}

/// Renames a file within the working directory.
pub(crate) fn rename(from: &CStr, to: &CStr) -> Result<()> {
    // SAFETY: both paths end with NUL and outlive the call.
    unsafe { call(nr::RENAMEAT2, [HERE, from.as_ptr() as usize, HERE, to.as_ptr() as usize, 0]) }.map(drop)
}

/// Whether a call may wait.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    Yes,
    No,
}

/// Takes the exclusive lock of a file (flock(2)).
pub(crate) fn lock(fd: &Fd, wait: Wait) -> Result<()> {
    const EXCLUSIVE: usize = 2;
    const NONBLOCK: usize = 4;
    let how = if wait == Wait::Yes { EXCLUSIVE } else { EXCLUSIVE | NONBLOCK };
    // SAFETY: plain numbers.
    unsafe { call(nr::FLOCK, [fd.word(), how]) }.map(drop)
}

/// Makes `fd` available under `number`, kept across execve(2).
pub(crate) fn put_at(fd: &Fd, number: i32) -> Result<()> {
    if fd.number() == number {
        const F_SETFD: usize = 2;
        // SAFETY: plain numbers.
        return unsafe { call(nr::FCNTL, [fd.word(), F_SETFD, 0]) }.map(drop);
    }
    // SAFETY: plain numbers.
    unsafe { call(nr::DUP3, [fd.word(), number as usize, 0]) }.map(drop)
}

/// Takes a free number, so that nothing else gets it; it is not passed on by execve(2).
pub(crate) fn hold_number(number: i32) {
    const F_DUPFD_CLOEXEC: usize = 1030;
    if let Ok(null) = open(c"/dev/null", flag::RDONLY) {
        // SAFETY: plain numbers. The new descriptor is held for the life of the process.
        let _ = unsafe { call(nr::FCNTL, [null.word(), F_DUPFD_CLOEXEC, number as usize]) };
    }
}

/// A pipe: its end to read and its end to write.
pub(crate) fn pipe() -> Result<(Fd, Fd)> {
    let mut ends = [0_i32; 2];
    // SAFETY: the two numbers live until the call is over.
    unsafe { call(nr::PIPE2, [ends.as_mut_ptr() as usize, flag::CLOEXEC]) }?;
    Ok((Fd(ends[0]), Fd(ends[1])))
}

/// Asks for a pipe of `bytes` (fcntl(2), `F_SETPIPE_SZ`).
pub(crate) fn resize_pipe(pipe: &Fd, bytes: usize) -> Result<()> {
    const F_SETPIPE_SZ: usize = 1031;
    // SAFETY: plain numbers.
    unsafe { call(nr::FCNTL, [pipe.word(), F_SETPIPE_SZ, bytes]) }.map(drop)
}

/// Closes every file from number `first` on (`close_range(2)`, Linux 5.9).
pub(crate) fn close_from(first: usize) {
    // SAFETY: only called before anything of ours is open.
    let _ = unsafe { call(nr::CLOSE_RANGE, [first, u32::MAX as usize, 0]) };
}

/// Fills `buffer` with directory entries (getdents64(2)).
fn entries(directory: &Fd, buffer: &mut [u8]) -> Result<usize> {
    // SAFETY: the buffer is writable for its length.
    unsafe { call(nr::GETDENTS64, [directory.word(), buffer.as_mut_ptr() as usize, buffer.len()]) }
}

/// Calls `each` with every name in `directory` that is a number, as `/proc` and `/proc/PID/task` have them.
pub(crate) fn numbers_in(directory: &Fd, mut each: impl FnMut(i32)) -> Result<()> {
    entries_in(directory, |_, name| {
        if let Some(number) = leading_number(name.to_bytes_with_nul()) {
            each(number);
        }
    })
}

/// Calls `each` with the name of every directory in `directory`, but not itself and the one above.
pub(crate) fn directories_in(directory: &Fd, mut each: impl FnMut(&CStr)) -> Result<()> {
    const DIRECTORY: u8 = 4;
    entries_in(directory, |kind, name| {
        if kind == DIRECTORY && name != c"." && name != c".." {
            each(name);
        }
    })
}

/// Calls `each` with the kind (`d_type`) and the name of every entry of `directory`.
fn entries_in(directory: &Fd, mut each: impl FnMut(u8, &CStr)) -> Result<()> {
    const KIND_AT: usize = 18;
    const NAME_AT: usize = 19;
    let mut buffer = [0; 2048];
    loop {
        let filled = entries(directory, &mut buffer)?;
        if filled == 0 {
            return Ok(());
        }
        let mut rest = buffer.get(..filled).unwrap_or_default();
        while let Some(&[low, high]) = rest.get(16..18) {
            let length = usize::from(u16::from_le_bytes([low, high]));
            let name = rest.get(NAME_AT..length).and_then(|name| CStr::from_bytes_until_nul(name).ok());
            if let (Some(name), Some(&kind)) = (name, rest.get(KIND_AT)) {
                each(kind, name);
            }
            rest = rest.get(length.max(NAME_AT)..).unwrap_or_default();
        }
    }
}

/// The number that a NUL-terminated name consists of.
fn leading_number(name: &[u8]) -> Option<i32> {
    let mut number = 0_i32;
    for (at, &byte) in name.iter().enumerate() {
        match byte {
            b'0'..=b'9' => number = number.checked_mul(10)?.checked_add(i32::from(byte - b'0'))?,
            0 if at > 0 => return Some(number),
            _ => return None,
        }
    }
    None
}
