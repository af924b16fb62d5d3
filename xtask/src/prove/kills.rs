//! SIGKILL at random moments, on the real programs under load: daemon, keepers, clients, commands, and several at once.
//!
//! It runs in a process namespace of its own with few pids, so that numbers are given again soon, and nothing outside
//! can be reached. Several homes are tried beside each other: while one settles, others are killed at.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Pid;

use super::canary::Canaries;
use super::chance::{Chance, pause};
use super::killer::MODES;
use super::processes;
use super::results::{Counts, Results};
use super::room::Rooms;
use super::round::{Act, Plan, lock, one_round};
use super::subject::Subject;
use super::zoo::RESPAWN;
use super::{Trial, is_installed};

/// Tasks of one round: of any kind, and quick ones. Enough that many live at once, and few enough that it ends
/// within seconds.
const TASKS: (u64, u64) = (30, 900);
/// Those of the one round that is part of the tests.
const TASKS_SHORT: (u64, u64) = (60, 120);
/// The numbers of a round.
const NUMBERS: u64 = 10_000;
/// So many rounds have the same home; then there is a new one, and its beginning is killed at too.
const ROUNDS_OF_A_HOME: u64 = 6;
/// Pids of the namespace: a number comes again within seconds, and there are enough for all trees of all homes.
const PIDS: u32 = 8000;
/// An act of a round that takes longer is told, so that what hangs has a name.
const STUCK: Duration = Duration::from_secs(45);
/// So much longer than asked for the kills may take, to end their last rounds.
const LATE_MAX: Duration = Duration::from_mins(5);
/// The same for the one round of the tests, which are given two minutes.
const LATE_MAX_SHORT: Duration = Duration::from_secs(100);

/// What all homes share.
struct Field<'a> {
    trial: Mutex<&'a mut Results>,
    rooms: Rooms,
    rounds: AtomicU64,
    tasks: AtomicU64,
    kills: AtomicU64,
    until: Instant,
}

/// Rounds until the time is over. Outside of the namespace it starts itself inside.
pub(crate) fn run(trial: &mut Trial<'_>, inside: bool, homes: usize) -> Result<(), String> {
    if !inside && rustix::process::geteuid().is_root() && is_installed("unshare") {
        return go_inside(trial, homes);
    }
    if !inside {
        println!("kills: not root, so pids are not few and nothing is fenced in");
    }
    let homes = if trial.time.is_zero() { 1 } else { homes.max(1) };
    let acts: Vec<Act> = (0..homes).map(|_| Act::default()).collect();
    let mut canaries = Canaries::new();
    let over = AtomicBool::new(false);
    let begun_at = Instant::now();
    let field = Field {
        trial: Mutex::new(&mut *trial.results),
        rooms: Rooms::make(&trial.seed.to_string()),
        rounds: AtomicU64::new(0),
        tasks: AtomicU64::new(0),
        kills: AtomicU64::new(0),
        until: begun_at + trial.time,
    };
    let (program, seed, short) = (trial.program, trial.seed, trial.time.is_zero());
    let troubles: Vec<String> = std::thread::scope(|scope| {
        scope.spawn(|| canaries.fly(Chance::new(seed), &over));
        scope.spawn(|| tell_what_hangs(&acts, &over));
        let running: Vec<_> = acts
            .iter()
            .enumerate()
            .map(|(at, act)| {
                let field = &field;
                // One is on the disk, which takes several times as long; what is killed does not depend on it.
                let place = if at == 0 { Subject::new } else { Subject::in_memory };
                scope.spawn(move || rounds(field, || place(program), seed, short, act))
            })
            .collect();
        let ended = running.into_iter().map(|home| home.join().unwrap_or_else(|_| Err("a thread panicked".to_owned())));
        let troubles = ended.filter_map(Result::err).collect();
        over.store(true, Ordering::Relaxed);
        troubles
    });
    let (tasks, kills) = (field.tasks.load(Ordering::Relaxed), field.kills.load(Ordering::Relaxed));
    println!("kills: {kills} of {tasks} tasks in {} s, {homes} homes at once", begun_at.elapsed().as_secs());
    let mut spent = BTreeMap::<&str, Duration>::new();
    for (what, time) in acts.iter().flat_map(Act::spent) {
        *spent.entry(what).or_default() += time;
    }
    for (what, time) in spent {
        println!("kills: {:.1} s {what}", time.as_secs_f64());
    }
    drop(field);
    let (hit, flown) = (canaries.take_away(), canaries.flown.load(Ordering::Relaxed));
    trial.results.add("kills", "canaries", &Counts::from([("canaries", flown), ("canaries_hit", hit)]))?;
    if hit > 0 {
        trial.results.fail("kills", &seed.to_string(), &format!("{hit} canaries were hit"))?;
    }
    if troubles.is_empty() { Ok(()) } else { Err(troubles.join("; ")) }
}

fn go_inside(trial: &Trial<'_>, homes: usize) -> Result<(), String> {
    let own = std::env::current_exe().map_err(|error| format!("cannot find myself: {error}"))?;
    let script = format!("echo {PIDS} > /proc/sys/kernel/pid_max 2> /dev/null; \"$@\"; exit $?");
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", &script, "sh"]).arg(own);
    command.args(["prove", "--inside", "--only", "kills", "--seconds", &trial.time.as_secs().to_string()]);
    command.args(["--homes", &homes.to_string()]);
    command.args(["--seed", &trial.seed.to_string()]).arg("--program").arg(trial.program);
    command.arg("--results").arg(trial.results.path());
    let mut child = command.spawn().map_err(|error| format!("cannot start unshare: {error}"))?;
    let late = if trial.time.is_zero() { LATE_MAX_SHORT } else { LATE_MAX };
    let pid = Pid::from_child(&child);
    if !processes::until_gone(pid, trial.time + late) {
        // Its child goes with it, and with that one everybody in the namespace.
        processes::kill(pid, |_| true);
        return Err(format!("the kills did not end within {late:?} after their time; what hung is said above"));
    }
    match child.wait() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("the kills ended with {status}")),
        Err(error) => Err(format!("cannot wait for unshare: {error}")),
    }
}

/// One home after another, and in each some rounds.
fn rounds(
    field: &Field<'_>,
    new_home: impl Fn() -> Result<Subject, String>,
    seed: u64,
    short: bool,
    act: &Act,
) -> Result<(), String> {
    let mut first = true;
    while first || !short && Instant::now() < field.until {
        let subject = new_home()?;
        let respawn = std::fs::write(subject.oracle().join("respawn.sh"), RESPAWN);
        respawn.map_err(|error| format!("cannot write: {error}"))?;
        field.rooms.link(&subject.oracle())?;
        let mut of_home = 0;
        while first || !short && of_home < ROUNDS_OF_A_HOME && Instant::now() < field.until {
            first = false;
            of_home += 1;
            let round = field.rounds.fetch_add(1, Ordering::Relaxed);
            // Without time there is one round, with all of them.
            let at = if short { MODES.len() - 1 } else { usize::try_from(round).unwrap_or(0) % MODES.len() };
            let (mode, seed) = (MODES[at], seed + round);
            let (tasks, quick) = if short { TASKS_SHORT } else { TASKS };
            let (first, second) = (round * NUMBERS, round * NUMBERS + tasks);
            let plan = Plan { mode, seed, numbers: first..second, quick: second..second + quick };
            let (counts, wrong) = one_round(&subject, &plan, act)?;
            field.tasks.fetch_add(counts["tasks"], Ordering::Relaxed);
            field.kills.fetch_add(counts["kills"], Ordering::Relaxed);
            let mut results = lock(&field.trial);
            results.add("kills", mode, &counts)?;
            for words in wrong {
                results.fail("kills", &seed.to_string(), &format!("{mode}: {words}"))?;
            }
        }
        act.begins("leaving its home");
    }
    act.begins("");
    Ok(())
}

/// Each act that takes too long is said once; every wait in it has a bound of its own, and says then what it waited for.
fn tell_what_hangs(acts: &[Act], over: &AtomicBool) {
    let mut told = vec![false; acts.len()];
    while !over.load(Ordering::Relaxed) {
        pause(Duration::from_millis(200));
        for (home, act) in acts.iter().enumerate() {
            let (what, time) = act.now();
            let hangs = !what.is_empty() && time > STUCK;
            if hangs && !told[home] {
                eprintln!("kills: home {home} has been {what} for {} s", time.as_secs());
            }
            told[home] = hangs;
        }
    }
}
