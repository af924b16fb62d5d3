//! One task: its states, what can happen to it, and what follows. Every pair is written out.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use crate::id::TaskId;
use crate::outcome::{Cause, Evidence, LostWhy, Outcome, StartError};

/// How often a keeper that died before it started anything is replaced: a keeper that dies three times at its start
/// will die a fourth time.
pub const LAUNCHES_MAX: u8 = 3;

/// A wish to end a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    /// Why.
    pub cause: Cause,
    /// Which session, or `person`.
    pub by: Option<String>,
    /// How long TERM may take, milliseconds; nothing is the task's own grace.
    pub grace_ms: Option<u64>,
}

/// Where a task stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// On disk; waits for its turn, and for the tree of the task that it replaces to be gone.
    Queued {
        /// The task that has to be gone first.
        after: Option<TaskId>,
    },
    /// A keeper was launched and has not yet reported.
    Starting {
        /// Which launch this is, from 1.
        launch: u8,
        /// The first stop that was asked for.
        stop: Option<Stop>,
    },
    /// The command may have run.
    Running {
        /// The first stop that was asked for.
        stop: Option<Stop>,
    },
    /// It has its outcome; a keeper still holds leftovers of its tree.
    Open,
    /// It has its outcome and its tree is gone (or was never there).
    Closed,
}

/// What the keeper's record shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sight {
    /// Nothing was started.
    New,
    /// The command may have run.
    Started,
    /// The command was never executed.
    StartFailed {
        /// Why.
        why: StartError,
        /// The system's error number.
        errno: i32,
    },
    /// The main process ended; others of the tree live.
    Ended(Evidence),
    /// The main process ended and the tree is empty.
    Closed(Evidence),
}

/// What can happen to a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Its turn has come.
    Turn,
    /// The keeper could not be launched.
    LaunchFailed {
        /// Why.
        why: StartError,
        /// The system's error number.
        errno: i32,
    },
    /// The record was read while the keeper lives.
    Saw(Sight),
    /// The keeper is gone, and this is the last record it left.
    KeeperGone(Sight),
    /// The machine was restarted since, and this is the last record that was left.
    Rebooted(Sight),
    /// Somebody wants it to end.
    StopAsked(Stop),
}

/// What follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Launch a keeper that starts the command.
    Launch,
    /// Hand the stop to the keeper.
    Press(Stop),
    /// Launch a keeper that holds what the dead one held, and starts nothing.
    TakeOver,
    /// Record the outcome and one notice, together.
    Conclude(Outcome),
    /// The tree is gone: record the last facts and let go.
    Close,
}

impl State {
    /// What the task is after `input`, and what has to be done.
    pub fn step(self, input: Input) -> (Self, Vec<Act>) {
        match self {
            Self::Queued { after } => queued(after, input),
            Self::Starting { launch, stop } => starting(launch, stop, input),
            Self::Running { stop } => running(stop, input),
            Self::Open => open(input),
            Self::Closed => closed(&input),
        }
    }

    /// Whether it has its outcome.
    pub fn has_ended(&self) -> bool {
        match self {
            Self::Open | Self::Closed => true,
            Self::Queued { .. } | Self::Starting { .. } | Self::Running { .. } => false,
        }
    }
}

fn queued(after: Option<TaskId>, input: Input) -> (State, Vec<Act>) {
    match input {
        Input::Turn => (State::Starting { launch: 1, stop: None }, vec![Act::Launch]),
        Input::StopAsked(Stop { cause, by, .. }) => {
            (State::Closed, vec![Act::Conclude(Outcome::Killed { cause, by, real: None }), Act::Close])
        }
        Input::LaunchFailed { why, errno } => start_failed(why, errno),
        // What stood in its folder was never synced: that nothing of a start is left says nothing.
        Input::Rebooted(Sight::New) => lost(LostWhy::Reboot),
        // After a crash of the daemon a keeper may be further than the store knows: the record is the truth.
        Input::Saw(Sight::New) => (State::Starting { launch: 1, stop: None }, vec![]),
        Input::KeeperGone(Sight::New) => (State::Queued { after }, vec![]),
        Input::Saw(_) | Input::KeeperGone(_) | Input::Rebooted(_) => running(None, input),
    }
}

fn starting(launch: u8, stop: Option<Stop>, input: Input) -> (State, Vec<Act>) {
    match input {
        // Only the queue gives turns, and it gave this one.
        Input::Turn | Input::Saw(Sight::New) => (State::Starting { launch, stop }, vec![]),
        Input::LaunchFailed { why, errno } => start_failed(why, errno),
        // Nothing was started, so starting is still safe; but a stop that came meanwhile is the last intent.
        Input::KeeperGone(Sight::New) => match stop {
            Some(Stop { cause, by, .. }) => {
                (State::Closed, vec![Act::Conclude(Outcome::Killed { cause, by, real: None }), Act::Close])
            }
            None if launch < LAUNCHES_MAX => (State::Starting { launch: launch + 1, stop }, vec![Act::Launch]),
            None => start_failed(StartError::Other, 0),
        },
        Input::Rebooted(Sight::New) => lost(LostWhy::Reboot),
        // The keeper reads its requests when it starts, so the stop need not wait for its report.
        Input::StopAsked(wish) => {
            (State::Starting { launch, stop: stop.or_else(|| Some(wish.clone())) }, vec![Act::Press(wish)])
        }
        Input::Saw(_) | Input::KeeperGone(_) | Input::Rebooted(_) => running(stop, input),
    }
}

fn running(stop: Option<Stop>, input: Input) -> (State, Vec<Act>) {
    let by = || stop.as_ref().and_then(|stop| stop.by.clone());
    match input {
        // That nobody could take over now says nothing of the command: whoever launches tries again.
        Input::Turn | Input::LaunchFailed { .. } | Input::Saw(Sight::New | Sight::Started) => {
            (State::Running { stop }, vec![])
        }
        Input::StopAsked(wish) => (State::Running { stop: stop.or_else(|| Some(wish.clone())) }, vec![Act::Press(wish)]),
        Input::Saw(Sight::StartFailed { why, errno })
        | Input::KeeperGone(Sight::StartFailed { why, errno })
        | Input::Rebooted(Sight::StartFailed { why, errno }) => start_failed(why, errno),
        Input::Saw(Sight::Ended(evidence)) => (State::Open, vec![Act::Conclude(Outcome::of(&evidence, by()))]),
        // The leftovers live on and their output still comes: somebody has to hold them.
        Input::KeeperGone(Sight::Ended(evidence)) => {
            (State::Open, vec![Act::Conclude(Outcome::of(&evidence, by())), Act::TakeOver])
        }
        // Also what is made of a record that cannot be read.
        Input::Rebooted(Sight::Ended(evidence)) if evidence.status.is_none() => lost(LostWhy::Reboot),
        Input::Saw(Sight::Closed(evidence))
        | Input::KeeperGone(Sight::Closed(evidence))
        // A restart of the machine leaves no process, whatever the record last said of the tree.
        | Input::Rebooted(Sight::Ended(evidence) | Sight::Closed(evidence)) => {
            (State::Closed, vec![Act::Conclude(Outcome::of(&evidence, by())), Act::Close])
        }
        // The main process runs on without its keeper. Starting it again is out of the question.
        Input::KeeperGone(Sight::Started) => (State::Running { stop }, vec![Act::TakeOver]),
        Input::Rebooted(Sight::Started | Sight::New) => lost(LostWhy::Reboot),
        // A record that went back to the beginning: somebody has deleted the folder of a task that nobody holds.
        Input::KeeperGone(Sight::New) => lost(LostWhy::MonitorDied),
    }
}

fn open(input: Input) -> (State, Vec<Act>) {
    match input {
        Input::StopAsked(wish) => (State::Open, vec![Act::Press(wish)]),
        Input::KeeperGone(Sight::Started | Sight::Ended(_)) => (State::Open, vec![Act::TakeOver]),
        Input::Saw(Sight::Closed(_) | Sight::StartFailed { .. })
        | Input::KeeperGone(Sight::Closed(_) | Sight::StartFailed { .. } | Sight::New)
        | Input::Rebooted(_) => (State::Closed, vec![Act::Close]),
        // An outcome is never taken back.
        Input::Turn | Input::LaunchFailed { .. } | Input::Saw(Sight::New | Sight::Started | Sight::Ended(_)) => {
            (State::Open, vec![])
        }
    }
}

fn closed(input: &Input) -> (State, Vec<Act>) {
    match input {
        Input::Turn
        | Input::LaunchFailed { .. }
        | Input::Saw(_)
        | Input::KeeperGone(_)
        | Input::Rebooted(_)
        | Input::StopAsked(_) => (State::Closed, vec![]),
    }
}

fn start_failed(why: StartError, errno: i32) -> (State, Vec<Act>) {
    (State::Closed, vec![Act::Conclude(Outcome::StartFailed { why, errno }), Act::Close])
}

fn lost(why: LostWhy) -> (State, Vec<Act>) {
    (State::Closed, vec![Act::Conclude(Outcome::Lost { why }), Act::Close])
}
