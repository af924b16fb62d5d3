//! A folder that others write to as well: every name in it is taken as it is, never followed and never left.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Read as _, Write as _},
    os::{
        fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::{Path, PathBuf},
};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RawMode};

/// An open folder. It stays the same folder whatever becomes of its name.
#[derive(Debug)]
pub struct Folder(OwnedFd);

/// What a name in a folder stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Whose it is.
    pub owner: u32,
    /// Permission bits.
    pub mode: u32,
    /// Length in bytes.
    pub len: u64,
}

impl Folder {
    /// Opens the folder at `path`, which may be a link to one.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?))
    }

    /// Its owner and mode.
    pub fn facts(&self) -> io::Result<Facts> {
        facts(&self.0)
    }

    /// A path that leads to this very folder for as long as it is open (proc(5)).
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }

    /// All names in it, in no order.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(OsStr::from_bytes(name).to_owned());
            }
        }
        Ok(names)
    }

    /// Opens a regular file for reading; a link or anything else is [`io::ErrorKind::InvalidData`].
    pub fn open_file(&self, name: &OsStr) -> io::Result<(File, Facts)> {
        self.open_regular(name, OFlags::RDONLY)
    }

    /// Opens a regular file for appending.
    pub fn open_append(&self, name: &OsStr) -> io::Result<(File, Facts)> {
        self.open_regular(name, OFlags::WRONLY | OFlags::APPEND)
    }

    /// Opens a file for reading and writing, and makes it with this mode if it is missing.
    pub fn open_or_create(&self, name: &OsStr, mode: RawMode) -> io::Result<File> {
        let file = self.at(name, OFlags::RDWR | OFlags::CREATE, mode)?;
        require_regular(&file)?;
        Ok(file.into())
    }

    /// Creates a file that must not exist yet.
    pub fn create_new(&self, name: &OsStr, mode: RawMode) -> io::Result<File> {
        let file = self.at(name, OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL, mode)?;
        // The umask has had its say.
        crate::files::require_mode(&file, mode)?;
        Ok(file.into())
    }

    /// Puts a file with these bytes in the place of `name`, whole or not at all, and safe against a power cut.
    pub fn replace(&self, name: &OsStr, bytes: &[u8], mode: RawMode) -> io::Result<()> {
        let beside = crate::files::beside(Path::new(name))?.into_os_string();
        let written = self.create_new(&beside, mode).and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_data()
        });
        let answer = written.and_then(|()| Ok(rustix::fs::renameat(&self.0, &beside, &self.0, name)?));
        if answer.is_err() {
            // Best effort: the error that counts is the first one.
            let _ = self.remove(&beside);
        }
        answer.and_then(|()| self.sync())
    }

    /// Removes a name; whether it was there.
    pub fn remove(&self, name: &OsStr) -> io::Result<bool> {
        match rustix::fs::unlinkat(&self.0, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes sure that names given and taken away so far outlive a power cut.
    pub fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.0)?)
    }

    fn open_regular(&self, name: &OsStr, access: OFlags) -> io::Result<(File, Facts)> {
        let file = match self.at(name, access | OFlags::NONBLOCK, 0) {
            Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "it is a symbolic link"));
            }
            opened => opened?,
        };
        require_regular(&file)?;
        let facts = facts(&file)?;
        Ok((file.into(), facts))
    }

    fn at(&self, name: &OsStr, flags: OFlags, mode: RawMode) -> io::Result<OwnedFd> {
        if name.is_empty() || name.as_bytes().contains(&b'/') || name == "." || name == ".." {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not the name of a file"));
        }
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.0, name, flags, Mode::from_raw_mode(mode))?)
    }
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Reads at most `most` bytes of a file from its beginning.
pub fn read_at_most(file: &File, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Whether somebody has the file open for writing: a read lease is given only on a file that nobody writes to (fcntl(2)).
///
/// Nothing where that cannot be told: the file system knows no leases, or the file is not ours.
pub fn has_writer(file: &File) -> Option<bool> {
    // SAFETY: F_SETLEASE takes a number and touches no memory of ours.
    let answer = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_RDLCK) };
    if answer == 0 {
        // SAFETY: as above. Given back at once; closing the file would do it too.
        unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_UNLCK) };
        return Some(false);
    }
    (io::Error::last_os_error().raw_os_error() == Some(libc::EAGAIN)).then_some(true)
}

fn facts(fd: impl AsFd) -> io::Result<Facts> {
    let stat = rustix::fs::fstat(fd)?;
    Ok(Facts { owner: stat.st_uid, mode: stat.st_mode & 0o7777, len: stat.st_size.unsigned_abs() })
}

fn require_regular(fd: impl AsFd) -> io::Result<()> {
    match FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode) {
        FileType::RegularFile => Ok(()),
        other => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("it is {}, not a plain file", crate::files::word(other)),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use std::{fs, os::unix::fs::symlink};

    fn folder() -> (Scratch, Folder) {
        let scratch = Scratch::new();
        let folder = Folder::open(scratch.path()).unwrap();
        (scratch, folder)
    }

    #[test]
    fn no_name_leads_out_of_the_folder() {
        let (scratch, folder) = folder();
        symlink("/etc/passwd", scratch.path().join("link")).unwrap();
        fs::create_dir(scratch.path().join("dir")).unwrap();
        for name in ["link", "dir", "../x", "a/b", "", ".", ".."] {
            assert!(folder.open_file(OsStr::new(name)).is_err(), "{name}");
            assert!(folder.open_append(OsStr::new(name)).is_err(), "{name}");
        }
        assert!(folder.create_new(OsStr::new("link"), 0o600).is_err());
        crate::files::fifo(&scratch.path().join("fifo")).unwrap();
        assert!(folder.open_file(OsStr::new("fifo")).is_err(), "and it does not hang");
    }

    #[test]
    fn a_replaced_file_is_whole_and_a_link_in_its_place_is_replaced_itself() {
        let (scratch, folder) = folder();
        let target = scratch.path().join("target");
        fs::write(&target, "safe").unwrap();
        symlink(&target, scratch.path().join("x")).unwrap();
        folder.replace(OsStr::new("x"), b"new", 0o600).unwrap();
        let (file, facts) = folder.open_file(OsStr::new("x")).unwrap();
        assert_eq!((read_at_most(&file, 100).unwrap(), facts.mode), (b"new".to_vec(), 0o600));
        assert_eq!(fs::read(&target).unwrap(), b"safe");
        let mut names = folder.names().unwrap();
        names.sort();
        assert_eq!(names, ["target", "x"], "nothing is left beside it");
    }

    #[test]
    fn a_file_that_is_being_written_is_told_from_one_that_is_done() {
        let (scratch, folder) = folder();
        let path = scratch.path().join("x");
        let writer = File::create(&path).unwrap();
        let (file, _) = folder.open_file(OsStr::new("x")).unwrap();
        assert_eq!(has_writer(&file), Some(true));
        drop(writer);
        assert_eq!(has_writer(&file), Some(false));
    }
}
