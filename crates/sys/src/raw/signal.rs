//! Signals of this process.

use super::{Fd, Result, call, nr};

pub(crate) const HUP: i32 = 1;
pub(crate) const INT: i32 = 2;
pub(crate) const KILL: i32 = 9;
pub(crate) const USR1: i32 = 10;
pub(crate) const TERM: i32 = 15;
pub(crate) const CHLD: i32 = 17;
pub(crate) const CONT: i32 = 18;
pub(crate) const STOP: i32 = 19;
/// The highest signal number.
pub(crate) const LAST: i32 = 64;

/// The kernel's signal set is one 64-bit word.
const SET_BYTES: usize = 8;

/// Replaces the mask of blocked signals.
pub(crate) fn set_mask(blocked: u64) {
    const SETMASK: usize = 2;
    let set = blocked;
    // SAFETY: the set lives until the call is over.
    let _ = unsafe { call(nr::RT_SIGPROCMASK, [SETMASK, &raw const set as usize, 0, SET_BYTES]) };
}

/// Gives every signal its default action; an ignored one would stay ignored across execve(2).
pub(crate) fn reset_actions() {
    // `struct sigaction` of the kernel is at most four words; all zero is SIG_DFL without flags.
    let default = [0_u64; 4];
    for number in 1..=LAST {
        // SAFETY: the action lives until the call is over; the two unchangeable signals just answer EINVAL.
        let _ = unsafe { call(nr::RT_SIGACTION, [number as usize, default.as_ptr() as usize, 0, SET_BYTES]) };
    }
}

/// A file that is readable while one of `numbers` is pending (signalfd(2)).
pub(crate) fn as_file(numbers: &[i32]) -> Result<Fd> {
    const NONBLOCK_CLOEXEC: usize = 0o4000 | 0o2_000_000;
    let mut set = 0_u64;
    for number in numbers {
        set |= 1 << (number - 1);
    }
    // SAFETY: the set lives until the call is over.
    unsafe { call(nr::SIGNALFD4, [usize::MAX, &raw const set as usize, SET_BYTES, NONBLOCK_CLOEXEC]) }.map(Fd::owned)
}
