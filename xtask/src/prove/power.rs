//! The power goes: a file system of its own is shut down without a last write (ext4's shutdown, as xfstests does it), every
//! process is killed, it is mounted again under another boot id, and what clients had been told must still be so.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::chance::Chance;
use super::disk::Disk;
use super::results::Counts;
use super::subject::{Subject, mark};
use super::{Trial, is_installed, processes};

/// A boot that is not this one.
const OTHER_BOOT: &str = "5eed5eed-0000-4000-8000-00005eed5eed\n";
const SESSION: &str = "power";
/// An acknowledgement is synced right after its answer; so long ago, a busy disk has done that.
const SYNCED: Duration = Duration::from_millis(500);

/// What clients were told before the cut.
struct Told {
    /// Ids that `run` printed, by number.
    begun: BTreeMap<u64, String>,
    /// By id: state and exit code that a wait had for an answer.
    ended: BTreeMap<String, (Value, Value)>,
    /// Up to where notices were acknowledged, and when that had been answered.
    acked: Vec<(Instant, u64)>,
    /// The last notice that was shown.
    seen: u64,
    /// When the power went.
    cut: Instant,
}

pub(crate) fn run(trial: &mut Trial<'_>) -> Result<(), String> {
    if !rustix::process::geteuid().is_root() || !is_installed("mkfs.ext4") || !is_installed("python3") {
        println!("power: not tried; it needs root, mkfs.ext4 and python3");
        return Ok(());
    }
    let until = Instant::now() + trial.time;
    let mut round = 0;
    while round == 0 || Instant::now() < until {
        let seed = trial.seed + round;
        let (counts, wrong) = one_cut(trial.program, seed)?;
        trial.results.add("power", "cuts", &counts)?;
        for words in wrong {
            trial.results.fail("power", &seed.to_string(), &words)?;
        }
        round += 1;
    }
    Ok(())
}

fn one_cut(program: &Path, seed: u64) -> Result<(Counts, Vec<String>), String> {
    let mut subject = Subject::new(program)?;
    let config = subject.folder.path().join(".config/ringback");
    let written = std::fs::create_dir_all(&config)
        .and_then(|()| std::fs::write(config.join("config.toml"), "confined = \"allow\"\n"));
    written.map_err(|error| format!("cannot write the config: {error}"))?;
    let disk = Disk::new(&subject)?;
    let told = live(&subject, &disk, &mut Chance::new(seed))?;
    kill_all(&subject);
    disk.unmount()?;
    disk.mount()?;
    let boot = subject.folder.path().join("boot_id");
    std::fs::write(&boot, OTHER_BOOT).map_err(|error| format!("cannot write a boot id: {error}"))?;
    let script = format!("mount --bind {} /proc/sys/kernel/random/boot_id && exec \"$@\"", boot.display());
    subject.wrapper = ["unshare", "-m", "sh", "-c", &script, "sh"].map(String::from).to_vec();
    let found = look(&subject, &told);
    kill_all(&subject);
    found
}

fn kill_all(subject: &Subject) {
    if let Some(daemon) = subject.daemon() {
        processes::kill(daemon, |_| true);
    }
    for (keeper, _) in processes::keepers(&subject.home()) {
        processes::kill(keeper, |_| true);
    }
    for pid in processes::marked(&format!("PROVE_MARK={}", mark(SESSION))) {
        processes::kill(pid, |_| true);
    }
}

/// Tasks begin, end and are heard of, and at some moment the power goes.
fn live(subject: &Subject, disk: &Disk, chance: &mut Chance) -> Result<Told, String> {
    let mut told =
        Told { begun: BTreeMap::new(), ended: BTreeMap::new(), acked: Vec::new(), seen: 0, cut: Instant::now() };
    let oracle = subject.oracle().display().to_string();
    let cut_at = 3 + chance.below(12);
    for number in 0..cut_at {
        let code = 10 + number;
        let end = match chance.below(3) {
            0 => "sleep 1000".to_owned(),
            1 => format!("sleep 0.{}; echo {code} > {oracle}/code.{number}; exit {code}", chance.below(4)),
            _ => format!("echo 0 > {oracle}/code.{number}; exit 0"),
        };
        let script = format!("echo s >> {oracle}/starts.{number}; echo begin; {end}");
        let said = subject.say(SESSION, &["run", "-q", "--name", &number.to_string(), "-c", &script])?;
        if said.code == Some(0) {
            told.begun.insert(number, said.out.trim().to_owned());
        }
        match chance.below(4) {
            0 => hear_ends(subject, &mut told)?,
            1 => {
                // What the last look has shown is acknowledged by this one.
                let said = subject.say(SESSION, &["inbox", "--after", &told.seen.to_string(), "--json"])?;
                let page: Value = serde_json::from_str(&said.out).unwrap_or_default();
                if said.code == Some(0) {
                    told.acked.push((Instant::now(), told.seen));
                }
                let notices = page["notices"].as_array().into_iter().flatten();
                told.seen = notices.filter_map(|notice| notice["seq"].as_u64()).max().unwrap_or(told.seen);
            }
            _ => chance.moment(Duration::from_millis(60)),
        }
    }
    told.cut = Instant::now();
    disk.cut()?;
    Ok(told)
}

fn hear_ends(subject: &Subject, told: &mut Told) -> Result<(), String> {
    for task in subject.tasks(SESSION)? {
        if !matches!(task["state"].as_str(), Some("queued" | "running") | None) {
            let id = task["id"].as_str().unwrap_or_default().to_owned();
            told.ended.insert(id, (task["state"].clone(), task["exit_code"].clone()));
        }
    }
    Ok(())
}

/// What must still be so, and what must not have come of it.
fn look(subject: &Subject, told: &Told) -> Result<(Counts, Vec<String>), String> {
    let mut wrong = Vec::new();
    let oracle = subject.oracle();
    let ids: Vec<&str> = told.begun.values().map(String::as_str).collect();
    let mut wait = vec!["wait", "--timeout", "20s"];
    wait.extend(&ids);
    let said = subject.say("onlooker", &wait)?;
    let tasks = subject.tasks(SESSION).map_err(|words| format!("the store does not open: {words} {}", said.err))?;
    let mut lost = 0;
    for (number, id) in &told.begun {
        let Some(task) = tasks.iter().find(|task| task["id"] == **id) else {
            wrong.push(format!("{id} was given to a client and is unknown"));
            continue;
        };
        let starts = std::fs::read_to_string(oracle.join(format!("starts.{number}"))).unwrap_or_default();
        let code = std::fs::read_to_string(oracle.join(format!("code.{number}"))).unwrap_or_default();
        if starts.lines().count() > 1 {
            wrong.push(format!("started again after the power came back: {task}"));
        }
        if let Some((state, exit_code)) = told.ended.get(id)
            && (task["state"] != *state || task["exit_code"] != *exit_code)
        {
            wrong.push(format!("was told to be {state} {exit_code}, and is {task}"));
        }
        let right = match task["state"].as_str() {
            Some("exited") => code.trim().parse().ok() == task["exit_code"].as_u64(),
            Some("lost") => task["reason"] == "reboot" && task["exit_code"].is_null(),
            Some("start_failed") => starts.is_empty() && task["exit_code"].is_null(),
            _ => false,
        };
        lost += u64::from(task["state"] == "lost");
        if !right {
            wrong.push(format!("it started {} times and said {code:?}; now: {task}", starts.lines().count()));
        }
    }
    let inbox = subject.document(SESSION, &["inbox", "--json", "--limit", "10000"])?;
    let notices = inbox["notices"].as_array().cloned().unwrap_or_default();
    let firm = told.acked.iter().filter(|(at, _)| *at + SYNCED < told.cut).map(|(_, seq)| *seq).max().unwrap_or(0);
    let heard = notices.iter().filter(|notice| notice["seq"].as_u64().is_some_and(|seq| seq <= firm)).count();
    if heard > 0 {
        wrong.push(format!("{heard} notices that were acknowledged up to {firm} are there again"));
    }
    let broken = wrong.len() as u64;
    let counts = [("cuts", 1), ("tasks", tasks.len() as u64), ("broken", broken), ("said_lost", lost)];
    Ok((Counts::from(counts), wrong))
}
