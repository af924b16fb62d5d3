//! When a running task is spoken of: progress on a doubling schedule, silence, and matches up to a limit.
//!
//! Times are milliseconds of one monotonic clock that outlives the daemon; they are handed in. Where a watch stands is
//! data ([`Stand`]), so that a new daemon goes on where the old one was.

use alloc::vec::Vec;

/// The longest pause between two notices of progress when nobody says otherwise, milliseconds.
pub const PROGRESS_MAX_MS: u64 = 30_000;

/// The shortest pause that can be asked for, milliseconds: an agent pays for every notice.
pub const PROGRESS_MIN_MS: u64 = 100;

/// How long an awaited task may be silent before its session is told, milliseconds, when nobody says otherwise.
pub const STALL_MS: u64 = 300_000;

/// How many matching lines of one task are told one by one. Whoever watches for something that comes more often than
/// this wants to know how often, not each time.
pub const MATCHES_MAX: u64 = 20;

/// How often those beyond [`MATCHES_MAX`] are told, all in one notice.
pub const FOLD_PACE: Pace = Pace { base_ms: 2_000, max_ms: PROGRESS_MAX_MS };

/// Pauses that double up to a ceiling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The first pause.
    pub base_ms: u64,
    /// The longest pause; never shorter than the first.
    pub max_ms: u64,
}

impl Pace {
    /// The pause after `given` notices.
    pub fn pause_ms(self, given: u32) -> u64 {
        let doubled = 1u64.checked_shl(given).map_or(u64::MAX, |times| self.base_ms.saturating_mul(times));
        doubled.min(self.max_ms.max(self.base_ms))
    }
}

/// What was asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Tell how it goes on.
    pub progress: Option<Pace>,
    /// Tell when nothing was written for this long, milliseconds.
    pub stall_ms: Option<u64>,
}

/// Where a watch stands: what has to be remembered for as long as the task runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stand {
    /// Notices of progress given.
    pub given: u32,
    /// When the last one was; the start of the task before the first.
    pub progress_at_ms: u64,
    /// Where the output ended that it told.
    pub progress_offset: u64,
    /// How long the output was when a silence was told; told again only once it has grown.
    pub stalled_at: Option<u64>,
    /// Matching lines so far.
    pub matches: u64,
    /// Notices that told several of them.
    pub folds: u32,
    /// How many of those beyond [`MATCHES_MAX`] were told.
    pub folded: u64,
    /// When a match was last told.
    pub match_at_ms: u64,
    /// It said that it is ready.
    pub ready: bool,
}

/// Something to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Say {
    /// How it goes on: the output from `from` on is new.
    Progress {
        /// Where the last notice of progress ended.
        from: u64,
        /// How long the output is.
        to: u64,
        /// How long nothing was written, milliseconds.
        silence_ms: u64,
    },
    /// Nothing was written for long.
    Stalled {
        /// How long the output is.
        at: u64,
        /// How long nothing was written, milliseconds.
        silence_ms: u64,
    },
    /// Many lines matched.
    Folded {
        /// How many beyond [`MATCHES_MAX`] so far.
        count: u64,
    },
}

/// The watch over one running task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    rules: Rules,
    stand: Stand,
    length: u64,
    last_output_ms: u64,
    looked_ms: u64,
}

impl Watch {
    /// Watches a task that started at `start_ms`. A new one stands at `Stand::default()`.
    pub fn new(rules: Rules, stand: Stand, start_ms: u64) -> Self {
        let progress_at_ms = stand.progress_at_ms.max(start_ms);
        let stand = Stand { progress_at_ms, ..stand };
        Self { rules, stand, length: 0, last_output_ms: start_ms, looked_ms: start_ms }
    }

    /// Where it stands.
    pub fn stand(&self) -> &Stand {
        &self.stand
    }

    /// Nobody waits for the task any more, so its silence is nobody's trouble.
    pub fn release(&mut self) {
        self.rules.stall_ms = None;
    }

    /// The output has this length, and was last written to about `quiet_ms` ago by the clock of its file system.
    ///
    /// That clock may jump (and runs while the machine sleeps), so it is believed only within the time since the last look.
    pub fn look(&mut self, now_ms: u64, length: u64, quiet_ms: u64) {
        if length != self.length {
            self.length = length;
            self.last_output_ms = now_ms - quiet_ms.min(now_ms.saturating_sub(self.looked_ms));
        }
        self.looked_ms = now_ms;
    }

    /// A line matched. True if it is to be told by itself; else it is counted, and told with others.
    pub fn matched(&mut self, now_ms: u64) -> bool {
        self.stand.matches += 1;
        let alone = self.stand.matches <= MATCHES_MAX;
        if alone {
            self.stand.match_at_ms = now_ms;
        }
        alone
    }

    /// It is ready. True the first time.
    pub fn ready(&mut self) -> bool {
        !core::mem::replace(&mut self.stand.ready, true)
    }

    /// When something may have to be told, if nothing happens until then. [`Watch::look`] comes first then.
    pub fn due_ms(&self) -> Option<u64> {
        [self.progress_due_ms(), self.stall_due_ms(), self.fold_due_ms()].into_iter().flatten().min()
    }

    /// What is to be told at this time.
    pub fn tick(&mut self, now_ms: u64) -> Vec<Say> {
        let is_due = |due_ms: Option<u64>| due_ms.is_some_and(|due_ms| due_ms <= now_ms);
        let silence_ms = now_ms.saturating_sub(self.last_output_ms);
        let mut says = Vec::new();
        if is_due(self.fold_due_ms()) {
            says.extend(self.fold(now_ms));
        }
        if is_due(self.stall_due_ms()) && self.stand.stalled_at != Some(self.length) {
            self.stand.stalled_at = Some(self.length);
            says.push(Say::Stalled { at: self.length, silence_ms });
        }
        if is_due(self.progress_due_ms()) {
            says.push(Say::Progress { from: self.stand.progress_offset, to: self.length, silence_ms });
            self.stand.given = self.stand.given.saturating_add(1);
            self.stand.progress_at_ms = now_ms;
            self.stand.progress_offset = self.length;
        }
        says
    }

    /// What is still to be told before the task's end is.
    pub fn end(&mut self, now_ms: u64) -> Option<Say> {
        self.fold(now_ms)
    }

    fn fold(&mut self, now_ms: u64) -> Option<Say> {
        let count = self.stand.matches.saturating_sub(MATCHES_MAX);
        if count <= self.stand.folded {
            return None;
        }
        self.stand.folded = count;
        self.stand.folds = self.stand.folds.saturating_add(1);
        self.stand.match_at_ms = now_ms;
        Some(Say::Folded { count })
    }

    fn progress_due_ms(&self) -> Option<u64> {
        let pause_ms = self.rules.progress?.pause_ms(self.stand.given);
        Some(self.stand.progress_at_ms.saturating_add(pause_ms))
    }

    /// After a silence was told, the next look is for output that ended it unseen.
    fn stall_due_ms(&self) -> Option<u64> {
        let told = self.stand.stalled_at == Some(self.length);
        let since_ms = if told { self.looked_ms } else { self.last_output_ms };
        Some(since_ms.saturating_add(self.rules.stall_ms?))
    }

    fn fold_due_ms(&self) -> Option<u64> {
        let untold = self.stand.matches.saturating_sub(MATCHES_MAX) > self.stand.folded;
        let pause_ms = FOLD_PACE.pause_ms(self.stand.folds);
        untold.then(|| self.stand.match_at_ms.saturating_add(pause_ms))
    }
}
