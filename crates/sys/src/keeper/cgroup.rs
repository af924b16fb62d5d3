//! The cgroup of a task (cgroups(7), version 2): its tree is born in it, and is listed and killed by it.
//!
//! `cgroup` in the task folder says where it is, so that whoever holds the task later finds it. (It is no link: the mode of one
//! is 0777, and in a home nothing is open to others.) Nobody leaves a cgroup by forking, by a session of his own or by an empty
//! environment, only by writing himself into another one; such a process is still found as every other is.

use core::ffi::CStr;

use super::procfs;
use crate::raw::{Errno, Fd, Result, file, poll, time};

/// How deep cgroups that the task itself makes are looked into.
const DEPTH_MAX: u32 = 8;
/// How long somebody who is dying may still be in it, milliseconds: some microseconds, and more on a machine that is busy.
const DYING_MS: u64 = 1_000;
/// The longest path of one, bytes: a page of stack for each look would be a page more for each task.
const PATH_BYTES: usize = 1024;

/// Makes the cgroup at `path` and notes where it is; whether both was done.
#[inline(never)]
pub(super) fn make(path: &CStr) -> bool {
    // What does not fit is not found again.
    let fits = path.to_bytes().len() < PATH_BYTES;
    if !fits || !matches!(file::make_directory(path), Ok(()) | Err(Errno::EEXIST)) {
        return false;
    }
    let noted = note(path);
    if noted.is_err() {
        let _ = file::remove_directory(path);
    }
    noted.is_ok()
}

/// Writes down where it is.
fn note(path: &CStr) -> Result<()> {
    const HOW: usize = file::flag::WRONLY | file::flag::CREAT | file::flag::EXCL;
    // An earlier keeper of this task, which started nothing, may have made one elsewhere.
    let own = file::open(c"cgroup", HOW).or_else(|_| {
        file::unlink(c"cgroup")?;
        file::open(c"cgroup", HOW)
    })?;
    let written = file::write(&own, path.to_bytes())?;
    if written == path.to_bytes().len() { Ok(()) } else { Err(Errno::ENOSPC) }
}

/// Where it is, as its keeper has noted. Whatever somebody has put in the place of the note holds nobody up.
fn noted(buffer: &mut [u8; PATH_BYTES]) -> Result<&CStr> {
    let (last, room) = buffer.split_last_mut().ok_or(Errno::EINVAL)?;
    *last = 0;
    let length = file::read(&file::open_to_read(c"cgroup")?, room)?;
    if length == 0 {
        return Err(Errno::ENOENT);
    }
    CStr::from_bytes_until_nul(buffer).map_err(|_| Errno::EINVAL)
}

/// What the note leads to.
fn place() -> Result<Fd> {
    let mut buffer = [0; PATH_BYTES];
    file::open_to_read(noted(&mut buffer)?)
}

/// The cgroup, to be born in or to be looked into. Where the note leads to anything else, that is no cgroup.
pub(super) fn open() -> Result<Fd> {
    let own = place()?;
    if file::is_of_cgroups(&own) { Ok(own) } else { Err(Errno::EINVAL) }
}

/// Opens one of its files.
fn open_own(name: &CStr, how: usize) -> Result<Fd> {
    file::open_in(&open()?, name, how)
}

/// Whether the task has one.
pub(super) fn is_there() -> bool {
    open().is_ok()
}

/// Puts this process into it: for a child that could not be born there. Slower, as the kernel lets nobody fork meanwhile.
pub(super) fn enter() -> Result<()> {
    let processes = file::open_in(&place()?, c"cgroup.procs", file::flag::WRONLY | file::flag::NONBLOCK)?;
    file::write(&processes, b"0").map(drop)
}

/// Writes numbers into one of its files, with a space between, before there is anybody in it; an error where its controller is not
/// on.
pub(super) fn set(name: &CStr, numbers: &[u64]) -> Result<()> {
    let mut text = [0; NUMBERS_BYTES];
    let text = written(&mut text, numbers).ok_or(Errno::EINVAL)?;
    let limit = file::open_in(&place()?, name, file::flag::WRONLY | file::flag::NONBLOCK)?;
    file::write(&limit, text).map(drop)
}

/// Room for two numbers.
const NUMBERS_BYTES: usize = 48;

/// The numbers as text, in the end of the buffer.
fn written<'a>(buffer: &'a mut [u8; NUMBERS_BYTES], numbers: &[u64]) -> Option<&'a [u8]> {
    let mut at = buffer.len();
    let mut put = |buffer: &mut [u8; NUMBERS_BYTES], byte: u8| {
        at = at.checked_sub(1)?;
        *buffer.get_mut(at)? = byte;
        Some(at)
    };
    let mut start = 0;
    for (place, &number) in numbers.iter().enumerate().rev() {
        let mut rest = number;
        loop {
            start = put(buffer, *b"0123456789".get((rest % 10) as usize)?)?;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if place > 0 {
            put(buffer, b' ')?;
        }
    }
    buffer.get(start..)
}

/// Kills everybody in it at once, with those who are being forked (`cgroup.kill`, Linux 5.14).
pub(super) fn kill() -> Result<()> {
    let kill = open_own(c"cgroup.kill", file::flag::WRONLY)?;
    file::write(&kill, b"1").map(drop)
}

/// Whether a living process is in it or below it, by the kernel's own count; a zombie is none.
pub(super) fn is_populated() -> bool {
    match open_own(c"cgroup.events", file::flag::RDONLY) {
        Ok(events) => says_populated(&events),
        // A cgroup that was removed was empty.
        Err(error) => error != Errno::ENOENT,
    }
}

fn says_populated(events: &Fd) -> bool {
    let mut text = [0; 256];
    match file::read_at(events, &mut text, 0) {
        Ok(length) => text.get(..length).is_none_or(|text| value(text, b"populated") != Some(0)),
        Err(error) => error != Errno::ENODEV,
    }
}

/// Waits until nobody is in it, or until then.
pub(super) fn wait_until_empty(until_ms: u64) {
    let Ok(events) = open_own(c"cgroup.events", file::flag::RDONLY) else { return };
    while says_populated(&events) {
        // What changes after it was read is told as an exceptional condition (cgroup-v2.rst, `cgroup.events`).
        let left_ms = until_ms.saturating_sub(time::mono_ms());
        let told = poll::wait(&mut [poll::Slot::new(events.number(), poll::PRI)], Some(left_ms));
        if left_ms == 0 || told.is_err() {
            return;
        }
    }
}

/// How many processes in it or below it the kernel has killed for want of memory, where the memory controller is on.
pub(super) fn oom_kills() -> u64 {
    let mut text = [0; 512];
    let read = open_own(c"memory.events", file::flag::RDONLY).and_then(|file| file::read(&file, &mut text));
    read.ok().and_then(|length| value(text.get(..length)?, b"oom_kill")).unwrap_or(0)
}

/// The number after `key` in a file of lines with a key and a number each.
fn value(text: &[u8], key: &[u8]) -> Option<u64> {
    let number = |line: &[u8]| {
        let digits = line.strip_prefix(key)?.strip_prefix(b" ")?;
        Some(digits.iter().fold(0_u64, |sum, &b| sum.wrapping_mul(10).wrapping_add(u64::from(b.wrapping_sub(b'0')))))
    };
    text.split(|&b| b == b'\n').find_map(number)
}

/// Calls `each` with every process in it and below it.
pub(super) fn processes(mut each: impl FnMut(i32)) {
    if let Ok(own) = open() {
        processes_in(&own, DEPTH_MAX, &mut each);
    }
}

fn processes_in(directory: &Fd, depth: u32, each: &mut impl FnMut(i32)) {
    if let Ok(list) = file::open_in(directory, c"cgroup.procs", file::flag::RDONLY) {
        let _ = procfs::numbers(&list, each);
    }
    if depth > 0 {
        let _ = file::directories_in(directory, |name| {
            if let Ok(below) = file::open_in(directory, name, file::flag::RDONLY) {
                processes_in(&below, depth - 1, each);
            }
        });
    }
}

/// Removes it, if nobody is in it; whoever finds it empty later may do that as well.
///
/// Who has just died is in it for a moment more: the kernel lets the parent of a vforked child go on as soon as that has let go
/// of its memory, and takes the child out of its cgroup after that (`do_exit`, kernel/exit.c).
#[inline(never)]
pub(super) fn remove() {
    let mut buffer = [0; PATH_BYTES];
    let Ok(path) = noted(&mut buffer) else { return };
    let mut removed = file::remove_directory(path);
    if removed == Err(Errno::EBUSY) {
        wait_until_empty(time::mono_ms() + DYING_MS);
        removed = file::remove_directory(path);
    }
    if removed.is_err()
        && let Ok(own) = open()
    {
        remove_below(&own, DEPTH_MAX);
        let _ = file::remove_directory(path);
    }
}

fn remove_below(directory: &Fd, depth: u32) {
    let _ = file::directories_in(directory, |name| {
        if depth > 0
            && let Ok(below) = file::open_in(directory, name, file::flag::RDONLY)
        {
            remove_below(&below, depth - 1);
        }
        let _ = file::remove_directory_in(directory, name);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_the_kernel_reads_them() {
        let text = |numbers: &[u64]| String::from_utf8(written(&mut [0; _], numbers).unwrap().to_vec()).unwrap();
        assert_eq!((text(&[0]), text(&[50_000, 100_000])), ("0".to_owned(), "50000 100000".to_owned()));
        assert_eq!(text(&[u64::MAX, u64::MAX]), "18446744073709551615 18446744073709551615");
    }

    #[test]
    fn a_key_is_not_a_part_of_another_key() {
        let text = b"xpopulated 7\npopulated 1\nfrozen 0\n";
        assert_eq!((value(text, b"populated"), value(text, b"frozen"), value(text, b"oom")), (Some(1), Some(0), None));
    }
}
