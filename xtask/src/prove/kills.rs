//! SIGKILL at random moments, on the real programs under load: daemon, keepers, clients, commands, and several at once.
//!
//! It runs in a process namespace of its own with few pids, so that numbers are given again soon, and nothing outside
//! can be reached.

use std::collections::BTreeSet;
use std::process::{Child, Command};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Pid;

use super::canary::Canaries;
use super::chance::Chance;
use super::judge;
use super::processes;
use super::reader::Read;
use super::results::Counts;
use super::room::Rooms;
use super::subject::{Subject, finish, mark};
use super::zoo::{Ends, Kind, RESPAWN, ZOO};
use super::{Trial, is_installed};

/// Tasks of one round: enough to keep two processors busy while something dies every few milliseconds.
const TASKS: u64 = 120;
/// Clients that ask beside each other.
const CLIENTS: u64 = 6;
/// Pids of the namespace: a number comes again within seconds.
const PIDS: u32 = 3000;

/// The longest pause between two kills: a daemon that is killed at once each time never gets to anything.
const PAUSE: Duration = Duration::from_millis(150);

/// Who is killed in a round.
const MODES: [&str; 6] = ["daemon", "client", "command", "keeper", "daemon and keeper", "all of them"];

/// What was hit so far.
#[derive(Default)]
pub(crate) struct Hits {
    /// Tasks whose keeper was killed.
    pub(crate) keepers: BTreeSet<String>,
    /// Tasks of which a process was killed.
    pub(crate) commands: BTreeSet<String>,
}

/// What the threads of a round share.
#[derive(Default)]
pub(crate) struct Shared {
    hits: Mutex<Hits>,
    /// Clients that may be killed.
    clients: Mutex<Vec<Pid>>,
    kills: AtomicU64,
    unanswered: AtomicU64,
}

impl Shared {
    /// A client that may be killed from now on.
    pub(crate) fn expose(&self, client: &Child) -> Pid {
        let pid = Pid::from_child(client);
        lock(&self.clients).push(pid);
        pid
    }

    /// It has ended.
    pub(crate) fn hide(&self, pid: Pid) {
        lock(&self.clients).retain(|other| *other != pid);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Rounds until the time is over. Outside of the namespace it starts itself inside.
pub(crate) fn run(trial: &mut Trial<'_>, inside: bool) -> Result<(), String> {
    if !inside && rustix::process::geteuid().is_root() && is_installed("unshare") {
        return go_inside(trial);
    }
    if !inside {
        println!("kills: not root, so pids are not few and nothing is fenced in");
    }
    let subject = Subject::new(trial.program)?;
    std::fs::write(subject.oracle().join("respawn.sh"), RESPAWN).map_err(|error| format!("cannot write: {error}"))?;
    let _rooms = Rooms::make(&subject.oracle());
    let mut canaries = Canaries::new();
    let until = Instant::now() + trial.time;
    let mut round = 0;
    while Instant::now() < until || round == 0 {
        // Without time there is one round, with all of them.
        let at = if trial.time.is_zero() { MODES.len() - 1 } else { usize::try_from(round).unwrap_or(0) % MODES.len() };
        let mode = MODES[at];
        let seed = trial.seed + round;
        let (counts, wrong) = one_round(&subject, &canaries, mode, seed, round * 1000)?;
        trial.results.add("kills", mode, &counts)?;
        for words in wrong {
            trial.results.fail("kills", &seed.to_string(), &format!("{mode}: {words}"))?;
        }
        round += 1;
    }
    let (hit, flown) = (canaries.take_away(), canaries.flown.load(Ordering::Relaxed));
    trial.results.add("kills", "canaries", &Counts::from([("canaries", flown), ("canaries_hit", hit)]))?;
    if hit > 0 {
        trial.results.fail("kills", &trial.seed.to_string(), &format!("{hit} canaries were hit"))?;
    }
    Ok(())
}

fn go_inside(trial: &Trial<'_>) -> Result<(), String> {
    let own = std::env::current_exe().map_err(|error| format!("cannot find myself: {error}"))?;
    let script = format!("echo {PIDS} > /proc/sys/kernel/pid_max 2> /dev/null; \"$@\"; exit $?");
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", &script, "sh"]).arg(own);
    command.args(["prove", "--inside", "--only", "kills", "--seconds", &trial.time.as_secs().to_string()]);
    command.args(["--seed", &trial.seed.to_string()]).arg("--program").arg(trial.program);
    command.arg("--results").arg(trial.results.path());
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("the kills ended with {status}")),
        Err(error) => Err(format!("cannot start unshare: {error}")),
    }
}

type Seen = (Counts, Vec<String>);

/// One round: ask, kill, let everything end, look.
fn one_round(subject: &Subject, canaries: &Canaries, mode: &str, seed: u64, first: u64) -> Result<Seen, String> {
    let session = format!("s{seed}");
    let shared = Shared::default();
    let mut read = Read::default();
    let (asked, over) = (AtomicBool::new(false), AtomicBool::new(false));
    let troubles: Mutex<Vec<String>> = Mutex::default();
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (session, shared, troubles) = (&session, &shared, &troubles);
                let chance = Chance::new(seed * 16 + client);
                scope.spawn(move || {
                    if let Err(words) = ask_all(subject, session, shared, chance, (first + client, first + TASKS)) {
                        lock(troubles).push(words);
                    }
                })
            })
            .collect();
        scope.spawn(|| kill_at_random(subject, mode, &shared, Chance::new(seed), &asked));
        scope.spawn(|| canaries.fly(Chance::new(seed + 1), &asked));
        let reading = scope.spawn(|| read.follow(subject, &session, &shared, &over));
        for client in clients {
            let _ = client.join();
        }
        asked.store(true, Ordering::Relaxed);
        let settled = settle(subject, &session);
        over.store(true, Ordering::Relaxed);
        lock(&troubles).extend(settled.err());
        if let Ok(Err(words)) = reading.join() {
            lock(&troubles).push(words);
        }
    });
    while read.read(subject, &session, &shared)? {}
    let mut wrong = std::mem::take(&mut *lock(&troubles));
    let mut counts = Counts::from([
        ("rounds", 1),
        ("kills", shared.kills.load(Ordering::Relaxed)),
        ("unanswered", shared.unanswered.load(Ordering::Relaxed)),
    ]);
    for name in ["lost", "wrong", "started_twice", "never_ends", "bytes_missing", "said_lost", "said_incomplete"] {
        counts.insert(name, 0);
    }
    look(subject, &session, &shared, &read, &mut counts, &mut wrong)?;
    Ok((counts, wrong))
}

/// Asks for each sixth number from `first` on; trees that never end are stopped now and then.
fn ask_all(
    subject: &Subject,
    session: &str,
    shared: &Shared,
    mut chance: Chance,
    (first, end): (u64, u64),
) -> Result<(), String> {
    let mut number = first;
    while number < end {
        let at = usize::try_from(chance.below(ZOO.len() as u64)).unwrap_or(0);
        let kind = &ZOO[at];
        if !kind.has_room(&subject.oracle()) {
            continue;
        }
        if let Some(id) = ask(subject, session, shared, kind, (at, number))?
            && kind.ends == Ends::Stopped
            && chance.once_in(2)
        {
            chance.moment(Duration::from_millis(60));
            subject.say("onlooker", &["kill", "--grace", "20ms", &id])?;
        }
        number += CLIENTS;
    }
    Ok(())
}

/// One `run`; the id, if the client lived to print it.
fn ask(
    subject: &Subject,
    session: &str,
    shared: &Shared,
    kind: &Kind,
    (at, number): (usize, u64),
) -> Result<Option<String>, String> {
    let name = format!("{at}-{number}");
    let script = kind.script(number, &subject.oracle());
    let mut args = vec!["run", "-q", "--name", &name];
    args.extend(kind.options);
    match kind.ends {
        Ends::Never => args.extend(["--", "no-such-program-zz"]),
        Ends::Itself | Ends::Crash | Ends::Limit | Ends::Memory | Ends::Stopped => args.extend(["-c", &script]),
    }
    let client = subject.client(session, &args).spawn().map_err(|error| format!("cannot start a client: {error}"))?;
    let pid = shared.expose(&client);
    let said = finish(client).ok_or_else(|| format!("`run` of {} hangs", kind.word))?;
    shared.hide(pid);
    if said.code == Some(0) {
        return Ok(Some(said.out.trim().to_owned()));
    }
    shared.unanswered.fetch_add(1, Ordering::Relaxed);
    Ok(None)
}

/// Kills until all was asked for.
fn kill_at_random(subject: &Subject, mode: &str, shared: &Shared, mut chance: Chance, asked: &AtomicBool) {
    while !asked.load(Ordering::Relaxed) {
        chance.moment(PAUSE);
        match mode {
            "daemon" => kill_daemon(subject, shared),
            "client" => kill_client(shared, &mut chance),
            "command" => kill_command(subject, shared, &mut chance),
            "keeper" => kill_keeper(subject, shared, &mut chance),
            "daemon and keeper" => kill_both(subject, shared, &mut chance),
            _ => match chance.below(5) {
                0 => kill_daemon(subject, shared),
                1 => kill_client(shared, &mut chance),
                2 => kill_command(subject, shared, &mut chance),
                3 => kill_keeper(subject, shared, &mut chance),
                _ => kill_both(subject, shared, &mut chance),
            },
        }
    }
}

fn kill_daemon(subject: &Subject, shared: &Shared) {
    if let Some(daemon) = subject.daemon() {
        let hit = processes::kill(daemon, |pid| processes::command_line(pid).contains("daemon"));
        shared.kills.fetch_add(u64::from(hit), Ordering::Relaxed);
    }
}

fn kill_client(shared: &Shared, chance: &mut Chance) {
    let clients = lock(&shared.clients).clone();
    if clients.is_empty() {
        return;
    }
    let client = clients[usize::try_from(chance.below(clients.len() as u64)).unwrap_or(0)];
    let hit = processes::kill(client, |pid| processes::command_line(pid).contains("ringback"));
    shared.kills.fetch_add(u64::from(hit), Ordering::Relaxed);
}

fn kill_keeper(subject: &Subject, shared: &Shared, chance: &mut Chance) {
    let keepers = processes::keepers(&subject.home());
    if keepers.is_empty() {
        return;
    }
    let (keeper, task) = keepers[usize::try_from(chance.below(keepers.len() as u64)).unwrap_or(0)].clone();
    lock(&shared.hits).keepers.insert(task);
    let hit = processes::kill(keeper, |pid| processes::command_line(pid).starts_with("ringback-keeper"));
    shared.kills.fetch_add(u64::from(hit), Ordering::Relaxed);
}

fn kill_both(subject: &Subject, shared: &Shared, chance: &mut Chance) {
    if chance.once_in(2) {
        kill_daemon(subject, shared);
        kill_keeper(subject, shared, chance);
    } else {
        kill_keeper(subject, shared, chance);
        kill_daemon(subject, shared);
    }
}

fn kill_command(subject: &Subject, shared: &Shared, chance: &mut Chance) {
    let tasks: BTreeSet<String> = processes::keepers(&subject.home()).into_iter().map(|(_, task)| task).collect();
    let members: Vec<(Pid, String)> = tasks
        .iter()
        .flat_map(|task| processes::marked(&format!("RINGBACK_ID={task}")).into_iter().map(|pid| (pid, task.clone())))
        .collect();
    if members.is_empty() {
        return;
    }
    let (member, task) = members[usize::try_from(chance.below(members.len() as u64)).unwrap_or(0)].clone();
    lock(&shared.hits).commands.insert(task.clone());
    let hit = processes::kill(member, |pid| processes::task_of(pid).as_ref() == Some(&task));
    shared.kills.fetch_add(u64::from(hit), Ordering::Relaxed);
}

/// What ends by itself ends; then everything is stopped.
fn settle(subject: &Subject, session: &str) -> Result<(), String> {
    let tasks = subject.tasks(session)?;
    let mut args = vec!["wait", "--timeout", "60s"];
    let by_itself =
        tasks.iter().filter(|task| judge::kind_of(task).is_some_and(|(kind, _)| kind.ends != Ends::Stopped));
    args.extend(by_itself.filter_map(|task| task["id"].as_str()));
    if args.len() > 3 {
        let said = subject.say("onlooker", &args)?;
        if said.code == Some(124) {
            return Err(format!("some never end: {}", said.err));
        }
    }
    let said = subject.say("onlooker", &["kill", "-s", session, "--grace", "20ms"])?;
    match said.code {
        Some(0) => Ok(()),
        _ => Err(format!("the stop of all: {:?} {} {}", said.code, said.out, said.err)),
    }
}

/// Everything that must be true now.
fn look(
    subject: &Subject,
    session: &str,
    shared: &Shared,
    read: &Read,
    counts: &mut Counts,
    wrong: &mut Vec<String>,
) -> Result<(), String> {
    let leaked = processes::marked(&format!("PROVE_MARK={}", mark(session)));
    counts.insert("leaked", leaked.len() as u64);
    wrong.extend(leaked.iter().map(|pid| format!("leaked: {pid:?} {}", processes::command_line(*pid))));
    let tasks = subject.tasks(session)?;
    counts.insert("tasks", tasks.len() as u64);
    let hits = lock(&shared.hits);
    let mut missing = 0;
    for task in &tasks {
        wrong.extend(judge::task(task, &subject.oracle(), &hits, counts));
        let told = read.told.get(task["id"].as_str().unwrap_or_default()).copied().unwrap_or(0);
        if told == 0 {
            missing += 1;
            wrong.push(format!("never told: {task}"));
        }
    }
    let twice = read.told.values().filter(|times| **times > 1).count() as u64;
    for (name, count) in
        [("notices_missing", missing), ("notices_twice", twice + read.again), ("foreign", read.foreign)]
    {
        counts.insert(name, count);
    }
    if twice + read.again + read.foreign > 0 {
        wrong.push(format!("{twice} told twice, {} again after they were heard, {} foreign", read.again, read.foreign));
    }
    let keepers = processes::keepers(&subject.home());
    let stay = keepers.iter().filter(|(pid, _)| !processes::until_gone(*pid, Duration::from_secs(5))).count() as u64;
    counts.insert("keepers_left", stay);
    if stay > 0 {
        wrong.push(format!("{stay} keepers of ended tasks stay"));
    }
    Ok(())
}
