//! Files and folders that only their owner can read, whatever the umask, and never through a planted link.

use std::{
    ffi::OsString,
    fs::{File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::{
        fd::{AsFd, AsRawFd as _, OwnedFd},
        unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    },
    path::{Path, PathBuf},
};

use rustix::fs::{AtFlags, CWD, FallocateFlags, FileType, Mode, OFlags, RawMode};

/// What a folder of ours allows: everything to its owner.
const DIR_MODE: RawMode = 0o700;
/// What a file of ours allows: reading and writing to its owner.
pub(crate) const FILE_MODE: RawMode = 0o600;

/// How files of ours are opened (open(2)).
const FLAGS: i32 = libc::O_NOFOLLOW | libc::O_CLOEXEC;

/// Makes sure that `path` is a folder of ours that nobody else can enter, and makes it and its parents if need be.
///
/// A loosened mode is tightened. A link, something else than a folder, or a folder of another user is an error: what we
/// would put there could be read or exchanged by others.
pub fn private_dir(path: &Path) -> io::Result<()> {
    match rustix::fs::mkdir(path, Mode::from_raw_mode(DIR_MODE)) {
        Ok(()) => return mend_mode(path, DIR_MODE),
        Err(rustix::io::Errno::EXIST) => {}
        Err(rustix::io::Errno::NOENT) => {
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            let parent = parent.filter(|parent| !parent.is_dir()).ok_or(rustix::io::Errno::NOENT)?;
            private_dir(parent)?;
            rustix::fs::mkdir(path, Mode::from_raw_mode(DIR_MODE))?;
            return mend_mode(path, DIR_MODE);
        }
        Err(error) => return Err(error.into()),
    }
    let dir = look_at(path)?;
    require_own(&dir, FileType::Directory)?;
    require_mode(&dir, DIR_MODE)
}

/// What was made a moment ago is ours; only the umask can have taken bits away.
fn mend_mode(path: &Path, mode: u32) -> io::Result<()> {
    let found = rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)?;
    if found.st_mode & 0o7777 != mode {
        rustix::fs::chmodat(CWD, path, Mode::from_raw_mode(mode), AtFlags::empty())?;
    }
    Ok(())
}

/// Creates a file that must not exist yet, for reading and writing.
pub fn create_new(path: &Path) -> io::Result<File> {
    let file = options().read(true).write(true).create_new(true).open(path)?;
    require_mode(&file, FILE_MODE)?;
    Ok(file)
}

/// Opens a file of ours for appending, and creates it if it is missing.
pub fn append(path: &Path) -> io::Result<File> {
    // Non-blocking, so that a FIFO in its place cannot hold us up.
    let file = options().append(true).create(true).custom_flags(FLAGS | libc::O_NONBLOCK).open(path)?;
    require_own(&file, FileType::RegularFile)?;
    require_mode(&file, FILE_MODE)?;
    Ok(file)
}

/// Opens a file to read it: only a regular file with a single name. A link, a FIFO, or a file that has another name
/// elsewhere was put there by somebody, and is [`io::ErrorKind::InvalidData`].
pub fn open_regular(path: &Path) -> io::Result<File> {
    // Non-blocking, so that a FIFO in its place cannot hold us up.
    let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it is a symbolic link, not a file"));
        }
        answer => answer?,
    };
    require_type(&file, FileType::RegularFile)?;
    match file.metadata()?.nlink() {
        0 | 1 => Ok(file),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "it has another name elsewhere (hard link)")),
    }
}

/// Reads a file of ours, under the rules of [`open_regular`].
pub fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens a file that programs of the user made, wherever its name leads: only a regular one, and a FIFO holds nobody up.
pub fn open_foreign(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_CLOEXEC | libc::O_NONBLOCK).open(path)?;
    require_type(&file, FileType::RegularFile)?;
    Ok(file)
}

/// Writes a file whole or not at all: into a new file beside it, then renamed over it.
///
/// Safe against the death of the process; nothing is forced to the disk, so a power cut may leave the old or an empty one.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = beside(path)?;
    let written = create_new(&beside).and_then(|mut file| file.write_all(bytes));
    let answer = written.and_then(|()| std::fs::rename(&beside, path));
    if answer.is_err() {
        // Best effort: the error that counts is the first one.
        let _ = std::fs::remove_file(&beside);
    }
    answer
}

/// A name in the same folder that nobody uses.
pub(crate) fn beside(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut new = OsString::from(".");
    new.push(name);
    new.push(format!(".{:016x}", crate::process::random_u64()?));
    Ok(path.with_file_name(new))
}

/// A file that is nowhere but in memory, and goes with its last descriptor (`memfd_create(2)`).
pub fn memory(name: &str) -> io::Result<File> {
    Ok(rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::CLOEXEC)?.into())
}

/// Makes a FIFO that must not exist yet.
pub fn fifo(path: &Path) -> io::Result<()> {
    rustix::fs::mkfifoat(CWD, path, Mode::from_raw_mode(FILE_MODE))?;
    mend_mode(path, FILE_MODE)
}

/// Opens the FIFO of hints for reading, and makes it if it is missing.
///
/// Opened for reading and writing (fifo(7)), so that it never reports an end when the last writer goes.
pub fn open_news_reader(path: &Path) -> io::Result<File> {
    match fifo(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        answer => answer?,
    }
    let file = open_fifo(path, OFlags::RDWR)?;
    require_own(&file, FileType::Fifo)?;
    require_mode(&file, FILE_MODE)?;
    Ok(file)
}

/// Opens a FIFO only to keep it open: what was written stays readable while any reader has it open.
pub fn open_fifo_idle(path: &Path) -> io::Result<File> {
    open_fifo(path, OFlags::RDONLY)
}

/// Opens a FIFO for writing; without a reader this is `ENXIO` (fifo(7)).
pub fn open_fifo_writer(path: &Path) -> io::Result<File> {
    open_fifo(path, OFlags::WRONLY)
}

fn open_fifo(path: &Path, access: OFlags) -> io::Result<File> {
    let flags = access | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty())?;
    require_type(&file, FileType::Fifo)?;
    Ok(file.into())
}

/// Frees the disk space of a range; the length stays and the range reads as zeros (fallocate(2)).
pub fn punch(file: &File, offset: u64, len: u64) -> io::Result<()> {
    Ok(rustix::fs::fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, len)?)
}

/// Takes disk space for the first `len` bytes of a file without making it longer, so that writing them needs none later.
pub fn reserve(file: &File, len: u64) -> io::Result<()> {
    Ok(rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, 0, len)?)
}

/// A file system, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Its size.
    pub size: u64,
    /// How much of it we may still write.
    pub free: u64,
}

/// The file system of `path`; nothing where it has no size of its own (statvfs(3)).
pub fn disk(path: &Path) -> io::Result<Option<Disk>> {
    let stat = rustix::fs::statvfs(path)?;
    let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
    Ok((stat.f_blocks > 0).then(|| Disk { size: bytes(stat.f_blocks), free: bytes(stat.f_bavail) }))
}

/// How many bytes we may still write to the file system of `path`.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    Ok(disk(path)?.map_or(u64::MAX, |disk| disk.free))
}

/// Whether what lies at `path` is kept in memory and so gone after a reboot (tmpfs or ramfs, statfs(2)).
pub fn filesystem_is_tmpfs(path: &Path) -> io::Result<bool> {
    const TMPFS_MAGIC: i64 = 0x0102_1994;
    const RAMFS_MAGIC: i64 = 0x8584_58f6;
    let kind = rustix::fs::statfs(path)?.f_type;
    Ok(kind == TMPFS_MAGIC || kind == RAMFS_MAGIC)
}

/// Sets the file mode creation mask of this process, and gives back the one before.
pub fn umask(mask: u32) -> u32 {
    rustix::process::umask(Mode::from_raw_mode(mask)).as_raw_mode()
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(FILE_MODE).custom_flags(FLAGS);
    options
}

/// Takes hold of a name itself, whatever it is and without needing its permissions (`O_PATH`, open(2)).
fn look_at(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?)
}

fn require_type(fd: impl AsFd, wanted: FileType) -> io::Result<()> {
    let found = FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode);
    if found == wanted {
        return Ok(());
    }
    let kind = match wanted {
        FileType::Directory => io::ErrorKind::NotADirectory,
        _ => io::ErrorKind::InvalidData,
    };
    Err(io::Error::new(kind, format!("it is {}, not {}", word(found), word(wanted))))
}

/// What it is, in a word.
pub(crate) fn word(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "a plain file",
        FileType::Directory => "a folder",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Unknown => "nothing known",
    }
}

fn require_own(fd: impl AsFd, wanted: FileType) -> io::Result<()> {
    require_type(&fd, wanted)?;
    let owner = rustix::fs::fstat(fd)?.st_uid;
    if owner == crate::process::effective_uid() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("it belongs to user {owner}, not to us")))
}

/// Gives an open file exactly this mode; most often it has it already.
pub(crate) fn require_mode(fd: impl AsFd, mode: RawMode) -> io::Result<()> {
    let fd = fd.as_fd();
    if rustix::fs::fstat(fd)?.st_mode & 0o7777 == mode {
        return Ok(());
    }
    // fchmod(2) refuses an O_PATH descriptor; its name under /proc does not, and it cannot be exchanged.
    Ok(rustix::fs::chmod(format!("/proc/self/fd/{}", fd.as_raw_fd()), Mode::from_raw_mode(mode))?)
}

/// Whether a name is there and is a socket; nothing if there is no such name.
pub fn is_socket(path: &Path) -> io::Result<Option<bool>> {
    match std::fs::symlink_metadata(path) {
        Ok(found) => Ok(Some(found.mode() & libc::S_IFMT == libc::S_IFSOCK)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_that_nobody_put_there_is_read() {
        let scratch = Scratch::new();
        let path = |name: &str| scratch.path().join(name);
        fs::write(path("file"), "x").unwrap();
        assert_eq!(io::read_to_string(open_regular(&path("file")).unwrap()).unwrap(), "x");
        symlink(path("file"), path("link")).unwrap();
        fifo(&path("fifo")).unwrap();
        fs::create_dir(path("folder")).unwrap();
        fs::hard_link(path("file"), path("twin")).unwrap();
        for name in ["link", "fifo", "folder", "twin", "file"] {
            let error = open_regular(&path(name)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{name}: {error}");
        }
        assert_eq!(open_regular(&path("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn where_nothing_can_be_made_the_error_is_told() {
        // `/proc` is a folder, and says "no such file" to whoever wants to make one there.
        let error = private_dir(Path::new("/proc/ringback/there")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
    use crate::scratch::{Scratch, alone};
    use std::{
        fs,
        os::unix::fs::{PermissionsExt as _, symlink},
    };

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn no_umask_opens_or_closes_what_we_make() {
        if !alone("files::tests::no_umask_opens_or_closes_what_we_make") {
            return;
        }
        let scratch = Scratch::new();
        for (name, mask) in [("open", 0o000), ("usual", 0o022), ("shut", 0o777)] {
            let home = scratch.path().join(name).join("inner").join("home");
            let before = umask(mask);
            private_dir(&home).unwrap();
            create_new(&home.join("new")).unwrap();
            append(&home.join("log")).unwrap();
            write_whole(&home.join("whole"), b"x").unwrap();
            fifo(&home.join("fifo")).unwrap();
            drop(open_news_reader(&home.join("news")).unwrap());
            umask(before);
            for dir in [home.as_path(), home.parent().unwrap(), home.parent().unwrap().parent().unwrap()] {
                assert_eq!(mode(dir), 0o700, "{mask:o}");
            }
            for file in ["new", "log", "whole", "fifo", "news"] {
                assert_eq!(mode(&home.join(file)), 0o600, "{file} under {mask:o}");
            }
        }
    }

    #[test]
    fn a_loosened_folder_is_tightened_and_a_planted_link_refused() {
        let scratch = Scratch::new();
        let home = scratch.path().join("home");
        fs::create_dir(&home).unwrap();
        fs::set_permissions(&home, fs::Permissions::from_mode(0o1777)).unwrap();
        private_dir(&home).unwrap();
        assert_eq!(mode(&home), 0o700);

        let link = scratch.path().join("link");
        symlink(&home, &link).unwrap();
        assert_eq!(private_dir(&link).unwrap_err().kind(), io::ErrorKind::NotADirectory);
        fs::write(scratch.path().join("file"), "").unwrap();
        assert_eq!(private_dir(&scratch.path().join("file")).unwrap_err().kind(), io::ErrorKind::NotADirectory);
        let dangling = scratch.path().join("dangling");
        symlink(scratch.path().join("nowhere"), &dangling).unwrap();
        assert!(private_dir(&dangling).is_err());
        assert!(!scratch.path().join("nowhere").exists());
    }

    #[test]
    fn a_folder_of_somebody_else_is_refused() {
        let scratch = Scratch::new();
        let home = scratch.path().join("home");
        fs::create_dir(&home).unwrap();
        // Only root can give a folder away; anybody else finds one of root's.
        let foreign =
            if std::os::unix::fs::chown(&home, Some(12_345), None).is_ok() { &home } else { Path::new("/usr") };
        assert_eq!(private_dir(foreign).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn a_link_is_not_written_through() {
        let scratch = Scratch::new();
        let (secret, link) = (scratch.path().join("secret"), scratch.path().join("link"));
        fs::write(&secret, "kept").unwrap();
        symlink(&secret, &link).unwrap();
        assert!(create_new(&link).is_err());
        assert!(append(&link).is_err());
        assert!(open_news_reader(&link).is_err());
        write_whole(&link, b"new").unwrap();
        assert_eq!(fs::read(&secret).unwrap(), b"kept");
        assert_eq!(fs::read(&link).unwrap(), b"new");
        assert_eq!(create_new(&secret).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn a_failed_write_leaves_nothing_beside() {
        let scratch = Scratch::new();
        let target = scratch.path().join("dir");
        fs::create_dir(&target).unwrap();
        assert!(write_whole(&target, b"x").is_err());
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_fifo_keeps_what_was_written_while_somebody_has_it_open() {
        let scratch = Scratch::new();
        let path = scratch.path().join("news");
        fifo(&path).unwrap();
        assert_eq!(open_fifo_writer(&path).unwrap_err().raw_os_error(), Some(libc::ENXIO));
        let mut reader = open_news_reader(&path).unwrap();
        let idle = open_fifo_idle(&path).unwrap();
        open_fifo_writer(&path).unwrap().write_all(b"0123456789abcdef").unwrap();
        drop(idle);
        let mut frame = [0; 64];
        assert_eq!(reader.read(&mut frame).unwrap(), 16);
        // The last writer is gone, and still it is no end of file.
        assert_eq!(reader.read(&mut frame).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_plain_file_is_not_taken_for_a_fifo() {
        let scratch = Scratch::new();
        let path = scratch.path().join("news");
        fs::write(&path, "").unwrap();
        for error in [
            open_news_reader(&path).unwrap_err(),
            open_fifo_idle(&path).unwrap_err(),
            open_fifo_writer(&path).unwrap_err(),
        ] {
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        }
        assert!(append(scratch.path()).is_err());
    }

    #[test]
    fn a_punched_range_is_free_and_the_offsets_stay() {
        let scratch = Scratch::new();
        let file = create_new(&scratch.path().join("output")).unwrap();
        (&file).write_all(&vec![7; 1 << 20]).unwrap();
        file.sync_all().unwrap();
        let before = file.metadata().unwrap();
        punch(&file, 4096, (1 << 20) - 8192).unwrap();
        let after = file.metadata().unwrap();
        assert_eq!(after.len(), 1 << 20);
        assert!(after.blocks() < before.blocks() / 2);
        assert!(free_bytes(scratch.path()).unwrap() > 0);
        assert!(filesystem_is_tmpfs(Path::new("/proc")).is_ok_and(|memory| !memory));
    }
}
