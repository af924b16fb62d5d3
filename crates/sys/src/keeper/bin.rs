//! The keeper as a binary of its own: no C library, no allocator, no unwinding; a few pages that live as long as a task.
#![no_std]
#![no_main]

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

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // Nobody is there to read a message; the lock is released, and the daemon sends another keeper.
    raw::process::exit(101)
}

/// The memory functions that the compiler calls; volatile-free loops would be compiled into calls of themselves.
mod memory_functions {
    #[cfg(target_arch = "x86_64")]
    use core::arch::asm;

    #[unsafe(no_mangle)]
    unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
        // SAFETY: the caller gives two ranges that do not overlap.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            asm!("rep movsb", inout("rcx") count => _, inout("rdi") to => _, inout("rsi") from => _, options(nostack));
            #[cfg(not(target_arch = "x86_64"))]
            for at in 0..count {
                to.add(at).write_volatile(from.add(at).read_volatile());
            }
        }
        to
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
        if (to as usize).wrapping_sub(from as usize) >= count {
            // SAFETY: going upwards, nothing is overwritten before it is read.
            return unsafe { memcpy(to, from, count) };
        }
        for at in (0..count).rev() {
            // SAFETY: going downwards, nothing is overwritten before it is read.
            unsafe { to.add(at).write_volatile(from.add(at).read_volatile()) };
        }
        to
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn memset(to: *mut u8, byte: i32, count: usize) -> *mut u8 {
        // SAFETY: the caller gives a writable range.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            asm!("rep stosb", inout("rcx") count => _, inout("rdi") to => _, in("al") byte as u8, options(nostack));
            #[cfg(not(target_arch = "x86_64"))]
            for at in 0..count {
                to.add(at).write_volatile(byte as u8);
            }
        }
        to
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn memcmp(one: *const u8, other: *const u8, count: usize) -> i32 {
        for at in 0..count {
            // SAFETY: the caller gives two readable ranges.
            let (a, b) = unsafe { (one.add(at).read_volatile(), other.add(at).read_volatile()) };
            if a != b {
                return i32::from(a) - i32::from(b);
            }
        }
        0
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn bcmp(one: *const u8, other: *const u8, count: usize) -> i32 {
        // SAFETY: as for memcmp.
        unsafe { memcmp(one, other, count) }
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn strlen(text: *const u8) -> usize {
        let mut length = 0;
        // SAFETY: the caller gives a NUL-terminated string.
        while unsafe { text.add(length).read_volatile() } != 0 {
            length += 1;
        }
        length
    }
}
