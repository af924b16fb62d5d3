//! Which of many files have grown, and whether a folder is still where it was and has what it had.

use std::{
    io,
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
    path::Path,
};

use rustix::fs::inotify;

/// Readable whenever one of several files has changed, each told once per [`FilesWatch::arm`] (inotify(7), `IN_ONESHOT`).
///
/// One descriptor for all of them: a user may have 128 instances of inotify, but thousands of watches. Told once,
/// because a file that is written without a pause would otherwise wake its watcher without a pause.
#[derive(Debug)]
pub struct FilesWatch(OwnedFd);

/// What a [`FilesWatch`] saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    /// The file that was armed under this number. It has to be armed again to be told again.
    File(i32),
    /// A name came into a watched folder or left it, or a watched folder was itself moved or removed.
    Place,
    /// Some events were lost: any file may have changed.
    Any,
}

impl FilesWatch {
    /// Watches nothing yet.
    pub fn new() -> io::Result<Self> {
        Ok(Self(inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?))
    }

    /// Watches the content of `path` for one change. Changes from before the call are not seen: arm first, then read.
    pub fn arm(&self, path: &Path) -> io::Result<i32> {
        Ok(inotify::add_watch(&self.0, path, inotify::WatchFlags::MODIFY | inotify::WatchFlags::ONESHOT)?)
    }

    /// Watches which names come into a folder and leave it, and whether the folder itself is moved or removed; each time.
    pub fn names(&self, folder: &Path) -> io::Result<()> {
        use inotify::WatchFlags as Flags;
        let names = Flags::CREATE | Flags::DELETE | Flags::MOVED_FROM | Flags::MOVED_TO;
        inotify::add_watch(&self.0, folder, names | Flags::MOVE_SELF | Flags::DELETE_SELF | Flags::ONLYDIR)?;
        Ok(())
    }

    /// Watches whether a folder is moved, and everything in it with it.
    pub fn moves(&self, folder: &Path) -> io::Result<()> {
        inotify::add_watch(&self.0, folder, inotify::WatchFlags::MOVE_SELF | inotify::WatchFlags::ONLYDIR)?;
        Ok(())
    }

    /// Watches that file no more.
    pub fn disarm(&self, number: i32) {
        // One that has told its change is gone already.
        let _ = inotify::remove_watch(&self.0, number);
    }

    /// Takes all changes that have come.
    pub fn read(&self) -> io::Result<Vec<Changed>> {
        let mut changed = Vec::new();
        let mut buffer = [const { MaybeUninit::uninit() }; 4096];
        let mut reader = inotify::Reader::new(&self.0, &mut buffer);
        loop {
            match reader.next() {
                Ok(event) if event.events().contains(inotify::ReadFlags::QUEUE_OVERFLOW) => changed.push(Changed::Any),
                Ok(event) if event.events().contains(inotify::ReadFlags::MODIFY) => {
                    changed.push(Changed::File(event.wd()));
                }
                // A watch that has ended says so.
                Ok(event) if event.events().contains(inotify::ReadFlags::IGNORED) => {}
                Ok(_) => changed.push(Changed::Place),
                Err(rustix::io::Errno::AGAIN) => return Ok(changed),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl AsFd for FilesWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for FilesWatch {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use std::io::Write as _;

    #[test]
    fn each_of_several_files_is_told_once_per_arming() {
        let scratch = Scratch::new();
        let paths = ["a", "b"].map(|name| scratch.path().join(name));
        let mut files = paths.each_ref().map(|path| std::fs::File::create(path).unwrap());
        let watch = FilesWatch::new().unwrap();
        let numbers = paths.each_ref().map(|path| watch.arm(path).unwrap());
        files[1].write_all(b"one").unwrap();
        files[1].write_all(b"two").unwrap();
        assert_eq!(watch.read().unwrap(), [Changed::File(numbers[1])]);
        files[1].write_all(b"three").unwrap();
        assert_eq!(watch.read().unwrap(), []);
        let again = watch.arm(&paths[1]).unwrap();
        watch.disarm(numbers[0]);
        files[0].write_all(b"unheard").unwrap();
        files[1].write_all(b"four").unwrap();
        assert_eq!(watch.read().unwrap(), [Changed::File(again)]);
    }

    #[test]
    fn a_folder_tells_of_its_names_and_of_its_own_moves() {
        let scratch = Scratch::new();
        let [above, there] = ["above", "there"].map(|name| scratch.path().join(name));
        let home = above.join("home");
        std::fs::create_dir_all(&home).unwrap();
        let watch = FilesWatch::new().unwrap();
        watch.names(&home).unwrap();
        watch.moves(&above).unwrap();
        std::fs::write(home.join("file"), "x").unwrap();
        assert_eq!(watch.read().unwrap(), [Changed::Place]);
        std::fs::write(home.join("file"), "written, which is nobody's business").unwrap();
        assert_eq!(watch.read().unwrap(), []);
        std::fs::remove_file(home.join("file")).unwrap();
        assert_eq!(watch.read().unwrap(), [Changed::Place]);
        std::fs::rename(&above, &there).unwrap();
        assert_eq!(watch.read().unwrap(), [Changed::Place]);
        std::fs::rename(there.join("home"), scratch.path().join("alone")).unwrap();
        assert_eq!(watch.read().unwrap(), [Changed::Place]);
    }
}
