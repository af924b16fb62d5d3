//! Everything that the board can want done. One list, performed in one place: record, then act, then tell.

use alloc::string::String;

use crate::id::TaskId;
use crate::outcome::Outcome;
use crate::task::Stop;

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Record: the task exists.
    Insert {
        /// Which.
        id: TaskId,
    },
    /// Record: this is how it ended, and one notice of it.
    Conclude {
        /// Which.
        id: TaskId,
        /// How.
        outcome: Outcome,
    },
    /// Record: its tree is gone.
    Close {
        /// Which.
        id: TaskId,
    },
    /// Record: it is a service now.
    Release {
        /// Which.
        id: TaskId,
    },
    /// Record, then act: a stop was asked for.
    Press {
        /// Which.
        id: TaskId,
        /// How.
        stop: Stop,
    },
    /// Act: launch a keeper that starts the command.
    Launch {
        /// Which.
        id: TaskId,
    },
    /// Act: launch a keeper that starts nothing.
    TakeOver {
        /// Which.
        id: TaskId,
    },
    /// Tell: this older task of the same key is the answer.
    Reuse {
        /// The task that was asked for and does not exist.
        asked: TaskId,
        /// The task that answers.
        existing: TaskId,
    },
    /// Tell: a task of the same key lives, so this one is refused.
    Refuse {
        /// The task that was asked for and does not exist.
        asked: TaskId,
        /// The task that lives.
        existing: TaskId,
        /// Its key.
        key: String,
    },
}
