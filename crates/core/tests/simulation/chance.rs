//! Chance that can be named: the same seed gives the same world, step for step.

/// A source of numbers (xorshift64*; the quality of a die is all that is asked of it).
#[derive(Clone, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        // Seeds that are near each other give worlds that are not (splitmix64).
        let mixed = (seed.wrapping_add(0x9e37_79b9_7f4a_7c15) ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        Self((mixed ^ (mixed >> 27)) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        ((self.next() >> 33) as usize) % limit.max(1)
    }

    /// True once in `times`.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One of these.
    pub(crate) fn pick<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        if all.is_empty() { None } else { Some(all[self.below(all.len())]) }
    }
}
