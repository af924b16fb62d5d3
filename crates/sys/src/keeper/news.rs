//! Telling the daemon that there is something new in the state record.

use crate::form::news;
use crate::raw::{Errno, Fd, file};

/// The hints of one task.
pub(super) struct News {
    task: u64,
    /// The FIFO, while it was too full for our frame.
    waiting: Option<Fd>,
}

impl News {
    /// No hint waits.
    pub(super) fn new(task: u64) -> Self {
        Self { task, waiting: None }
    }

    /// Hints at a new record. Without a daemon the open fails, and nothing is lost: the next daemon reads all records.
    pub(super) fn tell(&mut self) {
        if self.waiting.is_none() {
            self.waiting = file::open(c"../../../news", file::flag::WRONLY | file::flag::NONBLOCK).ok();
        }
        self.retry();
    }

    /// Writes the frame if there is room now; a daemon that has died meanwhile needs no hint.
    pub(super) fn retry(&mut self) {
        let Some(fifo) = &self.waiting else { return };
        if file::write(fifo, &news::frame(self.task)) != Err(Errno::EAGAIN) {
            self.waiting = None;
        }
    }

    /// The FIFO to wait for until it has room, if a hint waits.
    pub(super) fn waits_for(&self) -> Option<i32> {
        self.waiting.as_ref().map(Fd::number)
    }
}
