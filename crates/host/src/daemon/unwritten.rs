//! While the database cannot be written: what clients ask for is refused, what the machine did is kept and tried again.
//!
//! An ending that a keeper has recorded is told all the same, by every verb: its record says the same to the next daemon.
//! What only this daemon knows is not told before it is written, and nobody is kept waiting for it.

use std::collections::HashSet;

use ringback_core::id::TaskId;
use ringback_core::notice::Kind;
use ringback_core::outcome::Cause;
use ringback_sys::form::record::{Phase, Witness};
use ringback_sys::process;

use super::Daemon;
use super::error::fault;
use super::round::Act;
use crate::store::{NoticeRow, Record, Row, StoreError};
use crate::wire::{Fault, Sighting};

/// How long after a failed commit it is tried again, milliseconds: a full disk does not empty itself faster.
const RETRY_MS: u64 = 1000;

/// What stands below a notice that has no number yet.
const UNNUMBERED: &str =
    "\nnot recorded yet (`ringback doctor` says why): it cannot be acknowledged, and is offered again";

impl Daemon {
    /// Writes a round. When the disk is full, the reserve is given up and the log made short before it is tried again.
    pub(super) fn write(&mut self, records: &[Record]) -> Result<Vec<u64>, StoreError> {
        if let Some(error) = self.lacks_database() {
            return Err(error);
        }
        // Who has heard is not kept waiting for the disk; it is synced when they are told (`sync_acknowledged`).
        let acknowledges = records.iter().all(|record| matches!(record, Record::Ack { .. }));
        let mut written = if acknowledges { self.store.write_unsynced(records) } else { self.store.write(records) };
        self.round.unsynced =
            acknowledges && written.as_ref().is_ok_and(|counts| counts.iter().any(|&count| count > 0));
        if written.as_ref().is_err_and(StoreError::is_space) {
            self.space.release();
            self.store.shorten_log();
            written = self.store.write(records);
        }
        if self.space.is_short() {
            self.store.shorten_log();
        }
        self.space.restore();
        written
    }

    /// The disk is full, or worse. What clients asked for is refused; what the machine did is kept and tried again.
    pub(super) fn keep_unwritten(&mut self, records: Vec<Record>, error: &StoreError) {
        if self.round.retry_at_ms.is_none() && self.lacks_database().is_none() {
            self.troubles.note("write to the database", error);
        }
        let fault = store_fault("cannot record it", error);
        for record in records {
            match record {
                Record::Insert { id, .. } => self.uninsert(id),
                // Nor does a task end, under this daemon or a later one, for one that never was.
                Record::Stop { id, stop } if stop.cause == Cause::Replaced.word() => {
                    if let Some(live) = self.lives.get_mut(&id) {
                        live.row.stop = None;
                    }
                }
                Record::Conclude { .. }
                | Record::Close { .. }
                | Record::Stop { .. }
                | Record::Notice(_)
                | Record::Post(_)
                | Record::Watched { .. }
                | Record::Measured { .. }
                // What these say is so already in this process; a new one must find it too.
                | Record::Lease { .. }
                | Record::Watch { .. }
                | Record::SessionLease { .. } => self.round.records.push(record),
                Record::Ack { .. } | Record::Claim(_) | Record::Remove { .. } | Record::Pack { .. } => {}
            }
        }
        for act in std::mem::take(&mut self.round.acts) {
            match act {
                // Its folder stays for now; the sweep sees whether somebody still has it.
                Act::Delete(id, ..) => self.sweep_again(id),
                Act::Deliver(_) => {}
                other => self.round.acts.push(other),
            }
        }
        keep_last_words(&mut self.round.records);
        self.forget_deliveries();
        self.fail_prunes(&fault);
        // If nothing is left to be written, nothing is held up.
        let waits = !self.round.records.is_empty();
        self.round.retry_at_ms = waits.then(|| process::monotonic_ms() + RETRY_MS);
        for tell in &mut self.round.tells {
            tell.refuse_change(&fault);
        }
        self.round.fault = Some(store_fault("cannot record how it ended", error));
        for id in self.round.concluded.clone() {
            let vouched = self.is_vouched(id);
            if let Some(live) = self.lives.get_mut(&id) {
                if vouched && !live.told {
                    self.changes.note();
                }
                live.told = vouched;
            }
        }
    }

    /// Whether a keeper's record says how the task ended, to whoever reads it.
    fn is_vouched(&mut self, id: TaskId) -> bool {
        self.record(id).is_some_and(|record| match record.phase {
            Phase::StartFailed => true,
            Phase::Ended | Phase::Closed => record.witness != Witness::None,
            Phase::New | Phase::Started => false,
        })
    }

    /// A task that could not be recorded was never given to anybody.
    fn uninsert(&mut self, id: TaskId) {
        self.drop_live(id);
        // Nor does a task end for one that never was.
        self.round.acts.retain(|act| match act {
            Act::Launch(other) => *other != id,
            Act::Press(_, stop) => stop.cause != Cause::Replaced,
            Act::TakeOver(_)
            | Act::Request(..)
            | Act::Delete(..)
            | Act::Tidy(_)
            | Act::Deliver(_)
            | Act::Collect(_) => true,
        });
        self.delete(id);
        let effects = self.board.forget(id);
        self.apply(effects);
        // Who asked for its end in the same round does not wait for what never was.
        self.waits.ended(id);
        self.waits.gone(id);
    }

    /// Tells what is so although it is not written, and whoever waits for the rest that it is not.
    pub(super) fn announce_unwritten(&mut self) {
        for id in self.round.concluded.clone() {
            let Some(live) = self.lives.get(&id) else { continue };
            if live.told {
                let session = live.row.session.clone();
                self.end_feeds_of(id);
                self.waits.ended(id);
                self.waits.heard_of(&session);
            } else if let Some(fault) = self.round.fault.clone() {
                for wait in self.waits.take_task(id) {
                    self.reply(wait.to, Err(fault.clone()));
                }
            }
        }
        // That a tree is gone stands in the keeper's record.
        for id in &self.round.closed {
            self.waits.gone(*id);
        }
    }

    /// The row of a live task as it may be shown: an ending that may not be told yet is not.
    pub(super) fn live_row(&self, id: TaskId) -> Option<Row> {
        let live = self.lives.get(&id)?;
        let mut row = live.row.clone();
        row.facts = row.facts.filter(|_| live.told);
        Some(row)
    }

    /// The endings that a session would find in its inbox if they could be written.
    pub(super) fn unwritten_notices(&self, session: &str) -> Vec<NoticeRow> {
        if self.round.retry_at_ms.is_none() {
            return Vec::new();
        }
        let told = |id: &TaskId| self.lives.get(id).is_some_and(|live| live.told);
        let notice = |record: &Record| match record {
            Record::Conclude { id, session: other, at_ms, text, .. } if other == session && told(id) => {
                Some(NoticeRow {
                    seq: 0,
                    task: *id,
                    kind: Kind::ToolResult.word().to_owned(),
                    at_ms: *at_ms,
                    text: format!("{text}{UNNUMBERED}"),
                    sighting: Sighting::default(),
                })
            }
            _ => None,
        };
        self.round.records.iter().filter_map(notice).collect()
    }
}

fn store_fault(what: &str, error: &StoreError) -> Fault {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    let code = match error {
        StoreError::Replaced { .. } => "home_damaged",
        error if error.is_space() => "store_full",
        _ => "store_failed",
    };
    let hint = if code == "home_damaged" {
        "`ringback daemon restart` goes on with what is there now, and begins a new history where that is nothing; tasks that run go on"
    } else {
        // Not by `prune`, which is a change, too.
        "make room on the disk of the home (`ringback doctor` names it), and ask again"
    };
    fault(code, format!("{what}: {error}{cause}"), hint.to_owned())
}

/// What is said anew makes what was said before it pointless: so what waits for space grows with tasks and sessions, and not
/// with time.
fn keep_last_words(records: &mut Vec<Record>) {
    let (mut watches, mut leases) = (HashSet::new(), HashSet::new());
    let (mut processes, mut times) = (HashSet::new(), HashSet::new());
    let mut kept: Vec<Record> = Vec::with_capacity(records.len());
    for record in records.drain(..).rev() {
        let is_last = match &record {
            Record::Watched { id, .. } => watches.insert(*id),
            Record::Lease { id, .. } => leases.insert(*id),
            Record::Watch { session, .. } => processes.insert(session.clone()),
            Record::SessionLease { session, .. } => times.insert(session.clone()),
            _ => true,
        };
        if is_last {
            kept.push(record);
        }
    }
    kept.reverse();
    *records = kept;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_is_said_again_and_again_the_last_word_waits() {
        let lease =
            |session: &str, until_ms| Record::SessionLease { session: session.into(), until_ms: Some(until_ms) };
        let [one, two] = [1, 2].map(TaskId::from_bits);
        let release = |id, lease| Record::Lease { id, lease };
        let mut records = vec![lease("a", 1), release(one, "awaited"), lease("b", 2)];
        records.extend([release(one, "service"), lease("a", 3), release(two, "service"), lease("a", 4)]);
        keep_last_words(&mut records);
        let said: Vec<String> = records
            .iter()
            .map(|record| match record {
                Record::SessionLease { session, until_ms } => format!("{session} {}", until_ms.unwrap_or_default()),
                Record::Lease { id, lease } => format!("{} {lease}", *id == one),
                _ => String::new(),
            })
            .collect();
        assert_eq!(said, ["b 2", "true service", "false service", "a 4"]);
    }
}
