//! What a test sees of processes from outside: who lives, who holds a lock, who is gone.
//!
//! Processes are found by what they carry (environment, folder, lock), never by name, and signalled through a pidfd.

use std::fs;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;
pub(crate) use rustix::process::Pid;
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::HANG;

/// The pid of a child that was not waited for.
pub(crate) fn pid_of(child: &Child) -> Pid {
    Pid::from_child(child)
}

/// What is left until `until`, as poll(2) wants it; `None` when it is over.
pub(crate) fn left(until: Instant) -> Option<Timespec> {
    let left = until.checked_duration_since(Instant::now())?;
    Timespec::try_from(left).ok()
}

/// Kills a process and waits until it is gone.
#[track_caller]
pub(crate) fn kill(pid: Pid) {
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    // EPERM and ESRCH are for the wait below to show.
    let _ = pidfd_send_signal(&process, Signal::KILL);
    assert!(ended(&process, HANG), "{pid:?} outlived SIGKILL");
}

/// Kills a process that may be there for a while yet.
#[track_caller]
pub(crate) fn begin_kill(pid: Pid) {
    send(pid, Signal::KILL);
}

/// Stops a process, and waits until it stands.
#[track_caller]
pub(crate) fn stop(pid: Pid) {
    begin_stop(pid);
    until("it is stopped", || is_stopped(pid));
}

/// Stops a process that somebody may let go on at once.
#[track_caller]
pub(crate) fn begin_stop(pid: Pid) {
    send(pid, Signal::STOP);
}

/// Asks a process to end as ctrl-C does.
#[track_caller]
pub(crate) fn interrupt(pid: Pid) {
    send(pid, Signal::INT);
}

/// Lets a stopped process go on.
#[track_caller]
pub(crate) fn go_on(pid: Pid) {
    send(pid, Signal::CONT);
}

#[track_caller]
fn send(pid: Pid, signal: Signal) {
    let process = pidfd_open(pid, PidfdFlags::empty()).expect("a process");
    pidfd_send_signal(&process, signal).expect("a signal");
}

/// Whether a process is stopped (proc(5): the first field after the last bracket).
pub(crate) fn is_stopped(pid: Pid) -> bool {
    let stat = fs::read_to_string(proc_file(pid, "stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|after| after.trim_start().starts_with('T'))
}

/// Does something while a process is stopped.
pub(crate) fn while_stopped(pid: Pid, work: impl FnOnce()) {
    send(pid, Signal::STOP);
    work();
    send(pid, Signal::CONT);
}

/// What a file of a process in `/proc` says.
pub(crate) fn proc_file_text(pid: i32, name: &str) -> String {
    fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default()
}

/// When a process began, in clock ticks since boot (field 22 of `/proc/pid/stat`, proc(5)).
fn began(pid: i32) -> u64 {
    let stat = proc_file_text(pid, "stat");
    let after_name = stat.rsplit_once(')').expect("a name in brackets").1;
    after_name.split_whitespace().nth(19).and_then(|ticks| ticks.parse().ok()).expect("a start time")
}

/// Waits until whatever begins now is younger than this process by its start time, which counts hundredths of a second.
pub(crate) fn wait_until_older_than_new_ones(pid: Pid) {
    let first = began(pid.as_raw_nonzero().get());
    loop {
        let mut new = std::process::Command::new("sleep").arg("60").spawn().expect("sleep");
        let began = began(pid_of(&new).as_raw_nonzero().get());
        new.kill().expect("a kill");
        new.wait().expect("an end");
        if began > first {
            return;
        }
    }
}

/// Waits until a process is gone (or a zombie).
#[track_caller]
pub(crate) fn until_gone(pid: Pid) {
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    assert!(ended(&process, HANG), "{pid:?} still lives");
}

/// Whether the process of this pidfd ends within `patience`.
fn ended(process: &OwnedFd, patience: Duration) -> bool {
    let patience = Timespec::try_from(patience).expect("a short time");
    let mut waiting = [PollFd::new(process, PollFlags::IN)];
    poll(&mut waiting, Some(&patience)).expect("poll") == 1
}

/// Waits until there is something at this path, in a folder that is there.
#[track_caller]
pub(crate) fn until_there(path: &Path) {
    let changes = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK).expect("inotify");
    let comes = inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO;
    inotify::add_watch(&changes, path.parent().expect("a folder"), comes).expect("a watch");
    let until = Instant::now() + HANG;
    while !path.exists() {
        let left = left(until).unwrap_or_else(|| panic!("{} does not come", path.display()));
        poll(&mut [PollFd::new(&changes, PollFlags::IN)], Some(&left)).expect("poll");
        // What it was about does not matter.
        let _ = rustix::io::read(&changes, &mut [0_u8; 4096]);
    }
}

/// Waits until a folder is removed.
#[track_caller]
pub(crate) fn until_removed(folder: &Path) {
    let changes = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK).expect("inotify");
    // What is gone already cannot be watched.
    if inotify::add_watch(&changes, folder, inotify::WatchFlags::DELETE_SELF).is_err() {
        return;
    }
    let patience = Timespec::try_from(HANG).expect("a short time");
    let told = poll(&mut [PollFd::new(&changes, PollFlags::IN)], Some(&patience)).expect("poll");
    assert!(told == 1 || !folder.exists(), "{} stays", folder.display());
}

/// Looks again and again until this holds: for what the kernel tells nobody of.
#[track_caller]
pub(crate) fn until(what: &str, holds: impl Fn() -> bool) {
    let until = Instant::now() + HANG;
    while !holds() {
        assert!(Instant::now() < until, "waited in vain until {what}");
        std::thread::yield_now();
    }
}

/// Waits until what stands in a file is as wanted; the folder of the file is there.
#[track_caller]
pub(crate) fn until_file(path: &Path, wanted: impl Fn(&str) -> bool) {
    let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
    let changes = inotify::init(flags).expect("inotify");
    let writes = inotify::WatchFlags::CREATE | inotify::WatchFlags::MODIFY;
    inotify::add_watch(&changes, path.parent().expect("a folder"), writes).expect("a watch");
    let until = Instant::now() + HANG;
    loop {
        let text = fs::read_to_string(path).unwrap_or_default();
        if wanted(&text) {
            return;
        }
        let Some(patience) = left(until) else { panic!("waited in vain for {}: {text:?}", path.display()) };
        poll(&mut [PollFd::new(&changes, PollFlags::IN)], Some(&patience)).expect("poll");
        let mut events = [0; 4096];
        let _ = rustix::io::read(&changes, &mut events);
    }
}

/// Whether a process lives; a zombie does not.
pub(crate) fn is_alive(pid: Pid) -> bool {
    pidfd_open(pid, PidfdFlags::empty()).is_ok_and(|process| !ended(&process, Duration::ZERO))
}

/// All processes, by number.
fn all() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").expect("/proc");
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers.filter_map(Pid::from_raw)
}

/// The living processes with exactly this `KEY=VALUE` in the environment they were started with.
pub(crate) fn with_environment(entry: &[u8]) -> Vec<Pid> {
    let me = std::process::id().cast_signed();
    let carries = |pid: &Pid| {
        let environment = fs::read(proc_file(*pid, "environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|one| one == entry)
    };
    all().filter(|pid| pid.as_raw_nonzero().get() != me && carries(pid) && is_alive(*pid)).collect()
}

/// The keeper whose working directory is `folder`.
pub(crate) fn standing_in(folder: &Path) -> Option<Pid> {
    all().find(|pid| is_keeper(*pid) && fs::read_link(proc_file(*pid, "cwd")).is_ok_and(|cwd| cwd == folder))
}

/// The keepers whose working directory is below `folder` (also of task folders that were removed).
pub(crate) fn standing_below(folder: &Path) -> Vec<Pid> {
    let below = |pid: &Pid| fs::read_link(proc_file(*pid, "cwd")).is_ok_and(|cwd| cwd.starts_with(folder));
    all().filter(|pid| is_keeper(*pid) && below(pid) && is_alive(*pid)).collect()
}

/// A keeper, and not its child, which looks like one until it has become the command.
fn is_keeper(pid: Pid) -> bool {
    let looks_like_one =
        |pid| fs::read(proc_file(pid, "cmdline")).is_ok_and(|line| line.starts_with(b"ringback-keeper\0"));
    looks_like_one(pid) && !parent_of(pid).is_some_and(looks_like_one)
}

/// A file of `/proc/PID`.
pub(crate) fn proc_file(pid: Pid, name: &str) -> String {
    format!("/proc/{}/{name}", pid.as_raw_nonzero())
}

/// The process that holds the flock of this file, from `/proc/locks`, checked to have the file open.
pub(crate) fn holder_of(path: &Path) -> Option<Pid> {
    let inode = fs::metadata(path).ok()?.ino();
    // The list is read in pieces while locks come and go, and a lock may be missed between two pieces.
    (0..LOOKS).find_map(|_| look_for_holder(path, inode))
}

/// How often the list of locks is read before nobody holds one.
const LOOKS: u32 = 20;

fn look_for_holder(path: &Path, inode: u64) -> Option<Pid> {
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let holders = locks.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().filter(|word| *word != "->").collect();
        let of_inode = words.get(5)?.rsplit(':').next()?.parse() == Ok(inode);
        let pid = words.get(4)?.parse().ok().and_then(Pid::from_raw)?;
        (words.get(1) == Some(&"FLOCK") && of_inode).then_some(pid)
    });
    holders.filter(|pid| has_open(*pid, path)).find(|pid| is_alive(*pid))
}

pub(crate) fn has_open(pid: Pid, path: &Path) -> bool {
    let Ok(descriptors) = fs::read_dir(proc_file(pid, "fd")) else { return false };
    descriptors.flatten().any(|entry| fs::read_link(entry.path()).is_ok_and(|target| target == path))
}

/// The parent of a process (proc(5): the second field after the last bracket).
pub(crate) fn parent_of(pid: Pid) -> Option<Pid> {
    let stat = fs::read_to_string(proc_file(pid, "stat")).ok()?;
    let after = stat.rsplit(')').next()?;
    after.split_whitespace().nth(1)?.parse().ok().and_then(Pid::from_raw)
}

/// Waits until a daemon in the foreground says that it listens, or until it ended: then `false`.
#[track_caller]
pub(crate) fn until_listening(daemon: &mut Child) -> bool {
    let mut words = daemon.stdout.take().expect("a piped stdout");
    let until = Instant::now() + HANG;
    let mut said = Vec::new();
    while !said.contains(&b'\n') {
        let left = left(until).expect("a daemon that neither listens nor ends");
        let mut waiting = [PollFd::new(&words, PollFlags::IN)];
        poll(&mut waiting, Some(&left)).expect("poll");
        let mut block = [0; 64];
        match words.read(&mut block).expect("the daemon's words") {
            0 => {
                daemon.wait().expect("the daemon's status");
                return false;
            }
            count => said.extend_from_slice(&block[..count]),
        }
    }
    said.starts_with(b"ready")
}

/// Resident memory of a process in bytes.
pub(crate) fn resident_bytes(pid: Pid) -> u64 {
    let status = fs::read_to_string(proc_file(pid, "status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0");
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) * 1024
}

/// Whether the test runs as root.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
