//! Where the statically linked main program starts: with the front, and if that leaves it alone, with the C library as always.
//!
//! glibc asks the processor some seventy times what it is (cpuid) before `main` of a static program, and on a virtual machine
//! each of these questions leaves the machine: half a millisecond, which is more than all that a plain `run` has to do. The front
//! (`front/mod.rs`) needs no C library. It is bytes that run wherever they are, made by `build.rs`, and uses nothing of ours
//! but `RINGBACK_FRONT_LEFT`.

use std::os::fd::{FromRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What the front leaves (`front::Left`): a connection, or 0, and how much of the answer is on stdout. The C library does not touch
/// what is zero at the start.
#[cfg_attr(has_front, unsafe(no_mangle))]
static RINGBACK_FRONT_LEFT: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];

#[cfg(has_front)]
core::arch::global_asm!(
    ".section .text.ringback_start, \"ax\", @progbits",
    ".globl ringback_start",
    ".type ringback_start, @function",
    "ringback_start:",
    // The kernel's stack pointer is aligned, and rdx is for the C library (System V ABI).
    "mov rdi, rsp",
    "push rdx",
    "sub rsp, 8",
    "lea rsi, [rip + RINGBACK_FRONT_LEFT]",
    "call 2f",
    "add rsp, 8",
    "pop rdx",
    "jmp _start",
    ".balign 16",
    "2:",
    // One that was compiled anew is another text.
    concat!("# ", env!("RINGBACK_FRONT_SUM")),
    concat!(".incbin \"", env!("OUT_DIR"), "/ringback-front\""),
    ".text",
);

/// Where no front could be built.
#[cfg(all(not(has_front), target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
core::arch::global_asm!(
    ".section .text.ringback_start, \"ax\", @progbits",
    ".globl ringback_start",
    "ringback_start:",
    "jmp _start",
    ".text",
);

/// A request that the front has sent, and that nobody may send again.
#[derive(Debug)]
pub struct Sent {
    /// Where its answer comes, or has come.
    pub connection: UnixStream,
    /// How many bytes of that answer stand on stdout already.
    pub written: usize,
}

/// Takes over what the front has left, once.
pub fn take_sent() -> Option<Sent> {
    let [connection, written] = &RINGBACK_FRONT_LEFT;
    let fd = i32::try_from(connection.swap(0, Ordering::Relaxed)).ok().filter(|fd| *fd > 0)?;
    // SAFETY: the front opened it for us and left its number, which is given to one caller only.
    let connection = UnixStream::from(unsafe { OwnedFd::from_raw_fd(fd) });
    Some(Sent { connection, written: written.load(Ordering::Relaxed) })
}
