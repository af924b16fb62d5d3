//! The log of the database, made as long as it becomes while nobody waits.
//!
//! Each commit is synced, and one that makes its file longer takes half as long again (ext4 then writes its journal, too: 380 µs
//! where 260 were enough). By itself the log has its length after some hundred tasks, and again after each start of the daemon.

use ringback_sys::files;

use super::Daemon;
use super::blank::Blank;
use crate::config::Durability;
use crate::store::LOG_BYTES;

/// How much at once, bytes: whoever asks meanwhile waits for that, a millisecond.
const STEP_BYTES: u64 = 256 << 10;

/// Whether the log is still to be made longer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum LogAhead {
    /// So much of it that more would change nothing, or cannot be had.
    #[default]
    Done,
    /// When there is time.
    Wanted,
}

impl LogAhead {
    /// Only syncs take time, and only of a disk.
    pub(super) fn of(durability: Durability, home: &std::path::Path) -> Self {
        let syncs = durability == Durability::Power && !files::filesystem_is_tmpfs(home).unwrap_or(true);
        if syncs { Self::Wanted } else { Self::Done }
    }
}

impl Daemon {
    /// Whether the log should be made longer, now that nothing else is to be done: a daemon that starts tasks will write it.
    pub(super) fn is_log_due(&self) -> bool {
        self.log_ahead == LogAhead::Wanted && matches!(self.blank, Blank::Made(..)) && !self.leaving
    }

    /// Makes the log longer by a step. What fails here changes nothing but the time of a commit.
    pub(super) fn lengthen_log(&mut self) {
        let may = self.space.has_to_spare(LOG_BYTES) && self.lacks_database().is_none() && !self.has_foreign_log();
        if !(may && self.store.lengthen_log(STEP_BYTES).unwrap_or(false)) {
            self.log_ahead = LogAhead::Done;
        }
    }
}
