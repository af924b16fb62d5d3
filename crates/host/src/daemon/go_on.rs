//! Keepers that somebody has stopped (SIGSTOP) are made to go on: nobody has a reason to keep one stopped, and a command whose
//! keeper stands still has no limits, no stop, and no room in its pipe.

use std::collections::BTreeSet;

use ringback_core::id::TaskId;
use ringback_sys::pidfd::PidFd;
use ringback_sys::signals::SIGCONT;
use ringback_sys::{process, reap};

use super::Daemon;

/// How long a keeper that an earlier daemon has started stands still at most, milliseconds. Only a parent is told of a stop
/// (SIGCHLD); to one that runs, SIGCONT means nothing and does not wake it twice.
const AGAIN_MS: u64 = 5_000;

/// Keepers whose stop nothing tells us of.
#[derive(Default)]
pub(super) struct GoingsOn {
    due_ms: Option<u64>,
}

impl GoingsOn {
    /// When they are told next to go on.
    pub(super) fn next_due(&self) -> Option<u64> {
        self.due_ms
    }

    /// There may be one, and it may be stopped already.
    pub(super) fn begin(&mut self) {
        self.due_ms = Some(process::monotonic_ms());
    }
}

impl Daemon {
    /// Somebody has stopped children of ours. A keeper may have died since, so its record is looked at, too.
    pub(super) fn look_at_stopped(&mut self) {
        while let Ok(Some(pid)) = reap::stopped_child() {
            let Some(id) = self.keepers.get(&pid).map(|kept| kept.task) else { continue };
            self.round.news(id);
            // Not the one that is held: this one may be on its way to see that another has the task.
            let told = PidFd::open_child(pid).and_then(|keeper| keeper.signal(SIGCONT));
            if told.is_err() {
                self.let_go_on(id);
            }
        }
    }

    /// Tells those that are no children of ours to go on.
    pub(super) fn go_on_due(&mut self, now_ms: u64) {
        if self.goings_on.due_ms.is_none_or(|due_ms| due_ms > now_ms) {
            return;
        }
        let ours: BTreeSet<TaskId> = self.keepers.values().map(|kept| kept.task).collect();
        let found: Vec<TaskId> = self.lives.keys().filter(|id| !ours.contains(id)).copied().collect();
        let told = found.into_iter().filter(|id| self.let_go_on(*id)).count();
        self.goings_on.due_ms = (told > 0).then_some(now_ms + AGAIN_MS);
    }

    /// Tells the keeper of a task to go on; false if none is held, or it is gone.
    fn let_go_on(&self, id: TaskId) -> bool {
        let keeper = self.lives.get(&id).and_then(|live| live.keeper.as_ref());
        keeper.is_some_and(|keeper| keeper.process.signal(SIGCONT).is_ok())
    }
}
