//! A daemon of the world: the real board, and around it the order of the real one: record, then act, then tell.
//!
//! It may die at every boundary between two effects. What it does with the board's effects is what
//! `ringback_host::daemon` does with them; what the machine does is the world's.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use ringback_core::board::{Ask, Board, found};
use ringback_core::effect::Effect;
use ringback_core::id::TaskId;
use ringback_core::outcome::{Cause, Evidence, StartError};
use ringback_core::task::{Input, Sight, Stop};

use crate::chance::Chance;
use crate::machine::Machine;
use crate::store::{Record, Store};

/// The daemon is dead.
pub(crate) struct Died;

/// What it reaches beyond itself.
pub(crate) struct Outside<'a> {
    pub(crate) store: &'a mut Store,
    pub(crate) machine: &'a mut Machine,
    pub(crate) chance: &'a mut Chance,
    /// Once in how many boundaries it dies; 0 is never.
    pub(crate) deadly: usize,
    /// What clients were told.
    pub(crate) told: &'a mut Vec<Word>,
}

impl Outside<'_> {
    /// A named point in the real daemon.
    fn boundary(&mut self) -> Result<(), Died> {
        if self.deadly > 0 && self.chance.once_in(self.deadly) { Err(Died) } else { Ok(()) }
    }
}

/// One answer.
#[derive(Clone, Debug)]
pub(crate) enum Word {
    /// This task exists now.
    Begun(TaskId),
    /// What this waiter waited for has come.
    Came(usize),
    /// These are unheard; all up to `acked` count as heard.
    Inbox { session: String, acked: u64, notices: Vec<(u64, TaskId)> },
    /// That the ending of this task was shown was noted.
    Heard(TaskId),
}

/// How far a waiter waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    Ended,
    Gone,
}

#[derive(Default)]
struct Live {
    stop: Option<Stop>,
    told: bool,
    held: bool,
    takeovers: u32,
    witness: Option<i32>,
}

enum Act {
    Launch(TaskId),
    TakeOver(TaskId),
    Press(TaskId, Stop),
}

enum Say {
    Begun(TaskId),
    Inbox { session: String, acked: u64 },
    Heard(TaskId),
}

pub(crate) struct Daemon {
    pub(crate) board: Board,
    lives: BTreeMap<TaskId, Live>,
    asks: BTreeMap<TaskId, Ask>,
    looks: BTreeMap<TaskId, bool>,
    records: Vec<Record>,
    acts: Vec<Act>,
    says: Vec<Say>,
    concluded: Vec<TaskId>,
    closed: Vec<TaskId>,
    /// Who waits: waiter, task, how far.
    waits: Vec<(usize, TaskId, Until)>,
    ready: BTreeSet<usize>,
    /// A commit failed and waits to be tried again.
    retries: bool,
    takeovers: BTreeSet<TaskId>,
}

impl Daemon {
    /// A new daemon takes up what the store has not closed.
    pub(crate) fn start(busy_max: usize, out: &mut Outside<'_>) -> Result<Self, Died> {
        let mut daemon = Self {
            board: Board::new(busy_max),
            lives: BTreeMap::new(),
            asks: BTreeMap::new(),
            looks: BTreeMap::new(),
            records: Vec::new(),
            acts: Vec::new(),
            says: Vec::new(),
            concluded: Vec::new(),
            closed: Vec::new(),
            waits: Vec::new(),
            ready: BTreeSet::new(),
            retries: false,
            takeovers: BTreeSet::new(),
        };
        out.machine.watched = true;
        out.boundary()?;
        let rows: Vec<TaskId> = out.store.rows.iter().filter(|(_, row)| row.live).map(|(id, _)| *id).collect();
        for id in rows {
            daemon.adopt(id, out);
        }
        let effects = daemon.board.open_for_business();
        daemon.apply(effects);
        daemon.close_round(out)?;
        out.boundary()?;
        if !daemon.retries && !out.machine.full {
            out.store.boot = out.machine.boot;
        }
        out.boundary()?;
        Ok(daemon)
    }

    fn adopt(&mut self, id: TaskId, out: &mut Outside<'_>) {
        let row = out.store.rows[&id].clone();
        let ended = row.outcome.is_some();
        self.lives.insert(id, Live { stop: row.stop.clone(), told: ended, ..Live::default() });
        let job = out.machine.jobs[&id].clone();
        let has_record = job.record.is_some();
        let lives = has_record && job.is_kept();
        let seen = self.look(id, out);
        let same_boot = match &seen {
            Some(Sight::New) | None => out.store.boot == out.machine.boot,
            Some(_) => job.boot == out.machine.boot,
        };
        if lives {
            self.live(id).held = true;
        }
        // A folder that lost its record has one that cannot be read; one that never had one was never started.
        let damaged = !has_record && (job.starts > 0 || job.harmed);
        let input = found(same_boot, lives, has_record || damaged, seen);
        let takes_stop = !ended && !matches!(input, Input::KeeperGone(Sight::Closed(_)) | Input::Rebooted(_));
        let effects = self.board.adopt(id, row.ask, ended, input);
        self.apply(effects);
        if let Some(stop) = row.stop.filter(|_| takes_stop && self.board.get(id).is_some()) {
            let effects = self.board.step(id, Input::StopAsked(stop));
            self.apply(effects);
        }
    }

    fn live(&mut self, id: TaskId) -> &mut Live {
        self.lives.get_mut(&id).expect("a task that is not closed")
    }

    fn look(&mut self, id: TaskId, out: &mut Outside<'_>) -> Option<Sight> {
        let witness = self.lives.get(&id).and_then(|live| live.witness);
        let with = |evidence: Evidence| Evidence { status: evidence.status.or(witness), ..evidence };
        match out.machine.job(id).record.clone()? {
            Sight::Ended(evidence) => Some(Sight::Ended(with(evidence))),
            Sight::Closed(evidence) => Some(Sight::Closed(with(evidence))),
            other => Some(other),
        }
    }

    /// A client asks for a task. False if there is no room for its folder.
    pub(crate) fn ask(&mut self, id: TaskId, ask: &Ask, out: &mut Outside<'_>) -> Result<Option<TaskId>, Died> {
        let replaced = self
            .board
            .entries()
            .filter(|(_, entry)| ask.key.is_some() && entry.ask.key == ask.key && entry.ask.session == ask.session);
        let replaced = replaced.filter(|(_, entry)| !entry.state.has_ended()).map(|(id, _)| id).max();
        if self.board.would_insert(ask) {
            if out.machine.full {
                out.machine.jobs.remove(&id);
                return Ok(None);
            }
            out.boundary()?;
            self.lives.insert(id, Live::default());
            self.asks.insert(id, ask.clone());
        } else {
            out.machine.jobs.remove(&id);
        }
        let effects = self.board.ask(id, ask.clone(), "client");
        if effects.iter().any(|effect| matches!(effect, Effect::Insert { .. })) {
            self.says.push(Say::Begun(id));
        }
        self.apply(effects);
        Ok(replaced.filter(|_| ask.if_running == ringback_core::spec::IfRunning::Replace))
    }

    pub(crate) fn stop(&mut self, id: TaskId) {
        let stop = Stop { cause: Cause::Request, by: Some("client".into()), grace_ms: None };
        let effects = self.board.step(id, Input::StopAsked(stop));
        self.apply(effects);
    }

    pub(crate) fn end_session(&mut self, session: &str) {
        let effects = self.board.end_session(session, Some("client"));
        self.apply(effects);
    }

    pub(crate) fn release(&mut self, id: TaskId) {
        let effects = self.board.release(id);
        self.apply(effects);
    }

    pub(crate) fn inbox(&mut self, session: &str, acked: u64) {
        self.records.push(Record::AckUpTo { session: session.into(), seq: acked });
        self.says.push(Say::Inbox { session: session.into(), acked });
    }

    pub(crate) fn heard(&mut self, session: &str, id: TaskId) {
        self.records.push(Record::AckTask { session: session.into(), id });
        self.says.push(Say::Heard(id));
    }

    pub(crate) fn wait(&mut self, waiter: usize, id: TaskId, until: Until) {
        let came = match (self.lives.get(&id), until) {
            (None, _) => true,
            (Some(live), Until::Ended) => live.told,
            (Some(_), Until::Gone) => false,
        };
        if came {
            self.ready.insert(waiter);
        } else {
            self.waits.push((waiter, id, until));
        }
    }

    /// Hints, and the ends of keepers and of orphans.
    pub(crate) fn take_news(&mut self, out: &mut Outside<'_>) {
        for (id, status) in mem::take(&mut out.machine.orphans) {
            if let Some(live) = self.lives.get_mut(&id) {
                live.witness = Some(status);
                out.machine.job(id).witnessed = Some(status);
            }
        }
        for id in mem::take(&mut out.machine.news) {
            self.looks.entry(id).or_insert(false);
        }
        for id in mem::take(&mut out.machine.gone) {
            self.looks.insert(id, true);
        }
    }

    /// Time has passed: what failed is tried again.
    pub(crate) fn take_time(&mut self, out: &mut Outside<'_>) -> Result<(), Died> {
        for id in mem::take(&mut self.takeovers) {
            self.take_over_now(id, out)?;
        }
        Ok(())
    }

    pub(crate) fn close_round(&mut self, out: &mut Outside<'_>) -> Result<(), Died> {
        self.look_at_records(out);
        let (concluded, closed) = (mem::take(&mut self.concluded), mem::take(&mut self.closed));
        if !self.records.is_empty() {
            out.boundary()?;
            self.record_all(out);
            out.boundary()?;
        }
        self.say_all(out, |say| matches!(say, Say::Begun(_)))?;
        for act in mem::take(&mut self.acts) {
            out.boundary()?;
            match act {
                Act::Launch(id) => self.launch(id, out)?,
                Act::TakeOver(id) => self.take_over(id, out)?,
                Act::Press(id, stop) => self.press(id, stop, out)?,
            }
            out.boundary()?;
        }
        self.announce(concluded, closed, out);
        for waiter in mem::take(&mut self.ready) {
            out.boundary()?;
            out.told.push(Word::Came(waiter));
        }
        self.say_all(out, |_| true)
    }

    /// Whether it has anything left to do by itself.
    pub(crate) fn is_idle(&self) -> bool {
        self.looks.is_empty() && self.records.is_empty() && self.takeovers.is_empty() && self.acts.is_empty()
    }

    /// The board and what is held of its tasks are one.
    pub(crate) fn check(&self, busy_max: usize) {
        let (mut busy, mut waiting) = (0, 0);
        for (id, entry) in self.board.entries() {
            assert!(self.lives.contains_key(&id), "{id} is on the board and nobody holds it");
            match entry.state {
                ringback_core::task::State::Starting { .. } | ringback_core::task::State::Running { .. } => busy += 1,
                ringback_core::task::State::Queued { .. } => waiting += 1,
                ringback_core::task::State::Open => {}
                ringback_core::task::State::Closed => panic!("{id} is closed and on the board"),
            }
        }
        assert_eq!((self.board.busy(), self.board.waiting()), (busy, waiting), "the board has miscounted");
        assert!(busy <= busy_max, "{busy} run, at most {busy_max}");
    }

    fn record_all(&mut self, out: &mut Outside<'_>) {
        let records = mem::take(&mut self.records);
        if !out.machine.full {
            self.retries = false;
            out.store.write(records);
            out.store.boot = out.machine.boot;
            return;
        }
        for record in records {
            match record {
                Record::Insert { id, .. } => self.uninsert(id, out),
                // Nor is a task stopped, now or by a later daemon, for one that never was.
                Record::Stop { id, stop } if stop.cause == Cause::Replaced => {
                    if let Some(live) = self.lives.get_mut(&id) {
                        live.stop = None;
                    }
                }
                Record::Conclude { .. } | Record::Close { .. } | Record::Stop { .. } | Record::Lease { .. } => {
                    self.records.push(record);
                }
                Record::AckUpTo { .. } | Record::AckTask { .. } => {}
            }
        }
        self.retries = !self.records.is_empty();
        self.says.retain(|say| matches!(say, Say::Inbox { .. }));
        for say in &mut self.says {
            // What was not recorded was not heard.
            let Say::Inbox { acked, .. } = say else { continue };
            *acked = 0;
        }
    }

    fn uninsert(&mut self, id: TaskId, out: &mut Outside<'_>) {
        self.lives.remove(&id);
        self.acts.retain(|act| match act {
            Act::Launch(other) => *other != id,
            Act::Press(_, stop) => stop.cause != Cause::Replaced,
            Act::TakeOver(_) => true,
        });
        out.machine.jobs.remove(&id);
        let effects = self.board.forget(id);
        self.apply(effects);
        // Who asked for its end in the same round does not wait for what never was.
        self.came(id, Until::Ended);
        self.came(id, Until::Gone);
    }

    fn say_all(&mut self, out: &mut Outside<'_>, ripe: fn(&Say) -> bool) -> Result<(), Died> {
        let (now, later) = mem::take(&mut self.says).into_iter().partition(ripe);
        self.says = later;
        let now: Vec<Say> = now;
        for say in now {
            out.boundary()?;
            out.told.push(match say {
                Say::Begun(id) => Word::Begun(id),
                Say::Heard(id) => Word::Heard(id),
                Say::Inbox { session, acked } => {
                    let limit = 1 + out.chance.below(4);
                    let unheard = out.store.inboxes.entry(session.clone()).or_default().unheard.iter();
                    let notices = unheard.take(limit).map(|(seq, id)| (*seq, *id)).collect();
                    Word::Inbox { session, acked, notices }
                }
            });
            out.boundary()?;
        }
        Ok(())
    }

    fn apply(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Insert { id } => {
                    let ask = self.asks.remove(&id).expect("a task that was asked for");
                    self.records.push(Record::Insert { id, ask });
                }
                Effect::Conclude { id, outcome } => {
                    self.records.push(Record::Conclude { id, outcome });
                    self.concluded.push(id);
                }
                Effect::Close { id } => {
                    self.records.push(Record::Close { id });
                    self.closed.push(id);
                }
                Effect::Release { id } => self.records.push(Record::Lease { id }),
                Effect::Press { id, stop } => {
                    if let Some(live) = self.lives.get_mut(&id).filter(|live| live.stop.is_none()) {
                        live.stop = Some(stop.clone());
                        self.records.push(Record::Stop { id, stop: stop.clone() });
                    }
                    self.acts.push(Act::Press(id, stop));
                }
                Effect::Launch { id } => self.acts.push(Act::Launch(id)),
                Effect::TakeOver { id } => self.acts.push(Act::TakeOver(id)),
                Effect::Reuse { .. } | Effect::Refuse { .. } => {}
            }
        }
    }

    fn look_at_records(&mut self, out: &mut Outside<'_>) {
        for (id, gone) in mem::take(&mut self.looks) {
            if !self.lives.contains_key(&id) {
                continue;
            }
            if gone {
                self.live(id).held = false;
            }
            let keeper = out.machine.job(id).is_kept();
            let gone = gone && !keeper;
            let sight = self.look(id, out);
            let live = self.live(id);
            live.held |= keeper;
            if !gone {
                live.takeovers = 0;
            }
            let input = match (sight, gone) {
                (Some(sight), true) => Input::KeeperGone(sight),
                (Some(sight), false) => Input::Saw(sight),
                (None, true) => found(true, false, true, None),
                (None, false) => continue,
            };
            let effects = self.board.step(id, input);
            self.apply(effects);
        }
    }

    fn launch(&mut self, id: TaskId, out: &mut Outside<'_>) -> Result<(), Died> {
        let full = out.machine.full;
        let boot = out.machine.boot;
        let job = out.machine.job(id);
        if job.record.is_none() && !full {
            (job.record, job.boot) = (Some(Sight::New), boot);
        }
        let there = job.record.is_some();
        out.boundary()?;
        if there && out.machine.launch(id, false) {
            self.live(id).held = true;
        } else {
            let effects = self.board.step(id, Input::LaunchFailed { why: StartError::Resources, errno: 11 });
            self.apply(effects);
        }
        Ok(())
    }

    fn take_over(&mut self, id: TaskId, out: &mut Outside<'_>) -> Result<(), Died> {
        let Some(live) = self.lives.get_mut(&id) else { return Ok(()) };
        live.takeovers += 1;
        if live.takeovers > 1 {
            self.takeovers.insert(id);
            return Ok(());
        }
        self.take_over_now(id, out)
    }

    fn take_over_now(&mut self, id: TaskId, out: &mut Outside<'_>) -> Result<(), Died> {
        if !self.lives.contains_key(&id) {
            return Ok(());
        }
        out.boundary()?;
        let boot = out.machine.boot;
        let job = out.machine.job(id);
        if job.record.is_none() {
            job.record = Some(Sight::Ended(Evidence { status: None, cause: None, oom: false }));
            job.boot = boot;
        }
        if out.machine.launch(id, true) {
            self.live(id).held = true;
        } else {
            self.takeovers.insert(id);
        }
        Ok(())
    }

    fn press(&mut self, id: TaskId, stop: Stop, out: &mut Outside<'_>) -> Result<(), Died> {
        if stop.cause == Cause::Replaced {
            let effects = self.board.hand_on(id, &stop);
            self.apply(effects);
            if self.board.get(id).is_none() {
                return Ok(());
            }
        }
        if let Some(job) = out.machine.jobs.get_mut(&id) {
            job.requests.push(stop);
        }
        out.boundary()?;
        if self.takeovers.remove(&id) {
            self.take_over_now(id, out)?;
        }
        Ok(())
    }

    /// Only what was recorded is told; what an act of this round has led to comes with the next one.
    fn announce(&mut self, concluded: Vec<TaskId>, closed: Vec<TaskId>, out: &mut Outside<'_>) {
        if self.retries {
            // A keeper's record says it too, and outlasts us; that a task was taken out of the line stands nowhere yet.
            let over =
                |id: &&TaskId| out.machine.jobs.get(id).is_some_and(|job| matches!(job.record, Some(Sight::Closed(_))));
            for id in closed.iter().filter(over) {
                self.came(*id, Until::Gone);
            }
            self.concluded.extend(concluded);
            return self.closed.extend(closed);
        }
        for id in concluded {
            if let Some(live) = self.lives.get_mut(&id) {
                live.told = true;
            }
            self.came(id, Until::Ended);
        }
        for id in closed {
            self.lives.remove(&id);
            self.takeovers.remove(&id);
            self.came(id, Until::Gone);
        }
    }

    fn came(&mut self, id: TaskId, so_far: Until) {
        let ready = self.waits.iter().filter(|(_, task, until)| *task == id && *until == so_far);
        self.ready.extend(ready.map(|(waiter, _, _)| *waiter));
        self.waits.retain(|(_, task, until)| *task != id || *until != so_far);
    }
}
