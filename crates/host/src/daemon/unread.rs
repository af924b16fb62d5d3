//! Records that are not to be believed yet: a disk that fails once, or a machine that has no descriptor to give, says nothing of how
//! a task ended; and the child of a killed keeper may still go through its gate. They are looked at again, for a while.

use std::collections::BTreeMap;

use ringback_core::id::TaskId;
use ringback_sys::process;

use super::Daemon;

/// How long until the next look, milliseconds. A child is at its gate for less than one.
const AGAIN_MS: u64 = 50;
/// So many looks in vain, for five seconds, and the task is told to be lost: who waits for it is not to wait for ever.
const LOOKS_MAX: u32 = 100;

/// Tasks whose keeper is gone and whose record is not to be believed yet, each with the looks that were in vain.
#[derive(Default)]
pub(super) struct Unread {
    tasks: BTreeMap<TaskId, u32>,
    due_ms: Option<u64>,
}

impl Unread {
    /// When they are looked at again.
    pub(super) fn next_due(&self) -> Option<u64> {
        self.due_ms
    }

    /// One more look was in vain; false if there is to be no other.
    fn again(&mut self, id: TaskId, now_ms: u64) -> bool {
        let looks = self.tasks.entry(id).or_default();
        *looks += 1;
        if *looks > LOOKS_MAX {
            self.tasks.remove(&id);
            return false;
        }
        self.due_ms.get_or_insert(now_ms + AGAIN_MS);
        true
    }
}

impl Daemon {
    /// Has the record of a task, which nobody writes any more, looked at again; false if that was tried for long enough.
    pub(super) fn put_off(&mut self, id: TaskId) -> bool {
        self.unread.again(id, process::monotonic_ms())
    }

    /// Nobody can see what became of it. Who waits for its tree to be gone is told what is known; and what was looked at for so
    /// long was no life of its keeper, so that the next one comes later than this one did.
    pub(super) fn looked_in_vain(&mut self, id: TaskId) {
        self.waits.gone(id);
        if let Some(live) = self.lives.get_mut(&id) {
            live.taken_over_ms = process::monotonic_ms();
        }
    }

    /// It was read.
    pub(super) fn was_read(&mut self, id: TaskId) {
        self.unread.tasks.remove(&id);
    }

    /// Looks at them again.
    pub(super) fn unread_due(&mut self, now_ms: u64) {
        if self.unread.due_ms.is_none_or(|due_ms| due_ms > now_ms) {
            return;
        }
        self.unread.due_ms = None;
        for id in self.unread.tasks.keys() {
            self.round.keeper_gone(*id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_come_to_an_end() {
        let (mut unread, id) = (Unread::default(), TaskId::from_bits(1));
        assert!((0..LOOKS_MAX).all(|_| unread.again(id, 5)));
        assert_eq!(unread.next_due(), Some(5 + AGAIN_MS));
        assert!(!unread.again(id, 5) && unread.tasks.is_empty());
    }
}
