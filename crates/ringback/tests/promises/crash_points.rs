//! kill -9 at every named point, and at every pair of them: first crash, restart, second crash, restart, look.
//!
//! The story is told over the bare wire, so that no client starts a daemon of its own between two crashes.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::process::Child;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ringback_host::daemon::CRASH_POINTS as DAEMON_POINTS;
use ringback_host::wire::task::TerminalSize;
use ringback_host::wire::{Call, Command, Reply, Request, RunRequest, TaskObject, Until};
use ringback_sys::keeper::CRASH_POINTS as KEEPER_POINTS;
use serde_bytes::ByteBuf;

use crate::support::{Fifo, MINE, World, machine, wire};

/// How many stories are told beside each other.
const AT_ONCE: usize = 3;
/// Every so many pairs of points are tried in each run of the tests; it shares no divisor with their number.
const SLICE: usize = 47;

/// The point that is passed only where there is a sink, and the file that it writes into.
const DELIVERS: &str = "daemon.before-deliver";
const DELIVERED: &str = "delivered";

/// One story in one home.
struct Story {
    world: World,
    daemon: RefCell<Option<Child>>,
    go: Fifo,
    /// By name: the id of a task, once the daemon has said it.
    ids: RefCell<BTreeMap<&'static str, String>>,
    acknowledged: Cell<u64>,
    keeper_killed: Cell<bool>,
    /// Ids that are not given any more.
    removed: RefCell<Vec<String>>,
}

/// One thing that happens.
type Step = fn(&Story) -> Option<()>;

/// What happens, in order. A step that the daemon's death cut off is not asked again, unless asking again is the same.
const STEPS: &[(&str, Step)] = &[
    ("run quick", |story| {
        story.run("quick", "echo quick; exit 3", |run| {
            let folder = story.world.work("").into_os_string().into_encoded_bytes();
            (run.cwd, run.sandbox) = (ByteBuf::from(folder), "cwd-if-possible".into());
        })
    }),
    ("run stubborn", |story| {
        story.run("stubborn", "setsid sleep 8501 & trap '' TERM; while :; do sleep 8502; done", |run| {
            run.grace_ms = Some(50);
        })
    }),
    ("run held", |story| story.run("held", &format!("echo held; read x < {}; exit 7", story.go.word()), |_| ())),
    ("run split", |story| {
        story.run("split", "echo out; echo err >&2; seq 1 20000; exit 4", |run| {
            (run.split, run.output_max) = (true, Some(65_536));
        })
    }),
    ("run leaver", |story| story.run("leaver", "setsid sleep 8503 & exit 5", |run| run.leftovers = "kill".into())),
    ("run paused", |story| story.run("paused", "kill -STOP $$; exit 9", |_| ())),
    ("run terminal", |story| {
        let script = "read -r word; echo \"got $word\"; exit 8";
        story.run("terminal", script, |run| run.pty = Some(TerminalSize { columns: 80, rows: 24 }))
    }),
    ("run nothing", |story| {
        let argv = Command::Argv(vec![ByteBuf::from("no-such-program-zz")]);
        story.run("nothing", "", |run| run.command = argv)
    }),
    ("wait quick", |story| story.wait("quick")),
    ("kill stubborn", |story| {
        let ids = story.id("stubborn").into_iter().collect();
        story.ask(Request::Kill { ids, session: None, grace_ms: Some(20) }).map(drop)
    }),
    // Said again after a crash, it is one line more that nobody reads.
    ("type", |story| match story.id("terminal") {
        Some(id) => story.ask(Request::Send { id, data: ByteBuf::from("word\r"), eof: false }).map(drop),
        None => Some(()),
    }),
    ("wait terminal", |story| story.wait("terminal")),
    ("continue paused", |story| {
        let ids = story.id("paused").into_iter().collect();
        story.ask(Request::Signal { ids, signal: ringback_sys::signals::SIGCONT }).map(drop)
    }),
    ("wait paused", |story| story.wait("paused")),
    ("let held go", |story| {
        story.go.release(1);
        story.wait("held")
    }),
    ("acknowledge", |story| {
        let reply = story.ask(Request::Inbox { after: Some(1), wait_ms: None, limit: 1 });
        // Also a request whose answer never came may have been carried out.
        story.acknowledged.set(1);
        reply.map(drop)
    }),
    ("run and remove", |story| {
        story.run("removed", "true", |_| ())?;
        story.wait("removed")?;
        let ids: Vec<String> = story.ids.borrow_mut().remove("removed").into_iter().collect();
        story.removed.borrow_mut().extend(ids.clone());
        story.ask(Request::Remove { ids }).map(drop)
    }),
    ("end the session", |story| story.ask(Request::SessionEnd { session: MINE.into() }).map(drop)),
];

impl Story {
    /// A story in which endings are sent to a sink, too, if one of these points is passed only then.
    fn new(points: &[&str]) -> Self {
        let world = World::new();
        if points.contains(&DELIVERS) {
            let deliver = format!("cat >> {}", world.work(DELIVERED).display());
            world.configure(&format!("[[sink]]\nexec = ['sh', '-c', '''{deliver}''']\nretry = '50ms'\n"));
        }
        let go = world.fifo("go");
        Self {
            world,
            daemon: RefCell::default(),
            go,
            ids: RefCell::default(),
            acknowledged: Cell::default(),
            keeper_killed: Cell::default(),
            removed: RefCell::default(),
        }
    }

    /// Ends the daemon that is there, and starts one that dies at `point`. It may die before it listens.
    fn start(&self, point: Option<&str>) {
        self.end_daemon();
        let arm: Vec<(&str, &str)> = point.map(|point| ("RINGBACK_CRASH", point)).into_iter().collect();
        self.daemon.replace(self.world.start_daemon(&arm));
    }

    fn end_daemon(&self) {
        if let Some(mut daemon) = self.daemon.take() {
            machine::kill(machine::pid_of(&daemon));
            daemon.wait().unwrap();
        }
    }

    fn id(&self, name: &str) -> Option<String> {
        self.ids.borrow().get(name).cloned()
    }

    /// Asks; nothing if the daemon died over it.
    fn ask(&self, request: Request) -> Option<Reply> {
        let call: Call = wire::call(request);
        wire::try_ask(&self.world, &call)
    }

    fn run(&self, name: &'static str, script: &str, with: impl FnOnce(&mut RunRequest)) -> Option<()> {
        let starts = self.world.work(format!("starts.{name}"));
        let text = format!("echo start >> {}\n{script}", starts.display());
        let command = Command::Script { text: ByteBuf::from(text), shell: vec![ByteBuf::from("sh")] };
        let mut request = RunRequest { command, name: Some(name.into()), ..wire::run(&[]) };
        with(&mut request);
        match self.ask(Request::Run(Box::new(request)))? {
            Reply::Task { task, .. } => drop(self.ids.borrow_mut().insert(name, task.id)),
            other => panic!("{name}: {other:?}"),
        }
        Some(())
    }

    fn wait(&self, name: &str) -> Option<()> {
        let ids: Vec<String> = self.id(name).into_iter().collect();
        if ids.is_empty() {
            return Some(());
        }
        self.ask(Request::Wait { ids, any: false, until: Until::default(), timeout_ms: Some(5_000) }).map(drop)
    }

    /// Tells the story under these crashes, one after another, then without any.
    fn tell(&self, points: &[&str]) {
        let mut points: VecDeque<&str> = points.iter().copied().collect();
        let mut steps: VecDeque<_> = STEPS.iter().collect();
        self.start(points.pop_front());
        while let Some((name, step)) = steps.pop_front() {
            while step(self).is_none() {
                let next = points.pop_front();
                self.start(next);
                // A `run` whose answer was lost is not asked again, as no client does; the rest is.
                if name.starts_with("run") || next.is_none() && self.daemon.borrow().is_none() {
                    break;
                }
            }
        }
        // The second point may be one that only a restart passes.
        while let Some(point) = points.pop_front() {
            self.start(Some(point));
            let _ = self.ask(Request::Status);
        }
        self.start(None);
    }

    /// What must be true whatever died.
    fn check(&self, points: &[&str]) {
        let keepers_crash = points.iter().any(|point| !point.starts_with("daemon."));
        // Whatever still runs is let go, stopped and waited for; then everything must have ended.
        self.go.release(1);
        let session = Some(MINE.to_owned());
        let listed = |what: &str| {
            let list = Request::List { session: session.clone(), ended: true, before: None, limit: 1000 };
            match self.ask(list) {
                Some(Reply::Tasks { tasks, .. }) => tasks,
                other => panic!("{what}: {other:?}"),
            }
        };
        let ids: Vec<String> = listed("the first look").into_iter().map(|task| task.id).collect();
        if !ids.is_empty() {
            let kill = Request::Kill { ids: ids.clone(), session: None, grace_ms: Some(20) };
            assert!(matches!(self.ask(kill), Some(Reply::Tasks { .. })), "a daemon that is not armed dies");
            // A tree whose receipt is an older keeper's is known to be gone before the new one has told the end.
            let wait = Request::Wait { ids, any: false, until: Until::default(), timeout_ms: Some(5_000) };
            assert!(matches!(self.ask(wait), Some(Reply::Tasks { .. })), "a daemon that is not armed dies");
        }
        let tasks = listed("the last look");
        for (name, id) in &*self.ids.borrow() {
            assert!(tasks.iter().any(|task| task.id == *id), "{name} was answered, yet it is not there");
        }
        for task in &tasks {
            self.check_task(task, keepers_crash);
        }
        for (name, _) in STEPS.iter().filter_map(|(name, _)| name.split_once(' ')).filter(|(verb, _)| *verb == "run") {
            assert!(self.starts(name) <= 1, "{name} was started twice");
        }
        self.check_notices(&tasks);
        if points.contains(&DELIVERS) {
            self.check_deliveries(&tasks);
        }
        // A spec holds an environment: none is left of a task that is not, or not any more.
        for folder in self.world.folders() {
            let id = folder.file_name().unwrap().to_str().unwrap();
            if !tasks.iter().any(|task| task.id == id) {
                machine::until_removed(&folder.join("spec"));
            }
            // What a sandboxed task wrote there goes with its end, whoever died between the two.
            machine::until_removed(&folder.join("tmp"));
        }
    }

    fn starts(&self, name: &str) -> usize {
        std::fs::read_to_string(self.world.work(format!("starts.{name}"))).unwrap_or_default().lines().count()
    }

    fn check_task(&self, task: &TaskObject, keepers_crash: bool) {
        let name = task.name.as_deref().unwrap_or_default();
        assert!(task.has_ended(), "{name} never ends: {task:#?}");
        assert_eq!(self.world.tree(&task.id), [], "{name} left processes: {task:#?}");
        assert!(self.starts(name) <= 1, "{name} was started twice");
        let may_be_lost = keepers_crash || (name == "held" && self.keeper_killed.get());
        let right = match (task.state.as_str(), name) {
            ("exited", "quick") => task.exit_code == Some(3),
            ("exited", "held") => task.exit_code == Some(7),
            ("exited", "split") => task.exit_code == Some(4),
            ("exited", "leaver") => task.exit_code == Some(5),
            ("exited", "removed") => task.exit_code == Some(0),
            ("start_failed", "nothing") => keepers_crash || task.reason.as_deref() == Some("not_found"),
            ("exited", "paused") => task.exit_code == Some(9),
            ("exited", "terminal") => task.exit_code == Some(8),
            // With daemon and keeper both killed, its terminal is hung up.
            ("signaled", "terminal") if task.signal.as_deref() == Some("SIGHUP") => keepers_crash,
            // The end of the session reaches what a crash had held up.
            ("killed", _) => task.exit_code.is_none(),
            ("lost", _) => may_be_lost && task.exit_code.is_none(),
            // A child that dies between fork and exec, or a keeper that cannot start it.
            ("start_failed" | "signaled", _) => keepers_crash && task.exit_code.is_none() && self.starts(name) == 0,
            _ => false,
        };
        assert!(right, "{name}: {task:#?}");
        if task.state == "exited" {
            assert_eq!(self.starts(name), 1, "{name}: {task:#?}");
            Self::check_output(name, task, keepers_crash);
        }
    }

    fn check_output(name: &str, task: &TaskObject, keepers_crash: bool) {
        let output = std::fs::read(&task.output.path).unwrap();
        match name {
            // With all its keepers dead and the daemon killed too, what was in a pipe is gone with it.
            "quick" | "held" | "split" | "terminal" if keepers_crash => {}
            "terminal" => assert!(output.ends_with(b"got word\r\n"), "{}", String::from_utf8_lossy(&output)),
            "quick" => assert_eq!(output, b"quick\n"),
            "held" => assert_eq!(output, b"held\n"),
            "split" => {
                let numbers: usize = (1..=20_000).map(|n: u32| n.to_string().len() + 1).sum();
                assert_eq!(task.output.bytes as usize, 8 + numbers, "{task:#?}");
                // Between the streams the order is that of arrival; within each it is the writer's.
                let read = |path: &Option<String>| std::fs::read_to_string(path.as_ref().unwrap()).unwrap();
                assert!(read(&task.stdout_path).ends_with("\n19999\n20000\n"), "{task:#?}");
                assert_eq!(read(&task.stderr_path), "err\n", "{task:#?}");
            }
            _ => {}
        }
    }

    fn check_notices(&self, tasks: &[TaskObject]) {
        let notices = match self.ask(Request::Inbox { after: None, wait_ms: None, limit: 1000 }) {
            Some(Reply::Notices { notices, .. }) => notices,
            other => panic!("{other:?}"),
        };
        assert!(notices.windows(2).all(|pair| pair[0].seq < pair[1].seq), "in order");
        let mut hidden = self.acknowledged.get();
        for task in tasks {
            let told = notices.iter().filter(|notice| notice.task.id == task.id).count();
            assert!(told <= 1, "{:?} was told twice", task.name);
            if told == 0 {
                assert!(hidden > 0, "{:?} was never told: {task:#?}", task.name);
                hidden -= 1;
            }
        }
    }
}

impl Story {
    /// Whatever nobody has heard of was sent, at least once, and nothing that never was.
    fn check_deliveries(&self, tasks: &[TaskObject]) {
        let unheard = match self.ask(Request::Inbox { after: None, wait_ms: None, limit: 1000 }) {
            Some(Reply::Notices { notices, .. }) => notices,
            other => panic!("{other:?}"),
        };
        let sent = self.world.work(DELIVERED);
        machine::until_file(&sent, |text| unheard.iter().all(|notice| text.contains(&notice.task.id)));
        let removed: Vec<String> = self.removed.borrow().clone();
        for line in std::fs::read_to_string(&sent).unwrap_or_default().lines() {
            let notice: serde_json::Value = serde_json::from_str(line).unwrap();
            let known = tasks.iter().map(|task| &task.id).chain(&removed).any(|id| notice["task"] == id.as_str());
            assert!(known, "{line}");
        }
    }
}

impl Drop for Story {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// Tells one story per list of points, until the time is over; what went wrong, and how many were told.
fn tell_until(lists: &[Vec<&'static str>], until: Option<Instant>) -> (Vec<String>, usize) {
    let next = AtomicUsize::new(0);
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while until.is_none_or(|until| Instant::now() < until) {
                    let Some(points) = lists.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
                    let told = std::panic::catch_unwind(|| {
                        let story = Story::new(points);
                        story.tell(points);
                        story.check(points);
                    });
                    if let Err(what) = told {
                        let what = what.downcast_ref::<String>().cloned().unwrap_or_default();
                        wrong.lock().unwrap().push(format!("{}: {what}", points.join(" then ")));
                    }
                }
            });
        }
    });
    (wrong.into_inner().unwrap(), next.into_inner().min(lists.len()))
}

#[track_caller]
fn tell_all(lists: &[Vec<&'static str>]) {
    let (wrong, _) = tell_until(lists, None);
    assert!(wrong.is_empty(), "{} stories end wrong:\n\n{}", wrong.len(), wrong.join("\n\n"));
}

/// Every point of daemon and keeper with every point.
fn all_pairs() -> Vec<Vec<&'static str>> {
    let points: Vec<&str> = DAEMON_POINTS.iter().chain(KEEPER_POINTS).copied().collect();
    points.iter().flat_map(|first| points.iter().map(|second| vec![*first, *second])).collect()
}

#[test]
fn a_story_without_a_crash_ends_right() {
    tell_all(&[vec![]]);
}

#[test]
fn a_daemon_that_dies_at_any_point_loses_nothing() {
    tell_all(&DAEMON_POINTS.iter().map(|point| vec![*point]).collect::<Vec<_>>());
}

#[test]
fn keepers_that_die_at_any_point_make_no_wrong_outcome() {
    tell_all(&KEEPER_POINTS.iter().map(|point| vec![*point]).collect::<Vec<_>>());
}

/// A slice, in which each point comes first and second in some. `cargo xtask prove --only crashes` goes through all of
/// them: from the pair `RINGBACK_PAIRS_FROM` on, for `RINGBACK_PAIRS_SECONDS`.
#[test]
fn daemons_and_keepers_that_die_at_any_two_points_lose_nothing() {
    let pairs = all_pairs();
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let Some(seconds) = number("RINGBACK_PAIRS_SECONDS") else {
        return tell_all(&pairs.into_iter().step_by(SLICE).collect::<Vec<_>>());
    };
    let from = number("RINGBACK_PAIRS_FROM").unwrap_or(0) as usize % pairs.len();
    let (wrong, told) = tell_until(&pairs[from..], Some(Instant::now() + Duration::from_secs(seconds)));
    for story in &wrong {
        println!("wrong: {}", story.replace('\n', " "));
    }
    println!("crashes: {told} of {} pairs from {from} on", pairs.len());
}
