//! What clients ask for under every fault, and what must be so when it is over.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::super::chance::pause;
use super::super::processes;
use super::super::subject::{Subject, mark};

pub(super) const SESSION: &str = "faults";
/// How many tasks a story has.
pub(super) const TASKS: u64 = 8;
/// What each of them writes, in lines.
const LINES: u64 = 2000;
/// What a client is given before it counts as hanging; a daemon that cannot write answers or refuses at once.
const PATIENCE: &str = "15s";
/// How long a client may take whose daemon's calls fail or come late.
const ANSWER_MAX: Duration = Duration::from_mins(1);

/// What a fault may cost, if it is said.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Lost {
    /// Neither an outcome nor a byte.
    Never,
    /// Output for which the disk had no room.
    Bytes,
    /// What a keeper could not record, since its own calls fail.
    Outcomes,
}

/// Waits until the daemon listens, or `has_ended` because it could not start.
pub(super) fn until_it_listens(subject: &Subject, mut has_ended: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(10);
    while Instant::now() < until && !subject.home().join("daemon.sock").exists() && !has_ended() {
        pause(Duration::from_millis(20));
    }
}

/// The arguments that run the task of this number, which ends with 20 more than it, or never if it is number 3.
pub(super) fn script(subject: &Subject, number: u64) -> String {
    let oracle = subject.oracle().display().to_string();
    let code = 20 + number;
    let end =
        if number == 3 { "sleep 1000".into() } else { format!("echo {code} > {oracle}/code.{number}; exit {code}") };
    format!("echo s >> {oracle}/starts.{number}; seq 1 {LINES}; {end}")
}

/// Tasks, a stop, looks and waits. By number: the id that was answered.
pub(super) fn ask_under_fault(subject: &Subject, wrong: &mut Vec<String>) -> Result<BTreeMap<u64, String>, String> {
    ask_more(subject, BTreeMap::new(), wrong)
}

/// The same, where some were begun before.
pub(super) fn ask_more(
    subject: &Subject,
    mut begun: BTreeMap<u64, String>,
    wrong: &mut Vec<String>,
) -> Result<BTreeMap<u64, String>, String> {
    for number in begun.len() as u64..TASKS {
        let script = script(subject, number);
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
        if begun_at.elapsed() > ANSWER_MAX {
            wrong.push(format!("`{}` took {:?}: {}", args.join(" "), begun_at.elapsed(), said.err));
        }
    }
    Ok(begun)
}

/// With calls that work again: everything that was answered is so. How many tasks there are.
pub(super) fn look_after(
    subject: &Subject,
    begun: &BTreeMap<u64, String>,
    lost: Lost,
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
    let expected = (1..=LINES).fold(String::new(), |text, line| text + &line.to_string() + "\n");
    for task in &tasks {
        let number = task["name"].as_str().unwrap_or_default();
        let read = |name: &str| std::fs::read_to_string(oracle.join(format!("{name}.{number}"))).unwrap_or_default();
        let (starts, code) = (read("starts").lines().count(), read("code"));
        let right = match task["state"].as_str() {
            Some("exited") => code.trim().parse().ok() == task["exit_code"].as_u64(),
            Some("killed") => task["exit_code"].is_null(),
            Some("start_failed") => starts == 0,
            Some("lost") => lost == Lost::Outcomes && task["exit_code"].is_null(),
            _ => false,
        };
        let told = notices.iter().filter(|notice| notice["task"] == task["id"]).count();
        if !right || starts > 1 || told != 1 {
            wrong.push(format!("started {starts} times, said {code:?}, told {told} times: {task}"));
        }
        if task["state"] == "exited" {
            let output = std::fs::read(task["output"]["path"].as_str().unwrap_or_default()).unwrap_or_default();
            let gaps = task["output"]["gaps"].as_array().is_some_and(|gaps| !gaps.is_empty());
            let said = lost != Lost::Never && (gaps || task["output"]["complete"] == false);
            if output != expected.as_bytes() && !said {
                wrong.push(format!("wrote {} bytes, {} are there: {task}", expected.len(), output.len()));
            }
        }
    }
    let leaked = processes::marked(&format!("PROVE_MARK={}", mark(SESSION)));
    for pid in &leaked {
        let id = processes::task_of(*pid).unwrap_or_default();
        let task = tasks.iter().find(|task| task["id"] == *id).map(ToString::to_string).unwrap_or_default();
        wrong.push(format!("leaked: {} of {task}", processes::command_line(*pid)));
        processes::kill(*pid, |_| true);
    }
    Ok(tasks.len() as u64)
}
