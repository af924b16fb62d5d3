//! The folder of the next task, made ahead while nobody waits for it.
//!
//! New files are the dear part of a start: on some file systems each costs more than the rest of the answer (ext4 passes over
//! every inode that was freed within the last minutes: half a millisecond for a file where many were deleted). A blank has
//! nothing of a command, is in no record, and belongs to nobody until a task is recorded under its id.

use ringback_core::id::TaskId;

use super::Daemon;
use super::crash::crash_point;
use super::folder::{self, Ahead};
use crate::wire::Fault;

/// Where the next folder stands.
#[derive(Debug, Default)]
pub(super) enum Blank {
    /// There is none, and no task has asked for one since.
    #[default]
    None,
    /// The last one was taken: another is to be made when there is time.
    Wanted,
    /// It is there.
    Made(TaskId, Ahead),
}

impl Blank {
    /// Whether this is the folder of no task yet.
    pub(super) fn is(&self, id: TaskId) -> bool {
        matches!(self, Self::Made(made, _) if *made == id)
    }
}

impl Daemon {
    /// Whether a folder should be made, now that nothing else is to be done.
    pub(super) fn is_blank_due(&self) -> bool {
        matches!(self.blank, Blank::Wanted) && !self.leaving && self.round.retry_at_ms().is_none()
    }

    /// Makes one. What fails here fails again, with words, when a task asks for its folder.
    pub(super) fn make_blank(&mut self) {
        self.blank = Blank::None;
        if self.space.room().is_err() {
            return;
        }
        let Ok(id) = self.new_id() else { return };
        let dir = self.dir(id);
        match folder::make_blank(&dir) {
            Ok(ahead) => self.blank = Blank::Made(id, ahead),
            Err(_) => drop(folder::delete(&dir)),
        }
        crash_point("daemon.after-blank");
    }

    /// The id of the next task: that of the folder which is there, if one is.
    pub(super) fn next_id(&self) -> Result<TaskId, Fault> {
        match self.blank {
            Blank::Made(id, _) => Ok(id),
            Blank::None | Blank::Wanted => self.new_id(),
        }
    }

    /// Takes the folder of this task, if it was made ahead. Another one is wanted in any case.
    pub(super) fn take_blank(&mut self, id: TaskId) -> Option<Ahead> {
        match std::mem::replace(&mut self.blank, Blank::Wanted) {
            Blank::Made(made, ahead) if made == id => Some(ahead),
            _ => None,
        }
    }

    /// Nobody will ask any more.
    pub(super) fn drop_blank(&mut self) {
        if let Blank::Made(id, _) = std::mem::take(&mut self.blank) {
            let _ = folder::delete(&self.dir(id));
        }
    }
}
