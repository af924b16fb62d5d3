//! A soak: the same work again and again on one daemon, which after it must be as it was: no byte, descriptor or thread more.
//! Beside it some tasks live all the time, one of which never rests; their keepers are looked at in the same way.

use std::time::{Duration, Instant};

use super::Trial;
use super::chance::{Chance, pause};
use super::processes::{self, Load};
use super::results::Counts;
use super::subject::Subject;
use super::zoo::{Ends, Kind, RESPAWN, ZOO};

const SESSION: &str = "soak";
/// The session of those that live all the time.
const STAYING: &str = "staying";
/// Tasks of one lap.
const TASKS: u64 = 30;
/// Of the time, the part in which caches fill and nothing is compared.
const WARM_UP: u32 = 6;
/// The least laps in which growth could be seen.
const LAPS_MIN: u64 = 8;
/// With fewer laps to be compared nothing is said of memory: the daemon still grows into what it will need.
const LAPS_OF_MEMORY_MIN: usize = 60;
/// So many bytes more are no growth: the allocator gives back in pieces.
const SLACK_BYTES: u64 = 64 << 10;
/// What is looked for in an output that never has it, so that all of it is searched.
const NEVER: &str = "zzz-never-zzz";

/// What was seen after a lap, when all was quiet.
#[derive(Clone, Copy)]
struct Quiet {
    daemon: Load,
    keepers: Load,
}

pub(crate) fn run(trial: &mut Trial<'_>) -> Result<(), String> {
    let subject = Subject::new(trial.program)?;
    std::fs::write(subject.oracle().join("respawn.sh"), RESPAWN).map_err(|error| format!("cannot write: {error}"))?;
    let staying = stay(&subject)?;
    let (begun, mut chance) = (Instant::now(), Chance::new(trial.seed));
    let (mut lap, mut seen) = (0, Vec::new());
    while begun.elapsed() < trial.time || lap < LAPS_MIN {
        go_round(&subject, &mut chance, lap)?;
        lap += 1;
        let quiet = look(&subject, staying)?;
        if begun.elapsed() * WARM_UP >= trial.time && lap * 2 > LAPS_MIN {
            seen.push(quiet);
        }
    }
    subject.say("onlooker", &["kill", "-s", STAYING, "--grace", "20ms"])?;
    let minutes = begun.elapsed().as_secs() / 60;
    trial.results.add("soak", "all", &Counts::from([("rounds", lap), ("tasks", lap * TASKS), ("minutes", minutes)]))?;
    for (name, load) in
        [("daemon", (|quiet: &Quiet| quiet.daemon) as fn(&Quiet) -> Load), ("keepers", |quiet: &Quiet| quiet.keepers)]
    {
        let loads: Vec<Load> = seen.iter().map(load).collect();
        judge(trial, name, &loads)?;
    }
    Ok(())
}

/// The first third of what was seen against the last.
fn judge(trial: &mut Trial<'_>, name: &str, loads: &[Load]) -> Result<(), String> {
    let third = (loads.len() / 3).max(1);
    let (first, last) = (&loads[..third], &loads[loads.len() - third..]);
    for (what, of, allowed) in [
        ("rss_bytes", (|load: &Load| load.rss_bytes) as fn(&Load) -> u64, SLACK_BYTES),
        ("fds", |load: &Load| load.fds, 0),
        ("threads", |load: &Load| load.threads, 0),
    ] {
        let median = |loads: &[Load]| {
            let mut values: Vec<u64> = loads.iter().map(of).collect();
            values.sort_unstable();
            values[values.len() / 2]
        };
        let (before, after) = (median(first), median(last));
        println!("soak: {name}: {what} {before} → {after}");
        trial.results.set("soak", name, what, after)?;
        trial.results.set("soak", name, &format!("{what}_more"), after.saturating_sub(before))?;
        let is_too_short = what == "rss_bytes" && loads.len() < LAPS_OF_MEMORY_MIN;
        if after > before + allowed && !is_too_short {
            let words = format!("{name}: {what} grew from {before} to {after}");
            trial.results.fail("soak", &trial.seed.to_string(), &words)?;
        }
    }
    Ok(())
}

/// Starts those that live all the time; how many.
fn stay(subject: &Subject) -> Result<usize, String> {
    let chatty = "while :; do seq 1 400; sleep 0.05; done";
    let tasks: [&[&str]; 4] = [
        &["-c", "exec sleep 100000"],
        &["--max-output", "1MiB", "--watch", NEVER, "--progress", "1s", "-c", chatty],
        &["--split", "--max-output", "1MiB", "-c", "while :; do seq 1 40; seq 1 40 >&2; sleep 0.1; done"],
        &["--stdin", "--idle-timeout", "30d", "-c", "while read -r line; do echo \"$line\"; done"],
    ];
    for task in tasks {
        let said = subject.say(STAYING, &[&["run", "-q"], task].concat())?;
        if said.code != Some(0) {
            return Err(format!("`run`: {}", said.err));
        }
    }
    Ok(tasks.len())
}

/// One lap: tasks of every kind, each door asked for them, and all of them ended, heard of and some removed.
fn go_round(subject: &Subject, chance: &mut Chance, lap: u64) -> Result<(), String> {
    let oracle = subject.oracle();
    let mut ids = Vec::new();
    for number in 0..TASKS {
        let kinds: Vec<&Kind> =
            ZOO.iter().filter(|kind| kind.ends != Ends::Never && kind.room.is_none() && !kind.is_quick()).collect();
        let kind = kinds[usize::try_from(number).unwrap_or(0) % kinds.len()];
        let script = kind.script(lap * TASKS + number, &oracle);
        let mut args = vec!["run", "-q"];
        args.extend(kind.options);
        args.extend(["-c", &script]);
        let said = subject.say(SESSION, &args)?;
        if said.code != Some(0) {
            return Err(format!("`run` of {}: {}", kind.word, said.err));
        }
        ids.push(said.out.trim().to_owned());
    }
    let some = |chance: &mut Chance| ids[usize::try_from(chance.below(TASKS)).unwrap_or(0)].clone();
    subject.say(SESSION, &["wait", "--any", "--timeout", "2s", &some(chance)])?;
    subject.say("onlooker", &["logs", "-n", "5", &some(chance)])?;
    subject.say("onlooker", &["show", "--json", &some(chance)])?;
    subject.say(SESSION, &["run", "-f", "-c", "seq 1 100; exit 3"])?;
    subject.say(SESSION, &["ps", "-a", "--json"])?;
    subject.say("onlooker", &["kill", "-s", SESSION, "--grace", "20ms"])?;
    subject.say(SESSION, &["inbox", "--take", "--json"])?;
    let said = subject.say(SESSION, &["rm", &ids[0], &ids[1]])?;
    let failed: Vec<String> = std::fs::read_dir(&oracle)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| !path.ends_with("respawn.sh"))
        .filter_map(|path| std::fs::remove_file(&path).err().map(|error| error.to_string()))
        .collect();
    match (said.code, failed.as_slice()) {
        (Some(0), []) => Ok(()),
        _ => Err(format!("`rm`: {} {failed:?}", said.err)),
    }
}

/// The daemon and the keepers that stay, once nothing else is left: the least of some looks, between which it may work.
fn look(subject: &Subject, staying: usize) -> Result<Quiet, String> {
    let until = Instant::now() + Duration::from_secs(20);
    let mut keepers = processes::keepers(&subject.home());
    while keepers.len() > staying && Instant::now() < until {
        pause(Duration::from_millis(20));
        keepers = processes::keepers(&subject.home());
    }
    if keepers.len() != staying {
        return Err(format!("{} keepers are there, not {staying}", keepers.len()));
    }
    let daemon = subject.daemon().ok_or("the daemon is gone")?;
    let mut least = Quiet { daemon: Load::MOST, keepers: Load::MOST };
    for _ in 0..10 {
        least.daemon = least.daemon.min(processes::load(daemon));
        let all = keepers.iter().map(|(keeper, _)| processes::load(*keeper));
        least.keepers = least.keepers.min(all.fold(Load::default(), Load::plus));
        pause(Duration::from_millis(20));
    }
    Ok(least)
}
