//! Starting keepers: the image they run from, and the one cheap way to start a process.

use std::{
    ffi::{CString, OsStr, OsString},
    fs, io,
    io::Write as _,
    os::{
        fd::{AsRawFd as _, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::{Path, PathBuf},
};

use rustix::fs::{Access, AtFlags, CWD, MemfdFlags, Mode, SealFlags};

use crate::{files, spawn};

/// What a keeper is called, in `ps` and on disk.
pub const KEEPER_NAME: &str = "ringback-keeper";
/// The words that tell a keeper to take over from a dead one.
const TAKEOVER: [&str; 2] = ["takeover", "takeover-torn"];
/// The only environment variable that reaches a keeper: where a test wants it to crash.
pub const CRASH_VARIABLE: &str = "RINGBACK_CRASH";

/// What a keeper is started for.
#[derive(Clone, Copy, Debug)]
pub enum Work<'a> {
    /// To start the command: in a new cgroup at this path, if there is one and it can be had.
    Start(Option<&'a Path>),
    /// To hold what a dead keeper held.
    TakeOver {
        /// The pipes of its output were held by nobody, so that something of it may be gone.
        torn: bool,
    },
}

/// What a keeper has open from its first moment on, whatever becomes of who starts it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inherited<'a> {
    /// The master of its task's terminal: its stdin.
    pub terminal: Option<BorrowedFd<'a>>,
    /// The pipes of its task's output, where nobody else may have them open: its stdout and stderr, which it does not use.
    pub pipes: [Option<BorrowedFd<'a>>; 2],
}

/// The keeper program, in a place that an upgrade of ringback never changes.
#[derive(Debug)]
pub enum KeeperImage {
    /// A file of its own in the home.
    File(PathBuf),
    /// The main program itself, where the keeper could not be built: it starts as a keeper when it is called one.
    Program(PathBuf),
    /// A sealed file in memory, where the home cannot hold a program (read-only, full, or mounted `noexec`).
    Memory(OwnedFd),
}

impl KeeperImage {
    /// Puts the program at `bin_dir/<its hash>/ringback-keeper` if it is not there, or else into memory.
    pub fn install(bin_dir: &Path, bytes: &[u8]) -> io::Result<Self> {
        Self::install_file(bin_dir, bytes).map(Self::File).or_else(|_| Self::in_memory(bytes))
    }

    fn install_file(bin_dir: &Path, bytes: &[u8]) -> io::Result<PathBuf> {
        let path = bin_dir.join(format!("{:032x}", hash(bytes))).join(KEEPER_NAME);
        // A power cut may have left a file of the right name and the wrong content, so the content is compared.
        if !files::read_regular(&path).is_ok_and(|found| found == bytes) {
            files::private_dir(bin_dir)?;
            files::private_dir(path.parent().unwrap_or(bin_dir))?;
            write_program(&path, bytes)?;
        }
        // On a `noexec` mount this is EACCES, also for root (access(2)).
        rustix::fs::accessat(CWD, &path, Access::EXEC_OK, AtFlags::EACCESS)?;
        Ok(path)
    }

    /// Whether it can still be started from; one in a file somebody may have taken away or changed.
    pub fn is_whole(&self, bytes: &[u8]) -> bool {
        let Self::File(path) = self else { return true };
        files::read_regular(path).is_ok_and(|found| found == bytes)
            && rustix::fs::accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS).is_ok()
    }

    fn in_memory(bytes: &[u8]) -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        // From Linux 6.3 on a program in memory has to be announced; before, the flag is not known.
        let memory = rustix::fs::memfd_create(KEEPER_NAME, flags | MemfdFlags::EXEC)
            .or_else(|_| rustix::fs::memfd_create(KEEPER_NAME, flags))?;
        let mut file = fs::File::from(memory);
        file.write_all(bytes)?;
        rustix::fs::fchmod(&file, Mode::from_raw_mode(0o700))?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok(Self::Memory(file.into()))
    }

    /// How keepers are started; a word for `doctor`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::File(_) => "embedded",
            Self::Program(_) => "multi-call",
            Self::Memory(_) => "memory",
        }
    }

    /// Starts a keeper in `task_dir` and gives back its pid.
    ///
    /// It gets its id and nothing else: an empty environment (but for `crash`), no stdio, every signal blocked. Whoever
    /// starts it takes in its end with [`crate::reap::take_in`].
    pub fn spawn(&self, task_dir: &Path, id: &str, work: Work<'_>, crash: Option<&OsStr>) -> io::Result<i32> {
        self.spawn_with(task_dir, id, work, crash, Inherited::default())
    }

    /// As [`KeeperImage::spawn`], with something that must not be let go of.
    pub fn spawn_with(
        &self,
        task_dir: &Path,
        id: &str,
        work: Work<'_>,
        crash: Option<&OsStr>,
        inherited: Inherited<'_>,
    ) -> io::Result<i32> {
        let how = match work {
            Work::Start(cgroup) => cgroup.map(Path::as_os_str),
            Work::TakeOver { torn } => Some(OsStr::new(TAKEOVER[usize::from(torn)])),
        };
        let arguments = [Some(OsStr::new(KEEPER_NAME)), Some(OsStr::new(id)), how];
        let arguments: Vec<&OsStr> = arguments.into_iter().flatten().collect();
        let crash = crash.map(|point| {
            let mut entry = OsString::from(CRASH_VARIABLE);
            entry.push("=");
            entry.push(point);
            entry
        });
        let Inherited { terminal, pipes: [first, second] } = inherited;
        spawn::detached(&self.program(), &arguments, crash.as_deref(), task_dir, [terminal, first, second])
    }

    fn program(&self) -> PathBuf {
        match self {
            Self::File(path) | Self::Program(path) => path.clone(),
            // Resolved in the child before it loses the descriptor by the exec (close-on-exec).
            Self::Memory(fd) => PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd())),
        }
    }
}

/// Keeps a task and gives the exit code, if this program was called as a keeper; nothing otherwise.
///
/// For the first line of a program that may have to serve as keeper ([`KeeperImage::Program`]).
pub fn keep_if_called_keeper() -> Option<i32> {
    let arguments: Vec<OsString> = std::env::args_os().take(3).collect();
    if arguments.first().is_none_or(|name| name != KEEPER_NAME) {
        return None;
    }
    let text = |text: &OsString| CString::new(text.as_bytes()).ok();
    let arguments: Vec<CString> = arguments.iter().filter_map(text).collect();
    let argument = |at: usize| arguments.get(at).map(CString::as_c_str);
    // The crash point is looked up for the whole life of the process.
    let crash = std::env::var_os(CRASH_VARIABLE).as_ref().and_then(text);
    let crash = crash.map(|text| &*Box::leak(text.into_boxed_c_str()));
    Some(crate::keeper::run([argument(0), argument(1), argument(2)], crash))
}

/// Writes an executable whole or not at all.
fn write_program(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = files::beside(path)?;
    let written = files::create_new(&beside).and_then(|mut file| {
        file.write_all(bytes)?;
        files::require_mode(&file, 0o700)
    });
    let answer = written.and_then(|()| fs::rename(&beside, path));
    if answer.is_err() {
        // Best effort: the error that counts is the first one.
        let _ = fs::remove_file(&beside);
    }
    answer
}

/// FNV-1a with 128 bits: a name for something of ours, not a defence (nobody else can write to the folder).
pub fn hash(bytes: &[u8]) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.iter().fold(OFFSET, |hash, &byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        identity,
        pidfd::PidFd,
        scratch::Scratch,
        watch::{For, poll},
    };
    use std::os::{fd::AsFd as _, unix::fs::PermissionsExt as _};

    /// A real program to stand in for the keeper: it must be an executable, not a script.
    fn program() -> Vec<u8> {
        fs::read("/bin/sleep").unwrap()
    }

    fn ended(pid: i32) -> i32 {
        let pidfd = PidFd::open(identity::who(pid).unwrap()).unwrap();
        poll(&[(pidfd.as_fd(), For::Read)], None).unwrap();
        let mut status = 0;
        // SAFETY: `status` is valid for the write; only this child is waited for.
        assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
        status
    }

    #[test]
    fn a_keeper_gets_its_id_and_nothing_else() {
        let scratch = Scratch::new();
        // A shell reads the "id" as the name of its script, which waits for us at two FIFOs.
        let shell = fs::read("/bin/sh").unwrap();
        fs::write(scratch.path().join("id"), "exec 3< gate 4< done; exit 5").unwrap();
        let [gate, done] = ["gate", "done"].map(|name| scratch.path().join(name));
        files::fifo(&gate).unwrap();
        files::fifo(&done).unwrap();
        for image in [
            KeeperImage::install(&scratch.path().join("bin"), &shell).unwrap(),
            KeeperImage::in_memory(&shell).unwrap(),
        ] {
            let pid =
                image.spawn(scratch.path(), "id", Work::TakeOver { torn: false }, Some(OsStr::new("here"))).unwrap();
            let proc = PathBuf::from(format!("/proc/{pid}"));
            // Opens once the shell has opened the other end, so the new program is running.
            fs::File::options().write(true).open(&gate).unwrap();
            assert_eq!(fs::read(proc.join("cmdline")).unwrap(), b"ringback-keeper\0id\0takeover\0");
            assert_eq!(fs::read(proc.join("environ")).unwrap(), b"RINGBACK_CRASH=here\0");
            assert_eq!(fs::read_link(proc.join("cwd")).unwrap(), scratch.path().canonicalize().unwrap());
            for fd in ["0", "1", "2"] {
                assert_eq!(fs::read_link(proc.join("fd").join(fd)).unwrap(), Path::new("/dev/null"));
            }
            fs::File::options().write(true).open(&done).unwrap();
            assert_eq!(ended(pid), 5 << 8);
        }
    }

    #[test]
    fn both_images_run_with_every_signal_blocked() {
        let scratch = Scratch::new();
        let file = KeeperImage::install(&scratch.path().join("bin"), &program()).unwrap();
        let memory = KeeperImage::in_memory(&program()).unwrap();
        assert_eq!(memory.word(), "memory");
        for image in [&file, &memory] {
            let pid = image.spawn(scratch.path(), "1000", Work::Start(None), None).unwrap();
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
            let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap().trim();
            // All but KILL (9), STOP (19) and the two of the C library (32, 33).
            assert_eq!(u64::from_str_radix(blocked, 16).unwrap() | 0x1_8000_0000, !((1 << 8) | (1 << 18)), "{blocked}");
            let pidfd = PidFd::open(identity::who(pid).unwrap()).unwrap();
            pidfd.signal(libc::SIGTERM).unwrap();
            pidfd.signal(libc::SIGKILL).unwrap();
            assert_eq!(ended(pid), libc::SIGKILL);
        }
    }

    #[test]
    fn an_image_is_installed_once_and_a_damaged_one_replaced() {
        let scratch = Scratch::new();
        let bin = scratch.path().join("bin");
        let KeeperImage::File(path) = KeeperImage::install(&bin, &program()).unwrap() else { panic!("in memory") };
        let first = fs::metadata(&path).unwrap();
        assert_eq!(first.permissions().mode() & 0o7777, 0o700);
        KeeperImage::install(&bin, &program()).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), first.modified().unwrap());
        fs::write(&path, "torn").unwrap();
        assert!(!KeeperImage::File(path.clone()).is_whole(&program()));
        assert!(KeeperImage::install(&bin, &program()).unwrap().is_whole(&program()));
        assert_eq!(fs::read(&path).unwrap(), program());
        // Another build lies beside it, and what runs from the first is not touched.
        KeeperImage::install(&bin, &fs::read("/bin/cat").unwrap()).unwrap();
        assert_eq!(fs::read_dir(&bin).unwrap().count(), 2);
        assert_eq!(fs::read(&path).unwrap(), program());
    }

    #[test]
    fn a_home_that_cannot_hold_a_program_is_no_obstacle() {
        let scratch = Scratch::new();
        let bin = scratch.path().join("bin");
        fs::write(&bin, "a file where the folder should be").unwrap();
        assert_eq!(KeeperImage::install(&bin, &program()).unwrap().word(), "memory");
    }

    #[test]
    fn a_missing_task_folder_is_an_error_of_the_spawn() {
        let scratch = Scratch::new();
        let image = KeeperImage::in_memory(&program()).unwrap();
        let error = image.spawn(&scratch.path().join("none"), "1", Work::Start(None), None).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
