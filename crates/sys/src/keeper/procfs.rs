//! What `/proc` says about processes (proc(5)).

use core::ffi::CStr;

use crate::raw::{Errno, Fd, Result, file};

/// What the keeper reads from `/proc/PID/stat`.
#[derive(Clone, Copy, Default)]
pub(super) struct Stat {
    /// One letter: R, S, D, T, Z …
    pub(super) state: u8,
    /// The parent's process id.
    pub(super) parent: i32,
    /// The session id.
    pub(super) session: i32,
    /// How many threads it has.
    pub(super) threads: u32,
    /// Start time in clock ticks after boot.
    pub(super) start_ticks: u64,
    /// Status word of wait(2), for a zombie that we may look into; else 0.
    pub(super) status: i32,
    /// The name, NUL padded.
    pub(super) comm: [u8; 16],
}

impl Stat {
    /// Whether the process is over; the leader of living threads also looks like a zombie, and is not.
    pub(super) fn is_dead(&self) -> bool {
        self.state == b'X' || (self.state == b'Z' && self.threads <= 1)
    }
}

/// `/proc/PID/stat`, or nothing if there is no such process.
pub(super) fn stat(pid: i32) -> Option<Stat> {
    read_stat(Path::new().text(b"/proc/").number(pid).text(b"/stat").as_c_str())
}

/// `/proc/self/stat`.
pub(super) fn own_stat() -> Option<Stat> {
    read_stat(c"/proc/self/stat")
}

fn read_stat(path: &CStr) -> Option<Stat> {
    let mut line = [0; 1024];
    let length = file::read(&file::open(path, file::flag::RDONLY).ok()?, &mut line).ok()?;
    parse_stat(line.get(..length)?)
}

/// The name may hold blanks and parentheses, so the fields start after the *last* `)`.
fn parse_stat(line: &[u8]) -> Option<Stat> {
    let name_start = line.iter().position(|&b| b == b'(')? + 1;
    let name_end = line.iter().rposition(|&b| b == b')')?;
    let mut stat = Stat::default();
    for (to, &from) in stat.comm.iter_mut().zip(line.get(name_start..name_end)?) {
        *to = from;
    }
    let fields = line.get(name_end + 2..)?.split(|&b| b == b' ');
    for (field, text) in (3..).zip(fields) {
        match field {
            3 => stat.state = *text.first()?,
            4 => stat.parent = i32::try_from(number(text)).ok()?,
            6 => stat.session = i32::try_from(number(text)).ok()?,
            20 => stat.threads = u32::try_from(number(text)).ok()?,
            22 => stat.start_ticks = number(text),
            52 => stat.status = i32::try_from(number(text)).ok()?,
            _ => {}
        }
    }
    Some(stat)
}

/// The digits at the head of `text`; anything else ends them.
fn number(text: &[u8]) -> u64 {
    let digits = text.iter().take_while(|b| b.is_ascii_digit());
    digits.fold(0, |sum, &b| sum.wrapping_mul(10).wrapping_add(u64::from(b - b'0')))
}

/// Calls `each` with the children of all threads of `pid`. Complete only while they are stopped (proc(5)).
pub(super) fn children(pid: i32, threads: u32, mut each: impl FnMut(i32)) -> Result<()> {
    if threads <= 1 {
        return children_of_thread(pid, pid, &mut each);
    }
    let directory = Path::new().text(b"/proc/").number(pid).text(b"/task");
    let tasks = file::open(directory.as_c_str(), file::flag::RDONLY)?;
    file::numbers_in(&tasks, |thread| {
        // A thread that is gone has given its children to another one.
        let _ = children_of_thread(pid, thread, &mut each);
    })
}

fn children_of_thread(pid: i32, thread: i32, each: &mut impl FnMut(i32)) -> Result<()> {
    let path = Path::new().text(b"/proc/").number(pid).text(b"/task/").number(thread).text(b"/children");
    let list = file::open(path.as_c_str(), file::flag::RDONLY)?;
    numbers(&list, each)
}

/// Calls `each` with every number in a list of processes, each of which is followed by a blank or a newline.
pub(super) fn numbers(list: &Fd, each: &mut impl FnMut(i32)) -> Result<()> {
    let mut buffer = [0; 2048];
    let mut number = 0;
    loop {
        let length = file::read(list, &mut buffer)?;
        for &byte in buffer.get(..length).unwrap_or_default() {
            if byte.is_ascii_digit() {
                number = number * 10 + i32::from(byte - b'0');
            } else if number != 0 {
                each(number);
                number = 0;
            }
        }
        // A list of this kind is cut only by the buffer (seq_file fills it if it can).
        if length < buffer.len() {
            return Ok(());
        }
    }
}

/// Whether `pid` is in a cgroup whose path names the task `id`, or below one.
pub(super) fn is_in_cgroup_of(pid: i32, id: &[u8]) -> bool {
    let path = Path::new().text(b"/proc/").number(pid).text(b"/cgroup");
    let Ok(paths) = file::open(path.as_c_str(), file::flag::RDONLY) else { return false };
    let mut buffer = [0; 1024];
    // How much of `-ID` the last bytes have matched; there is no `-` in an id, so a match can begin only at one.
    let mut matched = None;
    while let Ok(length @ 1..) = file::read(&paths, &mut buffer) {
        for &byte in buffer.get(..length).unwrap_or_default() {
            matched = match matched {
                _ if byte == b'-' => Some(0),
                Some(at) if id.get(at) == Some(&byte) => Some(at + 1),
                _ => None,
            };
            if matched == Some(id.len()) {
                return true;
            }
        }
    }
    false
}

/// Calls `each` with every process id there is.
pub(super) fn all(each: impl FnMut(i32)) {
    if let Ok(directory) = file::open(c"/proc", file::flag::RDONLY) {
        let _ = file::numbers_in(&directory, each);
    }
}

/// Whether the environment that `pid` was executed with has the entry `wanted` (`KEY=VALUE`).
pub(super) fn has_variable(pid: i32, wanted: &[u8]) -> bool {
    let path = Path::new().text(b"/proc/").number(pid).text(b"/environ");
    let Ok(environ) = file::open(path.as_c_str(), file::flag::RDONLY) else { return false };
    let mut buffer = [0; 4096];
    // How much of `wanted` the present entry has matched, or nothing after a difference.
    let mut matched = Some(0);
    while let Ok(length @ 1..) = file::read(&environ, &mut buffer) {
        for &byte in buffer.get(..length).unwrap_or_default() {
            if byte == 0 {
                if matched == Some(wanted.len()) {
                    return true;
                }
                matched = Some(0);
            } else {
                matched = matched.filter(|&at| wanted.get(at) == Some(&byte)).map(|at| at + 1);
            }
        }
    }
    matched == Some(wanted.len())
}

/// Whether `pid` belongs wholly to our own user, so that `/proc` hides nothing of it from us.
pub(super) fn is_same_user(pid: i32) -> bool {
    let own = users(c"/proc/self/status");
    own.is_some() && own == users(Path::new().text(b"/proc/").number(pid).text(b"/status").as_c_str())
}

/// The real, effective, saved and file system user in a `status` file, as they are written there.
fn users(path: &CStr) -> Option<[u8; 64]> {
    let mut text = [0; 1024];
    let length = file::open(path, file::flag::RDONLY).and_then(|file| read_once(&file, &mut text)).ok()?;
    let line = text.get(..length)?.split(|&b| b == b'\n').find(|line| line.starts_with(b"Uid:"))?;
    let mut users = [0; 64];
    users.get_mut(..line.len())?.copy_from_slice(line);
    Some(users)
}

/// How many processes and threads have our real user, which are those that the kernel counts for `RLIMIT_NPROC`
/// (setrlimit(2)); nothing without `/proc`.
pub(super) fn processes_of_user() -> Option<u64> {
    let real = |users: &[u8; 64]| users.split(|&b| b == b'\t').nth(1).map(number);
    let own = users(c"/proc/self/status").as_ref().and_then(real)?;
    let mut count = 0;
    all(|pid| {
        let users = users(Path::new().text(b"/proc/").number(pid).text(b"/status").as_c_str());
        if users.as_ref().and_then(real) == Some(own) {
            count += stat(pid).map_or(0, |stat| u64::from(stat.threads));
        }
    });
    Some(count)
}

/// Whether this is ringback itself at work below the task: a daemon that a command of the task called into being, or a
/// keeper of it. They serve everybody, so they are nobody's tree.
pub(super) fn is_ringback(pid: i32, comm: &[u8; 16]) -> bool {
    comm.starts_with(b"ringback")
        && (has_variable(pid, b"RINGBACK_DAEMON=1") || has_no_variables(pid) && keeps_a_task(pid))
}

/// A keeper has nothing in its environment (a test may have put its crash point there).
fn has_no_variables(pid: i32) -> bool {
    let mut head = [0; 15];
    let path = Path::new().text(b"/proc/").number(pid).text(b"/environ");
    let length = file::open(path.as_c_str(), file::flag::RDONLY).and_then(|file| read_once(&file, &mut head));
    matches!(length, Ok(0)) || &head == b"RINGBACK_CRASH="
}

/// Whether the record in the folder that this process stands in names it as the keeper, or nobody who lives: so a program
/// of somebody else that is only called like ours is told apart.
fn keeps_a_task(pid: i32) -> bool {
    let path = Path::new().text(b"/proc/").number(pid).text(b"/cwd/state");
    let record = file::open(path.as_c_str(), file::flag::RDONLY | file::flag::NONBLOCK)
        .ok()
        .and_then(|state| super::ledger::newest(&state));
    let Some(holder) = record.map(|record| record.keeper) else { return false };
    holder.pid == pid
        || !stat(holder.pid).is_some_and(|other| other.start_ticks == holder.start_ticks && !other.is_dead())
}

/// Whether our process ids are those of the machine (`PROC_PID_INIT_INO`, `include/linux/proc_ns.h`).
pub(super) fn is_in_first_pid_namespace() -> bool {
    let mut name = [0; 64];
    file::read_link(c"/proc/self/ns/pid", &mut name).is_ok_and(|name| name == c"pid:[4026531836]")
}

/// The boot id, as 16 bytes; zeros without `/proc`.
pub(super) fn boot_id() -> [u8; 16] {
    let mut text = [0; 64];
    let length = file::open(c"/proc/sys/kernel/random/boot_id", file::flag::RDONLY)
        .and_then(|file| read_once(&file, &mut text))
        .unwrap_or(0);
    let mut id = [0; 16];
    let digits = text.iter().take(length).filter_map(|&b| char::from(b).to_digit(16));
    for (at, digit) in digits.enumerate().take(32) {
        id[at / 2] = id[at / 2] << 4 | digit.to_le_bytes()[0];
    }
    id
}

fn read_once(fd: &Fd, buffer: &mut [u8]) -> Result<usize> {
    match file::read(fd, buffer) {
        Err(Errno::EINTR) => file::read(fd, buffer),
        other => other,
    }
}

/// A short path, put together without allocation.
struct Path {
    bytes: [u8; 64],
    length: usize,
}

impl Path {
    fn new() -> Self {
        Self { bytes: [0; 64], length: 0 }
    }

    fn text(mut self, text: &[u8]) -> Self {
        for &byte in text {
            // The last byte stays NUL; no path of ours comes near it.
            if self.length < self.bytes.len() - 1 {
                self.bytes[self.length] = byte;
                self.length += 1;
            }
        }
        self
    }

    fn number(self, number: i32) -> Self {
        let mut digits = [0; 10];
        let mut at = digits.len();
        let mut rest = number.unsigned_abs();
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10).to_le_bytes()[0];
            rest /= 10;
            if rest == 0 {
                return self.text(digits.get(at..).unwrap_or_default());
            }
        }
    }

    fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or(c"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_hides_no_field() {
        let line = b"77 (a) b (c)) T 5 7 6 0 -1 1 2 3 4 5 6 7 8 9 20 0 3 0 4242 9 9";
        let stat = parse_stat(line).unwrap();
        assert_eq!((stat.state, stat.parent, stat.session, stat.threads, stat.start_ticks), (b'T', 5, 6, 3, 4242));
        assert_eq!(&stat.comm[..9], b"a) b (c)\0");
    }

    #[test]
    fn this_process_has_a_stat_and_a_variable() {
        let pid = i32::try_from(std::process::id()).unwrap();
        assert_eq!(stat(pid).unwrap().start_ticks, own_stat().unwrap().start_ticks);
        let path = format!("PATH={}", std::env::var("PATH").unwrap());
        assert!(has_variable(pid, path.as_bytes()));
        assert!(!has_variable(pid, &path.as_bytes()[..path.len() - 1]));
        assert_ne!(boot_id(), [0; 16]);
        assert!(is_same_user(pid));
        assert!(processes_of_user() >= Some(u64::from(own_stat().unwrap().threads)));
        assert!(!is_ringback(pid, b"ringback-keeper\0") && !is_ringback(pid, b"sh\0\0\0\0\0\0\0\0\0\0\0\0\0\0"));
    }

    #[test]
    fn a_child_is_seen() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let mut seen = false;
        children(i32::try_from(std::process::id()).unwrap(), 2, |pid| seen |= pid == child.id().cast_signed()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(seen);
    }
}
