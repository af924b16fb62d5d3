//! The terminal of a person while it is lent to a task: raw, and given back as it was, whatever happens.

use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::AsFd as _;

use ringback_render::Modes as Screen;
use ringback_sys::terminal::{Guard, Modes};

/// A terminal that is lent. Dropping it gives it back.
pub(crate) struct Lent {
    before: Modes,
    /// Does it if this process is killed; without one (no room for a process) the shell may still do it.
    guard: Option<Guard>,
    screen: Screen,
}

impl Lent {
    /// Lends the terminal that stdin and stdout are; nothing if they are none.
    pub(crate) fn begin() -> io::Result<Option<Self>> {
        if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            return Ok(None);
        }
        let before = Modes::of(io::stdin())?;
        let guard = Guard::start(io::stdin().as_fd(), Screen::UNDO_ALL).ok();
        before.raw().set(io::stdin())?;
        Ok(Some(Self { before, guard, screen: Screen::default() }))
    }

    /// Shows bytes of the task as they are.
    pub(crate) fn show(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.screen.push(bytes);
        let mut out = io::stdout().lock();
        out.write_all(bytes)?;
        out.flush()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut out = io::stdout().lock();
        // A terminal that is gone needs nothing back.
        let _gone = out.write_all(self.screen.undo().as_bytes()).and_then(|()| out.flush());
        let _gone = self.before.set(io::stdin());
        if let Some(guard) = self.guard.take() {
            let _gone = guard.release();
        }
    }
}
