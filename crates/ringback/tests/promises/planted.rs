//! Files that somebody has put into the folder of a task before they are ringback's turn to make: never written to, never taken
//! for ours.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::support::{MINE, World, about, has_ended, machine};

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
