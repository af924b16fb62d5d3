//! One round of the loop: what was decided, in the order it is performed. Record, then act, then tell.

use std::collections::BTreeMap;
use std::mem;

use mio::Token;
use ringback_core::effect::Effect;
use ringback_core::id::TaskId;
use ringback_core::notice::{self, Kind};
use ringback_core::outcome::Outcome;
use ringback_core::retention::Kept;
use ringback_core::task::Stop;
use ringback_sys::form::record::Witness;
use ringback_sys::form::request::Request;
use ringback_sys::{process, signals};

use super::crash::crash_point;
use super::hold_back;
use super::live::Pipes;
use super::tell::{Say, Tell};
use super::{Daemon, sight, view};
use crate::quantity::duration_text;
use crate::store::{OutboxRow, Record, StoredStop};
use crate::wire::{Fault, Reply};

/// What is to be performed.
#[derive(Default)]
pub(super) struct Round {
    looks: BTreeMap<TaskId, bool>,
    /// Not yet written to the home: that what it holds is of this boot.
    pub boot_to_note: Option<[u8; 16]>,
    /// To be written, all or nothing.
    pub records: Vec<Record>,
    /// To be done once it is written.
    pub acts: Vec<Act>,
    /// To be answered once it is written.
    pub tells: Vec<Tell>,
    sighted: Vec<(TaskId, Kind)>,
    /// Tasks that have their outcome, until that was told.
    pub concluded: Vec<TaskId>,
    /// Tasks whose tree is gone, until they are let go.
    pub closed: Vec<TaskId>,
    /// When a failed commit is tried again.
    pub retry_at_ms: Option<u64>,
    /// Why the last commit failed.
    pub fault: Option<Fault>,
    /// What was acknowledged is not on the disk yet.
    pub unsynced: bool,
    hurried: bool,
    resumed: Vec<Token>,
    acknowledged: Vec<u64>,
}

/// What is done between recording and telling.
pub(super) enum Act {
    /// Launch a keeper that starts the command.
    Launch(TaskId),
    /// Launch a keeper that starts nothing.
    TakeOver(TaskId),
    /// Hand a stop to the keeper.
    Press(TaskId, Stop),
    /// Ask the keeper for something else.
    Request(TaskId, Request),
    /// Delete the folder of a task that needs none any more, and count what is gone.
    Delete(TaskId, Kept),
    /// Delete the temporary files of a task whose tree is gone.
    Tidy(TaskId),
    /// Send a notice to a sink.
    Deliver(Box<OutboxRow>),
    /// Have the report files of an ended task read.
    Collect(TaskId),
}

impl Round {
    /// A record has to be looked at.
    pub(super) fn news(&mut self, id: TaskId) {
        self.looks.entry(id).or_insert(false);
    }

    /// A record has to be looked at, and nobody will write it any more.
    pub(super) fn keeper_gone(&mut self, id: TaskId) {
        self.looks.insert(id, true);
    }

    /// The records to look at, and whether their keeper is gone.
    pub(super) fn take_looks(&mut self) -> BTreeMap<TaskId, bool> {
        mem::take(&mut self.looks)
    }

    /// Something is to be done that nothing outside will wake us for.
    pub(super) fn is_urgent(&self) -> bool {
        self.hurried || !self.looks.is_empty() || !self.resumed.is_empty()
    }

    /// A client was answered and has asked for more already.
    pub(super) fn resume(&mut self, client: Token) {
        self.resumed.push(client);
    }

    /// Clients whose next call is to be read.
    pub(super) fn take_resumed(&mut self) -> Vec<Token> {
        mem::take(&mut self.resumed)
    }

    /// An act had a consequence that has to be recorded: another round follows at once.
    pub(super) fn hurry(&mut self) {
        self.hurried = true;
    }

    /// When a failed commit is tried again, by the monotonic clock.
    pub(super) fn retry_at_ms(&self) -> Option<u64> {
        self.retry_at_ms
    }

    /// How many `Ack` records this round has so far.
    pub(super) fn acks_so_far(&self) -> usize {
        self.records.iter().filter(|record| matches!(record, Record::Ack { .. })).count()
    }

    /// How many notices `count` of them acknowledged, from the `first` on.
    pub(super) fn acknowledged(&self, first: usize, count: usize) -> u64 {
        self.acknowledged.iter().skip(first).take(count).sum()
    }

    /// A notice of a running task is among the records.
    pub(super) fn sighted(&mut self, id: TaskId, kind: Kind) {
        self.sighted.push((id, kind));
    }

    /// An act for after the record.
    pub(super) fn act(&mut self, act: Act) {
        self.acts.push(act);
    }
}

impl Daemon {
    /// Performs what this round decided.
    pub(super) fn close_round(&mut self) {
        self.round.hurried = false;
        self.look_at_records();
        if !self.round.records.is_empty() {
            crash_point("daemon.before-record");
            self.record_all();
            crash_point("daemon.after-record");
        }
        // An id may be told as soon as it is recorded; what follows from it need not be waited for.
        self.tell_all(Say::is_true_once_recorded);
        let (concluded, closed) = (mem::take(&mut self.round.concluded), mem::take(&mut self.round.closed));
        for act in mem::take(&mut self.round.acts) {
            match act {
                Act::Launch(id) => self.launch(id),
                Act::TakeOver(id) => self.take_over(id),
                Act::Press(id, stop) => self.press(id, &stop),
                Act::Request(id, request) => self.request(id, &request),
                Act::Delete(id, gone) => {
                    self.delete(id);
                    self.prunes.count_gone(gone);
                }
                Act::Tidy(id) => self.tidy(id),
                Act::Deliver(row) => self.deliver(&row),
                Act::Collect(id) => self.collect(id),
            }
        }
        self.refresh_outbox();
        // What an act has led to is recorded with the next round, and told after that.
        let concluded = mem::replace(&mut self.round.concluded, concluded);
        let closed = mem::replace(&mut self.round.closed, closed);
        self.announce();
        self.round.concluded.extend(concluded);
        self.round.closed.extend(closed);
        self.tell_changes();
        self.tell_all(|_| true);
        self.drop_closed_connections();
        self.sync_acknowledged();
    }

    /// Those who acknowledged were told, once no kill could undo it; now no power cut can either.
    fn sync_acknowledged(&mut self) {
        if mem::take(&mut self.round.unsynced)
            && let Err(error) = self.store.sync()
        {
            self.troubles.note("sync what was acknowledged", &error);
        }
    }

    fn tell_all(&mut self, ripe: fn(&Say) -> bool) {
        let (now, later) = mem::take(&mut self.round.tells).into_iter().partition(|tell| ripe(&tell.say));
        self.round.tells = later;
        let now: Vec<Tell> = now;
        if !now.is_empty() {
            crash_point("daemon.before-tell");
        }
        for tell in now {
            self.tell(tell);
        }
        if self.connections.flush_all() {
            crash_point("daemon.after-tell");
        }
    }

    fn tell_changes(&mut self) {
        let (clients, at) = self.changes.take();
        for to in clients {
            self.reply(to, Ok(Reply::Changed { at }));
        }
    }

    fn record_all(&mut self) {
        let records = mem::take(&mut self.round.records);
        match self.write(&records) {
            Ok(acknowledged) => {
                self.changes.note();
                self.round.retry_at_ms = None;
                self.prunes.heard(&acknowledged);
                self.round.acknowledged = acknowledged;
                for id in &self.round.concluded {
                    if let Some(live) = self.lives.get_mut(id) {
                        live.told = true;
                    }
                }
            }
            Err(error) => self.keep_unwritten(records, &error),
        }
    }

    /// What the board decided, sorted into what is recorded, done and told.
    pub(super) fn apply(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Insert { id } => self.insert(id),
                Effect::Conclude { id, outcome } => self.conclude(id, &outcome),
                Effect::Close { id } => self.close(id),
                Effect::Release { id } => self.release(id),
                Effect::Press { id, stop } => self.note_stop(id, stop),
                Effect::Launch { id } => self.round.acts.push(Act::Launch(id)),
                Effect::TakeOver { id } => self.round.acts.push(Act::TakeOver(id)),
                // Answered by who asked: see `ask`.
                Effect::Reuse { .. } | Effect::Refuse { .. } => {}
            }
        }
    }

    fn insert(&mut self, id: TaskId) {
        let Some(live) = self.lives.get(&id) else { return };
        self.round.records.push(Record::Insert {
            id,
            session: live.row.session.clone(),
            lease: live.ask().lease.word(),
            created_ms: live.row.created_ms,
            asked: Box::new(live.row.asked.clone()),
        });
    }

    fn conclude(&mut self, id: TaskId, outcome: &Outcome) {
        let (dir, record) = (self.dir(id), self.record(id));
        // What was seen of it before its end is told before its end.
        let unsearched = self.end_watch(id, record.as_ref());
        self.end_reports(id);
        let at_ms = process::wall_ms();
        let mut facts = sight::facts(&dir, record.as_ref(), outcome);
        self.inherited.weigh(id, &mut facts);
        facts.ended_ms = facts.ended_ms.or(Some(at_ms));
        let Some(live) = self.lives.get_mut(&id) else { return };
        facts.output_complete &= live.pipes != Pipes::Lost;
        let session = live.row.session.clone();
        let mut text = notice_text(live, outcome, &facts, &dir);
        text += &unsearched
            .map(|(from, to)| {
                format!("\nbytes {from}-{} came too fast to be searched for what was watched", to.saturating_sub(1))
            })
            .unwrap_or_default();
        let started = facts.started_ms.is_some();
        live.row.facts = Some(facts.clone());
        self.usual.ended(&live.row);
        self.round.records.push(Record::Conclude { id, session: session.clone(), facts: Box::new(facts), at_ms, text });
        self.claim_ending(id, at_ms);
        self.post(id, &session, Kind::ToolResult);
        self.round.concluded.push(id);
        if started {
            self.round.act(Act::Collect(id));
        }
    }

    fn close(&mut self, id: TaskId) {
        let (dir, record) = (self.dir(id), self.record(id));
        let Some(live) = self.lives.get_mut(&id) else { return };
        let mut changed = None;
        if let (Some(facts), Some(record)) = (&mut live.row.facts, &record) {
            let before = facts.clone();
            sight::refresh(facts, &dir, record);
            self.inherited.weigh(id, facts);
            // Who took over from a dead keeper knows the tree by its cgroup, or else by marks that can be shed.
            let is_seen = record.witness == Witness::Parent || self.cgroups.is_ok() || self.inherited.has_all(id);
            facts.unseen = facts.started_ms.is_some() && facts.receipt.is_none() && !is_seen;
            facts.output_complete &= live.pipes != Pipes::Lost;
            changed = (*facts != before).then(|| Box::new(facts.clone()));
        }
        live.row.disk_bytes = super::folder::ended_bytes(&dir, live.row.asked.split);
        let disk_bytes = live.row.disk_bytes;
        if hold_back::is_sandboxed(&live.row.asked) {
            self.round.acts.push(Act::Tidy(id));
        }
        self.round.records.push(Record::Close { id, facts: changed, disk_bytes });
        self.round.closed.push(id);
    }

    fn release(&mut self, id: TaskId) {
        let Some(live) = self.lives.get_mut(&id) else { return };
        let lease = ringback_core::spec::Lease::Service.word();
        lease.clone_into(&mut live.row.lease);
        self.watches.release(id);
        self.round.records.push(Record::Lease { id, lease });
    }

    /// The first stop is recorded, so that a new daemon can hand it on; each is handed to the keeper.
    fn note_stop(&mut self, id: TaskId, stop: Stop) {
        if let Some(live) = self.lives.get_mut(&id).filter(|live| live.row.stop.is_none()) {
            let stored = StoredStop::from(&stop);
            live.row.stop = Some(stored.clone());
            self.round.records.push(Record::Stop { id, stop: stored });
        }
        self.round.acts.push(Act::Press(id, stop));
    }

    /// What was recorded may be told, and what is closed may be let go.
    fn announce(&mut self) {
        if self.round.retry_at_ms.is_some() {
            self.announce_unwritten();
        } else {
            self.announce_recorded();
        }
        for key in self.waits.take_ready() {
            self.answer_wait(key);
        }
    }

    fn announce_recorded(&mut self) {
        for (id, kind) in mem::take(&mut self.round.sighted) {
            if let Some(live) = self.lives.get(&id) {
                self.waits.heard_of(&live.row.session);
                self.waits.saw(id, kind);
            }
        }
        for id in mem::take(&mut self.round.concluded) {
            if let Some(live) = self.lives.get(&id) {
                let session = live.row.session.clone();
                self.end_feeds_of(id);
                self.waits.ended(id);
                self.waits.heard_of(&session);
            }
        }
        for id in mem::take(&mut self.round.closed) {
            let bytes = self.lives.get(&id).map_or(0, |live| live.row.disk_bytes);
            self.drop_live(id);
            self.prunes.kept.add(Kept { count: 1, bytes });
            self.plan_packing_of_new();
            self.inherited.forget(id);
            self.waits.ended(id);
            self.waits.gone(id);
        }
    }
}

/// What a session reads: the verdict from the outcome, then the quoted end of the output.
fn notice_text(
    live: &super::live::Live,
    outcome: &Outcome,
    facts: &crate::store::Facts,
    dir: &std::path::Path,
) -> String {
    let took = facts.duration_ms.map(|ms| format!(" · {}", duration_text(ms))).unwrap_or_default();
    let name = live.row.asked.name.as_ref().map(|name| format!(" · {name}")).unwrap_or_default();
    let verdict = notice::verdict(outcome, signals::name);
    let display = view::display(&live.row.asked.command);
    let left = match facts.leftovers.len() {
        0 => String::new(),
        n => format!(
            "\n{n} left running: {}",
            facts.leftovers.iter().map(|l| l.pid.to_string()).collect::<Vec<_>>().join(" ")
        ),
    };
    let tail = super::folder::tail(dir, facts.output_bytes, notice::TAIL_BYTES_MAX);
    let (quoted, stands_for) = notice::quote_end(&tail, notice::TAIL_BYTES_MAX);
    let id = live.row.id;
    let cut = match facts.output_bytes.saturating_sub(stands_for as u64) {
        0 => String::new(),
        to => format!("\nbytes 0-{to} of the output left out here: ringback logs {id}"),
    };
    format!("{verdict}{took}{name} · {display} · id {id}{left}{cut}{quoted}")
}
