//! Clocks.

use super::{call, nr};

fn clock_ms(clock: usize) -> u64 {
    let mut time = [0_u64; 2];
    // SAFETY: the two words live until the call is over.
    let _ = unsafe { call(nr::CLOCK_GETTIME, [clock, time.as_mut_ptr() as usize]) };
    time[0] * 1000 + time[1] / 1_000_000
}

/// Wall clock, milliseconds after 1970.
pub(crate) fn wall_ms() -> u64 {
    clock_ms(0)
}

/// `CLOCK_MONOTONIC`, milliseconds: does not jump, and rests while the machine sleeps.
pub(crate) fn mono_ms() -> u64 {
    clock_ms(1)
}
