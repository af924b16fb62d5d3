//! Whether the kernel's out-of-memory killer ended a process: by the count of its cgroup, or by the kernel's own log.
//!
//! A SIGKILL alone says nothing of who sent it. Without evidence it is not called so.

use super::{cgroup, procfs};
use crate::form::record::Record;
use crate::raw::{Errno, file};

/// Longest record of the kernel's log (`PRINTK_MESSAGE_MAX`, `kernel/printk`).
const MESSAGE_BYTES: usize = 2048;
/// How many records are looked at: more than any log holds.
const MESSAGES_MAX: u32 = 1 << 20;
/// The log's clock and `CLOCK_MONOTONIC` drift apart by less than this, milliseconds.
const DRIFT_MS: u64 = 10_000;

/// Whether there is evidence that the main process, which SIGKILL has ended, was killed for want of memory.
#[inline(never)]
pub(super) fn killed(record: &Record, in_cgroup: bool) -> bool {
    // The count is of the whole cgroup, so a child may have been meant; the log names the process.
    is_in_log(record.main.pid, record.started_mono_ms).unwrap_or(in_cgroup && cgroup::oom_kills() > 0)
}

/// Whether the kernel's log says so of this process (`/dev/kmsg`); nothing where we may not read it.
fn is_in_log(pid: i32, started_ms: u64) -> Option<bool> {
    // The log has the numbers of the first pid namespace.
    if !procfs::is_in_first_pid_namespace() {
        return None;
    }
    let log = file::open(c"/dev/kmsg", file::flag::RDONLY | file::flag::NONBLOCK).ok()?;
    let mut message = [0; MESSAGE_BYTES];
    for _ in 0..MESSAGES_MAX {
        match file::read(&log, &mut message) {
            Ok(length) => {
                if message.get(..length).is_some_and(|message| names(message, pid, started_ms)) {
                    return Some(true);
                }
            }
            // Overwritten while we read, or longer than what we look for.
            Err(Errno::EPIPE | Errno::EINVAL | Errno::EINTR) => {}
            Err(_) => return Some(false),
        }
    }
    Some(false)
}

/// Whether this record (`level,number,microseconds,flags;text`) names the process as killed, and is not older than it.
fn names(message: &[u8], pid: i32, started_ms: u64) -> bool {
    const BEFORE: &[u8] = b"ut of memory: Killed process ";
    let Some(at) = message.windows(BEFORE.len()).position(|window| window == BEFORE) else { return false };
    let number = |digits: &[u8]| {
        let digits = digits.iter().take_while(|b| b.is_ascii_digit());
        digits.fold(0_u64, |sum, &b| sum.wrapping_mul(10).wrapping_add(u64::from(b - b'0')))
    };
    let microseconds = message.split(|&b| b == b',').nth(2).map_or(0, number);
    let named = message.get(at + BEFORE.len()..).map_or(0, number);
    u64::try_from(pid) == Ok(named) && pid > 0 && microseconds / 1000 + DRIFT_MS >= started_ms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_word_of_the_kernel_about_this_process_counts() {
        let global = b"3,900,61000000,-;Out of memory: Killed process 77 (sh) total-vm:1kB";
        let group = b"3,901,61000000,-;Memory cgroup out of memory: Killed process 77 (sh) total-vm:1kB";
        assert!(names(global, 77, 60_000) && names(group, 77, 60_000));
        assert!(!names(global, 7, 60_000) && !names(global, 777, 60_000) && !names(global, 0, 60_000));
        assert!(!names(group, 77, 90_000), "the number was another process's then");
        assert!(!names(b"6,902,61000000,-;Killed process 77 (sh)", 77, 60_000));
    }
}
