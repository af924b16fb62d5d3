//! Folders of tasks that are not: left behind by a daemon that died after it had made one and before it recorded the task,
//! or after it had recorded that a task is removed and before it deleted its folder. They hold the environment of a command.
//!
//! So with cgroups of other homes in which nobody is, a day later either: as a rule those homes are gone, and nobody serves them again.
//! One that is served again loses the kernel's word about a tree that was gone already.
//!
//! A new daemon looks through all task folders, a part at a time, beside its other work.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use ringback_core::id::{Prefix, TaskId};
use ringback_core::retention::Kept;
use ringback_sys::process;

use super::Daemon;
use super::round::Act;
use crate::store::Found;

/// How long others are served between two parts at least, milliseconds.
const PAUSE_MS: u64 = 5;
/// So many times as long as a part took, too: with a million tasks one takes 12 ms, for which others wait.
const PAUSE_FACTOR: u64 = 9;
/// How long at most: a disk that hung once is no reason to leave an environment lying about for minutes.
const PAUSE_MAX_MS: u64 = 1_000;
/// How many folders one part deletes at most.
const DELETES_MAX: usize = 16;
/// When a folder is tried again that could not be deleted, milliseconds.
const AGAIN_MS: u64 = 60_000;
/// After how long a cgroup of another home that was empty is looked at again, milliseconds: one that is to be used, or to be asked
/// what happened in it, is empty for a moment. Nothing in it tells whether that home is there.
const STRANGE_MS: u64 = 86_400_000;
/// So many of them are looked at again at most: as many homes die in a day only on a machine that makes them by the thousand. What is
/// above that is noted when these were looked at.
const STRANGE_MAX: usize = 4096;

/// What is still to be looked through.
#[derive(Default)]
pub(super) struct Sweep {
    /// Names of folders of task folders.
    parts: BTreeSet<String>,
    at_ms: Option<u64>,
    strange: Strange,
}

/// Empty cgroups of other homes, and when they are looked at again.
#[derive(Default)]
struct Strange {
    noted: Vec<PathBuf>,
    at_ms: Option<u64>,
}

impl Strange {
    fn note(&mut self, found: Vec<PathBuf>, now_ms: u64) {
        self.at_ms = (!found.is_empty()).then_some(now_ms + STRANGE_MS);
        self.noted = found;
    }

    /// Those whose time has come, once; there may be more if they are as many as there can be.
    fn take_due(&mut self, now_ms: u64) -> Option<Vec<PathBuf>> {
        self.at_ms.take_if(|at_ms| *at_ms <= now_ms).map(|_| std::mem::take(&mut self.noted))
    }
}

impl Sweep {
    /// When the next part is looked through, by the monotonic clock.
    pub(super) fn next_due(&self) -> Option<u64> {
        [self.at_ms, self.strange.at_ms].into_iter().flatten().min()
    }
}

impl Daemon {
    /// Everything is to be looked through.
    pub(super) fn begin_sweep(&mut self) {
        let entries = match fs::read_dir(self.home.tasks()) {
            Ok(entries) => entries,
            Err(error) => return self.troubles.note("look for folders of removed tasks", &error),
        };
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        self.sweep.parts = names.filter(|name| Prefix::parse(name).is_ok()).collect();
        self.sweep.at_ms = Some(process::monotonic_ms());
    }

    /// Removes what keepers left that died between the end of a task and the end of its cgroup, and notes what other homes left.
    pub(super) fn sweep_cgroups(&mut self) {
        let Ok(cgroups) = &self.cgroups else { return };
        let lives = |id: &str| TaskId::parse(id).is_ok_and(|id| self.lives.contains_key(&id));
        match cgroups.sweep(lives).and_then(|()| cgroups.strange(STRANGE_MAX)) {
            Ok(strange) => self.sweep.strange.note(strange, process::monotonic_ms()),
            Err(error) => self.troubles.note("remove empty cgroups", &error),
        }
    }

    /// Removes what other homes left, if its time has come.
    fn sweep_strange(&mut self, now_ms: u64) {
        let Some(noted) = self.sweep.strange.take_due(now_ms) else { return };
        let Ok(cgroups) = &self.cgroups else { return };
        cgroups.sweep_strange(&noted);
        if noted.len() < STRANGE_MAX {
            return;
        }
        match cgroups.strange(STRANGE_MAX) {
            Ok(more) => self.sweep.strange.note(more, now_ms),
            Err(error) => self.troubles.note("look for cgroups of other homes", &error),
        }
    }

    /// The folder of this task could not be deleted.
    pub(super) fn sweep_again(&mut self, id: TaskId) {
        let dir = self.dir(id);
        let part = dir.parent().and_then(|part| part.file_name()).map(|name| name.to_string_lossy().into_owned());
        self.sweep.parts.extend(part);
        self.sweep.at_ms.get_or_insert(process::monotonic_ms() + AGAIN_MS);
    }

    /// Looks through the next part, if its time has come.
    pub(super) fn sweep_due(&mut self, now_ms: u64) {
        self.sweep_strange(now_ms);
        if self.sweep.at_ms.is_none_or(|at_ms| at_ms > now_ms) {
            return;
        }
        if let Some(part) = self.sweep.parts.pop_first() {
            let left = self.left_in(&part);
            if left.len() > DELETES_MAX {
                self.sweep.parts.insert(part);
            }
            for id in left.into_iter().take(DELETES_MAX) {
                self.round.act(Act::Delete(id, Kept::default()));
            }
        }
        let done_ms = process::monotonic_ms();
        let took_ms = done_ms.saturating_sub(now_ms);
        let pause_ms = took_ms.saturating_mul(PAUSE_FACTOR).clamp(PAUSE_MS, PAUSE_MAX_MS);
        self.sweep.at_ms = (!self.sweep.parts.is_empty()).then_some(done_ms + pause_ms);
    }

    /// The tasks of this part that have a folder and should not.
    fn left_in(&mut self, part: &str) -> Vec<TaskId> {
        let Ok(prefix) = Prefix::parse(part) else { return Vec::new() };
        let Ok(entries) = fs::read_dir(self.home.tasks().join(part)) else { return Vec::new() };
        let ids = entries.flatten().filter_map(|entry| TaskId::parse(entry.file_name().to_str()?).ok());
        let ids: Vec<TaskId> = ids.filter(|id| !self.lives.contains_key(id) && !self.blank.is(*id)).collect();
        // Of a million ended tasks few have a folder.
        if ids.is_empty() {
            return Vec::new();
        }
        let known = match self.store.ids(prefix) {
            Ok(known) => known,
            Err(error) => {
                self.troubles.note("look for folders of removed tasks", &error);
                return Vec::new();
            }
        };
        let (ended, strange): (Vec<TaskId>, Vec<TaskId>) = ids.into_iter().partition(|id| known.contains(id));
        // A daemon that died between the record of an end and this.
        for id in ended {
            if super::folder::has_temporary(&self.dir(id)) {
                self.round.act(Act::Tidy(id));
            }
        }
        strange.into_iter().filter(|id| self.is_left(*id)).collect()
    }

    /// Whether the folder of a task that the store does not have was left by a crash: that of a removed task, or one that
    /// is still as it was before its task was recorded. Any other may be all that is left of a lost database.
    fn is_left(&self, id: TaskId) -> bool {
        match self.store.find(Prefix { low: id, high: id }) {
            // Removed, or its output is in the database; a crash came before the folder was deleted.
            Ok(Found::Expired(_) | Found::One(_)) => true,
            Ok(Found::Unknown) => {
                let lacks = |file| fs::symlink_metadata(self.dir(id).join(file)).is_err();
                lacks(super::folder::STATE) || super::folder::lacks_spec(&self.dir(id))
            }
            Ok(Found::Ambiguous(_)) | Err(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgroups_of_other_homes_are_looked_at_again_once_and_a_day_later() {
        let (mut sweep, left) = (Sweep::default(), vec![PathBuf::from("ringback-0123456789abcdef-000000000001")]);
        sweep.strange.note(left.clone(), 5);
        assert_eq!(sweep.next_due(), Some(5 + 24 * 60 * 60 * 1000));
        assert_eq!(sweep.strange.take_due(4 + STRANGE_MS), None);
        assert_eq!(sweep.strange.take_due(5 + STRANGE_MS), Some(left));
        assert_eq!((sweep.next_due(), sweep.strange.take_due(u64::MAX)), (None, None));
        sweep.strange.note(Vec::new(), 5);
        assert_eq!(sweep.next_due(), None);
    }
}
