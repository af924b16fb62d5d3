//! Every named crash point of the keeper, alone and in pairs: whatever it dies at, the next one brings the task to the
//! same end. Only debug builds have the points.
#![cfg(debug_assertions)]
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its task has failed")]

mod support;

use std::path::Path;
use std::sync::Mutex;

use ringback_sys::form::receipt::{Doubt, Layer};
use ringback_sys::form::record::{Cause, Phase, Record, Step, Witness};
use ringback_sys::form::spec::{Head, Size};
use ringback_sys::keeper::CRASH_POINTS;
use support::{Order, Task, bearers, cgroups_are_there, code, signal};

/// A task that comes by certain points.
struct Story {
    name: &'static str,
    /// The script; `RUNS` is a file that shows how often it ran.
    script: &'static str,
    head: fn(&mut Head),
    /// Whether it is stopped once it runs.
    stopped: bool,
    /// Whether its tree is in a cgroup.
    in_cgroup: bool,
    /// The output, if all of it can be foretold.
    output: Option<&'static str>,
    /// Exit code, or the signal as a negative number.
    ending: i32,
    points: &'static [&'static str],
}

/// Who comes by this one is typed a word.
const TYPED: &str = "keeper.before-typed";

const STORIES: &[Story] = &[
    Story {
        name: "a short task",
        script: "echo ran >> RUNS; echo hello; exit 7",
        head: |_| {},
        stopped: false,
        in_cgroup: false,
        output: Some("hello\n"),
        ending: 7,
        points: &[
            "keeper.locked",
            "keeper.before-child",
            "child.before-started",
            "child.after-started",
            "keeper.after-child",
            "keeper.before-index",
            "keeper.after-index-made",
            "keeper.before-splice",
            "keeper.main-ended",
            "keeper.before-closed",
            "keeper.after-closed",
        ],
    },
    Story {
        name: "a task with a leftover",
        script: "echo ran >> RUNS; (sleep 0.3; echo late) & echo early; exit 5",
        head: |_| {},
        stopped: false,
        in_cgroup: false,
        output: Some("early\nlate\n"),
        ending: 5,
        points: &["keeper.before-ended", "keeper.after-ended"],
    },
    Story {
        name: "a split task",
        script: "echo ran >> RUNS; for i in 1 2 3; do echo out; echo err >&2; done; exit 4",
        head: |head| head.split = true,
        stopped: false,
        in_cgroup: false,
        output: None,
        ending: 4,
        points: &["keeper.before-stream-copy"],
    },
    Story {
        name: "a loud task",
        script: "echo ran >> RUNS; seq 20000; exit 3",
        head: |head| head.output_max = 32 << 10,
        stopped: false,
        in_cgroup: false,
        output: None,
        ending: 3,
        points: &["keeper.before-punch"],
    },
    Story {
        name: "a paused task",
        script: "echo ran >> RUNS; (sleep 0.2; kill -CONT $$) & kill -STOP $$; exit 6",
        head: |_| {},
        stopped: false,
        in_cgroup: false,
        output: Some(""),
        ending: 6,
        points: &["keeper.before-pause"],
    },
    Story {
        name: "a task with a terminal",
        script: "echo ran >> RUNS; echo up; read -r word; echo \"got $word\"; exit 2",
        head: |head| head.pty = Some(Size { columns: 80, rows: 24 }),
        stopped: false,
        in_cgroup: false,
        output: None,
        ending: 2,
        points: &["keeper.before-shown", TYPED],
    },
    Story {
        name: "a stubborn task",
        script: "trap '' TERM; setsid sleep 300 & echo ran >> RUNS; echo up; sleep 300; sleep 300",
        head: |_| {},
        stopped: true,
        in_cgroup: false,
        output: Some("up\n"),
        ending: -9,
        points: &[
            "keeper.request-read",
            "keeper.cause-recorded",
            "keeper.after-term",
            "keeper.after-freeze",
            "keeper.after-kill",
            "keeper.before-receipt",
            "keeper.before-receipt-rename",
            "keeper.after-receipt",
        ],
    },
    Story {
        name: "a stubborn task in a cgroup",
        script: "trap '' TERM; (env -i setsid sleep 300 &); echo ran >> RUNS; echo up; sleep 300; sleep 300",
        head: |_| {},
        stopped: true,
        in_cgroup: true,
        output: Some("up\n"),
        ending: -9,
        points: &["keeper.after-term", "keeper.after-cgroup-kill", "keeper.before-receipt"],
    },
];

/// Points that only a keeper that takes over comes by.
const TAKEOVER_POINTS: [&str; 2] = ["keeper.takeover", "keeper.takeover-repaired"];
/// A start that fails comes by this one only.
const FAILED_START: &str = "child.before-start-failed";

#[test]
fn every_point_has_a_story() {
    let mut told: Vec<&str> = STORIES.iter().flat_map(|story| story.points).copied().collect();
    told.extend(TAKEOVER_POINTS);
    told.push(FAILED_START);
    told.sort_unstable();
    told.dedup();
    let mut points = CRASH_POINTS.to_vec();
    points.sort_unstable();
    assert_eq!(told, points);
}

/// Tells the story with a death at `first`, and one of the next keeper at `second`, should it come by there.
fn tell(story: &Story, first: &str, second: Option<&str>) {
    if story.in_cgroup && !cgroups_are_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path().join("runs");
    let script = story.script.replace("RUNS", runs.to_str().unwrap());
    let mut order = Order::shell("bash", &script).with(story.head).crashing_at(first);
    order.in_cgroup = story.in_cgroup;
    let mut task = order.start();
    let mut points = vec![first];
    if story.points.contains(&TYPED) {
        task.send(b"word\r");
    }
    if story.stopped {
        task.wait_output(|output| output == b"up\n");
        task.stop(50);
    }
    let mut reached = Vec::new();
    loop {
        let status = task.keeper_status();
        if status & 0x7f != 9 {
            break;
        }
        reached.push(points[points.len() - 1]);
        let record = task.record();
        if !matches!(record.phase, Phase::New | Phase::Started | Phase::Ended) {
            break;
        }
        let next = if reached.len() == 1 { second } else { None };
        points.extend(next);
        task.crash_next(next);
        task.spawn(record.phase != Phase::New);
    }
    assert!(first.starts_with("child.") || reached.first() == Some(&first), "{} never came by {first}", story.name);
    check(story, &task, &runs, &points);
}

fn check(story: &Story, task: &Task, runs: &Path, points: &[&str]) {
    let record = task.record();
    let about = format!("{} with {points:?}: {record:?}", story.name);
    let ran = std::fs::read_to_string(runs).unwrap_or_default();
    if points.contains(&"child.before-started") && record.phase == Phase::StartFailed {
        assert_eq!((record.step, record.errno, ran.as_str()), (Step::Fork, 4, ""), "{about}");
        return;
    }
    assert_eq!(record.phase, Phase::Closed, "{about}");
    assert_ne!(record.witness, Witness::None, "{about}");
    assert_eq!(bearers(&task.id), Vec::<i32>::new(), "{about}");
    if let Some(cgroup) = &task.cgroup {
        let processes = std::fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
        assert_eq!(processes, "", "{about}");
    }
    if points.contains(&"child.after-started") && signal(&record) == Some(9) && ran.is_empty() {
        return;
    }
    assert_eq!(ran, "ran\n", "it ran once: {about}");
    assert_eq!(ending(&record), story.ending, "{about}");
    if let Some(output) = story.output {
        assert_eq!(task.text(), output, "{about}");
    }
    if story.points.contains(&TYPED) {
        // What is echoed may come before the rest.
        assert!(task.text().contains("up\r\n") && task.text().ends_with("got word\r\n"), "{about}: {:?}", task.text());
    }
    if story.stopped {
        assert_eq!((record.cause, record.has_receipt), (Cause::Request, true), "{about}");
        // A keeper that took over knows only marks, unless there is a cgroup.
        let receipt = task.receipt().0;
        let doubt = if receipt.layer == Layer::Marks { Doubt::KeeperDied } else { Doubt::None };
        assert_eq!((receipt.verified_empty, receipt.doubt), (doubt == Doubt::None, doubt), "{about}");
    }
    check_files(task, &record, &about);
}

fn ending(record: &Record) -> i32 {
    code(record).unwrap_or_else(|| -signal(record).unwrap_or(0))
}

/// The files of a split or capped task hold what they should.
fn check_files(task: &Task, record: &Record, about: &str) {
    if task.folder.join("io.out").exists() {
        assert_eq!(task.file("stdout"), b"out\n".repeat(3), "{about}");
        assert_eq!(task.file("stderr"), b"err\n".repeat(3), "{about}");
    }
    if record.gaps_count > 0 {
        let oracle: String = (1..=20000).map(|n| n.to_string() + "\n").collect();
        let output = task.output();
        let gap = record.gaps[0];
        let (from, to) = (usize::try_from(gap.from).unwrap(), usize::try_from(gap.to).unwrap());
        assert!(output.len() == oracle.len() && output[..from] == oracle.as_bytes()[..from], "{about}");
        assert!(output[to..] == oracle.as_bytes()[to..], "{about}");
    }
}

#[test]
fn a_death_at_any_point_changes_nothing() {
    for story in STORIES {
        for point in story.points {
            tell(story, point, None);
        }
    }
}

#[test]
fn a_second_death_at_any_point_changes_nothing() {
    let stories = STORIES.iter().flat_map(|story| story.points.iter().map(move |point| (story, point)));
    let pairs: Vec<_> =
        stories.flat_map(|(story, first)| CRASH_POINTS.iter().map(move |second| (story, *first, *second))).collect();
    let next = Mutex::new(pairs.into_iter());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some((story, first, second)) = { next.lock().unwrap().next() } {
                    tell(story, first, Some(second));
                }
            });
        }
    });
}

#[test]
fn a_takeover_that_dies_is_taken_over() {
    for point in TAKEOVER_POINTS {
        let mut task = Order::sh("echo early; read _; echo late; exit 6").with(|head| head.stdin = true).start();
        task.wait_output(|output| output == b"early\n");
        let stdin = std::fs::OpenOptions::new().write(true).open(task.folder.join("stdin")).unwrap();
        task.kill_keeper();
        task.crash_next(Some(point));
        task.spawn(true);
        assert_eq!(task.keeper_status(), 9, "{point}");
        std::io::Write::write_all(&mut &stdin, b"\n").unwrap();
        task.take_over();
        let record = task.wait_closed();
        assert_eq!((code(&record), task.text().as_str()), (Some(6), "early\nlate\n"), "{point}");
    }
}

#[test]
fn a_start_that_fails_and_dies_before_it_can_say_so_is_no_success() {
    let record = Order::new(&["/no/such/program"]).crashing_at(FAILED_START).start().wait_closed();
    assert_eq!((record.phase, signal(&record)), (Phase::Closed, Some(9)));
}
