//! The front as bytes of its own, which run wherever they are: no C library, no data that is written, no address in them.
#![no_std]
#![no_main]

#[path = "../bare.rs"]
mod bare;
#[path = "../form/mod.rs"]
mod form;
#[path = "mod.rs"]
mod front;
#[path = "../raw/mod.rs"]
mod raw;

/// Called by the start of the main program (`entry.rs`) with the stack as the kernel left it; comes back if the command line is
/// for the main program.
///
/// # Safety
/// The stack must be that of the start of a process (System V ABI), and nobody else may look at what is left.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".front.entry")]
unsafe extern "C" fn front(stack: *const usize, left: *mut front::Left) {
    // SAFETY: the caller answers for both.
    unsafe { front::run(stack, &mut *left) }
}
