//! Processes as they are seen from outside: found by what they carry, signalled through a pidfd.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// All processes, by number.
fn all() -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers.filter_map(Pid::from_raw).collect()
}

fn file(pid: Pid, name: &str) -> Vec<u8> {
    fs::read(format!("/proc/{}/{name}", pid.as_raw_nonzero())).unwrap_or_default()
}

/// Who holds a lock of flock(2), and on the file of which number: `1: FLOCK ADVISORY WRITE 7 fe:00:42 0 EOF` (proc(5)).
fn holders() -> Vec<(Pid, u64)> {
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    let holder = |line: &str| {
        let mut words = line.split_whitespace().skip_while(|word| *word != "FLOCK").skip(3);
        let pid = Pid::from_raw(words.next()?.parse().ok()?)?;
        Some((pid, words.next()?.rsplit(':').next()?.parse().ok()?))
    };
    locks.lines().filter_map(holder).collect()
}

/// The keepers of a home, each with the id of its task.
pub(crate) fn keepers(home: &Path) -> Vec<(Pid, String)> {
    keepers_among(all(), home)
}

/// Those of them that hold the lock of their task: all but the ones that are just being started. It costs little to look.
pub(crate) fn settled_keepers(home: &Path) -> Vec<(Pid, String)> {
    keepers_among(holders().into_iter().map(|(pid, _)| pid).collect(), home)
}

fn keepers_among(pids: Vec<Pid>, home: &Path) -> Vec<(Pid, String)> {
    let folder = |pid: &Pid| fs::read_link(format!("/proc/{}/cwd", pid.as_raw_nonzero())).ok();
    let is_keeper = |pid: &Pid| file(*pid, "cmdline").starts_with(b"ringback-keeper\0");
    let task = |pid: Pid| {
        let folder = folder(&pid).filter(|folder| folder.starts_with(home))?;
        Some((pid, folder.file_name()?.to_str()?.trim_end_matches(" (deleted)").to_owned()))
    };
    pids.into_iter().filter(is_keeper).filter_map(task).collect()
}

/// The processes whose command line has this word among its arguments.
pub(crate) fn with_argument(program: &str, argument: &str) -> Vec<Pid> {
    let fits = |pid: &Pid| {
        let line = file(*pid, "cmdline");
        let mut words = line.split(|byte| *byte == 0);
        let first = String::from_utf8_lossy(words.next().unwrap_or_default()).into_owned();
        first.ends_with(program) && (argument.is_empty() || words.any(|word| word == argument.as_bytes()))
    };
    all().into_iter().filter(fits).collect()
}

/// The daemon of a home: who holds its lock.
pub(crate) fn daemon(home: &Path) -> Option<Pid> {
    let lock = fs::metadata(home.join("daemon.lock")).ok()?.ino();
    let holds = holders().into_iter().filter(|(_, file)| *file == lock).map(|(pid, _)| pid);
    holds.into_iter().find(|pid| command_line(*pid).contains("daemon"))
}

/// The living processes with exactly this entry in the environment they were started with, but not ours or ringback's.
pub(crate) fn marked(entry: &str) -> Vec<Pid> {
    all().into_iter().filter(|pid| has_environment(*pid, entry) && is_foreign(*pid) && is_alive(*pid)).collect()
}

/// The living processes of a task: those in its cgroup, or, where it has none, those with its mark.
pub(crate) fn members(home: &Path, task: &str) -> Vec<Pid> {
    let cgroup = home.join("t").join(task.get(..2).unwrap_or_default()).join(task).join("cgroup/cgroup.procs");
    let pids = match fs::read_to_string(cgroup) {
        Ok(numbers) => numbers.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)).collect(),
        Err(_) => all(),
    };
    let is_member = |pid: &Pid| task_of(*pid).is_some_and(|other| other == task) && is_foreign(*pid) && is_alive(*pid);
    pids.into_iter().filter(is_member).collect()
}

fn is_foreign(pid: Pid) -> bool {
    let own = std::process::id().cast_signed();
    let line = file(pid, "cmdline");
    let name = line.split(|byte| *byte == 0).next().unwrap_or_default();
    // The daemon starts its own program by another name.
    let exe = fs::read_link(format!("/proc/{}/exe", pid.as_raw_nonzero())).unwrap_or_default();
    let is_ours = exe.file_name().is_some_and(|name| name.to_string_lossy().starts_with("ringback"));
    pid.as_raw_nonzero().get() != own && !is_ours && !name.starts_with(b"ringback-keeper")
}

/// Whether a process was started with exactly this entry in its environment.
pub(crate) fn has_environment(pid: Pid, entry: &str) -> bool {
    file(pid, "environ").split(|byte| *byte == 0).any(|one| one == entry.as_bytes())
}

/// The task of which this process is.
pub(crate) fn task_of(pid: Pid) -> Option<String> {
    let environment = file(pid, "environ");
    let entry = environment.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(b"RINGBACK_ID="))?;
    String::from_utf8(entry.to_vec()).ok()
}

/// What a process is called.
pub(crate) fn command_line(pid: Pid) -> String {
    String::from_utf8_lossy(&file(pid, "cmdline")).replace('\0', " ")
}

/// Whether a process lives; a zombie does not.
pub(crate) fn is_alive(pid: Pid) -> bool {
    pidfd_open(pid, PidfdFlags::empty()).is_ok_and(|process| !ended(&process, Duration::ZERO))
}

/// Sends SIGKILL to this process, if it is still what `check` says, and waits until it is gone.
pub(crate) fn kill(pid: Pid, check: impl Fn(Pid) -> bool) -> bool {
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
    // The number may have been given away before it was opened, but not since.
    if !check(pid) || pidfd_send_signal(&process, Signal::KILL).is_err() {
        return false;
    }
    ended(&process, Duration::from_secs(10))
}

/// Sends SIGKILL, and does not wait: who waits for a disk dies when that answers.
pub(crate) fn send_kill(pid: Pid) {
    if let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) {
        let _ = pidfd_send_signal(&process, Signal::KILL);
    }
}

/// Waits until a process is gone; false if it was not in time.
pub(crate) fn until_gone(pid: Pid, patience: Duration) -> bool {
    pidfd_open(pid, PidfdFlags::empty()).map_or(true, |process| ended(&process, patience))
}

/// What a process takes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Load {
    /// Resident memory, bytes.
    pub(crate) rss_bytes: u64,
    /// Open descriptors.
    pub(crate) fds: u64,
    pub(crate) threads: u64,
}

impl Load {
    /// More than anything.
    pub(crate) const MOST: Self = Self { rss_bytes: u64::MAX, fds: u64::MAX, threads: u64::MAX };

    /// Both together.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            rss_bytes: self.rss_bytes + other.rss_bytes,
            fds: self.fds + other.fds,
            threads: self.threads + other.threads,
        }
    }

    /// Of each the smaller one.
    pub(crate) fn min(self, other: Self) -> Self {
        Self {
            rss_bytes: self.rss_bytes.min(other.rss_bytes),
            fds: self.fds.min(other.fds),
            threads: self.threads.min(other.threads),
        }
    }
}

/// What a process takes now.
pub(crate) fn load(pid: Pid) -> Load {
    let status = String::from_utf8_lossy(&file(pid, "status")).into_owned();
    let number = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0)
    };
    let fds = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero())).map_or(0, |open| open.count() as u64);
    Load { rss_bytes: number("VmRSS:") * 1024, fds, threads: number("Threads:") }
}

fn ended(process: &OwnedFd, patience: Duration) -> bool {
    let patience = Timespec::try_from(patience).unwrap_or(Timespec { tv_sec: 0, tv_nsec: 0 });
    poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&patience)) == Ok(1)
}
