//! The terminal of a person as a door uses it.

use std::{io, os::fd::AsFd};

use rustix::termios::{self, OptionalActions, Termios, Winsize};

/// How large a terminal is, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Characters in a row; at least 1.
    pub columns: u16,
    /// Rows; at least 1.
    pub rows: u16,
}

/// How large a terminal is; nothing if this is none, or one that does not know.
pub fn size(fd: impl AsFd) -> Option<Size> {
    let Winsize { ws_row: rows, ws_col: columns, .. } = termios::tcgetwinsize(fd).ok()?;
    (columns > 0 && rows > 0).then_some(Size { columns, rows })
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
