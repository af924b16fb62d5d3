//! Chance that can be named. On the real system the same seed makes the same choices, not the same moments.

use std::time::Duration;

/// A source of numbers (xorshift64*).
#[derive(Clone, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        let mixed = (seed.wrapping_add(0x9e37_79b9_7f4a_7c15) ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        Self((mixed ^ (mixed >> 27)) | 1)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % limit.max(1)
    }

    /// True once in `times`.
    pub(crate) fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// Lets a random moment pass: chance is all that is waited for.
    pub(crate) fn moment(&mut self, most: Duration) {
        let nanos = self.below(u64::try_from(most.as_nanos()).unwrap_or(u64::MAX));
        pause(Duration::from_nanos(nanos));
    }
}

/// Lets this much time pass.
pub(crate) fn pause(time: Duration) {
    let time = rustix::event::Timespec::try_from(time).unwrap_or(rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 });
    let _ = rustix::event::poll(&mut [], Some(&time));
}

/// Another seed for each run that names none.
pub(crate) fn time_of_day() -> u64 {
    std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(1, |since| since.as_secs()) << 20
}
