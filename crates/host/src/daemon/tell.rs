//! What is to be told to whom, once a round is recorded.

use mio::Token;
use ringback_core::id::TaskId;

use crate::spoken::Saying;
use crate::store::Claim;
use crate::wire::{Caller, Fault, Reply, Request};

/// One thing to tell one client.
pub(super) struct Tell {
    /// Whom.
    pub to: Token,
    /// What.
    pub say: Say,
}

/// What to tell. The last ones are about a change, and true only once it is recorded.
pub(super) enum Say {
    /// This.
    Reply(Reply),
    /// One task as it stands.
    Task {
        /// Which.
        id: TaskId,
        /// An older task of the same key answers.
        existing: bool,
    },
    /// Several tasks as they stand.
    Tasks {
        /// Which.
        ids: Vec<TaskId>,
        /// The wait ran out.
        timed_out: bool,
        /// What could not be done.
        faults: Vec<Fault>,
    },
    /// Something that is only read.
    Read(Box<Request>),
    /// Unheard notices, now or when there are some.
    Inbox {
        /// Who asked.
        caller: Caller,
        /// Only those after this number.
        newer_than: Option<u64>,
        /// At most this many.
        limit: u32,
        /// How long to wait for a first one.
        wait_ms: u64,
        /// Earlier ones are acknowledged by asking.
        acknowledges: bool,
    },
    /// A session as it stands.
    Session(String),
    /// A task that was asked for in this round.
    Begun {
        /// Which.
        id: TaskId,
        /// Its session had nothing unheard before.
        inbox_empty: bool,
        /// How much of what it had is told.
        unheard_max: u32,
        /// How it is told to whoever sent a command line.
        say: Option<Saying>,
    },
    /// How many notices these `Ack` records of the round acknowledged.
    Acknowledged {
        /// The first of them.
        first: usize,
        /// How many.
        count: usize,
        /// What there was nothing to acknowledge of.
        faults: Vec<Fault>,
    },
    /// What this claim of the round has got.
    Claimed(Box<Claim>),
    /// A change was made.
    Changed(Reply),
}

impl Say {
    /// Whether it needs nothing but the record.
    pub(super) fn is_true_once_recorded(&self) -> bool {
        matches!(self, Self::Begun { .. })
    }
}

impl Tell {
    /// The round could not be recorded: whoever asked for a change is told so.
    pub(super) fn refuse_change(&mut self, fault: &Fault) {
        match self.say {
            Say::Begun { .. }
            | Say::Acknowledged { .. }
            | Say::Claimed(_)
            | Say::Changed(_)
            | Say::Inbox { acknowledges: true, .. } => {
                self.say = Say::Reply(Reply::Fault(fault.clone()));
            }
            Say::Reply(_)
            | Say::Task { .. }
            | Say::Tasks { .. }
            | Say::Read(_)
            | Say::Inbox { acknowledges: false, .. }
            | Say::Session(_) => {}
        }
    }
}
