//! System calls of the real programs that fail, come late, do less than they were asked for, or hang.
//!
//! strace puts errors and delays in place of every so many of them, a tracer of our own shortens them, a frozen file system
//! holds them all, and a full one refuses. Under the fault each client must get an answer, if only that it cannot be done. Afterwards, under
//! a daemon whose calls work, what had been answered must be so, each command started at most once, each ending told once.

mod disks;
#[cfg(target_arch = "x86_64")]
mod short;
mod story;

use std::path::Path;
use std::time::Instant;

use rustix::process::Pid;

use super::chance::Chance;
use super::results::Counts;
use super::subject::{Subject, mark};
use super::{Trial, is_installed, processes};
use story::{Lost, SESSION, TASKS, ask_under_fault, look_after, until_it_listens};

/// Whose calls are meddled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Daemon,
    /// The daemon's and those of all keepers.
    Keepers,
    Clients,
}

/// How they are meddled with.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// Of reads, writes and splices every so many do less.
    Short,
    /// The whole disk waits.
    Hung,
    /// The disk is full.
    Full,
    /// A call gives one of these errors, or comes so late.
    Call(Whose, &'static str, &'static [&'static str]),
}

use Way::{Call, Full, Hung, Short};
use Whose::{Clients, Daemon, Keepers};

/// Everything that is tried.
const WAYS: [Way; 40] = [
    Short,
    Hung,
    Full,
    Call(Daemon, "fdatasync", &["EIO", "ENOSPC"]),
    Call(Daemon, "fsync", &["EIO"]),
    Call(Daemon, "pwrite64", &["ENOSPC", "EIO", "EINTR"]),
    Call(Daemon, "pread64", &["EIO", "EINTR"]),
    Call(Daemon, "write", &["ENOSPC", "EIO", "EAGAIN", "EINTR"]),
    Call(Daemon, "read", &["EIO", "EINTR"]),
    Call(Daemon, "openat", &["EMFILE", "ENFILE", "ENOSPC", "EINTR"]),
    Call(Daemon, "fdatasync", &["120ms"]),
    Call(Daemon, "mkdir", &["ENOSPC"]),
    Call(Daemon, "mknodat", &["ENOSPC"]),
    Call(Daemon, "rename", &["EIO", "ENOSPC"]),
    Call(Daemon, "unlink", &["EIO"]),
    Call(Daemon, "unlinkat", &["EIO"]),
    Call(Daemon, "ftruncate", &["EIO", "ENOSPC"]),
    Call(Daemon, "clone", &["EAGAIN", "ENOMEM"]),
    Call(Daemon, "clone3", &["EAGAIN", "ENOMEM", "ENOSYS"]),
    Call(Daemon, "vfork", &["EAGAIN", "ENOMEM"]),
    Call(Daemon, "accept4", &["EMFILE", "ENFILE", "ECONNABORTED", "EINTR"]),
    Call(Daemon, "recvfrom", &["EINTR", "ECONNRESET"]),
    Call(Daemon, "sendto", &["EINTR", "EPIPE"]),
    Call(Daemon, "epoll_wait", &["EINTR"]),
    Call(Daemon, "pidfd_open", &["EMFILE", "ENFILE", "ENOMEM"]),
    Call(Daemon, "pidfd_send_signal", &["EPERM"]),
    Call(Daemon, "flock", &["EINTR"]),
    Call(Daemon, "pwrite64,pread64,fdatasync", &["15ms", "40ms"]),
    Call(Keepers, "splice", &["EAGAIN", "EINTR", "ENOSPC", "EIO"]),
    Call(Keepers, "pwrite64", &["EIO", "EINTR"]),
    Call(Keepers, "fallocate", &["EOPNOTSUPP", "EIO"]),
    Call(Keepers, "ppoll", &["EINTR"]),
    Call(Keepers, "read", &["EINTR"]),
    Call(Keepers, "openat", &["EINTR", "EMFILE"]),
    Call(Keepers, "splice,pwrite64", &["30ms", "90ms"]),
    // ECONNRESET has a meaning on a Unix socket, that what was asked was never read: it may not be said of what was.
    Call(Clients, "recvfrom", &["EINTR", "ENOMEM"]),
    Call(Clients, "sendto", &["EINTR", "EPIPE"]),
    Call(Clients, "write", &["EINTR"]),
    Call(Clients, "connect", &["EINTR", "EAGAIN"]),
    Call(Clients, "poll,ppoll", &["EINTR"]),
];

/// What one story showed: what is counted, and what was wrong.
type Told = (Counts, Vec<String>);

pub(crate) fn run(trial: &mut Trial<'_>) -> Result<(), String> {
    let until = Instant::now() + trial.time;
    let possible = |row: &&'static str| match wanting(ways_of(row)[0]) {
        Some(words) => {
            println!("faults: {words}");
            false
        }
        None => true,
    };
    let rows: Vec<&str> = ROWS.into_iter().filter(possible).collect();
    let mut stories = 0;
    while stories == 0 || Instant::now() < until {
        // Of each kind as many as of the others.
        let Some(row) = rows.iter().min_by_key(|row| trial.results.count("faults", row, "stories")) else { break };
        let (ways, seed) = (ways_of(row), trial.seed + stories);
        let at = usize::try_from(trial.results.count("faults", row, "stories")).unwrap_or(0);
        stories += 1;
        let (name, told) = tell(trial.program, ways[at % ways.len()], Chance::new(seed));
        if told.is_err() {
            // What a name leaves that broke off is not the next one's.
            for pid in processes::marked(&format!("PROVE_MARK={}", mark(SESSION))) {
                processes::kill(pid, |_| true);
            }
        }
        let (counts, wrong) = told.unwrap_or_else(|words| (Counts::from([("stories", 1), ("broken", 1)]), vec![words]));
        trial.results.add("faults", row, &counts)?;
        for words in wrong {
            trial.results.fail("faults", &format!("{seed}, {name}"), &words)?;
        }
    }
    Ok(())
}

/// The kinds of faults, each a row of the results; the first is tried in every run of the tests.
const ROWS: [&str; 7] = ["short calls", "hung disk", "full disk", "daemon", "slow disk", "keepers", "clients"];

fn ways_of(row: &str) -> Vec<Way> {
    WAYS.into_iter().filter(|way| way.row() == row).collect()
}

impl Way {
    /// The kind that it belongs to. A call that comes late has its times in place of errors.
    fn row(self) -> &'static str {
        match self {
            Short => "short calls",
            Hung => "hung disk",
            Full => "full disk",
            Call(_, _, hows) if hows[0].ends_with("ms") => "slow disk",
            Call(Daemon, ..) => "daemon",
            Call(Keepers, ..) => "keepers",
            Call(Clients, ..) => "clients",
        }
    }
}

/// What a way needs and this machine has not.
fn wanting(way: Way) -> Option<&'static str> {
    let has_disks = || rustix::process::geteuid().is_root() && is_installed("mkfs.ext4") && is_installed("fsfreeze");
    match way {
        Short if cfg!(target_arch = "x86_64") => None,
        Short => Some("no short calls: the tracer knows x86-64 only"),
        Hung | Full if has_disks() => None,
        Hung | Full => Some("no hung and no full disk: that needs root, mkfs.ext4 and fsfreeze"),
        Call(..) if is_installed("strace") => None,
        Call(..) => Some("no errors and no delays: strace is not installed"),
    }
}

/// The name of the story, and what was seen.
fn tell(program: &Path, way: Way, mut chance: Chance) -> (String, Result<Told, String>) {
    match way {
        #[cfg(target_arch = "x86_64")]
        Short => ("short".to_owned(), short::story(program, chance)),
        #[cfg(not(target_arch = "x86_64"))]
        Short => ("short".to_owned(), Err("the tracer knows x86-64 only".to_owned())),
        Hung => ("hung".to_owned(), disks::hung(program, chance)),
        Full => ("full".to_owned(), disks::full(program, chance)),
        Call(whose, call, hows) => {
            let how = hows[usize::try_from(chance.below(hows.len() as u64)).unwrap_or(0)];
            // From some call on, each, or every second or third. That a call should be made again is never said each time.
            let again = u64::from(how == "EINTR" || how == "EAGAIN" && call != "clone");
            // The commands are under the same strace: the first calls of each are those that load it.
            let loads = if whose == Keepers && matches!(call, "read" | "openat") { 12 } else { 0 };
            let from = if whose == Clients { 1 + chance.below(3) } else { 1 + loads + chance.below(30) };
            let when = format!("when={from}+{}", 1 + again + chance.below(3));
            let late = how.ends_with("ms");
            let inject = format!("inject={call}:{}={how}:{when}", if late { "delay_enter" } else { "error" });
            let lost = if whose == Keepers && !late { Lost::Outcomes } else { Lost::Never };
            let told =
                if whose == Clients { of_clients(program, &inject) } else { traced(program, &inject, whose, lost) };
            (inject, told)
        }
    }
}

fn strace(inject: &str, whose: Whose) -> Vec<String> {
    let calls = inject.split(['=', ':']).nth(1).unwrap_or_default();
    let trace = format!("trace={calls}");
    let mut words = vec!["strace", "-qq", "-o", "/dev/null", "-e", &trace, "-e", inject];
    if whose == Keepers {
        words.insert(1, "-f");
    }
    words.into_iter().map(String::from).collect()
}

/// The daemon, and perhaps all keepers, under strace.
fn traced(program: &Path, inject: &str, whose: Whose, lost: Lost) -> Result<Told, String> {
    let mut subject = Subject::new(program)?;
    let mut wrong = Vec::new();
    subject.wrapper = strace(inject, whose);
    let mut traced = subject.client(SESSION, &["daemon", "run"]);
    let mut traced = traced.spawn().map_err(|error| format!("cannot start strace: {error}"))?;
    subject.wrapper.clear();
    until_it_listens(&subject, || matches!(traced.try_wait(), Ok(Some(_))));
    let begun = ask_under_fault(&subject, &mut wrong)?;
    if let Some(daemon) = subject.daemon() {
        processes::kill(daemon, |_| true);
    }
    processes::kill(Pid::from_child(&traced), |_| true);
    let _ = traced.wait();
    let tasks = look_after(&subject, &begun, lost, &mut wrong)?;
    Ok((counted(tasks, begun.len(), &wrong), wrong))
}

/// Each client under strace, and a daemon that is left alone.
fn of_clients(program: &Path, inject: &str) -> Result<Told, String> {
    let mut subject = Subject::new(program)?;
    let mut wrong = Vec::new();
    subject.say("onlooker", &["ps"])?;
    subject.wrapper = strace(inject, Clients);
    let begun = ask_under_fault(&subject, &mut wrong)?;
    subject.wrapper.clear();
    let tasks = look_after(&subject, &begun, Lost::Never, &mut wrong)?;
    Ok((counted(tasks, begun.len(), &wrong), wrong))
}

fn counted(tasks: u64, begun: usize, wrong: &[String]) -> Counts {
    let unanswered = TASKS - begun as u64;
    Counts::from([("stories", 1), ("tasks", tasks), ("unanswered", unanswered), ("broken", wrong.len() as u64)])
}
