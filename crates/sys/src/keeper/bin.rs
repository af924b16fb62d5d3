//! The keeper as a binary of its own: no C library, no allocator, no unwinding; a few pages that live as long as a task.
#![no_std]
#![no_main]

#[path = "../bare.rs"]
mod bare;
#[path = "../form/mod.rs"]
mod form;
#[path = "mod.rs"]
mod keeper;
#[path = "../raw/mod.rs"]
mod raw;

use core::ffi::CStr;

#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    ".globl _start",
    "_start:",
    "xor ebp, ebp",
    "mov rdi, rsp",
    "and rsp, -16",
    "call {start}",
    "ud2",
    start = sym start,
);

#[cfg(target_arch = "aarch64")]
core::arch::global_asm!(
    ".globl _start",
    "_start:",
    "mov x29, xzr",
    "mov x30, xzr",
    "mov x0, sp",
    "bl {start}",
    "brk 1",
    start = sym start,
);

/// The stack at the start: argc, the arguments, 0, the environment, 0 (System V ABI).
unsafe extern "C" fn start(stack: *const usize) -> ! {
    // SAFETY: the kernel put the strings there, and they stay for the life of the process.
    let (arguments, crash) = unsafe {
        let count = *stack;
        let argument = |at: usize| (at < count).then(|| CStr::from_ptr(*stack.add(1 + at) as *const _));
        let mut entry = stack.add(count + 2);
        let mut crash = None;
        while *entry != 0 {
            let text = CStr::from_ptr(*entry as *const _);
            if let Some(value) = text.to_bytes_with_nul().strip_prefix(b"RINGBACK_CRASH=") {
                crash = CStr::from_bytes_with_nul(value).ok();
            }
            entry = entry.add(1);
        }
        ([argument(0), argument(1), argument(2)], crash)
    };
    raw::process::exit(keeper::run(arguments, crash))
}
