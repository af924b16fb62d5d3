//! One world: sessions, clients and readers around a daemon that dies, on a machine that fails. Each step is chosen by
//! chance, and after each step every promise is looked at.

use std::collections::{BTreeMap, BTreeSet};

use ringback_core::board::Ask;
use ringback_core::id::TaskId;
use ringback_core::outcome::{LostWhy, Outcome, WaitStatus};
use ringback_core::spec::{IfRunning, Lease};

use crate::chance::Chance;
use crate::daemon::{Daemon, Died, Outside, Until, Word};
use crate::machine::{Job, Keeper, Machine, Main, Plan};
use crate::store::Store;

/// Steps of a world before it is let run out.
const STEPS: u64 = 300;
/// More live tasks than this add nothing but time.
const LIVE_MAX: usize = 10;
const SESSIONS: [&str; 3] = ["a", "b", "c"];
const KEYS: [&str; 2] = ["build", "serve"];

/// A client that waits, and asks again when the daemon that it asked is dead.
struct Waiter {
    id: TaskId,
    until: Until,
    /// The owner of the task, for whom an answer is a hearing.
    owner: bool,
    asked: bool,
    answered: bool,
}

/// The reader of a session.
#[derive(Default)]
struct Reader {
    /// Up to where it has read and acted.
    cursor: u64,
    /// Up to where it knows that its acknowledgement was recorded.
    acked: u64,
    asked: bool,
    /// What it has acted on, by task: the number.
    acted: BTreeMap<TaskId, u64>,
}

pub(crate) struct World {
    chance: Chance,
    store: Store,
    machine: Machine,
    daemon: Option<Daemon>,
    busy_max: usize,
    /// Once in how many boundaries a daemon dies; a world in which that is 0 has none that dies of itself.
    deadly: usize,
    told: Vec<Word>,
    next_id: u64,
    /// Tasks that a client was told of.
    begun: BTreeSet<TaskId>,
    /// Tasks that somebody wanted to end.
    unwanted: BTreeSet<TaskId>,
    /// By the task that replaces: the one that has to be gone first.
    replaces: BTreeMap<TaskId, TaskId>,
    waiters: Vec<Waiter>,
    readers: BTreeMap<&'static str, Reader>,
    /// Tasks whose ending was shown to their owner, as the store knows.
    heard: BTreeSet<TaskId>,
    judged: BTreeSet<TaskId>,
    pub(crate) steps: u64,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let busy_max = 1 + chance.below(5);
        let deadly = chance.pick(&[0, 12, 40, 150]).unwrap_or(0);
        Self {
            chance,
            store: Store::default(),
            machine: Machine::default(),
            daemon: None,
            busy_max,
            deadly,
            told: Vec::new(),
            next_id: 0,
            begun: BTreeSet::new(),
            unwanted: BTreeSet::new(),
            replaces: BTreeMap::new(),
            waiters: Vec::new(),
            readers: SESSIONS.iter().map(|name| (*name, Reader::default())).collect(),
            heard: BTreeSet::new(),
            judged: BTreeSet::new(),
            steps: 0,
        }
    }

    /// Lives through one world to its end.
    pub(crate) fn live_through(&mut self) {
        for _ in 0..STEPS {
            self.step();
        }
        self.run_out();
        self.check_all_over();
    }

    fn step(&mut self) {
        self.steps += 1;
        match self.chance.below(100) {
            0..12 => self.ask_task(),
            12..17 => self.ask_stop(),
            17..19 => self.ask_session_end(),
            19..21 => self.ask_release(),
            21..28 => self.ask_wait(),
            28..38 => self.read_inbox(),
            38..80 => self.let_machine_act(),
            80..84 => self.kill_something(),
            84..86 => self.kill_daemon(),
            86..90 => self.machine.full = !self.machine.full && self.chance.once_in(2),
            90..93 => self.machine.exhausted = !self.machine.exhausted && self.chance.once_in(2),
            93..99 => self.let_time_pass(),
            _ => self.reboot(),
        }
        // Several things may come before the daemon gets to it.
        if !self.chance.once_in(4) {
            self.turn_the_loop();
        }
        self.check();
    }

    /// A client finds a daemon or starts one; that one may die of its first steps.
    fn find_daemon(&mut self) -> bool {
        if self.daemon.is_none() {
            let busy_max = self.busy_max;
            let started = self.with_outside(|_, out| Daemon::start(busy_max, out).map(Some));
            if let Some(daemon) = started.flatten() {
                self.daemon = Some(daemon);
            }
        }
        self.hear();
        self.daemon.is_some()
    }

    /// Does something in which the daemon may die.
    fn with_outside<T>(
        &mut self,
        act: impl FnOnce(&mut Option<Daemon>, &mut Outside<'_>) -> Result<T, Died>,
    ) -> Option<T> {
        let mut out = Outside {
            store: &mut self.store,
            machine: &mut self.machine,
            chance: &mut self.chance,
            deadly: self.deadly,
            told: &mut self.told,
        };
        if let Ok(value) = act(&mut self.daemon, &mut out) {
            return Some(value);
        }
        self.bury_daemon();
        None
    }

    fn bury_daemon(&mut self) {
        self.daemon = None;
        self.machine.forget_hints();
        for waiter in &mut self.waiters {
            waiter.asked = false;
        }
        for reader in self.readers.values_mut() {
            reader.asked = false;
        }
    }

    fn turn_the_loop(&mut self) {
        self.with_outside(|daemon, out| {
            let Some(daemon) = daemon else { return Ok(()) };
            daemon.take_news(out);
            daemon.close_round(out)
        });
        self.hear();
    }

    fn let_time_pass(&mut self) {
        self.with_outside(|daemon, out| {
            let Some(daemon) = daemon else { return Ok(()) };
            daemon.take_time(out)
        });
    }

    /// One of the tasks that the store has not closed.
    fn some_task(&mut self) -> Option<TaskId> {
        let live: Vec<TaskId> = self.store.rows.iter().filter(|(_, row)| row.live).map(|(id, _)| *id).collect();
        self.chance.pick(&live)
    }

    fn ask_task(&mut self) {
        let live = self.store.rows.values().filter(|row| row.live).count();
        if live >= LIVE_MAX || !self.find_daemon() {
            return;
        }
        self.next_id += 1;
        let id = TaskId::from_bits(self.next_id);
        let plan = Plan::chosen(&mut self.chance);
        self.machine.jobs.insert(id, Job::new(plan, self.machine.boot));
        let key = if self.chance.once_in(3) { self.chance.pick(&KEYS).map(String::from) } else { None };
        let if_running = [IfRunning::Reuse, IfRunning::Replace, IfRunning::Replace, IfRunning::Reject];
        let ask = Ask {
            session: self.chance.pick(&SESSIONS).unwrap_or("a").into(),
            lease: self
                .chance
                .pick(&[Lease::Awaited, Lease::Awaited, Lease::Service, Lease::Detached])
                .unwrap_or_default(),
            key,
            if_running: self.chance.pick(&if_running).unwrap_or_default(),
        };
        let replaced = self.with_outside(|daemon, out| match daemon {
            Some(daemon) => daemon.ask(id, &ask, out),
            None => Ok(None),
        });
        if let Some(replaced) = replaced.flatten() {
            self.replaces.insert(id, replaced);
        }
    }

    fn ask_stop(&mut self) {
        let Some(id) = self.some_task().filter(|_| self.find_daemon()) else { return };
        if let Some(daemon) = &mut self.daemon {
            daemon.stop(id);
            self.unwanted.insert(id);
            self.waiters.push(Waiter { id, until: Until::Gone, owner: false, asked: true, answered: false });
            daemon.wait(self.waiters.len() - 1, id, Until::Gone);
        }
    }

    fn ask_session_end(&mut self) {
        let session = self.chance.pick(&SESSIONS).unwrap_or("a");
        if !self.find_daemon() {
            return;
        }
        if let Some(daemon) = &mut self.daemon {
            let ids = daemon.board.tied_to(session);
            daemon.end_session(session);
            for id in ids {
                self.unwanted.insert(id);
                self.waiters.push(Waiter { id, until: Until::Gone, owner: false, asked: true, answered: false });
                daemon.wait(self.waiters.len() - 1, id, Until::Gone);
            }
        }
    }

    fn ask_release(&mut self) {
        let Some(id) = self.some_task().filter(|_| self.find_daemon()) else { return };
        if let Some(daemon) = &mut self.daemon {
            daemon.release(id);
        }
    }

    /// A new waiter, or one that asks again.
    fn ask_wait(&mut self) {
        if !self.find_daemon() {
            return;
        }
        let again = self.waiters.iter().position(|waiter| !waiter.asked && !waiter.answered);
        let waiter = if let Some(waiter) = again {
            waiter
        } else {
            let Some(id) = self.some_task() else { return };
            let owner = self.chance.once_in(2);
            self.waiters.push(Waiter { id, until: Until::Ended, owner, asked: false, answered: false });
            self.waiters.len() - 1
        };
        self.connect(waiter);
    }

    fn connect(&mut self, waiter: usize) {
        let Waiter { id, until, .. } = self.waiters[waiter];
        if let Some(daemon) = &mut self.daemon {
            if until == Until::Gone {
                daemon.stop(id);
            }
            self.waiters[waiter].asked = true;
            daemon.wait(waiter, id, until);
        }
    }

    fn read_inbox(&mut self) {
        let session = self.chance.pick(&SESSIONS).unwrap_or("a");
        self.read_inbox_of(session);
    }

    fn read_inbox_of(&mut self, session: &'static str) {
        if !self.find_daemon() {
            return;
        }
        let reader = self.readers.get_mut(session).expect("a reader for each session");
        if reader.asked {
            return;
        }
        if let Some(daemon) = &mut self.daemon {
            reader.asked = true;
            daemon.inbox(session, reader.cursor);
        }
    }

    fn let_machine_act(&mut self) {
        let able = self.machine.jobs.iter().filter(|(_, job)| job.is_kept() || job.lives());
        let able: Vec<TaskId> = able.map(|(id, _)| *id).collect();
        if let Some(id) = self.chance.pick(&able) {
            self.machine.act(id, &mut self.chance);
            self.check_replacement(id);
        }
    }

    /// A replacement never runs beside the tree of what it replaces.
    fn check_replacement(&self, id: TaskId) {
        if let Some(old) = self.replaces.get(&id).filter(|_| self.machine.jobs[&id].main == Main::Alive) {
            assert!(!self.machine.jobs[old].lives(), "{id} runs beside {old}, which it replaces");
        }
    }

    fn kill_something(&mut self) {
        let jobs = self.machine.jobs.iter().filter(|(_, job)| job.is_kept() || job.main == Main::Alive);
        let jobs: Vec<TaskId> = jobs.map(|(id, _)| *id).collect();
        let Some(id) = self.chance.pick(&jobs) else { return };
        if self.chance.once_in(2) && self.machine.jobs[&id].main == Main::Alive {
            return self.machine.end_main(id, Some(9));
        }
        let damage = self.chance.once_in(20);
        let before = self.machine.jobs[&id].clone();
        self.machine.kill_keeper(id, damage);
        // A handle that the daemon held knows the end that the keeper did not live to write.
        if let (Main::Dead(status), Keeper::Parent, true) = (before.main, before.keeper, self.machine.watched)
            && self.chance.once_in(2)
        {
            self.machine.orphans.push((id, status));
        }
    }

    fn kill_daemon(&mut self) {
        if self.daemon.is_some() {
            self.bury_daemon();
        }
    }

    fn reboot(&mut self) {
        if self.chance.once_in(3) {
            self.bury_daemon();
            self.machine.reboot();
        }
    }

    /// What was said reaches the clients.
    fn hear(&mut self) {
        for word in std::mem::take(&mut self.told) {
            match word {
                Word::Begun(id) => assert!(self.begun.insert(id), "{id} was given twice"),
                Word::Came(waiter) => self.hear_of(waiter),
                Word::Heard(id) => drop(self.heard.insert(id)),
                Word::Inbox { session, acked, notices } => self.hear_notices(&session, acked, &notices),
            }
        }
    }

    fn hear_of(&mut self, waiter: usize) {
        let Waiter { id, until, owner, .. } = self.waiters[waiter];
        self.waiters[waiter].answered = true;
        match until {
            Until::Ended => {
                let row = &self.store.rows[&id];
                assert!(row.outcome.is_some(), "{id} was told to have ended and is not recorded so");
                let session = row.ask.session.clone();
                // The client may die before it says that it has shown it.
                if owner
                    && !self.chance.once_in(4)
                    && let Some(daemon) = &mut self.daemon
                {
                    daemon.heard(&session, id);
                }
            }
            Until::Gone => {
                let Some(job) = self.machine.jobs.get_mut(&id) else { return };
                assert!(!job.lives(), "{id} was told to be gone and lives: {job:?}");
                job.gone_told = true;
            }
        }
    }

    fn hear_notices(&mut self, session: &str, acked: u64, notices: &[(u64, TaskId)]) {
        let reader = self.readers.get_mut(session).expect("a reader for each session");
        reader.asked = false;
        reader.acked = reader.acked.max(acked);
        let mut last = 0;
        for (seq, id) in notices {
            assert!(*seq > last, "out of order");
            last = *seq;
            assert!(*seq > reader.acked, "notice {seq} was acknowledged and is shown again");
            assert!(!self.heard.contains(id), "the ending of {id} was heard and is shown again");
            assert_eq!(self.store.rows[id].ask.session, session, "{id} is told to a foreign session");
        }
        // It may die between reading and acting; then it will ask from where it stood.
        if self.chance.once_in(5) {
            return;
        }
        for (seq, id) in notices.iter().filter(|(seq, _)| *seq > reader.cursor) {
            assert!(reader.acted.insert(*id, *seq).is_none(), "{id} was told twice");
        }
        reader.cursor = reader.cursor.max(last);
    }

    /// Looks at everything that must hold at all times.
    fn check(&mut self) {
        if let Some(daemon) = &self.daemon {
            daemon.check(self.busy_max);
        }
        let ended = self.store.rows.iter().filter(|(id, row)| row.outcome.is_some() && !self.judged.contains(*id));
        let ended: Vec<TaskId> = ended.map(|(id, _)| *id).collect();
        for id in ended {
            self.judge(id);
            self.judged.insert(id);
        }
    }

    /// An outcome against what really happened.
    fn judge(&self, id: TaskId) {
        let row = &self.store.rows[&id];
        let job = &self.machine.jobs[&id];
        let outcome = row.outcome.as_ref().expect("an outcome");
        let really = match job.main {
            Main::Dead(status) => Some(WaitStatus::read(status)),
            Main::Never | Main::Alive => None,
        };
        let unwanted = self.unwanted.contains(&id) || self.was_replaced(id);
        let right = match outcome {
            Outcome::Exited { code } => really == Some(WaitStatus::Exited(*code)) && job.cause.is_none(),
            Outcome::Signaled { signal, core, oom } => {
                really == Some(WaitStatus::Signaled { signal: *signal, core: *core }) && !oom && job.cause.is_none()
            }
            Outcome::TimedOut { cause, real } => job.cause == Some(*cause) && really == Some(*real) && job.plan.limited,
            Outcome::Killed { cause, real: Some(real), .. } => {
                job.cause == Some(*cause) && really == Some(*real) && unwanted
            }
            Outcome::Killed { real: None, .. } => job.starts == 0 && unwanted,
            Outcome::StartFailed { .. } => job.starts == 0,
            Outcome::Lost { why: LostWhy::Reboot } => job.rebooted,
            Outcome::Lost { why: LostWhy::MonitorDied } => job.harmed,
        };
        assert!(right, "{id} is said to be {outcome:?}; really: {job:?}");
    }

    /// Whether a task was recorded that takes its place.
    fn was_replaced(&self, id: TaskId) -> bool {
        let mut replacing = self.replaces.iter().filter(|(_, old)| **old == id).map(|(new, _)| new);
        replacing.any(|new| self.store.rows.contains_key(new))
    }

    /// Faults are over: everything has to come to its end, and everybody has to be told.
    fn run_out(&mut self) {
        (self.machine.full, self.machine.exhausted, self.deadly) = (false, false, 0);
        for round in 0..400 {
            self.steps += 1;
            if !self.find_daemon() {
                continue;
            }
            for waiter in 0..self.waiters.len() {
                if !self.waiters[waiter].asked && !self.waiters[waiter].answered {
                    self.connect(waiter);
                }
            }
            let jobs: Vec<TaskId> = self.machine.jobs.keys().copied().collect();
            for id in jobs {
                self.machine.act(id, &mut self.chance);
                self.check_replacement(id);
            }
            self.turn_the_loop();
            self.let_time_pass();
            self.turn_the_loop();
            for session in SESSIONS {
                self.read_inbox_of(session);
            }
            self.turn_the_loop();
            self.check();
            if round > 20 && round % 10 == 0 {
                if self.is_over() {
                    return;
                }
                // What would run for ever is stopped.
                let live: Vec<TaskId> = self.store.rows.iter().filter(|(_, row)| row.live).map(|(id, _)| *id).collect();
                for id in live {
                    self.unwanted.insert(id);
                    if let Some(daemon) = &mut self.daemon {
                        daemon.stop(id);
                    }
                }
            }
        }
    }

    fn is_over(&self) -> bool {
        let closed = self.store.rows.values().all(|row| !row.live);
        let idle = self.daemon.as_ref().is_some_and(Daemon::is_idle);
        let heard = self.store.inboxes.values().all(|inbox| inbox.unheard.is_empty());
        closed && idle && heard && self.waiters.iter().all(|waiter| waiter.answered)
    }

    fn check_all_over(&self) {
        for (id, row) in &self.store.rows {
            let job = &self.machine.jobs[id];
            assert!(!row.live, "{id} never comes to its end: {row:?} {job:?}");
            assert!(!job.lives(), "{id} is closed and lives: {job:?}");
            assert!(job.starts <= 1);
            let reader = &self.readers[row.ask.session.as_str()];
            let told = reader.acted.contains_key(id) || self.heard.contains(id);
            let waited = self.waiters.iter().any(|waiter| waiter.id == *id && waiter.owner && waiter.answered);
            assert!(told || waited, "nobody was told of the ending of {id}: {row:?}");
        }
        for id in &self.begun {
            assert!(self.store.rows.contains_key(id), "{id} was given to a client and is not recorded");
        }
        for waiter in &self.waiters {
            assert!(waiter.answered, "somebody waits for ever for {} ({:?})", waiter.id, waiter.until);
        }
        assert!(self.is_over(), "the world does not come to rest");
    }
}
