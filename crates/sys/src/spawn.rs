//! Starting a process without a copy of ourselves: by `posix_spawn(3)`, whose cost does not depend on our size.
//!
//! Not through the standard library: linked statically it does not find the action that changes the folder, and forks
//! instead, which takes 19 to 63 ms in a process of 1 GB (measured) and four times as long as this even in a small one.

use std::ffi::{CString, OsStr};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::{io, ptr};

/// Starts `program` in `folder` with nothing of ours but what is given as its stdio: else that is `/dev/null`; an environment
/// of at most one entry, every signal blocked and with its default action (a process must not die of a signal before it has
/// its hands on the wheel).
/// Gives back the pid, of a child that has executed the program.
pub(crate) fn detached(
    program: &Path,
    arguments: &[&OsStr],
    entry: Option<&OsStr>,
    folder: &Path,
    stdio: [Option<BorrowedFd<'_>>; 3],
) -> io::Result<i32> {
    let program = text(program.as_os_str())?;
    let arguments: Vec<CString> = arguments.iter().map(|word| text(word)).collect::<io::Result<_>>()?;
    let entry = entry.map(text).transpose()?;
    let folder = text(folder.as_os_str())?;
    let mut argv: Vec<*mut libc::c_char> = arguments.iter().map(|word| word.as_ptr().cast_mut()).collect();
    argv.push(ptr::null_mut());
    let mut envp: Vec<*mut libc::c_char> = entry.iter().map(|entry| entry.as_ptr().cast_mut()).collect();
    envp.push(ptr::null_mut());
    let (actions, attributes) = (Actions::new(&folder, stdio)?, Attributes::new()?);
    let mut pid = 0;
    // SAFETY: all pointers are to values that live until the call returns, the lists end with null, and the program
    // does not change what it is given.
    answer(unsafe {
        libc::posix_spawn(
            &raw mut pid,
            program.as_ptr(),
            actions.0.as_ptr(),
            attributes.0.as_ptr(),
            argv.as_ptr(),
            envp.as_ptr(),
        )
    })?;
    Ok(pid)
}

fn text(words: &OsStr) -> io::Result<CString> {
    CString::new(words.as_bytes()).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// These functions give the error instead of setting errno.
fn answer(error: libc::c_int) -> io::Result<()> {
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}

/// What the child does before it executes the program.
struct Actions(MaybeUninit<libc::posix_spawn_file_actions_t>);

impl Actions {
    fn new(folder: &CString, stdio: [Option<BorrowedFd<'_>>; 3]) -> io::Result<Self> {
        let mut actions = MaybeUninit::uninit();
        // SAFETY: the place is valid for the write.
        answer(unsafe { libc::posix_spawn_file_actions_init(actions.as_mut_ptr()) })?;
        let mut actions = Self(actions);
        let place = actions.0.as_mut_ptr();
        for (number, given) in (0..).zip(stdio) {
            let null = c"/dev/null".as_ptr();
            answer(match given {
                // SAFETY: `place` was initialised above; the descriptor is open until the spawn is over.
                Some(given) => unsafe { libc::posix_spawn_file_actions_adddup2(place, given.as_raw_fd(), number) },
                // SAFETY: `place` was initialised above; the path is copied.
                None => unsafe { libc::posix_spawn_file_actions_addopen(place, number, null, libc::O_RDWR, 0) },
            })?;
        }
        // SAFETY: as above.
        answer(unsafe { libc::posix_spawn_file_actions_addchdir_np(place, folder.as_ptr()) })?;
        Ok(actions)
    }
}

impl Drop for Actions {
    fn drop(&mut self) {
        // SAFETY: a value of this type is initialised.
        unsafe { libc::posix_spawn_file_actions_destroy(self.0.as_mut_ptr()) };
    }
}

/// What the child inherits.
struct Attributes(MaybeUninit<libc::posix_spawnattr_t>);

impl Attributes {
    fn new() -> io::Result<Self> {
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: the place is valid for the write.
        answer(unsafe { libc::posix_spawnattr_init(attributes.as_mut_ptr()) })?;
        let mut attributes = Self(attributes);
        let place = attributes.0.as_mut_ptr();
        let mut all = MaybeUninit::uninit();
        // All actions are set back, which is half the calls of the C library's way to set back those that have to be.
        let flags = libc::POSIX_SPAWN_SETSIGMASK | libc::POSIX_SPAWN_SETSIGDEF;
        let flags = libc::c_short::try_from(flags).map_err(io::Error::other)?;
        // SAFETY: `all` is filled before it is read, and `place` was initialised above.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            answer(libc::posix_spawnattr_setsigmask(place, all.as_ptr()))?;
            answer(libc::posix_spawnattr_setsigdefault(place, all.as_ptr()))?;
            answer(libc::posix_spawnattr_setflags(place, flags))?;
        }
        Ok(attributes)
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: a value of this type is initialised.
        unsafe { libc::posix_spawnattr_destroy(self.0.as_mut_ptr()) };
    }
}
