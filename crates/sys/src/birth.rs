//! What only the beginning of a process shows: which standard descriptors it was born without, and where its arguments are.
//!
//! The standard library puts `/dev/null` in the place of a closed descriptor 0, 1 or 2 before `main`, so that a write to a
//! closed stdout seems to succeed. Who has to know whether it was read asks here.

use std::ffi::{c_char, c_int};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize, Ordering};

/// One bit for each of the descriptors 0, 1 and 2 that was closed.
static CLOSED: AtomicU8 = AtomicU8::new(0);
/// The arguments where the kernel put them; none before [`look`], or with a C library that does not tell.
static ARGUMENTS: AtomicPtr<*mut c_char> = AtomicPtr::new(null_mut());
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Run by the loader before the standard library repairs the descriptors (`DT_INIT_ARRAY`, gABI chapter 5).
#[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
// SAFETY: the section holds pointers to functions; glibc passes argc, argv and the environment, of which two are taken.
#[unsafe(link_section = ".init_array")]
#[used]
static LOOK: extern "C" fn(c_int, *mut *mut c_char) = look;

#[cfg_attr(
    not(all(target_os = "linux", target_env = "gnu", not(miri))),
    expect(dead_code, reason = "other loaders pass nothing, and miri neither")
)]
extern "C" fn look(count: c_int, arguments: *mut *mut c_char) {
    ARGUMENTS.store(arguments, Ordering::Relaxed);
    COUNT.store(usize::try_from(count).unwrap_or(0), Ordering::Relaxed);
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

/// Takes the arguments from this one on out of what others see of this process (`/proc/PID/cmdline`, ps(1)).
///
/// To be called by a program with one thread, once it has read them: they are empty afterwards, here too.
pub fn hide_arguments(from: usize) {
    let (arguments, count) = (ARGUMENTS.load(Ordering::Relaxed), COUNT.load(Ordering::Relaxed));
    if arguments.is_null() {
        return;
    }
    for at in from..count {
        // SAFETY: glibc gave an array of `count` pointers to NUL-terminated strings on our stack, which are writable
        // (execve(2), ABI) and live as long as the process; nobody else reads them now.
        unsafe {
            let text = *arguments.add(at);
            if !text.is_null() {
                text.write_bytes(0, libc::strlen(text));
            }
        }
    }
}
