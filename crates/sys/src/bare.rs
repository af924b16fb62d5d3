//! What a program without a C library needs all the same: an end for what cannot go on, and the memory functions that the
//! compiler calls. Volatile-free loops would be compiled into calls of themselves.

#[cfg(target_arch = "x86_64")]
use core::arch::asm;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // Nobody is there to read a message; the lock is released, and the daemon sends another keeper.
    crate::raw::process::exit(101)
}

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
