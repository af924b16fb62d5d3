//! Which of the standard descriptors this process was born without.
//!
//! The standard library puts `/dev/null` in the place of a closed descriptor 0, 1 or 2 before `main`, so that a write to a
//! closed stdout seems to succeed. Who has to know whether it was read asks here.

use std::sync::atomic::{AtomicU8, Ordering};

/// One bit for each of the descriptors 0, 1 and 2 that was closed.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// Run by the loader before the standard library repairs the descriptors (`DT_INIT_ARRAY`, gABI chapter 5).
#[cfg(target_os = "linux")]
// SAFETY: the section holds pointers to functions that take what the loader passes (which may be ignored) and return.
#[unsafe(link_section = ".init_array")]
#[used]
static LOOK: extern "C" fn() = look;

#[cfg(target_os = "linux")]
extern "C" fn look() {
    for fd in 0..3 {
        // SAFETY: asks for the flags of a descriptor by number, which touches no memory and may name a closed one.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
            CLOSED.fetch_or(1 << fd, Ordering::Relaxed);
        }
    }
}

/// Whether stdout was closed when this process began.
pub fn stdout_was_closed() -> bool {
    CLOSED.load(Ordering::Relaxed) & 0b010 != 0
}
