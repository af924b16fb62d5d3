//! Who waits for what. No clock and no store: told of each ending, asked who is ready.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use mio::Token;
use ringback_core::id::TaskId;
use ringback_core::notice::Kind;

use crate::wire::{Caller, Fault};

/// One client that waits.
pub(super) struct Wait {
    /// Where the answer goes.
    pub to: Token,
    /// Who waits.
    pub caller: Caller,
    /// For what.
    pub what: What,
    /// When it has waited enough, by the monotonic clock.
    pub due_ms: Option<u64>,
}

/// What is waited for.
pub(super) enum What {
    /// The ending of tasks.
    Tasks {
        /// All that were asked for, in that order.
        ids: Vec<TaskId>,
        /// Those that have not come so far.
        left: BTreeSet<TaskId>,
        /// Whether the first is enough.
        any: bool,
        /// How far they have to come.
        until: Until,
        /// What could not be done for others.
        faults: Vec<Fault>,
    },
    /// A notice.
    Inbox {
        /// Only those after this number.
        newer_than: Option<u64>,
        /// At most this many.
        limit: u32,
    },
}

/// How far a task has to come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// It has its outcome.
    Ended,
    /// Its tree is gone, or a stop has given up on the rest of it.
    Gone,
    /// It is ready, or has its outcome.
    Ready,
    /// A line has matched, or it has its outcome.
    Matched,
}

/// All of them.
#[derive(Default)]
pub(super) struct Waits {
    all: BTreeMap<u64, Wait>,
    by_task: BTreeMap<TaskId, BTreeSet<u64>>,
    by_time: BTreeSet<(u64, u64)>,
    ready: BTreeSet<u64>,
    next_key: u64,
}

impl Waits {
    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Somebody waits.
    pub(super) fn add(&mut self, wait: Wait) {
        let key = self.next_key;
        self.next_key += 1;
        if let What::Tasks { left, any, ids, .. } = &wait.what {
            for id in left {
                self.by_task.entry(*id).or_default().insert(key);
            }
            if left.is_empty() || (*any && left.len() < ids.len()) {
                self.ready.insert(key);
            }
        }
        if let Some(due_ms) = wait.due_ms {
            self.by_time.insert((due_ms, key));
        }
        self.all.insert(key, wait);
    }

    /// A task has its outcome, and it was recorded.
    pub(super) fn ended(&mut self, id: TaskId) {
        for until in [Until::Ended, Until::Ready, Until::Matched] {
            self.came(id, until);
        }
    }

    /// Something was seen of a running task, and it was recorded.
    pub(super) fn saw(&mut self, id: TaskId, kind: Kind) {
        match kind {
            Kind::ToolReady => self.came(id, Until::Ready),
            Kind::ToolMatch => self.came(id, Until::Matched),
            Kind::ToolResult | Kind::ToolProgress | Kind::ToolStalled => {}
        }
    }

    /// A task's tree is gone, or as far gone as it will be.
    pub(super) fn gone(&mut self, id: TaskId) {
        self.came(id, Until::Gone);
    }

    /// A session has something to hear.
    pub(super) fn heard_of(&mut self, session: &str) {
        let inboxes = self.all.iter().filter(|(_, wait)| matches!(wait.what, What::Inbox { .. }));
        self.ready.extend(inboxes.filter(|(_, wait)| wait.caller.session == session).map(|(key, _)| *key));
    }

    /// Who can be answered now.
    pub(super) fn take_ready(&mut self) -> Vec<u64> {
        mem::take(&mut self.ready).into_iter().collect()
    }

    /// Who has waited enough. Who has what was waited for is not late, however short the wait was.
    pub(super) fn due(&mut self, now_ms: u64) -> Vec<u64> {
        let due = self.by_time.range(..=(now_ms, u64::MAX)).map(|(_, key)| *key);
        due.filter(|key| !self.ready.contains(key)).collect()
    }

    /// When somebody next has waited enough.
    pub(super) fn next_due(&self) -> Option<u64> {
        self.by_time.first().map(|(due_ms, _)| *due_ms)
    }

    /// Takes a wait out, to answer it.
    pub(super) fn take(&mut self, key: u64) -> Option<Wait> {
        let wait = self.all.remove(&key)?;
        self.ready.remove(&key);
        if let Some(due_ms) = wait.due_ms {
            self.by_time.remove(&(due_ms, key));
        }
        if let What::Tasks { ids, .. } = &wait.what {
            for id in ids {
                self.unlist(*id, key);
            }
        }
        Some(wait)
    }

    /// Takes out all that wait for this task, to answer them.
    pub(super) fn take_task(&mut self, id: TaskId) -> Vec<Wait> {
        let keys = self.by_task.get(&id).cloned().unwrap_or_default();
        keys.into_iter().filter_map(|key| self.take(key)).collect()
    }

    /// A client is gone: nobody waits there any more.
    pub(super) fn drop_client(&mut self, to: Token) {
        let gone: Vec<u64> = self.all.iter().filter(|(_, wait)| wait.to == to).map(|(key, _)| *key).collect();
        for key in gone {
            self.take(key);
        }
    }

    fn came(&mut self, id: TaskId, so_far: Until) {
        let Some(keys) = self.by_task.get(&id).cloned() else { return };
        for key in keys {
            let Some(Wait { what: What::Tasks { left, any, until, .. }, .. }) = self.all.get_mut(&key) else {
                continue;
            };
            if *until != so_far {
                continue;
            }
            left.remove(&id);
            if *any || left.is_empty() {
                self.ready.insert(key);
            }
            self.unlist(id, key);
        }
    }

    fn unlist(&mut self, id: TaskId, key: u64) {
        if let Some(keys) = self.by_task.get_mut(&id) {
            keys.remove(&key);
            if keys.is_empty() {
                self.by_task.remove(&id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u64) -> TaskId {
        TaskId::from_bits(n)
    }

    fn tasks(ids: &[u64], any: bool, until: Until, due_ms: Option<u64>) -> Wait {
        let ids: Vec<TaskId> = ids.iter().map(|n| id(*n)).collect();
        let left = ids.iter().copied().collect();
        let what = What::Tasks { ids, left, any, until, faults: Vec::new() };
        Wait { to: Token(7), caller: Caller::default(), what, due_ms }
    }

    #[test]
    fn all_waits_for_the_last_and_any_for_the_first() {
        let mut waits = Waits::default();
        waits.add(tasks(&[1, 2], false, Until::Ended, None));
        waits.add(tasks(&[1, 2], true, Until::Ended, None));
        waits.ended(id(1));
        assert_eq!(waits.take_ready(), [1]);
        waits.take(1);
        waits.ended(id(2));
        assert_eq!(waits.take_ready(), [0]);
    }

    #[test]
    fn an_outcome_is_not_yet_an_empty_tree() {
        let mut waits = Waits::default();
        waits.add(tasks(&[1], false, Until::Gone, None));
        waits.ended(id(1));
        assert!(waits.take_ready().is_empty());
        waits.gone(id(1));
        assert_eq!(waits.take_ready(), [0]);
    }

    #[test]
    fn who_waits_for_readiness_is_not_left_waiting_at_the_end() {
        let mut waits = Waits::default();
        for until in [Until::Ready, Until::Matched, Until::Ready] {
            waits.add(tasks(&[1], false, until, None));
        }
        waits.saw(id(1), Kind::ToolProgress);
        assert!(waits.take_ready().is_empty());
        waits.saw(id(1), Kind::ToolMatch);
        assert_eq!(waits.take_ready(), [1]);
        waits.ended(id(1));
        assert_eq!(waits.take_ready(), [0, 2]);
    }

    #[test]
    fn a_client_that_left_waits_no_more_and_costs_nothing() {
        let mut waits = Waits::default();
        waits.add(tasks(&[1], false, Until::Ended, Some(50)));
        waits.drop_client(Token(7));
        waits.gone(id(1));
        assert!(waits.take_ready().is_empty());
        assert_eq!(waits.next_due(), None);
        assert!(waits.by_task.is_empty());
    }

    #[test]
    fn time_passes_for_those_who_set_a_limit() {
        let mut waits = Waits::default();
        waits.add(tasks(&[1], false, Until::Ended, Some(50)));
        waits.add(tasks(&[1], false, Until::Ended, None));
        assert!(waits.due(49).is_empty());
        assert_eq!(waits.due(50), [0]);
        assert_eq!(waits.next_due(), Some(50));
        waits.ended(id(1));
        assert!(waits.due(50).is_empty(), "it has what it waited for");
    }

    #[test]
    fn only_the_session_that_has_news_is_woken() {
        let mut waits = Waits::default();
        for session in ["a", "b"] {
            let caller = Caller { session: session.into(), ..Caller::default() };
            waits.add(Wait { to: Token(1), caller, what: What::Inbox { newer_than: None, limit: 1 }, due_ms: None });
        }
        waits.heard_of("b");
        assert_eq!(waits.take_ready(), [1]);
    }
}
