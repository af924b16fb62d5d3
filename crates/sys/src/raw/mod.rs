//! Linux system calls without a C library, so that the keeper can be a few pages of static code.
//!
//! The same files are compiled into this crate and into the keeper's own freestanding binary.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "a system call takes and gives machine words; every number here came from one or goes into one"
)]

#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
#[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), path = "other.rs")]
mod arch;
#[cfg(any(front, all(test, target_arch = "x86_64")))]
pub(crate) mod caller;
mod errno;
pub(crate) mod file;
pub(crate) mod landlock;
pub(crate) mod memory;
pub(crate) mod poll;
pub(crate) mod process;
pub(crate) mod signal;
#[cfg(any(front, all(test, target_arch = "x86_64")))]
pub(crate) mod socket;
pub(crate) mod terminal;
pub(crate) mod time;

pub(crate) use errno::{Errno, Result};
pub(crate) use file::Fd;

use arch::nr;

/// Does system call `number` and turns the kernel's answer into a result (errno(3): −4095 to −1 are errors).
///
/// # Safety
/// The arguments must be right for that call; pointers among them must be valid for what the kernel does with them.
#[inline]
unsafe fn call<const N: usize>(number: usize, arguments: [usize; N]) -> Result<usize> {
    let mut words = [0; 6];
    words[..N].copy_from_slice(&arguments);
    // SAFETY: the caller answers for the arguments.
    let answer = unsafe { arch::syscall(number, words) };
    if (-4095..0).contains(&answer) { Err(Errno(-answer as i32)) } else { Ok(answer as usize) }
}
