//! One round of random kills: clients ask, some are killed, everything ends, and what ringback says is judged.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::process::Child;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Pid;

use super::asker::ask_quickly;
use super::chance::{Chance, pause};
use super::judge;
use super::killer::{Hits, kill_at_random};
use super::processes;
use super::reader::Read;
use super::results::Counts;
use super::subject::{Said, Subject, finish, mark};
use super::zoo::{Ends, Kind, choose};

/// Clients of a home that ask beside each other, a program for each task.
const CLIENTS: u64 = 3;
/// Those that stay, and ask for one quick task after the other.
const ASKERS: u64 = 2;
/// What tasks that end by themselves are given for it when nobody is killed any more.
const SETTLE: &str = "40s";
/// How long a task may not be reached whose keeper was killed: pauses between its replacements double.
const REACHED: Duration = Duration::from_secs(40);
/// What a round counts, also where it is nothing.
const COUNTED: [&str; 8] =
    ["unknown", "lost", "wrong", "started_twice", "never_ends", "bytes_missing", "said_lost", "said_incomplete"];

/// What a round is to be.
pub(crate) struct Plan {
    /// Who is killed.
    pub(crate) mode: &'static str,
    pub(crate) seed: u64,
    /// The numbers of its tasks that are of any kind.
    pub(crate) numbers: Range<u64>,
    /// The numbers of those that are quick.
    pub(crate) quick: Range<u64>,
}

/// What a home is doing, and since when; and how long everything took that it did before.
#[derive(Default)]
pub(crate) struct Act {
    now: Mutex<Option<(&'static str, Instant)>>,
    spent: Mutex<BTreeMap<&'static str, Duration>>,
}

impl Act {
    pub(crate) fn begins(&self, what: &'static str) {
        if let Some((before, since)) = lock(&self.now).replace((what, Instant::now())) {
            *lock(&self.spent).entry(before).or_default() += since.elapsed();
        }
    }

    pub(crate) fn now(&self) -> (&'static str, Duration) {
        lock(&self.now).map_or(("", Duration::ZERO), |(what, since)| (what, since.elapsed()))
    }

    pub(crate) fn spent(&self) -> BTreeMap<&'static str, Duration> {
        lock(&self.spent).clone()
    }
}

/// What the threads of a round share.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) hits: Mutex<Hits>,
    /// Clients that may be killed.
    pub(crate) clients: Mutex<Vec<Pid>>,
    /// Ids that clients were given.
    pub(crate) begun: Mutex<Vec<String>>,
    pub(crate) kills: AtomicU64,
    unanswered: AtomicU64,
}

impl Shared {
    /// A client that may be killed from now on.
    pub(crate) fn expose(&self, client: &Child) -> Pid {
        let pid = Pid::from_child(client);
        lock(&self.clients).push(pid);
        pid
    }

    /// A client was asking, and was told nothing.
    pub(crate) fn has_no_answer(&self) {
        self.unanswered.fetch_add(1, Ordering::Relaxed);
    }

    /// It has ended.
    pub(crate) fn hide(&self, pid: Pid) {
        lock(&self.clients).retain(|other| *other != pid);
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

type Seen = (Counts, Vec<String>);

/// Ask, kill, let everything end, look.
pub(crate) fn one_round(subject: &Subject, plan: &Plan, act: &Act) -> Result<Seen, String> {
    let session = format!("s{}", plan.seed);
    let shared = Shared::default();
    let mut read = Read::default();
    let (asked, over) = (AtomicBool::new(false), AtomicBool::new(false));
    let troubles: Mutex<Vec<String>> = Mutex::default();
    act.begins("asking");
    std::thread::scope(|scope| {
        let (session, shared, troubles) = (&session, &shared, &troubles);
        let clients = (0..CLIENTS).map(|client| {
            let chance = Chance::new(plan.seed * 16 + client);
            let numbers = (plan.numbers.start + client, plan.numbers.end);
            scope.spawn(move || note(troubles, ask_all(subject, session, shared, chance, numbers)))
        });
        let part = (plan.quick.end - plan.quick.start) / ASKERS;
        let askers = (0..ASKERS).map(|asker| {
            let first = plan.quick.start + asker * part;
            scope.spawn(move || note(troubles, ask_quickly(subject, session, shared, (first, first + part))))
        });
        let clients: Vec<_> = clients.chain(askers).collect();
        scope.spawn(|| kill_at_random(subject, plan.mode, shared, Chance::new(plan.seed), (&asked, &over)));
        let reading = scope.spawn(|| read.follow(subject, session, shared, &over));
        for client in clients {
            let _ = client.join();
        }
        asked.store(true, Ordering::Relaxed);
        act.begins("settling");
        note(troubles, until_ended(subject, session));
        // Under fire as well, and then once more: whose keeper was killed again and again is reached a little later, and a stop says so.
        let under_fire = subject.say("onlooker", &["kill", "-s", session, "--grace", "20ms"]);
        over.store(true, Ordering::Relaxed);
        note(troubles, under_fire.and_then(|said| stop_all(subject, session, &said)));
        if let Ok(read) = reading.join() {
            note(troubles, read);
        }
    });
    act.begins("reading what is left in the inbox");
    read.read_all(subject, &session, &shared)?;
    let mut wrong = std::mem::take(&mut *lock(&troubles));
    let mut counts = Counts::from([
        ("rounds", 1),
        ("kills", shared.kills.load(Ordering::Relaxed)),
        ("unanswered", shared.unanswered.load(Ordering::Relaxed)),
    ]);
    counts.extend(COUNTED.map(|name| (name, 0)));
    act.begins("judging");
    look(subject, &session, &shared, &read, &mut counts, &mut wrong)?;
    Ok((counts, wrong))
}

fn note(troubles: &Mutex<Vec<String>>, done: Result<(), String>) {
    lock(troubles).extend(done.err());
}

/// Asks for each of its numbers from `first` on; trees that never end are stopped now and then.
fn ask_all(
    subject: &Subject,
    session: &str,
    shared: &Shared,
    mut chance: Chance,
    (first, end): (u64, u64),
) -> Result<(), String> {
    let mut number = first;
    while number < end {
        let (at, kind) = choose(&mut chance);
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
        let id = said.out.trim().to_owned();
        lock(&shared.begun).push(id.clone());
        return Ok(Some(id));
    }
    shared.has_no_answer();
    Ok(None)
}

/// What ends by itself ends.
fn until_ended(subject: &Subject, session: &str) -> Result<(), String> {
    let tasks = subject.tasks(session)?;
    let mut args = vec!["wait", "--timeout", SETTLE];
    let by_itself =
        tasks.iter().filter(|task| judge::kind_of(task).is_some_and(|(kind, _)| kind.ends != Ends::Stopped));
    args.extend(by_itself.filter_map(|task| task["id"].as_str()));
    if args.len() > 3 {
        let said = subject.say("onlooker", &args)?;
        if said.code == Some(124) {
            return Err(format!("some never end: {}", said.err));
        }
    }
    Ok(())
}

/// Everything was stopped, or is now that nobody is killed any more.
fn stop_all(subject: &Subject, session: &str, before: &Said) -> Result<(), String> {
    let until = Instant::now() + REACHED;
    let leaves_none = || processes::marked(&format!("PROVE_MARK={}", mark(session))).is_empty();
    if before.code == Some(0) && leaves_none() {
        return Ok(());
    }
    loop {
        let said = subject.say("onlooker", &["kill", "-s", session, "--grace", "20ms"])?;
        match said.code {
            Some(0) if leaves_none() => return Ok(()),
            // What is left then, the look at all processes says.
            Some(0) if Instant::now() > until => return Ok(()),
            _ if Instant::now() > until => {
                return Err(format!("the stop of all: {:?} {} {}", said.code, said.out, said.err));
            }
            _ => pause(Duration::from_millis(50)),
        }
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
    let tasks = subject.tasks(session)?;
    for pid in &leaked {
        let id = processes::task_of(*pid).unwrap_or_default();
        let task = tasks.iter().find(|task| task["id"] == *id).map(ToString::to_string).unwrap_or_default();
        wrong.push(format!("leaked: {pid:?} {} of {task}", processes::command_line(*pid)));
    }
    counts.insert("tasks", tasks.len() as u64);
    let known: BTreeSet<&str> = tasks.iter().filter_map(|task| task["id"].as_str()).collect();
    let unknown: Vec<String> = lock(&shared.begun).iter().filter(|id| !known.contains(id.as_str())).cloned().collect();
    counts.insert("unknown", unknown.len() as u64);
    wrong.extend(unknown.iter().map(|id| format!("{id} was given to a client and is unknown")));
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
