//! Pseudo-terminals as the daemon holds them, and the terminal of a person as a door uses it.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
};

use rustix::{
    fs::{CWD, Mode, OFlags},
    process::PidfdGetfdFlags,
    termios::{self, OptionalActions, Termios, Winsize},
};

use crate::{form::spec::Size, pidfd::PidFd};

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

    /// Gives them to a terminal, once it has shown what was written.
    pub fn set(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(termios::tcsetattr(fd, OptionalActions::Drain, &self.0)?)
    }
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
        let sleeper = |stdin: std::process::Stdio| std::process::Command::new("sleep").arg("60").stdin(stdin).spawn();
        for (stdin, is_there) in [(std::process::Stdio::from(master), true), (std::process::Stdio::null(), false)] {
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
