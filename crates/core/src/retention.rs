//! What may be thrown away, and what has to be.

/// How long an ended task is kept at least when nobody says otherwise, milliseconds: a week.
pub const KEEP_MS: u64 = 7 * 24 * 60 * 60 * 1000;

/// How many ended tasks are kept at most when nobody says otherwise.
pub const KEEP_COUNT: u64 = 1_000_000;

/// How much disk the ended tasks of a home take at most when nobody says otherwise, bytes.
pub const QUOTA_BYTES: u64 = 10 << 30;

/// An ended task, as retention sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// How long ago it ended, milliseconds.
    pub age_ms: u64,
    /// Whether its tree is gone.
    pub closed: bool,
    /// Whether its session has still to hear of it.
    pub unheard: bool,
}

impl Ended {
    /// What lives, or has still to be heard, never goes.
    fn may_go(&self) -> bool {
        self.closed && !self.unheard
    }
}

/// What somebody who lets go of old tasks wants to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// At least this long, milliseconds.
    pub keep_ms: u64,
    /// At least this many of the newest.
    pub keep_newest: u64,
}

impl Rule {
    /// Whether a task may go, after which `newer` others ended.
    pub fn lets_go(&self, task: &Ended, newer: u64) -> bool {
        task.may_go() && task.age_ms >= self.keep_ms && newer >= self.keep_newest
    }

    /// Whether tasks that ended after one may go, if that one was kept.
    pub fn goes_on_after(&self, task: &Ended, newer: u64) -> bool {
        task.age_ms >= self.keep_ms && newer > self.keep_newest
    }
}

/// How much there is of ended tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// How many.
    pub count: u64,
    /// Their bytes on the disk.
    pub bytes: u64,
}

impl Kept {
    /// As much more.
    pub fn add(&mut self, more: Self) {
        self.count = self.count.saturating_add(more.count);
        self.bytes = self.bytes.saturating_add(more.bytes);
    }

    /// As much less.
    pub fn take(&mut self, less: Self) {
        self.count = self.count.saturating_sub(less.count);
        self.bytes = self.bytes.saturating_sub(less.bytes);
    }
}

/// How much is kept at most: past this the oldest go by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// So many tasks.
    pub count: u64,
    /// So many bytes of disk.
    pub bytes: u64,
    /// Not longer than this, milliseconds.
    pub age_ms: u64,
}

impl Limits {
    /// Whether there is too much.
    pub fn are_over(&self, kept: Kept) -> bool {
        kept.count > self.count || kept.bytes > self.bytes
    }

    /// Whether the oldest task has to go, while this much is kept.
    pub fn let_go(&self, oldest: &Ended, kept: Kept) -> bool {
        oldest.may_go() && (self.are_over(kept) || oldest.age_ms > self.age_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: Ended = Ended { age_ms: 100, closed: true, unheard: false };

    #[test]
    fn only_what_is_old_closed_and_heard_goes() {
        let rule = Rule { keep_ms: 100, keep_newest: 2 };
        assert!(rule.lets_go(&OLD, 2));
        assert!(!rule.lets_go(&Ended { age_ms: 99, ..OLD }, 2));
        assert!(!rule.lets_go(&OLD, 1));
        assert!(!rule.lets_go(&Ended { closed: false, ..OLD }, 2));
        assert!(!rule.lets_go(&Ended { unheard: true, ..OLD }, 2));
        assert!(rule.goes_on_after(&Ended { unheard: true, ..OLD }, 3), "a younger one may have been heard");
        assert!(!rule.goes_on_after(&Ended { age_ms: 99, ..OLD }, 3) && !rule.goes_on_after(&OLD, 2));
    }

    #[test]
    fn past_a_limit_the_oldest_goes_unless_somebody_has_still_to_hear_of_it() {
        let limits = Limits { count: 10, bytes: 1000, age_ms: 500 };
        let within = Kept { count: 10, bytes: 1000 };
        assert!(!limits.let_go(&OLD, within));
        for over in [Kept { count: 11, ..within }, Kept { bytes: 1001, ..within }] {
            assert!(limits.let_go(&OLD, over));
            assert!(!limits.let_go(&Ended { unheard: true, ..OLD }, over));
            assert!(!limits.let_go(&Ended { closed: false, ..OLD }, over));
        }
        assert!(limits.let_go(&Ended { age_ms: 501, ..OLD }, within));
        let mut kept = within;
        kept.take(Kept { count: 1, bytes: 2000 });
        kept.add(Kept { count: 2, bytes: 5 });
        assert_eq!(kept, Kept { count: 11, bytes: 5 });
    }
}
