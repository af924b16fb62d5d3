//! A long life: a home with very many finished tasks beside one with few, each alone and with 2,000 tasks that live. What
//! people and agents ask all day must not take longer in the large one.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use ringback_core::id::TaskId;
use ringback_host::client::{Capture, Client, Launcher};
use ringback_host::home::Home;
use ringback_host::store::{Ack, Asked, Facts, Packed, Record, Store, StoredCommand, StoredOutcome};
use ringback_host::wire::{ByteBuf, Caller, Command as Words, Reply, Request};
use rustix::process::Pid;

use super::chance::Chance;
use super::processes;
use super::subject::Subject;
use super::{Options, Trial};

/// The home that the large one is compared with.
const FEW: u64 = 1_000;
/// Tasks that live in the second half of the trial.
const LIVE: usize = 2_000;
/// How many tasks one transaction of the filling has.
const BATCH: u64 = 5_000;
/// How often each thing is asked; the shortest time counts, since what else the machine does only adds to it.
const LOOKS: usize = 15;
/// How often both homes are measured where the large one seems to take longer: the machine may have had other work just then.
const TRIES: usize = 3;
/// How often a daemon is started.
const STARTS: usize = 5;
/// Its session has half of all tasks, and is the one that asks; the others have as many others.
const SESSION: &str = "life";
const OTHER_SESSIONS: u64 = 1_000;
/// The notices that nobody has heard, of the newest tasks.
const UNHEARD: u64 = 20;
/// What finished tasks took and wrote: a small output, as most have.
const OUTPUT: &[u8] = b"running 12 tests\ntest result: ok. 12 passed; 0 failed; 0 ignored; 0 measured\n";
/// Up to here the large home may take more than the small one, where both take next to nothing: microseconds and bytes.
const NOISE: (u64, u64) = (3_000, 4 << 20);

/// What was measured of one home.
struct Figures(Vec<(&'static str, u64)>);

/// A home with so many finished tasks, its oldest one, and how long it took to write.
fn filled(trial: &Trial<'_>, ended: u64) -> Result<((u64, Subject, TaskId), Duration), String> {
    let subject = Subject::new(trial.program)?;
    let begun = Instant::now();
    let old = fill(&subject, ended, &mut Chance::new(trial.seed))?;
    println!("life: {ended} finished tasks, written in {:?}", begun.elapsed());
    Ok(((ended, subject, old), begun.elapsed()))
}

/// The power of ten that can be written in this time, where [`FEW`] took so long: a short run of all parts stays short.
fn many(time: Duration, took: Duration) -> u64 {
    let room = u128::from(FEW) * time.as_micros() / took.as_micros().max(1);
    [1_000_000, 100_000].into_iter().find(|many| u128::from(*many) <= room).unwrap_or(10_000)
}

pub(crate) fn run(trial: &mut Trial<'_>, options: &Options) -> Result<(), String> {
    let (few, took) = filled(trial, FEW)?;
    let many = options.ended.map_or_else(|| many(trial.time, took), |many| many.max(FEW * 2));
    let homes = [few, filled(trial, many)?.0];
    for live in [0, LIVE] {
        let [mut small, mut large] = [measure_with(&homes[0], live)?, measure_with(&homes[1], live)?];
        for _ in 1..TRIES {
            if large.beyond(&small).is_empty() {
                break;
            }
            small.take_less(&measure_with(&homes[0], live)?);
            large.take_less(&measure_with(&homes[1], live)?);
        }
        for ((ended, ..), figures) in homes.iter().zip([&small, &large]) {
            let row = format!("{ended} ended, {live} live");
            println!("life: {row}: {}", figures.line());
            for (name, value) in &figures.0 {
                trial.results.set("life", &row, name, *value)?;
            }
        }
        for words in large.beyond(&small) {
            trial.results.fail("life", &format!("{many} ended, {live} live"), &words)?;
        }
    }
    Ok(())
}

/// The figures of a home while so many tasks live in it.
fn measure_with((_, subject, old): &(u64, Subject, TaskId), live: usize) -> Result<Figures, String> {
    let tasks = if live == 0 { Vec::new() } else { start_many(subject, live)? };
    let figures = measure(subject, &old.to_string())?;
    if live > 0 {
        check_all_live(subject, &tasks)?;
        subject.say("onlooker", &["kill", "-s", SESSION, "--grace", "20ms"])?;
    }
    Ok(figures)
}

impl Figures {
    /// Keeps of each figure the lower one: what else the machine did only added to the other.
    fn take_less(&mut self, other: &Self) {
        for ((_, value), (_, other)) in self.0.iter_mut().zip(&other.0) {
            *value = (*value).min(*other);
        }
    }

    fn line(&self) -> String {
        self.0.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
    }

    /// What grew with the tasks that have ended.
    fn beyond(&self, small: &Self) -> Vec<String> {
        let pairs = self.0.iter().zip(&small.0);
        let grew = pairs.filter(|((name, large), (_, small))| {
            let noise = if name.ends_with("_us") { NOISE.0 } else { NOISE.1 };
            *large > small * 3 / 2 + noise
        });
        grew.map(|((name, large), (_, small))| format!("{name} grew from {small} to {large}")).collect()
    }
}

/// Writes so many finished tasks, as a daemon leaves them that has packed their outputs; one from the middle of them.
fn fill(subject: &Subject, ended: u64, chance: &mut Chance) -> Result<TaskId, String> {
    let words = |what: &'static str| move |error: &dyn std::error::Error| format!("cannot {what}: {error}");
    let home = Home::at(subject.home()).map_err(|error| words("name the home")(&error))?;
    home.prepare().map_err(|error| words("prepare the home")(&error))?;
    let mut store = Store::open(&home.db()).map_err(|error| words("open the database")(&error))?;
    let mut middle = None;
    for from in (0..ended).step_by(usize::try_from(BATCH).unwrap_or(1)) {
        let mut records = Vec::new();
        for number in from..ended.min(from + BATCH) {
            let id = TaskId::from_bits(chance.below(1 << 30) << 30 | chance.below(1 << 30));
            if number >= ended / 2 {
                middle.get_or_insert(id);
            }
            records.extend(finished(id, number));
            let is_heard = number + 2 * UNHEARD < ended;
            if is_heard {
                records.push(Record::Ack { session: session_of(number), which: Ack::Task(id) });
            }
        }
        store.write(&records).map_err(|error| words("write tasks")(&error))?;
    }
    store.shorten_log();
    middle.ok_or_else(|| "no task was written".into())
}

fn session_of(number: u64) -> String {
    if number.is_multiple_of(2) { SESSION.to_owned() } else { format!("session-{}", number / 2 % OTHER_SESSIONS) }
}

/// All that is ever recorded of a task, from its beginning until its output is in the database.
fn finished(id: TaskId, number: u64) -> [Record; 4] {
    let session = session_of(number);
    let at_ms = 1_700_000_000_000 + i64::try_from(number).unwrap_or(0) * 1_000;
    let command = StoredCommand {
        words: vec![ByteBuf::from("sh")],
        script: Some(ByteBuf::from(format!("cargo test --package part-{} -- --nocapture", number % 5_000))),
        cut: false,
    };
    let asked = Asked {
        name: Some(format!("test {number}")),
        command,
        cwd: ByteBuf::from("/srv/project"),
        grace_ms: 10_000,
        ..Asked::default()
    };
    let outcome = StoredOutcome { state: "exited".into(), code: Some(0), ..StoredOutcome::default() };
    let facts = Facts {
        outcome,
        started_ms: Some(at_ms),
        ended_ms: Some(at_ms + 900),
        duration_ms: Some(900),
        pid: Some(4242),
        output_bytes: OUTPUT.len() as u64,
        output_complete: true,
        paused_ms: Some(0),
        ..Facts::default()
    };
    let text = format!("SUCCEEDED exit 0 · 0.900s · test {number} · id {id}\n| {}", String::from_utf8_lossy(OUTPUT));
    let packed = Packed { output: Some(OUTPUT.to_vec()), index: vec![0; 24], disk_bytes: 1_500 };
    [
        Record::Insert { id, session: session.clone(), lease: "awaited", created_ms: at_ms, asked: Box::new(asked) },
        Record::Conclude { id, session, facts: Box::new(facts), at_ms: at_ms + 900, text },
        Record::Close { id, facts: None, disk_bytes: 8_192 },
        Record::Pack { id, packed: Some(Box::new(packed)) },
    ]
}

/// Starts tasks that live until they are stopped.
fn start_many(subject: &Subject, count: usize) -> Result<Vec<String>, String> {
    let home = Home::at(subject.home()).map_err(|error| error.to_string())?;
    let caller = Caller { session: SESSION.to_owned(), by: SESSION.to_owned() };
    let client = Client::open_with(&home, caller, Launcher::program(&subject.program));
    let mut client = client.map_err(|error| format!("cannot reach the daemon: {error}"))?;
    let mut ids = Vec::new();
    for _ in 0..count {
        let words = ["sleep", "100000"].map(|word| ByteBuf::from(word.as_bytes().to_vec())).to_vec();
        let run = Capture::default().request(Words::Argv(words)).map_err(|error| error.to_string())?;
        match client.call(Request::Run(Box::new(run))) {
            Ok(Reply::Task { task, .. }) => ids.push(task.id),
            other => return Err(format!("a run was answered with {other:?}")),
        }
    }
    Ok(ids)
}

/// After all that was asked and started, all of them still run.
fn check_all_live(subject: &Subject, tasks: &[String]) -> Result<(), String> {
    let list = subject.document("onlooker", &["daemon", "status", "--json"])?;
    let running = list["running"].as_u64().unwrap_or(0);
    if running == tasks.len() as u64 { Ok(()) } else { Err(format!("{running} of {} tasks run", tasks.len())) }
}

fn least(times: &[u64]) -> u64 {
    times.iter().min().copied().unwrap_or(0)
}

/// How long the verbs of a day take, whole programs from their start to their end, and what the daemon takes.
fn measure(subject: &Subject, old: &str) -> Result<Figures, String> {
    let mut figures = Vec::new();
    let mut starts = Vec::new();
    for _ in 0..STARTS {
        starts.push(start(subject)?);
    }
    figures.push(("start_us", least(&starts)));
    for (name, args) in [
        ("ps_us", &["ps"][..]),
        ("ps_all_us", &["ps", "-a"]),
        ("show_us", &["show", old]),
        ("logs_us", &["logs", "--raw", old]),
        ("inbox_us", &["inbox"]),
        ("status_us", &["daemon", "status"]),
        ("sessions_us", &["session", "ls"]),
        ("run_us", &["run", "-q", "--lease", "detached", "--", "true"]),
    ] {
        let mut times = Vec::new();
        for _ in 0..LOOKS {
            let begun = Instant::now();
            let said = subject.client(SESSION, args).output().map_err(|error| format!("no client: {error}"))?;
            times.push(u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX));
            if !said.status.success() {
                return Err(format!("`{}`: {}", args.join(" "), String::from_utf8_lossy(&said.stderr)));
            }
        }
        figures.push((name, least(&times)));
    }
    let daemon = subject.daemon().ok_or("the daemon is gone")?;
    figures.push(("rss_bytes", processes::load(daemon).rss_bytes));
    Ok(Figures(figures))
}

/// Starts a daemon in the place of the one that runs; microseconds until it served.
fn start(subject: &Subject) -> Result<u64, String> {
    if let Some(daemon) = subject.daemon() {
        processes::kill(daemon, |_| true);
    }
    let begun = Instant::now();
    let mut command = subject.client(SESSION, &["daemon", "run"]);
    let mut daemon = command.stderr(Stdio::null()).spawn().map_err(|error| format!("no daemon: {error}"))?;
    let mut line = String::new();
    let words = daemon.stdout.take().ok_or("a daemon without words")?;
    BufReader::new(words).read_line(&mut line).map_err(|error| format!("the daemon's words: {error}"))?;
    let took = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
    // Whoever kills it later is not its parent, which has to take it in.
    let pid = Pid::from_child(&daemon);
    std::thread::spawn(move || daemon.wait());
    if line.starts_with("ready") { Ok(took) } else { Err(format!("the daemon {pid:?} said {line:?}")) }
}
