//! A whole terminal for a while: its other screen, drawn frame by frame, and given back as it was, whatever happens.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::panic;

use ringback_sys::terminal::{Guard, Modes, size};

use super::door;
use crate::explain::Failure;
use crate::render::style::Tone;

/// The other screen, without cursor, and lines cut off where they do not fit (xterm's 1049, DEC's 25 and 7).
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";
/// How many rows a terminal has that does not say.
const ROWS: usize = 24;

/// What a person pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// To leave: q, Ctrl-C, or Ctrl-D; and the end of the terminal.
    Leave,
    /// Something else.
    Other,
}

/// The terminal of stdin and stdout, until this is dropped.
pub(super) struct Screen {
    before: Modes,
    /// Does it if this process is killed.
    guard: Option<Guard>,
    stdin: io::Stdin,
    drawn: String,
}

impl Screen {
    /// Takes it.
    pub(super) fn open() -> Result<Self, Failure> {
        let stdin = io::stdin();
        let before = Modes::of(&stdin)?;
        let guard = Guard::start(stdin.as_fd(), LEAVE).ok();
        let screen = Self { before: before.clone(), guard, stdin, drawn: String::new() };
        // A crash aborts without going back through the frames.
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            give_back(&before);
            usual(info);
        }));
        screen.before.raw().set(&screen.stdin)?;
        door::out(ENTER)?;
        Ok(screen)
    }

    /// Draws this, as far as there is room, and a last line.
    pub(super) fn draw(&mut self, page: &str, last: &str) -> Result<(), Failure> {
        let rows = size(io::stdout()).map_or(ROWS, |size| usize::from(size.rows));
        let lines: Vec<&str> = page.lines().collect();
        let room = rows.saturating_sub(2).max(1);
        let mut frame = "\x1b[H".to_owned();
        for line in lines.iter().take(room) {
            frame += line;
            frame += "\x1b[K\r\n";
        }
        let more = match lines.len().saturating_sub(room) {
            0 => String::new(),
            more => format!("and {more} more lines: ringback ps   "),
        };
        // Below it nothing of an earlier frame stays.
        let last = door::style().paint(Tone::Dim, &(more + last));
        frame.extend(["\x1b[K\r\n", &last, "\x1b[K\x1b[J"]);
        if frame != self.drawn {
            door::out(&frame)?;
            self.drawn = frame;
        }
        Ok(())
    }

    /// What was pressed; to be asked when something was.
    pub(super) fn key(&mut self) -> Result<Key, Failure> {
        let mut bytes = [0; 64];
        let count = self.stdin.read(&mut bytes)?;
        let leaves = |byte: &u8| matches!(byte, b'q' | b'Q' | 3 | 4);
        Ok(if count == 0 || bytes[..count].iter().any(leaves) { Key::Leave } else { Key::Other })
    }
}

impl AsFd for Screen {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stdin.as_fd()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back(&self.before);
        if let Some(guard) = self.guard.take() {
            let _gone = guard.release();
        }
    }
}

fn give_back(before: &Modes) {
    // A terminal that is gone wants nothing back.
    let _gone = door::stdout().write_all(LEAVE.as_bytes()).and_then(|()| door::stdout().flush());
    let _gone = before.set(io::stdin());
}
