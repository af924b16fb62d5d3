//! Locks that the kernel gives back when their holder dies (flock(2)).

use std::{
    fs::{self, File},
    io,
    os::{fd::OwnedFd, unix::fs::MetadataExt as _},
    path::Path,
    time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, inotify, open};

use crate::identity;

/// After how long a lock is tried again although nobody was seen to let go of it.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Takes the lock for as long as `file` is open; false if somebody else has it.
pub fn try_exclusive(file: &File) -> io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Takes the lock for as long as `file` is open, and waits for it.
pub fn exclusive(file: &File) -> io::Result<()> {
    loop {
        match flock(file, FlockOperation::LockExclusive) {
            Err(rustix::io::Errno::INTR) => {}
            answer => return Ok(answer?),
        }
    }
}

/// The same, for at most so long; false if somebody still has it then. `path` is the file's.
///
/// There is no flock(2) that gives up: the file is watched for descriptors that are closed (inotify(7)), as those of a holder that ends
/// are, and the lock is tried after each.
pub fn exclusive_within(file: &File, path: &Path, patience: Duration) -> io::Result<bool> {
    if try_exclusive(file)? {
        return Ok(true);
    }
    // Nothing where the machine has no watch to give: then the lock is only looked at again.
    let closings = closings(path).ok();
    let until = Instant::now() + patience;
    while !try_exclusive(file)? {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        // The kernel tells of a closing just before it gives the lock back.
        let pause = Timespec::try_from(left.min(LOOK_AGAIN)).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut rings: Vec<PollFd<'_>> = closings.iter().map(|rings| PollFd::new(rings, PollFlags::IN)).collect();
        match poll(&mut rings, Some(&pause)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if let Some(closings) = &closings {
            // What it was about does not matter.
            let _ = rustix::io::read(closings, &mut [0_u8; 4096]);
        }
    }
    Ok(true)
}

/// Readable when a descriptor of this file was closed.
fn closings(path: &Path) -> io::Result<OwnedFd> {
    let closings = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
    inotify::add_watch(&closings, path, inotify::WatchFlags::CLOSE_WRITE | inotify::WatchFlags::CLOSE_NOWRITE)?;
    Ok(closings)
}

/// Whether somebody holds the lock of this file.
///
/// The look is itself a shared lock for a moment, and turns away a holder-to-be that does not wait (a keeper at its
/// start). So only he looks who then starts another one: the daemon, and nobody beside it.
pub fn is_held(path: &Path) -> io::Result<bool> {
    let file = open(path, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty())?;
    Ok(!try_shared(file)?)
}

/// Which process holds the lock of this file, by the kernel's own list (`/proc/locks`, proc(5)); nothing where nobody does, or
/// where it is not visible from here. The list names no device, so who is named must also have something in that folder open.
pub fn holder(path: &Path) -> io::Result<Option<i32>> {
    let inode = fs::symlink_metadata(path)?.ino();
    let locks = fs::read_to_string("/proc/locks")?;
    let folder = path.parent().unwrap_or(path);
    Ok(locks.lines().filter_map(|line| flock_of(line, inode)).find(|pid| identity::holds_file_in(*pid, folder)))
}

/// The process of a line like `7: FLOCK  ADVISORY  WRITE 812 fe:00:5243 0 EOF`, if it holds the lock of this inode.
fn flock_of(line: &str, inode: u64) -> Option<i32> {
    let mut words = line.split_ascii_whitespace().skip(1);
    // One that waits for it has an arrow before it.
    let is_flock = words.next() == Some("FLOCK");
    let pid = words.nth(2)?.parse().ok()?;
    let of_inode = words.next()?.rsplit(':').next()?.parse() == Ok(inode);
    (is_flock && of_inode).then_some(pid)
}

/// Takes the lock together with others who only look; false if somebody has it for himself.
pub(crate) fn try_shared(file: impl std::os::fd::AsFd) -> io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn one_holder_at_a_time_and_a_closed_file_lets_go() {
        let scratch = Scratch::new();
        let path = scratch.path().join("lock");
        let first = File::create(&path).unwrap();
        let second = File::open(&path).unwrap();
        assert!(!is_held(&path).unwrap());
        assert!(try_exclusive(&first).unwrap());
        assert!(is_held(&path).unwrap());
        assert!(!try_exclusive(&second).unwrap());
        assert!(!exclusive_within(&second, &path, Duration::ZERO).unwrap());
        let waiter = std::thread::spawn({
            let (path, third) = (path.clone(), File::open(&path).unwrap());
            move || exclusive_within(&third, &path, Duration::from_mins(1)).unwrap()
        });
        drop(first);
        assert!(waiter.join().unwrap());
        exclusive(&second).unwrap();
        assert!(is_held(&path).unwrap());
        drop(second);
        assert!(!is_held(&path).unwrap());
        assert_eq!(is_held(&scratch.path().join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_lock_dies_with_its_process() {
        let scratch = Scratch::new();
        let path = scratch.path().join("lock");
        let file = File::create(&path).unwrap();
        // The child inherits the open file, locks it, says so, and waits.
        let mut child = std::process::Command::new("flock")
            .args([path.as_os_str(), "sh".as_ref(), "-c".as_ref(), "echo held; exec cat".as_ref()])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = [0; 5];
        io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut said).unwrap();
        assert!(is_held(&path).unwrap());
        let held_by = holder(&path).unwrap().unwrap();
        assert!(fs::read(format!("/proc/{held_by}/cmdline")).unwrap().starts_with(b"flock\0"), "{held_by}");
        drop(child.stdin.take());
        child.wait().unwrap();
        exclusive(&file).unwrap();
        drop(file);
        assert_eq!(holder(&path).unwrap(), None);
    }

    #[test]
    fn the_list_of_locks_is_read_by_its_words() {
        let line = "7: FLOCK  ADVISORY  WRITE 812 fe:00:5243 0 EOF";
        assert_eq!((flock_of(line, 5243), flock_of(line, 524)), (Some(812), None));
        assert_eq!(flock_of("7: -> FLOCK  ADVISORY  WRITE 812 fe:00:5243 0 EOF", 5243), None);
        assert_eq!(flock_of("8: POSIX  ADVISORY  READ 812 fe:00:5243 0 EOF", 5243), None);
        assert_eq!(flock_of("", 5243), None);
    }
}
