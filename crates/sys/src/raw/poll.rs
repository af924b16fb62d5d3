//! Waiting for one of several files (ppoll(2)).

use super::{Errno, Result, call, nr};

/// There is something to read.
pub(crate) const IN: i16 = 0x1;
/// Something exceptional: for files of the kernel, what was read has changed.
pub(crate) const PRI: i16 = 0x2;
/// There is room to write.
pub(crate) const OUT: i16 = 0x4;

/// One file to wait for; a negative number is skipped.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Slot {
    /// The file.
    pub(crate) fd: i32,
    /// What to wait for.
    pub(crate) events: i16,
    /// What there is.
    pub(crate) ready: i16,
}

impl Slot {
    /// Waits for `events` of `fd`.
    pub(crate) fn new(fd: i32, events: i16) -> Self {
        Self { fd, events, ready: 0 }
    }
}

/// Waits until a file is ready or `timeout_ms` has passed; without one, for ever.
pub(crate) fn wait(slots: &mut [Slot], timeout_ms: Option<u64>) -> Result<usize> {
    let limit = timeout_ms.map(|ms| [ms / 1000, ms % 1000 * 1_000_000]);
    let place = limit.as_ref().map_or(0, |limit| limit.as_ptr() as usize);
    // SAFETY: slots and limit live until the call is over; no signal mask is given.
    match unsafe { call(nr::PPOLL, [slots.as_mut_ptr() as usize, slots.len(), place, 0, 8]) } {
        Err(Errno::EINTR) => Ok(0),
        other => other,
    }
}
