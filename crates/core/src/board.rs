//! All tasks that are not closed yet: turns, keys, sessions. The one place that steps them.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use crate::effect::Effect;
use crate::id::TaskId;
use crate::outcome::Cause;
use crate::spec::{IfRunning, Lease};
use crate::task::{Act, Input, Sight, State, Stop};

/// How many commands run at once when nobody says otherwise; more wait in line. Past this, a machine is thrashing, and
/// a loop that starts tasks is more likely than a wish.
pub const RUNNING_MAX: u32 = 4096;

/// What the board has to know of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Its session.
    pub session: String,
    /// How it is tied to it.
    pub lease: Lease,
    /// Its key, unique among the session's live tasks.
    pub key: Option<String>,
    /// What happens if the key is taken.
    pub if_running: IfRunning,
}

/// A task on the board.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What was asked.
    pub ask: Ask,
    /// Where it stands.
    pub state: State,
    order: u64,
}

/// All tasks that are not closed.
#[derive(Debug)]
pub struct Board {
    entries: BTreeMap<TaskId, Entry>,
    /// By session and key: the tasks that have not ended, in the order they were asked for. All but the first replace.
    keys: BTreeMap<(String, String), BTreeSet<(u64, TaskId)>>,
    line: BTreeSet<(u64, TaskId)>,
    busy: usize,
    busy_max: usize,
    next_order: u64,
}

impl Board {
    /// An empty board on which at most `busy_max` commands run at once.
    pub fn new(busy_max: usize) -> Self {
        Self {
            entries: BTreeMap::new(),
            keys: BTreeMap::new(),
            line: BTreeSet::new(),
            busy: 0,
            busy_max: busy_max.max(1),
            next_order: 0,
        }
    }

    /// The task with this id, if it is not closed.
    pub fn get(&self, id: TaskId) -> Option<&Entry> {
        self.entries.get(&id)
    }

    /// All of them, by id.
    pub fn entries(&self) -> impl Iterator<Item = (TaskId, &Entry)> {
        self.entries.iter().map(|(id, entry)| (*id, entry))
    }

    /// How many run or start.
    pub fn busy(&self) -> usize {
        self.busy
    }

    /// How many wait for their turn.
    pub fn waiting(&self) -> usize {
        self.line.len()
    }

    /// Somebody asks for a task. `id` was never given before; `by` is who ends a task that this one replaces.
    pub fn ask(&mut self, id: TaskId, ask: Ask, by: &str) -> Vec<Effect> {
        let mut effects = Vec::new();
        let mut after = None;
        if let Some((key, existing)) = self.taken(&ask) {
            match ask.if_running {
                IfRunning::Reuse => return alloc::vec![Effect::Reuse { asked: id, existing }],
                IfRunning::Reject => return alloc::vec![Effect::Refuse { asked: id, existing, key }],
                // Nothing has happened to it before both are recorded: see `hand_on`.
                IfRunning::Replace => {
                    let stop = Stop { cause: Cause::Replaced, by: Some(by.into()), grace_ms: None };
                    effects.push(Effect::Press { id: existing, stop });
                    after = Some(existing);
                }
            }
        }
        effects.push(Effect::Insert { id });
        self.put(id, ask, State::Queued { after });
        self.give_turns(&mut effects);
        effects
    }

    /// Whether asking for this would make a new task.
    pub fn would_insert(&self, ask: &Ask) -> bool {
        ask.if_running == IfRunning::Replace || self.taken(ask).is_none()
    }

    /// The wish of a task that replaces this one was recorded together with that task, and counts from now on. One that
    /// still waits for its turn is over at once; a keeper of any other is told by whoever calls this.
    pub fn hand_on(&mut self, id: TaskId, stop: &Stop) -> Vec<Effect> {
        let mut effects = Vec::new();
        match self.entries.get_mut(&id).map(|entry| &mut entry.state) {
            Some(State::Queued { .. }) => self.step_one(id, Input::StopAsked(stop.clone()), &mut effects),
            Some(State::Starting { stop: noted, .. } | State::Running { stop: noted }) => {
                noted.get_or_insert_with(|| stop.clone());
            }
            Some(State::Open | State::Closed) | None => {}
        }
        self.give_turns(&mut effects);
        effects
    }

    /// A task could not be recorded after all: it never was, and its turn goes to the next.
    pub fn forget(&mut self, id: TaskId) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.set(id, State::Closed);
        self.give_turns(&mut effects);
        effects
    }

    /// A task that the store knows, found again by a new daemon, and what its folder shows.
    pub fn adopt(&mut self, id: TaskId, ask: Ask, ended: bool, found: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        // A task that replaces another one still waits for its tree; what it waited for was adopted before it.
        let state = if ended { State::Open } else { State::Queued { after: self.same_key_of(&ask) } };
        self.put(id, ask, state);
        self.step_one(id, found, &mut effects);
        effects
    }

    /// All tasks were adopted: those that still wait may start.
    pub fn open_for_business(&mut self) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.give_turns(&mut effects);
        effects
    }

    /// Something happened to one task. A task that is closed has nothing left to happen to it.
    pub fn step(&mut self, id: TaskId, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.step_one(id, input, &mut effects);
        self.give_turns(&mut effects);
        effects
    }

    /// A session ended: its awaited and service tasks are stopped, nobody else's.
    pub fn end_session(&mut self, session: &str, by: Option<&str>) -> Vec<Effect> {
        let mut effects = Vec::new();
        for id in self.tied_to(session) {
            let stop = Stop { cause: Cause::SessionEnd, by: by.map(String::from), grace_ms: None };
            self.step_one(id, Input::StopAsked(stop), &mut effects);
        }
        self.give_turns(&mut effects);
        effects
    }

    /// The session's tasks that end with it, in the order they were asked for.
    pub fn tied_to(&self, session: &str) -> Vec<TaskId> {
        self.chosen(|ask| ask.session == session && ask.lease != Lease::Detached)
    }

    /// All of the session's tasks, in the order they were asked for.
    pub fn of_session(&self, session: &str) -> Vec<TaskId> {
        self.chosen(|ask| ask.session == session)
    }

    fn chosen(&self, wanted: impl Fn(&Ask) -> bool) -> Vec<TaskId> {
        let entries = self.entries.iter().filter(|(_, entry)| wanted(&entry.ask));
        let mut ids: Vec<(u64, TaskId)> = entries.map(|(id, entry)| (entry.order, *id)).collect();
        ids.sort_unstable();
        ids.into_iter().map(|(_, id)| id).collect()
    }

    /// An awaited task becomes a service; any other keeps its lease. There is no way back.
    pub fn release(&mut self, id: TaskId) -> Vec<Effect> {
        match self.entries.get_mut(&id) {
            Some(entry) if entry.ask.lease == Lease::Awaited => {
                entry.ask.lease = Lease::Service;
                alloc::vec![Effect::Release { id }]
            }
            Some(_) | None => Vec::new(),
        }
    }

    /// Whoever waits for a task that never runs waits for what that one waited for: it may live.
    fn pass_on(&mut self, id: TaskId) {
        let Some(Entry { ask: Ask { session, key: Some(key), .. }, state: State::Queued { after }, .. }) =
            self.entries.get(&id)
        else {
            return;
        };
        let after = *after;
        let holders = self.keys.get(&(session.clone(), key.clone()));
        let holders: Vec<TaskId> = holders.into_iter().flatten().map(|(_, other)| *other).collect();
        for other in holders {
            if let Some(Entry { state: State::Queued { after: blocker }, .. }) = self.entries.get_mut(&other)
                && *blocker == Some(id)
            {
                *blocker = after;
            }
        }
    }

    fn taken(&self, ask: &Ask) -> Option<(String, TaskId)> {
        let key = ask.key.clone()?;
        let holders = self.keys.get(&(ask.session.clone(), key.clone()))?;
        holders.last().map(|(_, existing)| (key, *existing))
    }

    /// The newest task of the same session and key, ended or not, if this one is to replace it.
    fn same_key_of(&self, ask: &Ask) -> Option<TaskId> {
        let key = ask.key.as_ref().filter(|_| ask.if_running == IfRunning::Replace)?;
        let same = |other: &Ask| other.session == ask.session && other.key.as_ref() == Some(key);
        self.chosen(same).pop()
    }

    fn put(&mut self, id: TaskId, ask: Ask, state: State) {
        let order = self.next_order;
        self.next_order += 1;
        if let (Some(key), false) = (&ask.key, state.has_ended()) {
            self.keys.entry((ask.session.clone(), key.clone())).or_default().insert((order, id));
        }
        self.entries.insert(id, Entry { ask, state: State::Closed, order });
        self.set(id, state);
    }

    /// Moves one task and turns what follows into effects that name it.
    fn step_one(&mut self, id: TaskId, input: Input, effects: &mut Vec<Effect>) {
        let Some(entry) = self.entries.get(&id) else { return };
        let (state, acts) = entry.state.clone().step(input);
        self.set(id, state);
        for act in acts {
            effects.push(match act {
                Act::Launch => Effect::Launch { id },
                Act::Press(stop) => Effect::Press { id, stop },
                Act::TakeOver => Effect::TakeOver { id },
                Act::Conclude(outcome) => Effect::Conclude { id, outcome },
                Act::Close => Effect::Close { id },
            });
        }
    }

    /// Writes a state and keeps the line, the count and the keys in step with it.
    fn set(&mut self, id: TaskId, state: State) {
        if state.has_ended() {
            self.pass_on(id);
        }
        let Some(entry) = self.entries.get_mut(&id) else { return };
        let was_busy = is_busy(&entry.state);
        let place = (entry.order, id);
        match &state {
            State::Queued { .. } => self.line.insert(place),
            State::Starting { .. } | State::Running { .. } | State::Open | State::Closed => self.line.remove(&place),
        };
        self.busy = self.busy + usize::from(is_busy(&state)) - usize::from(was_busy);
        let (has_ended, is_closed) = (state.has_ended(), state == State::Closed);
        entry.state = state;
        if has_ended {
            self.free_key(id);
        }
        if is_closed {
            self.entries.remove(&id);
        }
    }

    fn free_key(&mut self, id: TaskId) {
        let Some(Entry { ask: Ask { session, key: Some(key), .. }, order, .. }) = self.entries.get(&id) else { return };
        let place = (session.clone(), key.clone());
        if let Some(holders) = self.keys.get_mut(&place) {
            holders.remove(&(*order, id));
            if holders.is_empty() {
                self.keys.remove(&place);
            }
        }
    }

    fn give_turns(&mut self, effects: &mut Vec<Effect>) {
        while self.busy < self.busy_max {
            let ready = self.line.iter().map(|(_, id)| *id).find(|id| self.is_ready(*id));
            let Some(id) = ready else { return };
            self.step_one(id, Input::Turn, effects);
        }
    }

    fn is_ready(&self, id: TaskId) -> bool {
        match self.entries.get(&id).map(|entry| &entry.state) {
            Some(State::Queued { after: Some(blocker) }) => !self.entries.contains_key(blocker),
            Some(State::Queued { after: None }) => true,
            Some(State::Starting { .. } | State::Running { .. } | State::Open | State::Closed) | None => false,
        }
    }
}

fn is_busy(state: &State) -> bool {
    match state {
        State::Starting { .. } | State::Running { .. } => true,
        State::Queued { .. } | State::Open | State::Closed => false,
    }
}

/// The input that a task folder amounts to when a new daemon finds it.
///
/// `sight` is nothing where there is no record that can be believed: if none was ever written the command was never started;
/// one that cannot be read, or that is gone with its folder, may have said anything.
pub fn found(same_boot: bool, keeper_lives: bool, had_record: bool, sight: Option<Sight>) -> Input {
    let sight = match (sight, had_record) {
        (Some(sight), _) => sight,
        (None, false) => Sight::New,
        (None, true) => Sight::Ended(crate::outcome::Evidence { status: None, cause: None, oom: false }),
    };
    match (same_boot, keeper_lives) {
        (false, _) => Input::Rebooted(sight),
        (true, true) => Input::Saw(sight),
        (true, false) => Input::KeeperGone(sight),
    }
}
