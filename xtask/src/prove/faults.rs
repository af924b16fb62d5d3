//! System calls of the real daemon and keepers that fail: strace puts an error in place of every so many of them.
//!
//! Under the fault each client must get an answer, if only that it cannot be done. Afterwards, under a daemon whose calls
//! work, what had been answered must be so, each command started at most once, and each ending told once.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::Pid;

use super::chance::{Chance, pause};
use super::results::Counts;
use super::subject::{Subject, mark};
use super::{Trial, is_installed, processes};

/// A call, the errors that it may give, and whether keepers are traced too: then an outcome may be lost, if it is said.
const CALLS: [(&str, &[&str], bool); 26] = [
    ("fdatasync", &["EIO", "ENOSPC"], false),
    ("fsync", &["EIO"], false),
    ("pwrite64", &["ENOSPC", "EIO", "EINTR"], false),
    ("pread64", &["EIO", "EINTR"], false),
    ("write", &["ENOSPC", "EIO", "EAGAIN", "EINTR"], false),
    ("read", &["EIO", "EINTR"], false),
    ("openat", &["EMFILE", "ENFILE", "ENOSPC", "EINTR"], false),
    ("mkdir", &["ENOSPC"], false),
    ("mknodat", &["ENOSPC"], false),
    ("rename", &["EIO", "ENOSPC"], false),
    ("unlink", &["EIO"], false),
    ("unlinkat", &["EIO"], false),
    ("ftruncate", &["EIO", "ENOSPC"], false),
    ("clone", &["EAGAIN", "ENOMEM"], false),
    ("clone3", &["EAGAIN", "ENOMEM", "ENOSYS"], false),
    ("vfork", &["EAGAIN", "ENOMEM"], false),
    ("accept4", &["EMFILE", "ENFILE", "ECONNABORTED", "EINTR"], false),
    ("recvfrom", &["EINTR", "ECONNRESET"], false),
    ("sendto", &["EINTR", "EPIPE"], false),
    ("epoll_wait", &["EINTR"], false),
    ("pidfd_open", &["EMFILE", "ENFILE", "ENOMEM"], false),
    ("pidfd_send_signal", &["EPERM"], false),
    ("splice", &["EAGAIN", "EINTR", "ENOSPC", "EIO"], true),
    ("pwrite64", &["EIO", "EINTR"], true),
    ("fallocate", &["EOPNOTSUPP", "EIO"], true),
    ("ppoll", &["EINTR"], true),
];
const SESSION: &str = "faults";
/// What a client is given before it counts as hanging; a daemon that cannot write answers or refuses at once.
const PATIENCE: &str = "15s";

pub(crate) fn run(trial: &mut Trial<'_>) -> Result<(), String> {
    if !is_installed("strace") {
        println!("faults: not tried; strace is not installed");
        return Ok(());
    }
    let until = Instant::now() + trial.time;
    let mut at = usize::try_from(trial.results.count("faults", "all", "next")).unwrap_or(0);
    let first = at;
    while at == first || Instant::now() < until {
        let (call, errors, keepers) = CALLS[at % CALLS.len()];
        let seed = trial.seed + at as u64;
        let mut chance = Chance::new(seed);
        let error = errors[usize::try_from(chance.below(errors.len() as u64)).unwrap_or(0)];
        // From some call on, each, or every second or third. That a call should be made again is never said each time.
        let again = u64::from(error == "EINTR" || error == "EAGAIN" && call != "clone");
        let when = format!("when={}+{}", 1 + chance.below(30), 1 + again + chance.below(3));
        let inject = format!("inject={call}:error={error}:{when}");
        let told = one_story(trial.program, &inject, keepers);
        let (counts, wrong) = told.unwrap_or_else(|words| (Counts::from([("stories", 1), ("broken", 1)]), vec![words]));
        at += 1;
        let row = if keepers { "keepers" } else { "daemon" };
        trial.results.add("faults", row, &counts)?;
        trial.results.set("faults", "all", "next", (at % CALLS.len()) as u64)?;
        for words in wrong {
            trial.results.fail("faults", &inject, &words)?;
        }
    }
    Ok(())
}

fn one_story(program: &Path, inject: &str, keepers: bool) -> Result<(Counts, Vec<String>), String> {
    let mut subject = Subject::new(program)?;
    let mut wrong = Vec::new();
    let call = inject.split(['=', ':']).nth(1).unwrap_or_default();
    let trace = format!("trace={call}");
    let mut words = vec!["strace", "-qq", "-o", "/dev/null", "-e", &trace, "-e", inject];
    if keepers {
        words.insert(1, "-f");
    }
    subject.wrapper = words.into_iter().map(String::from).collect();
    let mut traced = subject.client(SESSION, &["daemon", "run"]);
    let mut traced = traced.spawn().map_err(|error| format!("cannot start strace: {error}"))?;
    subject.wrapper.clear();
    let begun = ask_under_fault(&subject, &mut traced, &mut wrong)?;
    if let Some(daemon) = subject.daemon() {
        processes::kill(daemon, |_| true);
    }
    processes::kill(Pid::from_child(&traced), |_| true);
    let _ = traced.wait();
    let tasks = look_after(&subject, &begun, keepers, &mut wrong)?;
    let broken = wrong.len() as u64;
    let counts = [("stories", 1), ("tasks", tasks), ("unanswered", 8 - begun.len() as u64), ("broken", broken)];
    Ok((Counts::from(counts), wrong))
}

/// Whether the traced daemon listens, or has ended because it could not start.
fn until_it_listens(subject: &Subject, traced: &mut Child) -> bool {
    let until = Instant::now() + Duration::from_secs(10);
    while Instant::now() < until {
        if subject.home().join("daemon.sock").exists() {
            return true;
        }
        if matches!(traced.try_wait(), Ok(Some(_))) {
            return false;
        }
        pause(Duration::from_millis(20));
    }
    false
}

/// Eight tasks, a stop, looks and waits. By number: the id that was answered.
fn ask_under_fault(
    subject: &Subject,
    traced: &mut Child,
    wrong: &mut Vec<String>,
) -> Result<BTreeMap<u64, String>, String> {
    let mut begun = BTreeMap::new();
    until_it_listens(subject, traced);
    let oracle = subject.oracle().display().to_string();
    for number in 0..8 {
        let code = 20 + number;
        let end = if number == 3 {
            "sleep 1000".into()
        } else {
            format!("echo {code} > {oracle}/code.{number}; exit {code}")
        };
        let script = format!("echo s >> {oracle}/starts.{number}; seq 1 2000; {end}");
        let said = subject.say(SESSION, &["run", "-q", "--name", &number.to_string(), "-c", &script])?;
        match said.code {
            Some(0) => drop(begun.insert(number, said.out.trim().to_owned())),
            Some(125) if said.err.starts_with("error: ") => {}
            _ => wrong.push(format!("`run` said {:?} {:?} {:?}", said.code, said.out, said.err)),
        }
    }
    let ids: Vec<&str> = begun.values().map(String::as_str).collect();
    for id in ids {
        // A daemon that cannot record an ending may say so, or be waited for in vain; it may not say something else.
        let _ = subject.say("onlooker", &["wait", "--timeout", "1s", id])?;
    }
    for args in [&["ps", "-a", "--json"][..], &["inbox", "--json"], &["kill", "-s", SESSION, "--grace", "20ms"]] {
        let begun_at = Instant::now();
        let said = subject.say("onlooker", args)?;
        if begun_at.elapsed() > Duration::from_mins(1) {
            wrong.push(format!("`{}` took {:?}: {}", args.join(" "), begun_at.elapsed(), said.err));
        }
    }
    Ok(begun)
}

/// With calls that work again: everything that was answered is so.
fn look_after(
    subject: &Subject,
    begun: &BTreeMap<u64, String>,
    keepers: bool,
    wrong: &mut Vec<String>,
) -> Result<u64, String> {
    let oracle = subject.oracle();
    subject.say("onlooker", &["kill", "-s", SESSION, "--grace", "20ms"])?;
    let ids: Vec<&str> = begun.values().map(String::as_str).collect();
    if !ids.is_empty() {
        subject.say("onlooker", &[&["wait", "--timeout", PATIENCE], ids.as_slice()].concat())?;
    }
    let tasks = subject.tasks(SESSION)?;
    let inbox = subject.document(SESSION, &["inbox", "--json", "--limit", "10000"])?;
    let notices = inbox["notices"].as_array().cloned().unwrap_or_default();
    for (number, id) in begun {
        if !tasks.iter().any(|task| task["id"] == **id) {
            wrong.push(format!("{number}: {id} was answered and is unknown"));
        }
    }
    for task in &tasks {
        let number = task["name"].as_str().unwrap_or_default();
        let read = |name: &str| std::fs::read_to_string(oracle.join(format!("{name}.{number}"))).unwrap_or_default();
        let (starts, code) = (read("starts").lines().count(), read("code"));
        let right = match task["state"].as_str() {
            Some("exited") => code.trim().parse().ok() == task["exit_code"].as_u64(),
            Some("killed") => task["exit_code"].is_null(),
            Some("start_failed") => starts == 0,
            Some("lost") => keepers && task["exit_code"].is_null(),
            _ => false,
        };
        let told = notices.iter().filter(|notice| notice["task"] == task["id"]).count();
        if !right || starts > 1 || told != 1 {
            wrong.push(format!("started {starts} times, said {code:?}, told {told} times: {task}"));
        }
    }
    let leaked = processes::marked(&format!("PROVE_MARK={}", mark(SESSION)));
    for pid in &leaked {
        wrong.push(format!("leaked: {}", processes::command_line(*pid)));
        processes::kill(*pid, |_| true);
    }
    Ok(tasks.len() as u64)
}
