//! The store of the world: rows and notices, written a whole round at a time or not at all.

use std::collections::BTreeMap;

use ringback_core::board::Ask;
use ringback_core::id::TaskId;
use ringback_core::outcome::Outcome;
use ringback_core::task::Stop;

/// One thing to write.
#[derive(Clone, Debug)]
pub(crate) enum Record {
    Insert {
        id: TaskId,
        ask: Ask,
    },
    Stop {
        id: TaskId,
        stop: Stop,
    },
    Conclude {
        id: TaskId,
        outcome: Outcome,
    },
    Close {
        id: TaskId,
    },
    Lease {
        id: TaskId,
    },
    /// All up to this one were heard.
    AckUpTo {
        session: String,
        seq: u64,
    },
    /// That of this task was heard.
    AckTask {
        session: String,
        id: TaskId,
    },
}

/// A task as it was written.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) ask: Ask,
    pub(crate) live: bool,
    pub(crate) outcome: Option<Outcome>,
    pub(crate) stop: Option<Stop>,
    /// How many notices of its ending were ever written.
    pub(crate) notices: u32,
}

/// The unheard notices of a session, by number, and the last number given.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inbox {
    pub(crate) last: u64,
    pub(crate) unheard: BTreeMap<u64, TaskId>,
}

#[derive(Debug, Default)]
pub(crate) struct Store {
    pub(crate) rows: BTreeMap<TaskId, Row>,
    pub(crate) inboxes: BTreeMap<String, Inbox>,
    /// The boot in which a daemon last took everything up.
    pub(crate) boot: u32,
}

impl Store {
    /// Writes all of them; each second ending, or ending in another session, is a broken promise.
    pub(crate) fn write(&mut self, records: Vec<Record>) {
        for record in records {
            self.write_one(record);
        }
    }

    fn write_one(&mut self, record: Record) {
        // What was asked of a task in the round in which it could not be recorded changes no row.
        if let Record::Stop { id, .. } | Record::Conclude { id, .. } | Record::Close { id } | Record::Lease { id } =
            &record
            && !self.rows.contains_key(id)
        {
            return;
        }
        match record {
            Record::Insert { id, ask } => {
                let row = Row { ask, live: true, outcome: None, stop: None, notices: 0 };
                assert!(self.rows.insert(id, row).is_none(), "{id} is recorded twice");
            }
            Record::Stop { id, stop } => {
                let row = self.rows.get_mut(&id).unwrap();
                row.stop = row.stop.clone().or(Some(stop));
            }
            Record::Conclude { id, outcome } => {
                let row = self.rows.get_mut(&id).unwrap();
                assert!(row.outcome.is_none(), "{id} ends twice: {:?}, then {outcome:?}", row.outcome);
                row.outcome = Some(outcome);
                row.notices += 1;
                assert_eq!(row.notices, 1, "{id} is told twice");
                let inbox = self.inboxes.entry(self.rows[&id].ask.session.clone()).or_default();
                inbox.last += 1;
                inbox.unheard.insert(inbox.last, id);
            }
            Record::Close { id } => {
                let row = self.rows.get_mut(&id).unwrap();
                assert!(row.outcome.is_some(), "{id} is closed without an outcome");
                row.live = false;
            }
            Record::Lease { id } => self.rows.get_mut(&id).unwrap().ask.lease = ringback_core::spec::Lease::Service,
            Record::AckUpTo { session, seq } => {
                self.inboxes.entry(session).or_default().unheard.retain(|other, _| *other > seq);
            }
            Record::AckTask { session, id } => {
                self.inboxes.entry(session).or_default().unheard.retain(|_, task| *task != id);
            }
        }
    }
}
