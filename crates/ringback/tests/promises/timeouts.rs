//! Limits end a task in time, in every shell shape, also while no daemon lives; and they never read as an exit.

use std::time::Instant;

use serde_json::{Value, json};

use crate::support::model::SLEEPY_SHAPES;
use crate::support::{MINE, World, about, machine};

/// How late a limit may be on a machine that is busy with other tests.
const LATE_MS: u64 = 3_000;

#[track_caller]
fn check_timed_out(task: &Value, reason: &str, limit_ms: u64) {
    assert_eq!((&task["state"], &task["reason"]), (&json!("timed_out"), &json!(reason)), "{task:#}");
    assert_eq!(task["exit_code"], Value::Null, "{task:#}");
    let took_ms = task["duration_ms"].as_u64().unwrap();
    assert!((limit_ms..limit_ms + LATE_MS).contains(&took_ms), "after {took_ms} ms instead of {limit_ms}");
}

#[test]
fn every_shell_shape_ends_in_time_and_leaves_nothing() {
    let world = World::new();
    let mut tasks = Vec::new();
    for shell in ["bash", "dash"] {
        for shape in SLEEPY_SHAPES {
            let id = world.run(&["--timeout", "1s", "--grace", "1s", "--shell", shell, "-c", shape]);
            tasks.push((format!("{shell}: {shape}"), id));
        }
    }
    for (name, id) in &tasks {
        let task = world.end(id);
        check_timed_out(&task, "wall", 1_000);
        let told = world.look(&["wait", id]);
        assert_eq!(told.code, Some(128 + 15), "{name} was ended by TERM: {told:?}");
    }
    for (name, id) in &tasks {
        let task = world.kill(id);
        assert_eq!(task["cleanup"]["verified_empty"], true, "{name}: {task:#}");
        assert_eq!(task["cleanup"]["reason"], "wall", "{name}");
        assert_eq!(world.tree(id), [], "{name}");
    }
    assert_eq!(world.inbox(MINE).len(), tasks.len(), "one notice each");
}

#[test]
fn a_limit_strikes_while_the_daemon_is_dead() {
    let world = World::new();
    let ready = world.fifo("ready");
    let shapes = ["sleep 7511 & wait", "trap '' TERM; while :; do sleep 7512; done"];
    let ids: Vec<String> = shapes
        .iter()
        .map(|shape| {
            let script = format!("echo partial; echo up > {}; {shape}", ready.word());
            world.run(&["--timeout", "1500ms", "--grace", "300ms", "-c", &script])
        })
        .collect();
    ready.lines(ids.len());
    let keepers: Vec<_> = ids.iter().map(|id| world.keeper(id).expect("a keeper")).collect();
    world.kill_daemon();
    keepers.into_iter().for_each(machine::until_gone);
    assert_eq!(world.daemon(), None, "nobody started one");
    for (id, slack) in ids.iter().zip([0, 300]) {
        assert_eq!(world.tree(id), [], "gone before anybody asked");
        let task = world.end(id);
        check_timed_out(&task, "wall", 1_500 + slack);
        assert_eq!(world.output(id), b"partial\n");
        assert_eq!(about(&world.inbox(MINE), id).len(), 1);
    }
}

#[test]
fn the_grace_lets_a_command_end_cleanly_and_its_zero_is_no_success() {
    let world = World::new();
    let id = world.run(&["--timeout", "400ms", "-c", "trap 'echo saved; exit 0' TERM; sleep 7513 & wait"]);
    let task = world.end(&id);
    check_timed_out(&task, "wall", 400);
    assert_eq!(task["final_exit_code"], 0, "{task:#}");
    assert_eq!(world.output(&id), b"saved\n");
    assert_ne!(world.look(&["wait", &id]).code, Some(0));
    let text = world.inbox(MINE)[0]["text"].as_str().unwrap().to_owned();
    assert!(text.starts_with("TIMED OUT"), "{text}");
}

#[test]
fn silence_is_a_limit_of_its_own_and_output_puts_it_off() {
    let world = World::new();
    let quiet = world.run(&["--idle-timeout", "600ms", "-c", "echo a; sleep 7514"]);
    let chatty =
        world.run(&["--idle-timeout", "900ms", "-c", "for n in 1 2 3 4 5 6; do echo $n; sleep 0.3; done; exit 5"]);
    check_timed_out(&world.end(&quiet), "idle", 600);
    let task = world.end(&chatty);
    assert_eq!((&task["state"], &task["exit_code"]), (&json!("exited"), &json!(5)), "{task:#}");
}

#[test]
fn a_command_that_ends_before_its_limit_is_not_touched() {
    let world = World::new();
    let id = world.run(&["--timeout", "60s", "--idle-timeout", "60s", "-c", "sleep 0.2; exit 4"]);
    let task = world.end(&id);
    assert_eq!((&task["state"], &task["exit_code"]), (&json!("exited"), &json!(4)));
    assert_eq!(task["timeouts"]["wall_ms"], 60_000);
    assert_eq!(task["timeouts"]["idle_ms"], 60_000);
}

#[test]
fn a_second_stop_with_a_shorter_grace_cuts_the_first_one_short() {
    let world = World::new();
    let ready = world.fifo("ready");
    let id = world.sh(&format!("trap '' TERM; echo up > {}; while :; do sleep 7515; done", ready.word()));
    ready.line();
    let started = Instant::now();
    let patient = world.client(&["kill", "--grace", "60s", &id]).spawn().unwrap();
    let task = world.rb(&["kill", "--grace", "0s", &id]).ok();
    assert!(started.elapsed().as_secs() < 30, "{task:?}");
    crate::support::finish(patient).ok();
    assert_eq!(world.show(&id)["signal"], "SIGKILL");
}

#[test]
fn a_wait_that_ran_out_says_124_and_the_task_runs_on() {
    let world = World::new();
    let id = world.sh("sleep 7516");
    let said = world.rb(&["wait", "--timeout", "100ms", &id]);
    assert_eq!(said.code, Some(124), "{said:?}");
    assert_eq!(world.show(&id)["state"], "running");
    world.kill(&id);
    assert_eq!(about(&world.inbox(MINE), &id).len(), 1, "a wait that ran out is not a hearing");
}
