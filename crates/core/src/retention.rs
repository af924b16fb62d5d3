//! What may be thrown away.

/// How long an ended task is kept when nobody says otherwise, milliseconds: a week.
pub const KEEP_MS: u64 = 7 * 24 * 60 * 60 * 1000;

/// An ended task, as retention sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// How long ago it ended, milliseconds.
    pub age_ms: u64,
    /// How many tasks ended after it.
    pub newer: u64,
    /// Whether its tree is gone.
    pub closed: bool,
    /// Whether its session has still to hear of it.
    pub unheard: bool,
}

/// What to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// At least this long, milliseconds.
    pub keep_ms: u64,
    /// At least this many of the newest.
    pub keep_newest: u64,
}

impl Rule {
    /// Whether a task may go. What lives, or has still to be heard, never goes.
    pub fn lets_go(&self, task: &Ended) -> bool {
        task.closed && !task.unheard && task.age_ms >= self.keep_ms && task.newer >= self.keep_newest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_old_closed_and_heard_goes() {
        let rule = Rule { keep_ms: 100, keep_newest: 2 };
        let old = Ended { age_ms: 100, newer: 2, closed: true, unheard: false };
        assert!(rule.lets_go(&old));
        assert!(!rule.lets_go(&Ended { age_ms: 99, ..old }));
        assert!(!rule.lets_go(&Ended { newer: 1, ..old }));
        assert!(!rule.lets_go(&Ended { closed: false, ..old }));
        assert!(!rule.lets_go(&Ended { unheard: true, ..old }));
    }
}
