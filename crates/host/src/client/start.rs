//! Reaches the daemon of a home, and starts one, without a race, where none runs.

use std::env;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ringback_sys::growth::FilesWatch;
use ringback_sys::pidfd::PidFd;
use ringback_sys::watch::{For, poll};

use super::error::{ClientError, Holder};
use super::silence::{answer_wait, is_stopped, silent};
use crate::config::{Config, Confined};
use crate::daemon::DaemonError;
use crate::home::{Home, HomeError, SOCKET_NAME};

/// How long a daemon may take from its start to its first word: adoption of a full home takes one second, a slow disk more.
const START_WAIT: Duration = Duration::from_mins(1);
/// How many daemons one client starts: each of them may be killed, or find that an older one is not wholly gone.
const LAUNCHES_MAX: u32 = 32;
/// How long is waited for another name in the home before it is looked again: of a lock that is let go nobody tells, nor of a
/// machine that has no watch to give.
const LOOK_PAUSE: Duration = Duration::from_millis(20);
/// Longest last words that are read of a daemon that cannot start.
const WORDS_BYTES_MAX: usize = 16 << 10;
/// What a daemon says once it listens.
const READY: &[u8] = b"ready";

/// Which program becomes the daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launcher {
    program: Option<PathBuf>,
    is_own: bool,
}

impl Launcher {
    /// This program and no other.
    pub fn program(path: impl Into<PathBuf>) -> Self {
        Self { program: Some(path.into()), is_own: false }
    }

    /// This executable, whatever it is called: for a program that becomes a daemon on `daemon run --background`.
    pub fn own() -> Self {
        Self { program: None, is_own: true }
    }

    /// The program: the given one, else this executable if it is ringback, else `ringback` of the PATH.
    fn find(&self) -> Result<PathBuf, ClientError> {
        if let Some(program) = &self.program {
            return Ok(program.clone());
        }
        let is_ringback = |path: &PathBuf| self.is_own || path.file_name().is_some_and(|name| name == "ringback");
        let own = env::current_exe().ok().and_then(|path| still_there(&path));
        if let Some(own) = own.filter(is_ringback) {
            return Ok(own);
        }
        let path = env::var_os("PATH").unwrap_or_default();
        let found = env::split_paths(&path).map(|folder| folder.join("ringback")).find(|program| program.is_file());
        found.ok_or(ClientError::NoProgram)
    }
}

/// The path of an executable, if it is still there. After an upgrade the kernel shows the old file as `PATH (deleted)`
/// (proc(5)); what lies at `PATH` now is the new one.
fn still_there(exe: &Path) -> Option<PathBuf> {
    let text = exe.to_str()?;
    let path = Path::new(text.strip_suffix(" (deleted)").unwrap_or(text));
    path.is_file().then(|| path.to_owned())
}

/// Connects; nothing if nobody listens. A link to a socket is none: it would be that of another home.
pub(super) fn connect(home: &Home) -> Result<Option<UnixStream>, ClientError> {
    let failed = |source| ClientError::Connect { socket: home.socket(), source };
    match ringback_sys::files::is_socket(&home.socket()) {
        Ok(Some(true)) => {}
        Ok(Some(false)) => return Err(ClientError::InTheWay { socket: home.socket() }),
        Ok(None) => return Ok(None),
        Err(source) => {
            if source.kind() == io::ErrorKind::NotADirectory {
                home.prepare()?;
            }
            return Err(failed(source));
        }
    }
    match ringback_sys::socket::connect(home.socket_dir(), SOCKET_NAME, answer_wait()) {
        Ok(stream) => Ok(Some(stream)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => Ok(None),
        Err(source) => Err(failed(source)),
    }
}

/// Nobody listens: no daemon runs, or the one that has the home is stopped and cannot make its socket again.
pub(super) fn nobody(home: &Home) -> ClientError {
    match ringback_sys::lock::holder(&home.daemon_lock()).ok().flatten() {
        Some(pid) if is_stopped(pid) => silent(pid, None),
        _ => ClientError::NoDaemon { home: home.root().to_owned() },
    }
}

/// Connects, and starts a daemon first if nobody listens.
///
/// Of many clients at once one gets the lock and starts the daemon; the others wait until they find it.
pub(super) fn connect_or_start(home: &Home, launcher: &Launcher) -> Result<UnixStream, ClientError> {
    if let Some(stream) = connect(home)? {
        return Ok(stream);
    }
    refuse_if_confined()?;
    home.prepare()?;
    let lock = ringback_sys::files::append(&home.start_lock()).map_err(|error| lock_error(home, error))?;
    if let Some(stream) = take_turn(home, &lock)? {
        return Ok(stream);
    }
    let program = launcher.find()?;
    let names = watch_names(home);
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

/// Waits until it is ours to start a daemon, or until somebody has started one: then the connection to it.
///
/// Who has the turn and is stopped, or is no client at all, keeps it for ever; so there is an end to the wait.
fn take_turn(home: &Home, lock: &File) -> Result<Option<UnixStream>, ClientError> {
    let is_ours = || ringback_sys::lock::try_exclusive(lock).map_err(|error| lock_error(home, error));
    if is_ours()? {
        return connect(home);
    }
    let names = watch_names(home);
    let deadline = Instant::now() + answer_wait();
    loop {
        if let Some(stream) = connect(home)? {
            return Ok(Some(stream));
        }
        if is_ours()? {
            return connect(home);
        }
        if Instant::now() >= deadline {
            let holder = ringback_sys::lock::holder(&home.start_lock()).ok().flatten().map(Holder::of);
            return Err(ClientError::StartHeld { lock: home.start_lock(), holder });
        }
        await_change(names.as_ref())?;
    }
}

fn lock_error(home: &Home, source: io::Error) -> ClientError {
    ClientError::Home(HomeError::Io { path: home.start_lock(), source })
}

/// Rings when a socket comes; nothing where the machine has no watch to give.
fn watch_names(home: &Home) -> Option<FilesWatch> {
    FilesWatch::new().and_then(|watch| watch.names(home.root()).map(|()| watch)).ok()
}

/// Somebody holds the home, or a lock of it, without listening: he is about to leave, of which nobody tells, or to listen.
fn await_change(names: Option<&FilesWatch>) -> Result<(), ClientError> {
    let rings: Vec<_> = names.map(|names| (names.as_fd(), For::Read)).into_iter().collect();
    poll(&rings, Some(LOOK_PAUSE))?;
    if let Some(names) = names {
        names.read()?;
    }
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
    let message = if text.is_empty() { "it left without a word".to_owned() } else { text.clone() };
    // Whoever killed it did not mean us.
    if text.is_empty() && was_killed(&mut child) {
        return Ok(message);
    }
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

/// Whether a daemon that closed its output was ended by a signal.
fn was_killed(child: &mut Child) -> bool {
    let process = PidFd::open_child(child.id().cast_signed());
    let has_ended = process.is_ok_and(|process| poll(&[(process.as_fd(), For::Read)], Some(answer_wait())).is_ok());
    has_ended && matches!(child.try_wait(), Ok(Some(status)) if status.signal().is_some())
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
    fn this_executable_is_taken_for_the_daemon_only_by_whoever_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("ringback");
        std::fs::write(&program, "").unwrap();
        assert_eq!(still_there(&program), Some(program.clone()));
        let upgraded = PathBuf::from(format!("{} (deleted)", program.display()));
        assert_eq!(still_there(&upgraded), Some(program));
        assert_eq!(still_there(&dir.path().join("wait_for_build")), None);
        let this = env::current_exe().unwrap();
        assert_eq!(Launcher::own().find().unwrap(), this);
        assert_ne!(Launcher::default().find().ok(), Some(this));
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
        // One that is killed says nothing of the next one.
        write(
            "#!/bin/sh\n[ -e \"$RINGBACK_HOME/again\" ] && exec echo the disk is full\ntouch \"$RINGBACK_HOME/again\"\nkill -9 $$\n",
        );
        let error = connect_or_start(&home, &Launcher::program(&program)).unwrap_err();
        assert!(error.to_string().contains("the disk is full"), "{error}");
    }
}
