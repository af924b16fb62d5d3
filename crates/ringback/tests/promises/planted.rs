//! Files that somebody has put into the folder of a task before they are ringback's turn to make, or later in the place of one: never
//! written to, never taken for ours, and nobody is held up by them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::support::{MINE, World, about, has_ended, id_of, machine};

const PRECIOUS: &str = "precious\n";

/// A way to put something at a path: a name for it, and what does it with a file of somebody else.
type Plant = (&'static str, fn(&Path, &Path));

const PLANTS: [Plant; 5] = [
    ("a file", |_, at| fs::write(at, "forged\n").unwrap()),
    ("a hard link", |precious, at| fs::hard_link(precious, at).unwrap()),
    ("a symbolic link", |precious, at| symlink(precious, at).unwrap()),
    ("a link to nowhere", |precious, at| symlink(precious.with_file_name("nowhere"), at).unwrap()),
    ("a FIFO", |_, at| ringback_sys::files::fifo(at).unwrap()),
];

/// Plants something into the folder of a task that waits for its turn, and gives what becomes of the task.
fn planted(world: &World, args: &[&str], name: &str, plant: &Plant) -> serde_json::Value {
    let precious = world.work("precious");
    fs::write(&precious, PRECIOUS).unwrap();
    let go = world.fifo(&format!("go-{}-{}", name, plant.0.replace(' ', "-")));
    let before = world.sh(&format!("read x < {}", go.word()));
    let id = world.run(&[args, &["--", "echo", "hello"]].concat());
    assert_eq!(world.show(&id)["state"], "queued");
    let at = world.folder(&id).join(name);
    if at.symlink_metadata().is_ok() {
        fs::remove_file(&at).unwrap();
    }
    (plant.1)(&precious, &at);
    go.release(1);
    let task = world.end(&id);
    assert_eq!(fs::read_to_string(&precious).unwrap(), PRECIOUS, "{name}: {}", plant.0);
    assert!(!precious.with_file_name("nowhere").exists(), "{name}: {}", plant.0);
    assert_eq!(about(&world.inbox(MINE), &id).len(), 1);
    world.end(&before);
    task
}

#[test]
fn a_file_where_output_is_to_be_is_a_start_that_failed() {
    let world = World::new();
    world.configure("max_running = 1\n");
    for plant in &PLANTS {
        for (args, name) in [(&[][..], "output"), (&[], "output.idx"), (&["--split"], "stdout")] {
            let task = planted(&world, args, name, plant);
            let told = (task["state"].as_str(), task["reason"].as_str());
            assert_eq!(told, (Some("start_failed"), Some("file_in_the_way")), "{name}: {}: {task:#}", plant.0);
        }
    }
}

#[test]
fn what_is_in_the_place_of_a_pipe_or_of_the_requests_is_not_taken_for_them() {
    let world = World::new();
    world.configure("max_running = 1\n");
    for plant in &PLANTS {
        if plant.0 != "a FIFO" {
            let task = planted(&world, &[], "io", plant);
            assert_eq!(task["reason"], "file_in_the_way", "{}: {task:#}", plant.0);
        }
        let task = planted(&world, &[], "requests", plant);
        assert!(has_ended(&task), "{task:#}");
        // A file may be one that an earlier daemon has made.
        let is_file = matches!(plant.0, "a file" | "a hard link");
        assert_eq!(task["reason"] == "file_in_the_way", !is_file, "{}: {task:#}", plant.0);
    }
    let last = world.sh("sleep 8501");
    assert_eq!(world.kill(&last)["state"], "killed");
}

#[test]
fn a_script_that_waits_for_its_turn_is_what_was_asked_for_whatever_is_put_in_its_place() {
    let world = World::new();
    world.configure("max_running = 1\n");
    let precious = world.work("precious");
    fs::write(&precious, PRECIOUS).unwrap();
    for (at, plant) in PLANTS.iter().enumerate() {
        let go = world.fifo(&format!("go-{at}"));
        let before = world.sh(&format!("read x < {}", go.word()));
        let id = world.sh("echo as asked");
        let never = world.sh("echo once more");
        let script = world.folder(&id).join("script");
        assert!(!script.exists(), "the record has it until the task starts");
        (plant.1)(&precious, &script);
        // One that never started is known from its record, too.
        world.kill(&never);
        let again = id_of(&world.rb(&["retry", &never]).ok());
        go.release(1);
        assert_eq!(
            (&world.end(&id)["exit_code"], world.output(&id)),
            (&0.into(), b"as asked\n".to_vec()),
            "{}",
            plant.0
        );
        assert_eq!((&world.end(&again)["exit_code"], world.output(&again)), (&0.into(), b"once more\n".to_vec()));
        assert_eq!(fs::read_to_string(&precious).unwrap(), PRECIOUS, "{}", plant.0);
        world.end(&before);
    }
}

/// Everything that a keeper, the daemon or a door opens by its name in the folder of a task that runs.
const OPENED: [&str; 15] = [
    "cgroup",
    "findings",
    "io",
    "output",
    "output.idx",
    "output.lines",
    "output.sizes",
    "progress",
    "receipt",
    "receipt.new",
    "script",
    "spec",
    "state",
    "stdin",
    "tmp",
];

/// Puts a FIFO, a folder, and a link to a folder full of FIFOs in the place of something.
const OBSTACLES: [Plant; 3] = [
    ("a FIFO", |_, at| ringback_sys::files::fifo(at).unwrap()),
    ("a folder", |_, at| fs::create_dir(at).unwrap()),
    ("a link to a folder of FIFOs", |trap, at| symlink(trap, at).unwrap()),
];

/// A folder that looks like a cgroup, and holds up whoever opens something in it.
fn trap(world: &World) -> std::path::PathBuf {
    let trap = world.work("trap");
    fs::create_dir(&trap).unwrap();
    for name in ["cgroup.procs", "cgroup.events", "cgroup.kill", "memory.events"] {
        ringback_sys::files::fifo(&trap.join(name)).unwrap();
    }
    trap
}

fn put_in_place(at: &Path, what: &Path, plant: &Plant) {
    if at.is_dir() && !at.is_symlink() {
        fs::remove_dir_all(at).unwrap();
    } else if at.symlink_metadata().is_ok() {
        fs::remove_file(at).unwrap();
    }
    (plant.1)(what, at);
}

#[test]
fn nobody_is_held_up_by_what_was_put_into_the_folder_of_a_task_that_runs() {
    let world = World::new();
    let trap = trap(&world);
    for name in OPENED {
        for plant in &OBSTACLES {
            let up = world.fifo(&format!("up-{name}-{}", plant.0.replace(' ', "-")));
            let script = format!("echo up > {}; {} sleep 8503", up.word(), "true; ".repeat(2_000));
            let id = world.run(&["--pty", "-c", &script]);
            up.line();
            put_in_place(&world.folder(&id).join(name), &trap, plant);
            let what = format!("{name}: {}", plant.0);
            world.look(&["show", &id]).ok();
            world.look(&["logs", "--lines", "1:2", &id]);
            world.look(&["send", &id, "--resize", "100x40"]);
            world.look(&["kill", &id]);
            let task = world.show(&id);
            // Without its record nobody can say how it ended.
            let wanted = if name == "state" { "lost" } else { "killed" };
            assert_eq!(task["state"], wanted, "{what}: {task:#}");
            if name == "cgroup" {
                let told = (task["cleanup"]["layer"].as_str(), task["cleanup"]["verified_empty"].as_bool());
                assert_eq!(told, (Some("subreaper"), Some(true)), "{what}: {task:#}");
            }
            assert!(world.tree(&id).is_empty(), "{what}");
            // The daemon reads what is left, and answers whatever that is.
            world.rb(&["retry", &id]);
            world.look(&["ps", "-a"]).ok();
            world.rb(&["kill", "-s", MINE]);
        }
    }
}

#[test]
fn requests_that_are_no_file_any_more_end_a_kill_with_the_truth_and_do_not_flood_the_log() {
    let world = World::new();
    let trap = trap(&world);
    for plant in &OBSTACLES {
        let id = world.run(&["--", "sleep", "8504"]);
        machine::until_there(&world.folder(&id).join("output"));
        let at = world.folder(&id).join("requests");
        put_in_place(&at, &trap, plant);
        let said = world.look(&["kill", &id]);
        assert_eq!(said.code, Some(1), "{}: {said:?}", plant.0);
        assert!(said.err.contains("could not be reached"), "{}: {said:?}", plant.0);
        assert_eq!(world.show(&id)["state"], "running");
        let log = fs::read_to_string(world.home().join("daemon.log")).unwrap();
        let told = log.lines().filter(|line| line.contains(&format!("write a request to the keeper of {id}"))).count();
        assert_eq!(told, 1, "{}: {log}", plant.0);
        // Nothing is given up.
        if at.is_dir() && !at.is_symlink() {
            fs::remove_dir(&at).unwrap();
        } else {
            fs::remove_file(&at).unwrap();
        }
        assert_eq!(world.end(&id)["state"], "killed");
    }
}

#[test]
fn a_receipt_is_not_written_through_what_lies_in_its_place() {
    let world = World::new();
    let precious = world.work("precious");
    for (what, plant) in &PLANTS {
        fs::write(&precious, PRECIOUS).unwrap();
        let id = world.run(&["--pty", "--", "sleep", "8502"]);
        machine::until_there(&world.folder(&id).join("output"));
        for name in ["receipt.new", "output.sizes"] {
            let at = world.folder(&id).join(name);
            if at.exists() {
                fs::remove_file(&at).unwrap();
            }
            plant(&precious, &at);
        }
        world.look(&["send", &id, "--resize", "100x40"]);
        let task = world.kill(&id);
        assert_eq!(task["cleanup"]["verified_empty"], true, "{what}: {task:#}");
        assert_eq!(fs::read_to_string(&precious).unwrap(), PRECIOUS, "{what}");
        assert!(!precious.with_file_name("nowhere").exists(), "{what}");
    }
}
