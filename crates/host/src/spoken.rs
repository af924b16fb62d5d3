//! A command line that came to the daemon as it was written: read and answered by the code of the doors, which whoever starts the
//! daemon hands in. The front that sends it knows no rule of ours.

use crate::wire::{Caller, RunRequest, Spoken, TaskObject};

/// What a command line means, if it is one that can be carried out without looking at the caller's files.
pub type Reader = fn(&Spoken) -> Option<Understood>;

/// What a command line says of its task.
pub type Saying = Box<dyn Fn(&TaskObject) -> Said>;

/// A command line that was understood.
pub struct Understood {
    /// Who asks.
    pub caller: Caller,
    /// For what.
    pub run: RunRequest,
    /// Warnings are not asked for.
    pub is_quiet: bool,
    /// How it is answered.
    pub say: Saying,
}

/// What is written where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// Data.
    pub stdout: String,
    /// Talk.
    pub stderr: String,
}
