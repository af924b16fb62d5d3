//! Waiting for a condition: a file that grows, a descriptor that is ready.

use std::{
    ffi::{OsStr, OsString},
    io,
    mem::MaybeUninit,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
        unix::ffi::OsStrExt as _,
    },
    path::Path,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec},
    fs::inotify,
};

/// What a descriptor is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    /// Something to read, or the end of it.
    Read,
    /// Room to write, or nobody left to write to.
    Write,
}

/// Waits until one of the descriptors is ready or the time is over, and says which are.
///
/// A hang-up or an error counts as ready: the next read or write tells it. Signals do not end the wait.
pub fn poll(fds: &[(BorrowedFd<'_>, For)], timeout: Option<Duration>) -> io::Result<Vec<bool>> {
    let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let mut polled: Vec<PollFd<'_>> = fds
        .iter()
        .map(|(fd, wanted)| {
            PollFd::from_borrowed_fd(*fd, if *wanted == For::Read { PollFlags::IN } else { PollFlags::OUT })
        })
        .collect();
    loop {
        let left = end.map(|end| timespec(end.saturating_duration_since(Instant::now())));
        match rustix::event::poll(&mut polled, left.as_ref()) {
            Ok(_) => return Ok(polled.iter().map(|fd| !fd.revents().is_empty()).collect()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}

/// Readable whenever a file has changed (inotify(7)).
///
/// Bytes that arrive by splice(2) count since Linux 6.5 for certain, as the keeper's output does.
#[derive(Debug)]
pub struct FileWatch(OwnedFd);

impl FileWatch {
    /// Watches the content of `path`. Events from before the call are not seen: watch first, then read.
    pub fn modify(path: &Path) -> io::Result<Self> {
        let fd = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
        inotify::add_watch(&fd, path, inotify::WatchFlags::MODIFY | inotify::WatchFlags::DELETE_SELF)?;
        Ok(Self(fd))
    }

    /// Takes all events that have come; whether there were any.
    pub fn drain(&self) -> io::Result<bool> {
        let mut any = false;
        let mut events = [0; 4096];
        loop {
            match rustix::io::read(&self.0, &mut events) {
                Ok(0) | Err(rustix::io::Errno::AGAIN) => return Ok(any),
                Ok(_) => any = true,
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl AsFd for FileWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for FileWatch {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Readable whenever something has changed in one of several folders. One descriptor for all of them, because a user may
/// have few (`max_user_instances`, inotify(7)).
#[derive(Debug)]
pub struct FolderWatch(OwnedFd);

/// What happened to a name in a watched folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happened {
    /// Which folder, by the number that it was given when the watch began.
    pub folder: i32,
    /// Which name; nothing where it is about the folder.
    pub name: Option<OsString>,
    /// What.
    pub what: What,
}

/// Kinds of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A name was made, or a file has grown; somebody may still write to it.
    Changed,
    /// A file was closed by a writer, or was moved here: it is whole.
    Whole,
    /// The folder is no longer watched: it is gone.
    Gone,
    /// More happened than the kernel keeps: look at everything.
    Overflow,
}

impl FolderWatch {
    /// Watches nothing yet.
    pub fn new() -> io::Result<Self> {
        Ok(Self(inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?))
    }

    /// Watches for files that come into a folder. What came before the call is not seen: watch first, then look.
    pub fn arrivals(&self, path: &Path) -> io::Result<i32> {
        use inotify::WatchFlags as Flags;
        let flags = Flags::CREATE | Flags::CLOSE_WRITE | Flags::MOVED_TO | Flags::ONLYDIR;
        Ok(inotify::add_watch(&self.0, path, flags)?)
    }

    /// Watches for files of a folder that are made or grow.
    pub fn growth(&self, path: &Path) -> io::Result<i32> {
        use inotify::WatchFlags as Flags;
        Ok(inotify::add_watch(&self.0, path, Flags::CREATE | Flags::MODIFY | Flags::ONLYDIR)?)
    }

    /// Stops watching a folder. One that is gone already is no error.
    pub fn remove(&self, folder: i32) {
        let _gone_already = inotify::remove_watch(&self.0, folder);
    }

    /// Takes the next batch of what has happened; empty when there is nothing more.
    pub fn read(&self) -> io::Result<Vec<Happened>> {
        let mut buffer = [MaybeUninit::uninit(); 16 << 10];
        let mut reader = inotify::Reader::new(&self.0, &mut buffer);
        let mut all = Vec::new();
        loop {
            match reader.next() {
                Ok(event) => all.push(Happened {
                    folder: event.wd(),
                    name: event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()).to_owned()),
                    what: what(event.events()),
                }),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return Ok(all),
                Err(error) => return Err(error.into()),
            }
            if reader.is_buffer_empty() {
                return Ok(all);
            }
        }
    }
}

fn what(flags: inotify::ReadFlags) -> What {
    use inotify::ReadFlags as Flags;
    if flags.contains(Flags::QUEUE_OVERFLOW) {
        What::Overflow
    } else if flags.contains(Flags::IGNORED) {
        What::Gone
    } else if flags.intersects(Flags::CLOSE_WRITE | Flags::MOVED_TO) {
        What::Whole
    } else {
        What::Changed
    }
}

impl AsFd for FolderWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use std::io::Write as _;

    #[test]
    fn poll_tells_which_and_ends_at_its_time() {
        let (reader, mut writer) = io::pipe().unwrap();
        let (quiet, kept) = io::pipe().unwrap();
        let both = [(reader.as_fd(), For::Read), (quiet.as_fd(), For::Read)];
        assert_eq!(poll(&both, Some(Duration::from_millis(1))).unwrap(), [false, false]);
        writer.write_all(b"x").unwrap();
        assert_eq!(poll(&both, None).unwrap(), [true, false]);
        assert_eq!(poll(&[(writer.as_fd(), For::Write)], None).unwrap(), [true]);
        drop((reader, kept));
        assert_eq!(
            poll(&[(writer.as_fd(), For::Write)], None).unwrap(),
            [true],
            "a broken pipe is told, not waited for"
        );
    }

    #[test]
    fn a_growing_file_wakes_its_watcher_also_by_splice() {
        let scratch = Scratch::new();
        let path = scratch.path().join("output");
        let mut file = std::fs::File::create(&path).unwrap();
        let watch = FileWatch::modify(&path).unwrap();
        assert!(!watch.drain().unwrap());
        file.write_all(b"one").unwrap();
        assert_eq!(poll(&[(watch.as_fd(), For::Read)], Some(Duration::from_secs(10))).unwrap(), [true]);
        assert!(watch.drain().unwrap());
        assert!(!watch.drain().unwrap());

        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"two").unwrap();
        rustix::pipe::splice(&reader, None, &file, None, 3, rustix::pipe::SpliceFlags::empty()).unwrap();
        assert_eq!(poll(&[(watch.as_fd(), For::Read)], Some(Duration::from_secs(10))).unwrap(), [true]);
        assert!(watch.drain().unwrap());
    }

    #[test]
    fn a_missing_file_cannot_be_watched() {
        let scratch = Scratch::new();
        let error = FileWatch::modify(&scratch.path().join("none")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_folder_tells_which_name_was_made_closed_or_moved_in() {
        let (scratch, other) = (Scratch::new(), Scratch::new());
        let watch = FolderWatch::new().unwrap();
        let (here, there) = (watch.growth(scratch.path()).unwrap(), watch.arrivals(other.path()).unwrap());
        let mut file = std::fs::File::create(scratch.path().join("x")).unwrap();
        let seen = |folder, name: &str, what| Happened { folder, name: Some(name.into()), what };
        assert_eq!(watch.read().unwrap(), [seen(here, "x", What::Changed)]);
        file.write_all(b"half").unwrap();
        assert_eq!(watch.read().unwrap(), [seen(here, "x", What::Changed)]);
        drop(file);
        std::fs::rename(scratch.path().join("x"), other.path().join("y")).unwrap();
        std::fs::write(other.path().join("z"), "whole").unwrap();
        let (z, whole) = (seen(there, "z", What::Changed), seen(there, "z", What::Whole));
        assert_eq!(watch.read().unwrap(), [seen(there, "y", What::Whole), z, whole]);
        assert_eq!(watch.read().unwrap(), []);
        watch.remove(there);
        std::fs::remove_dir(scratch.path()).unwrap();
        let gone = |folder| Happened { folder, name: None, what: What::Gone };
        assert_eq!(watch.read().unwrap(), [gone(there), gone(here)]);
    }
}
