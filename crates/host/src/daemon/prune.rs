//! Letting go of ended tasks: those that somebody names, those that somebody calls old, and the oldest when the limits of
//! the config are passed. Some in each round, so that nobody waits for the deletion of a million folders.

use mio::Token;
use ringback_core::id::TaskId;
use ringback_core::retention::{Ended, Kept, Limits, Rule};
use ringback_sys::process;

use super::error::store_fault;
use super::round::Act;
use super::tell::{Say, Tell};
use super::{Daemon, folder};
use crate::config::Config;
use crate::quantity::millis;
use crate::store::{EndedRow, Record};
use crate::wire::{Fault, Reply};

/// How many tasks go in one round.
const ROUND_MAX: u32 = 64;
/// How many one answer names; who has more asks again.
const NAMED_MAX: usize = 100_000;
/// When the limits are looked at again after nothing could be let go, milliseconds: it takes somebody who reads his inbox.
const LOOK_AGAIN_MS: u64 = 60_000;

/// Everything about letting go.
pub(super) struct Prunes {
    limits: Limits,
    /// What is kept of ended tasks.
    pub kept: Kept,
    /// What was let go since the start.
    pub freed: Kept,
    asked: Vec<Prune>,
    look_at_ms: u64,
}

/// What somebody asked for, and how far it has come.
struct Prune {
    to: Token,
    rule: Rule,
    dry_run: bool,
    /// When the last task that was looked at ended, and its place in the order of asking.
    after: (i64, u64),
    /// How many ended after it.
    newer: u64,
    ids: Vec<String>,
    bytes: u64,
}

impl Prunes {
    /// The limits of this config, and what is there.
    pub(super) fn new(config: &Config, kept: Kept) -> Self {
        let none = |limit: u64| if limit == 0 { u64::MAX } else { limit };
        let limits = Limits {
            count: none(config.keep_tasks),
            bytes: none(config.quota),
            age_ms: config.forget_after.map_or(u64::MAX, millis),
        };
        Self { limits, kept, freed: Kept::default(), asked: Vec::new(), look_at_ms: 0 }
    }

    /// When more is to be let go that nothing else wakes us for.
    pub(super) fn next_due(&self) -> Option<u64> {
        let limits = self.limits.age_ms != u64::MAX || self.limits.are_over(self.kept);
        if self.asked.is_empty() { limits.then_some(self.look_at_ms) } else { Some(0) }
    }

    /// So many notices were heard: what they were about may go now.
    pub(super) fn heard(&mut self, acknowledged: &[u64]) {
        if acknowledged.iter().any(|count| *count > 0) {
            self.look_at_ms = 0;
        }
    }

    /// These are gone.
    pub(super) fn count_gone(&mut self, gone: Kept) {
        self.kept.take(gone);
        self.freed.add(gone);
    }
}

impl Daemon {
    /// Somebody wants to let go of these tasks.
    pub(super) fn ask_remove(&mut self, to: Token, texts: &[String]) -> Result<(), Fault> {
        let (ids, mut faults) = self.resolve_each(texts)?;
        let (mut gone, mut bytes) = (Vec::new(), 0);
        for id in ids {
            if self.lives.contains_key(&id) {
                faults.push(Fault {
                    code: "still_alive".into(),
                    message: format!("cannot remove {id}: it or something it started still lives"),
                    hint: Some(format!("stop it first: `ringback kill {id}`")),
                });
            } else {
                let row = self.store.task(id).map_err(|error| store_fault(&error))?;
                bytes += self.forget(id, row.map_or(0, |row| row.disk_bytes));
                gone.push(id.to_string());
            }
        }
        let removed = Reply::Removed { ids: gone, bytes, faults, more: false };
        self.round.tells.push(Tell { to, say: Say::Changed(removed) });
        Ok(())
    }

    /// Somebody wants to let go of old tasks.
    pub(super) fn ask_prune(&mut self, to: Token, rule: Rule, dry_run: bool) {
        let newer = self.prunes.kept.count;
        let after = (i64::MIN, 0);
        self.prunes.asked.push(Prune { to, rule, dry_run, after, newer, ids: Vec::new(), bytes: 0 });
    }

    /// Lets go of some.
    pub(super) fn prune_some(&mut self, now_ms: u64) {
        if self.round.retry_at_ms.is_some() {
            return;
        }
        if let Some(mut prune) = self.prunes.asked.pop() {
            match self.go_on(&mut prune) {
                Ok(false) => self.prunes.asked.push(prune),
                Ok(true) => {
                    let more = prune.ids.len() >= NAMED_MAX;
                    let Prune { to, ids, bytes, .. } = prune;
                    let removed = Reply::Removed { ids, bytes, faults: Vec::new(), more };
                    self.round.tells.push(Tell { to, say: Say::Changed(removed) });
                }
                Err(fault) => self.round.tells.push(Tell { to: prune.to, say: Say::Reply(Reply::Fault(fault)) }),
            }
            return;
        }
        // What this round removes already is not counted yet.
        if self.round.records.iter().any(|record| matches!(record, Record::Remove { .. })) {
            return;
        }
        let Prunes { limits, kept, look_at_ms, .. } = self.prunes;
        if now_ms >= look_at_ms
            && (limits.are_over(kept) || limits.age_ms != u64::MAX)
            && let Err(fault) = self.enforce(limits, now_ms)
        {
            self.troubles.note("let go of the oldest tasks", &fault.message);
        }
    }

    /// What was asked for cannot be recorded now.
    pub(super) fn fail_prunes(&mut self, fault: &Fault) {
        for prune in std::mem::take(&mut self.prunes.asked) {
            self.round.tells.push(Tell { to: prune.to, say: Say::Reply(Reply::Fault(fault.clone())) });
        }
    }

    /// The next few of what somebody asked for; true when that was all.
    fn go_on(&mut self, prune: &mut Prune) -> Result<bool, Fault> {
        let rows = self.store.oldest(prune.after, ROUND_MAX, false).map_err(|error| store_fault(&error))?;
        let is_last = rows.len() < ROUND_MAX as usize;
        let wall_ms = process::wall_ms();
        for row in rows {
            prune.after = (row.ended_ms, row.seq);
            prune.newer = prune.newer.saturating_sub(1);
            let task = ended(&row, wall_ms);
            if prune.rule.lets_go(&task, prune.newer) {
                prune.bytes += if prune.dry_run {
                    self.bytes_of(row.id, row.disk_bytes)
                } else {
                    self.forget(row.id, row.disk_bytes)
                };
                prune.ids.push(row.id.to_string());
            } else if !prune.rule.goes_on_after(&task, prune.newer) {
                return Ok(true);
            }
        }
        Ok(is_last || prune.ids.len() >= NAMED_MAX)
    }

    /// Lets go of the oldest that were heard, while there is too much.
    fn enforce(&mut self, limits: Limits, now_ms: u64) -> Result<(), Fault> {
        let rows = self.store.oldest((i64::MIN, 0), ROUND_MAX, true).map_err(|error| store_fault(&error))?;
        let (mut kept, wall_ms, mut any) = (self.prunes.kept, process::wall_ms(), false);
        for row in rows {
            if !limits.let_go(&ended(&row, wall_ms), kept) {
                break;
            }
            let bytes = self.forget(row.id, row.disk_bytes);
            kept.take(Kept { count: 1, bytes });
            any = true;
        }
        if !any {
            self.prunes.look_at_ms = now_ms + LOOK_AGAIN_MS;
        }
        Ok(())
    }

    /// Forgets a task whose tree is gone; how many bytes that frees.
    fn forget(&mut self, id: TaskId, disk_bytes: u64) -> u64 {
        let bytes = self.bytes_of(id, disk_bytes);
        self.round.records.push(Record::Remove { id });
        self.round.act(Act::Delete(id, Kept { count: 1, bytes: disk_bytes }));
        bytes
    }

    /// Homes from before this was noted are measured.
    fn bytes_of(&self, id: TaskId, noted: u64) -> u64 {
        if noted == 0 { folder::disk_bytes(&self.dir(id)) } else { noted }
    }
}

fn ended(row: &EndedRow, wall_ms: i64) -> Ended {
    let age_ms = u64::try_from(wall_ms.saturating_sub(row.ended_ms)).unwrap_or(0);
    Ended { age_ms, closed: true, unheard: row.unheard }
}
