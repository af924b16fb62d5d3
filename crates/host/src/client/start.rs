//! Reaches the daemon of a home, and starts one, without a race, where none runs.

use std::env;
use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ringback_sys::growth::FilesWatch;
use ringback_sys::watch::{For, poll};

use super::error::ClientError;
use super::silence::{answer_wait, silent};
use crate::config::{Config, Confined};
use crate::daemon::DaemonError;
use crate::home::{Home, SOCKET_NAME};

/// How long a daemon may take from its start to its first word: adoption of a full home takes one second, a slow disk more.
const START_WAIT: Duration = Duration::from_mins(1);
/// How many daemons one client starts: each of them may be killed, or find that an older one is not wholly gone.
const LAUNCHES_MAX: u32 = 32;
/// How long is waited between two of them for the socket of an older one, which makes another after it was taken away.
const RELAUNCH_WAIT: Duration = Duration::from_millis(20);
/// Longest last words that are read of a daemon that cannot start.
const WORDS_BYTES_MAX: usize = 16 << 10;
/// What a daemon says once it listens.
const READY: &[u8] = b"ready";

/// Which program becomes the daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launcher {
    program: Option<PathBuf>,
}

impl Launcher {
    /// This program and no other.
    pub fn program(path: impl Into<PathBuf>) -> Self {
        Self { program: Some(path.into()) }
    }

    /// The program: the given one, else this executable if it is ringback, else `ringback` of the PATH.
    fn find(&self) -> Result<PathBuf, ClientError> {
        if let Some(program) = &self.program {
            return Ok(program.clone());
        }
        if let Some(own) = env::current_exe().ok().and_then(|path| own_program(&path)) {
            return Ok(own);
        }
        let path = env::var_os("PATH").unwrap_or_default();
        let found = env::split_paths(&path).map(|folder| folder.join("ringback")).find(|program| program.is_file());
        found.ok_or(ClientError::NoProgram)
    }
}

/// The path of this executable, if it is ringback and still there. After an upgrade the kernel shows the old file as
/// `PATH (deleted)` (proc(5)); what lies at `PATH` now is the new one.
fn own_program(exe: &Path) -> Option<PathBuf> {
    let text = exe.to_str()?;
    let path = Path::new(text.strip_suffix(" (deleted)").unwrap_or(text));
    (path.file_name()? == "ringback" && path.is_file()).then(|| path.to_owned())
}

/// Connects; nothing if nobody listens.
pub(super) fn connect(home: &Home) -> Result<Option<UnixStream>, ClientError> {
    match ringback_sys::socket::connect(home.socket_dir(), SOCKET_NAME, answer_wait()) {
        Ok(stream) => Ok(Some(stream)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            see_that_the_name_is_free(home)
        }
        Err(source) if source.kind() == io::ErrorKind::NotADirectory => {
            home.prepare()?;
            Err(ClientError::Connect { socket: home.socket(), source })
        }
        Err(source) => Err(ClientError::Connect { socket: home.socket(), source }),
    }
}

/// Nobody listens: whether somebody could.
fn see_that_the_name_is_free(home: &Home) -> Result<Option<UnixStream>, ClientError> {
    match ringback_sys::files::is_socket(&home.socket()) {
        Ok(Some(false)) => Err(ClientError::InTheWay { socket: home.socket() }),
        _ => Ok(None),
    }
}

/// Connects, and starts a daemon first if nobody listens.
///
/// Of many clients at once one gets the lock and starts the daemon; the others wait for the lock and then find it.
pub(super) fn connect_or_start(home: &Home, launcher: &Launcher) -> Result<UnixStream, ClientError> {
    if let Some(stream) = connect(home)? {
        return Ok(stream);
    }
    refuse_if_confined()?;
    home.prepare()?;
    let lock_path = home.start_lock();
    let io_error = |source| ClientError::Home(crate::home::HomeError::Io { path: lock_path.clone(), source });
    let lock = ringback_sys::files::append(&lock_path).map_err(io_error)?;
    ringback_sys::lock::exclusive(&lock).map_err(io_error)?;
    if let Some(stream) = connect(home)? {
        return Ok(stream);
    }
    let program = launcher.find()?;
    // Where the machine has no watch to give, it is only looked more often.
    let names = FilesWatch::new().and_then(|watch| watch.names(home.root()).map(|()| watch)).ok();
    let mut words = String::new();
    for _ in 0..LAUNCHES_MAX {
        words = launch(home, &program)?;
        if let Some(stream) = connect(home)? {
            return Ok(stream);
        }
        await_change(names.as_ref())?;
    }
    let holder = ringback_sys::lock::holder(&home.daemon_lock()).ok().flatten();
    match holder.filter(|_| is_held_by_another(&words)) {
        Some(pid) => Err(silent(pid, None)),
        None => Err(ClientError::Start { message: words, log: home.log() }),
    }
}

/// Somebody holds the home without listening: he is about to leave, of which nobody tells, or to listen again.
fn await_change(names: Option<&FilesWatch>) -> Result<(), ClientError> {
    let Some(names) = names else { return Ok(()) };
    poll(&[(names.as_fd(), For::Read)], Some(RELAUNCH_WAIT))?;
    names.read()?;
    Ok(())
}

fn is_held_by_another(words: &str) -> bool {
    words.starts_with(&DaemonError::AlreadyRunning.to_string())
}

fn refuse_if_confined() -> Result<(), ClientError> {
    match ringback_sys::confine::own_is_confined() {
        Some(what) if Config::load()?.confined == Confined::Refuse => {
            Err(ClientError::Confined { what: what.to_owned() })
        }
        _ => Ok(()),
    }
}

/// Starts the daemon and waits for its first word; returns what it said. An error is something that another try would
/// not mend.
fn launch(home: &Home, program: &Path) -> Result<String, ClientError> {
    let spawned = Command::new(program)
        .args(["daemon", "run", "--background"])
        .env("RINGBACK_HOME", home.root())
        // Started by a command of a task, it is still nobody's tree: keepers know it by this.
        .env("RINGBACK_DAEMON", "1")
        .env_remove("RINGBACK_ID")
        // It leaves our folder itself: given one, the standard library would fork where it is linked statically.
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = spawned.map_err(|source| ClientError::Spawn { program: program.to_owned(), source })?;
    let words = first_words(&mut child)?;
    if words.starts_with(READY) {
        return Ok(String::new());
    }
    let text = String::from_utf8_lossy(&words).trim().to_owned();
    let message = if text.is_empty() { "it left without a word".to_owned() } else { text };
    // Two daemons started by hand at the same moment: the other one serves.
    if connect(home)?.is_some() {
        return Ok(message);
    }
    // One that is killed lets go of its socket before its lock (the kernel closes the last opened file first), so for a
    // moment nobody listens and the lock is still held.
    if is_held_by_another(&message) {
        return Ok(message);
    }
    // It reads the same config as we do, and what is wrong there is mended there.
    Config::load()?;
    Err(ClientError::Start { message, log: home.log() })
}

/// Everything up to the first end of line, or to the end.
fn first_words(child: &mut Child) -> Result<Vec<u8>, ClientError> {
    let mut words = Vec::new();
    let Some(mut pipe) = child.stdout.take() else { return Ok(words) };
    let deadline = Instant::now() + START_WAIT;
    let mut block = [0; 1024];
    while words.len() < WORDS_BYTES_MAX && !words.contains(&b'\n') {
        let left = deadline.saturating_duration_since(Instant::now());
        let ready = poll(&[(pipe.as_fd(), For::Read)], Some(left))?;
        if !ready.first().copied().unwrap_or(false) {
            words = format!("no word within {} s", START_WAIT.as_secs()).into_bytes();
            break;
        }
        match pipe.read(&mut block)? {
            0 => break,
            count => words.extend_from_slice(&block[..count]),
        }
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ringback_itself_is_taken_for_the_daemon() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("ringback");
        std::fs::write(&program, "").unwrap();
        assert_eq!(own_program(&program), Some(program.clone()));
        let upgraded = PathBuf::from(format!("{} (deleted)", program.display()));
        assert_eq!(own_program(&upgraded), Some(program));
        assert_eq!(own_program(&dir.path().join("wait_for_build")), None);
    }

    #[test]
    fn a_daemon_that_cannot_start_is_quoted() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path().join("home")).unwrap();
        home.prepare().unwrap();
        let program = dir.path().join("ringback");
        let write = |text: &str| {
            std::fs::write(&program, text).unwrap();
            std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        };
        write("#!/bin/sh\necho the disk is full\n");
        let error = launch(&home, &program).unwrap_err();
        assert!(error.to_string().contains("the disk is full"), "{error}");
        write("#!/bin/sh\nexit 3\n");
        let error = launch(&home, &program).unwrap_err();
        assert!(error.to_string().contains("without a word"), "{error}");
    }
}
