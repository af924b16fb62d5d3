//! Pseudo-terminals as the daemon holds them, and the terminal of a person as a door uses it.

use std::{
    io::{self, Read as _, Write as _},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::{net::UnixStream, process::CommandExt as _},
    },
    process::{Child, Command, Stdio},
};

use rustix::{
    fs::{CWD, Mode, OFlags},
    process::PidfdGetfdFlags,
    termios::{self, OptionalActions, Termios, Winsize},
};

use crate::{form::spec::Size, pidfd::PidFd, process, signals};

/// What the process is called that watches over a terminal.
const GUARD_NAME: &str = "ringback-guard";

/// Opens the master of a new pseudo-terminal (`/dev/ptmx`, pts(4)); nobody has the other side open yet.
///
/// Whoever has it open keeps the terminal from being hung up. It never waits.
pub fn open_master() -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let master = rustix::fs::openat(CWD, "/dev/ptmx", flags, Mode::empty())?;
    rustix::pty::unlockpt(&master)?;
    Ok(master)
}

/// The master that this keeper was given as its stdin, opened once more (`pidfd_getfd(2)`, Linux 5.6).
///
/// [`io::ErrorKind::PermissionDenied`] where nobody may look into a process, as in some containers.
pub fn master_of(keeper: &PidFd) -> io::Result<OwnedFd> {
    let master = rustix::process::pidfd_getfd(keeper, 0, PidfdGetfdFlags::empty())?;
    // Once its terminal is over, a keeper may have another file there.
    rustix::pty::ptsname(&master, Vec::new())?;
    Ok(master)
}

/// How large a terminal is; nothing if this is none, or one that does not know.
pub fn size(fd: impl AsFd) -> Option<Size> {
    let Winsize { ws_row, ws_col, .. } = termios::tcgetwinsize(fd).ok()?;
    Size::new(ws_col, ws_row)
}

/// The modes of a terminal, to be given back to it.
#[derive(Clone, Debug)]
pub struct Modes(Termios);

impl Modes {
    /// The present ones.
    pub fn of(fd: impl AsFd) -> io::Result<Self> {
        Ok(Self(termios::tcgetattr(fd)?))
    }

    /// The same, but every byte comes at once and as it is, and nothing is echoed (cfmakeraw(3)).
    #[must_use]
    pub fn raw(&self) -> Self {
        let mut raw = self.0.clone();
        raw.make_raw();
        Self(raw)
    }

    /// Gives them to a terminal.
    pub fn set(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(termios::tcsetattr(fd, OptionalActions::Now, &self.0)?)
    }
}

/// Another process, which gives a terminal its modes back should this one die before it has done so itself.
#[derive(Debug)]
pub struct Guard {
    line: UnixStream,
    child: Child,
}

impl Guard {
    /// Starts it, and comes back when it knows the present modes. `undo` is what it then writes to the terminal, too.
    ///
    /// For a program whose first line is [`guard_if_called_guard`].
    pub fn start(terminal: BorrowedFd<'_>, undo: &str) -> io::Result<Self> {
        let (line, theirs) = UnixStream::pair()?;
        let terminal = Stdio::from(terminal.try_clone_to_owned()?);
        let mut command = Command::new(std::env::current_exe()?);
        command.arg0(GUARD_NAME).arg(undo).env_clear().stdin(OwnedFd::from(theirs)).stdout(terminal);
        let child = command.stderr(Stdio::null()).spawn()?;
        // Our copy of its end goes with the command: if it dies, the read ends.
        drop(command);
        let mut guard = Self { line, child };
        guard.line.read_exact(&mut [0])?;
        Ok(guard)
    }

    /// Nothing is left to guard.
    pub fn release(mut self) -> io::Result<()> {
        self.line.write_all(&[0])?;
        self.child.wait().map(drop)
    }
}

/// Guards a terminal and gives the exit code, if this program was called to do that; nothing otherwise.
pub fn guard_if_called_guard() -> Option<i32> {
    let mut arguments = std::env::args_os();
    if arguments.next().is_none_or(|name| name != GUARD_NAME) {
        return None;
    }
    let undo = arguments.next().unwrap_or_default();
    Some(i32::from(guard(undo.as_encoded_bytes()).is_err()))
}

fn guard(undo: &[u8]) -> io::Result<()> {
    // What ends a whole job or a whole terminal must not end its guard; and one from another session may set modes.
    signals::block_all()?;
    process::set_own_session()?;
    let terminal = io::stdout();
    let modes = Modes::of(&terminal)?;
    let mut line = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    line.write_all(&[0])?;
    if matches!(line.read(&mut [0]), Ok(1)) {
        return Ok(());
    }
    modes.set(&terminal)?;
    let mut terminal = terminal.lock();
    terminal.write_all(undo)?;
    terminal.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pty::OpenptFlags;

    #[test]
    fn modes_are_given_back_as_they_were() {
        let master = open_master().unwrap();
        let peer = rustix::pty::ioctl_tiocgptpeer(&master, OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        assert_eq!(size(&peer), None);
        let before = Modes::of(&peer).unwrap();
        before.raw().set(&peer).unwrap();
        rustix::io::write(&master, b"x\r").unwrap();
        let mut bytes = [0; 8];
        assert_eq!((rustix::io::read(&peer, &mut bytes).unwrap(), &bytes[..2]), (2, b"x\r".as_slice()));
        before.set(&peer).unwrap();
        rustix::io::write(&master, b"y\r").unwrap();
        assert_eq!((rustix::io::read(&peer, &mut bytes).unwrap(), &bytes[..2]), (2, b"y\n".as_slice()));
    }

    #[test]
    fn the_master_of_a_process_is_taken_from_it_and_something_else_is_not() {
        let master = open_master().unwrap();
        let sleeper = |stdin: Stdio| Command::new("sleep").arg("60").stdin(stdin).spawn();
        for (stdin, is_there) in [(Stdio::from(master), true), (Stdio::null(), false)] {
            let mut child = sleeper(stdin).unwrap();
            let who = crate::identity::who(i32::try_from(child.id()).unwrap()).unwrap();
            let taken = master_of(&PidFd::open(who).unwrap());
            child.kill().unwrap();
            child.wait().unwrap();
            match taken {
                Ok(master) => {
                    assert!(is_there);
                    rustix::pty::ioctl_tiocgptpeer(&master, OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
                }
                Err(error) => assert!(!is_there || error.kind() == io::ErrorKind::PermissionDenied, "{error}"),
            }
        }
    }
}
