//! The pseudo-terminal of a task: what it shows goes into the FIFO `io`, what is typed comes from the FIFO `stdin`.
//!
//! The daemon opens the master and gives it to its keepers as their stdin, so that it outlives a killed one. Both ways go
//! through a FIFO, by splice(2): what was shown and not yet captured, and what was typed and not yet taken, lies in a pipe
//! that the daemon holds open too.

use core::mem::ManuallyDrop;

use super::crash::crash;
use super::sink;
use crate::form::sizes::{ENTRIES_MAX, ENTRY_BYTES, Entry};
use crate::form::spec::Size;
use crate::raw::{Errno, Fd, Result, file, poll, process, terminal, time};

/// Most bytes that one call moves.
const MOVE_MAX: usize = 64 << 10;
/// Piece in which bytes are copied where splice(2) is missing (some kernels of the 5.10 series).
const PIECE_BYTES: usize = 4096;
/// How many bytes are then typed in one go.
const TYPED_MAX: usize = 256;

/// A terminal being kept.
pub(super) struct Pty {
    master: Fd,
    /// One more opening of the other side: while the command lives, the terminal is not over because it has closed it.
    peer: Option<Fd>,
    /// The write end of `io`.
    shown: Fd,
    /// Both ends of `stdin`, so that it never reports an end.
    typed: Option<Fd>,
    /// Whether the terminal takes no more for now.
    is_full: bool,
    by_copy: bool,
}

/// What one look at the terminal brought.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// There may be something in the FIFO.
    Perhaps,
    /// Nobody has the terminal open any more, and everything was moved.
    Over,
}

impl Pty {
    /// Takes the terminal that this process was given, and makes it ready for the command. `io` is open for reading.
    pub(super) fn open(size: Size) -> Result<Self> {
        let pty = Self::take_up().ok_or(Errno::ENOTTY)?;
        terminal::set_size(&pty.master, size)?;
        // Only the comfort of editing a line depends on it.
        let _ = terminal::expect_utf8(&pty.master);
        note_size(size, 0);
        Ok(pty)
    }

    /// Takes the terminal that this process was given; nothing if there is none, and then it is lost.
    pub(super) fn take_up() -> Option<Self> {
        let master = ManuallyDrop::new(Fd::standard_input());
        if !terminal::is_master(&master) {
            return None;
        }
        // A later daemon takes its own copy of the master from this process (pidfd_getfd(2)).
        process::allow_tracers();
        let peer = terminal::open_peer(&master).ok();
        let shown = file::open_pipe(c"io", file::flag::WRONLY | file::flag::NONBLOCK).ok()?;
        let typed = file::open_pipe(c"stdin", file::flag::RDWR | file::flag::NONBLOCK).ok();
        let master = ManuallyDrop::into_inner(master);
        Some(Self { master, peer, shown, typed, is_full: false, by_copy: false })
    }

    /// What to wait for to see what it shows.
    pub(super) fn shown_slot(&self) -> poll::Slot {
        poll::Slot::new(self.master.number(), poll::IN)
    }

    /// What to wait for to type.
    pub(super) fn typed_slot(&self) -> poll::Slot {
        match &self.typed {
            None => poll::Slot::new(-1, poll::IN),
            Some(_) if self.is_full => poll::Slot::new(self.master.number(), poll::OUT),
            Some(typed) => poll::Slot::new(typed.number(), poll::IN),
        }
    }

    /// The command has ended: from now on the terminal is over when nobody has it open.
    pub(super) fn let_go(&mut self) {
        self.peer = None;
    }

    /// Moves what it shows into the FIFO, which the caller empties.
    pub(super) fn show(&mut self) -> Shown {
        let mut moved = if self.by_copy { self.copy_shown() } else { self.splice_shown() };
        if moved == Err(Errno::EINVAL) && !self.by_copy {
            self.by_copy = true;
            moved = self.copy_shown();
        }
        match moved {
            // Nobody has the other side open (pty(7)). If ours was hung up (vhangup(2)), there may be more to come.
            Err(Errno::EIO) if self.peer.take().is_some() => {
                self.peer = terminal::open_peer(&self.master).ok();
                Shown::Perhaps
            }
            Ok(0) | Err(Errno::EIO) => Shown::Over,
            Ok(_) | Err(_) => Shown::Perhaps,
        }
    }

    fn splice_shown(&self) -> Result<usize> {
        crash!("keeper.before-shown");
        file::splice(&self.master, &self.shown, None, MOVE_MAX)
    }

    /// A SIGKILL between the two calls loses a piece, and nothing can be done about it.
    fn copy_shown(&self) -> Result<usize> {
        let mut piece = [0; PIECE_BYTES];
        let count = file::read(&self.master, &mut piece)?;
        // The FIFO was emptied before, and has room for more than this.
        file::write(&self.shown, piece.get(..count).unwrap_or_default())
    }

    /// Types what is in the FIFO, as much as the terminal takes.
    pub(super) fn type_in(&mut self) {
        let Some(typed) = &self.typed else { return };
        crash!("keeper.before-typed");
        let mut moved =
            if self.by_copy { self.copy_typed(typed) } else { file::splice(typed, &self.master, None, MOVE_MAX) };
        if moved == Err(Errno::EINVAL) && !self.by_copy {
            self.by_copy = true;
            moved = self.copy_typed(typed);
        }
        match moved {
            Ok(_) | Err(Errno::EAGAIN | Errno::EINTR) => self.is_full = is_ready(typed, poll::IN),
            Err(_) => self.typed = None,
        }
    }

    /// Byte by byte, and only what there is room for: so nothing is taken that could not be typed.
    fn copy_typed(&self, typed: &Fd) -> Result<usize> {
        let mut byte = [0];
        for count in 0..TYPED_MAX {
            if !is_ready(typed, poll::IN) || !is_ready(&self.master, poll::OUT) || file::read(typed, &mut byte)? == 0 {
                return Ok(count);
            }
            file::write(&self.master, &byte)?;
        }
        Ok(TYPED_MAX)
    }

    /// Changes its size, from this offset of the output on.
    pub(super) fn resize(&self, size: Size, offset: u64) {
        if terminal::set_size(&self.master, size).is_ok() {
            note_size(size, offset);
        }
    }
}

/// A full disk costs the picture of a player its proportions, and nothing else.
fn note_size(size: Size, offset: u64) {
    let Ok(sizes) = sink::open_own(c"output.sizes") else { return };
    let count = file::seek_end(&sizes).unwrap_or(0) / ENTRY_BYTES as u64;
    let entry = Entry { offset, wall_ms: time::wall_ms(), size };
    let _ = file::write_at(&sizes, &entry.encode(), count.min(ENTRIES_MAX - 1) * ENTRY_BYTES as u64);
}

/// For the new process: the terminal as its stdio, and as what controls its session.
pub(super) fn enter() -> Result<()> {
    let master = ManuallyDrop::new(Fd::standard_input());
    let peer = terminal::open_peer(&master)?;
    terminal::control_session(&peer)?;
    // The first one takes the place of the master, which the command does not get.
    for number in 0..=2 {
        file::put_at(&peer, number)?;
    }
    Ok(())
}

fn is_ready(fd: &Fd, events: i16) -> bool {
    let mut slots = [poll::Slot::new(fd.number(), events)];
    poll::wait(&mut slots, Some(0)).is_ok() && slots[0].ready & events != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::BorrowedFd;

    #[test]
    fn without_splice_nothing_is_lost_either() {
        let master = file::open(c"/dev/ptmx", file::flag::RDWR | file::flag::NOCTTY | file::flag::NONBLOCK).unwrap();
        // SAFETY: the master is open until the end of this test.
        rustix::pty::unlockpt(unsafe { BorrowedFd::borrow_raw(master.number()) }).unwrap();
        let peer = terminal::open_peer(&master).unwrap();
        let (shown_end, shown) = file::pipe().unwrap();
        let (typed, typed_end) = file::pipe().unwrap();
        let mut pty = Pty { master, peer: None, shown, typed: Some(typed), is_full: false, by_copy: true };
        file::write(&peer, b"shown\n").unwrap();
        file::write(&typed_end, b"typed\n").unwrap();
        pty.type_in();
        let mut bytes = [0; 64];
        assert_eq!(file::read(&peer, &mut bytes), Ok(6));
        assert_eq!(&bytes[..6], b"typed\n");
        // The echo comes by way of the kernel's own work, a moment later.
        let mut read = 0;
        while read < 14 {
            poll::wait(&mut [poll::Slot::new(pty.master.number(), poll::IN)], None).unwrap();
            assert!(pty.show() == Shown::Perhaps);
            read += file::read(&shown_end, &mut bytes[read..]).unwrap();
        }
        assert_eq!(&bytes[..read], b"shown\r\ntyped\r\n");
        assert!(pty.show() == Shown::Perhaps, "there may be more");
        drop(peer);
        assert!(pty.show() == Shown::Over);
    }
}
