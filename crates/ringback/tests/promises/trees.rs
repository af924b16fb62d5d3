//! P5: a stop returns when the whole tree is gone, with a receipt, whatever the tree does.

use std::time::Instant;

use serde_json::Value;

use rustix::process::Pid;

use crate::support::model::STUBBORN;
use crate::support::{MINE, World, about, finish, id_of, machine, stranger};

/// How large the tree is that must be gone within a second.
const CROWD: usize = 2000;

#[track_caller]
fn check_receipt(name: &str, layer: &str, task: &Value) {
    let receipt = &task["cleanup"];
    assert_eq!(receipt["layer"], layer, "{name}: {task:#}");
    assert_eq!(receipt["verified_empty"], true, "{name}: {task:#}");
    assert_eq!(receipt["survivor_count"], 0, "{name}");
    assert_eq!(receipt["survivors"].as_array().unwrap().len(), 0, "{name}");
    assert!(receipt["scans"].as_u64().unwrap() >= 2, "{name}: two scans that find nothing");
    assert!(receipt["observed_count"].as_u64().unwrap() >= 1, "{name}");
    assert!(receipt["signals"].as_array().unwrap().iter().any(|signal| signal == "SIGTERM"), "{name}: {receipt:#}");
    for seen in receipt["observed"].as_array().unwrap() {
        assert!(["exited", "signaled", "vanished"].contains(&seen["ended"].as_str().unwrap()), "{name}: {seen:#}");
    }
}

#[test]
fn a_stop_leaves_nothing_of_any_tree_and_says_so() {
    for (world, layer) in World::of_each_layer() {
        stop_the_stubborn(&world, layer);
    }
}

fn stop_the_stubborn(world: &World, layer: &str) {
    for model in STUBBORN {
        let name = model.name;
        let ready = world.fifo(&format!("ready-{}", name.replace(' ', "-")));
        let env = format!("READY={}", ready.word().trim_matches('\''));
        let grace = "300ms";
        let id = world.run(&["--grace", grace, "-e", &env, "--shell", model.shell, "-c", model.script]);
        ready.line();
        let ended_before = name == "every leader has gone";
        if ended_before {
            world.end(&id);
        }
        let task = world.kill(&id);
        assert_eq!(world.tree(&id), [], "{name}: the stop has returned, yet these live");
        check_receipt(name, layer, &task);
        if ended_before {
            assert_eq!((&task["state"], &task["exit_code"]), (&"exited".into(), &0.into()), "{name}");
        } else {
            assert_eq!(task["state"], "killed", "{name}: {task:#}");
            assert_eq!(task["exit_code"], Value::Null, "{name}");
        }
        assert_eq!(about(&world.inbox(MINE), &id).len(), 1, "{name}: one notice");
        // Idempotent: the same answer again, and nothing new.
        let again = world.kill(&id);
        assert_eq!((&again["state"], &again["cleanup"]), (&task["state"], &task["cleanup"]), "{name}");
        assert_eq!(about(&world.inbox(MINE), &id).len(), 1, "{name}: still one notice");
    }
}

#[test]
fn a_tree_of_two_thousand_is_gone_in_under_a_second() {
    for (world, layer) in World::of_each_layer() {
        stop_a_crowd(&world, layer);
    }
}

fn stop_a_crowd(world: &World, layer: &str) {
    let mut best_ms = u64::MAX;
    for try_number in 0..3 {
        let ready = world.fifo(&format!("ready-{try_number}"));
        let script = format!(
            "n=0; while [ $n -lt {CROWD} ]; do n=$((n+1)); sleep 7431 & done; echo up > {}; wait",
            ready.word()
        );
        let id = world.sh(&script);
        ready.line();
        let asked = Instant::now();
        let task = world.kill(&id);
        let took_ms = u64::try_from(asked.elapsed().as_millis()).unwrap();
        assert_eq!(world.tree(&id), []);
        check_receipt("a crowd", layer, &task);
        let observed = task["cleanup"]["observed_count"].as_u64().unwrap();
        assert!(observed > CROWD as u64, "only {observed} were seen");
        best_ms = best_ms.min(took_ms);
        if best_ms < 1000 {
            break;
        }
    }
    assert!(best_ms < 1000, "the stop took {best_ms} ms");
}

#[test]
fn a_stop_is_polite_first() {
    let world = World::new();
    let ready = world.fifo("ready");
    let script = format!("trap 'echo bye; exit 7' TERM; echo up > {}; sleep 7432 & wait", ready.word());
    let id = world.sh(&script);
    ready.line();
    let task = world.kill(&id);
    assert_eq!(world.output(&id), b"bye\n");
    assert_eq!(task["final_exit_code"], 7, "{task:#}");
    let signals = task["cleanup"]["signals"].to_string();
    assert!(signals.contains("SIGTERM"), "{signals}");
    assert!(task["cleanup"]["duration_ms"].as_u64().unwrap() < 9_000, "the whole grace is not waited for");
}

#[test]
fn a_stop_of_one_task_touches_no_other() {
    for (world, _) in World::of_each_layer() {
        stop_one_of_two(&world);
    }
}

fn stop_one_of_two(world: &World) {
    let ready = world.fifo("ready");
    let script = format!("setsid sleep 7433 & sleep 7434 & echo up > {}; wait", ready.word());
    let (one, other) = (world.sh(&script), world.sh(&script));
    ready.lines(2);
    // One that is just becoming another program has no environment for a moment.
    let before = std::cell::OnceCell::new();
    machine::until("the whole tree is seen", || {
        let tree = world.tree(&other);
        tree.len() >= 3 && before.set(tree).is_ok()
    });
    world.kill(&one);
    assert_eq!(world.tree(&one), []);
    machine::until("the whole tree is seen again", || Some(&world.tree(&other)) == before.get());
    assert_eq!(world.show(&other)["state"], "running");
}

#[test]
fn a_kill_by_a_person_and_a_kill_before_the_start_are_told_as_such() {
    let world = World::new();
    let id = world.sh("sleep 7435");
    let task = world.kill(&id);
    assert_eq!(task["state"], "killed", "{task:#}");
    // Killed at once after `run`, the command may not have come to run; then no signal ended it.
    assert!(task["signal"] == "SIGTERM" || task["started_at"].is_null(), "{task:#}");
}

#[test]
fn a_leftover_that_was_stopped_is_reported_by_the_receipt() {
    let world = World::new();
    let id = world.sh("trap '' TERM; setsid sh -c 'while :; do sleep 7436; done' & exit 0");
    let task = world.end(&id);
    let left = task["leftovers"][0]["pid"].as_i64().expect("a leftover");
    let started = Instant::now();
    let said = world.rb(&["kill", "--grace", "200ms", &id]).ok();
    assert!(started.elapsed().as_secs() < 8, "{said:?}");
    let receipt = &world.show(&id)["cleanup"];
    let observed = receipt["observed"].as_array().unwrap();
    assert!(observed.iter().any(|seen| seen["pid"] == left && seen["ended"] == "signaled"), "{receipt:#}");
    assert!(receipt["signals"].to_string().contains("SIGKILL"), "{receipt:#}");
    assert_eq!(Pid::from_raw(i32::try_from(left).unwrap()).filter(|pid| machine::is_alive(*pid)), None);
}

/// The words below which nobody may signal another user's process (`CAP_KILL`, capabilities(7)).
const MAY_NOT_KILL: [&str; 2] = ["setpriv", "--bounding-set=-kill"];

#[test]
fn what_a_stop_cannot_kill_is_named_by_it_beside_the_outcome() {
    if !stranger::has_stranger() {
        return;
    }
    let world = World::new();
    world.configure("confined = 'allow'\ncgroup = 'off'");
    let below = |args: &[&str]| finish(world.client_below(&MAY_NOT_KILL, args).spawn().unwrap());
    for grace in ["0s", "100ms"] {
        let words = stranger::become_user(stranger::STRANGER).join(" ");
        let script = format!("{words} sh -c 'echo $$; exec sleep 8711' & exec sleep 8711");
        let id = id_of(&below(&["run", "-c", &script]));
        machine::until_file(&world.folder(&id).join("output"), |text| text.ends_with('\n'));
        let left = String::from_utf8(world.output(&id)).unwrap().trim().to_owned();
        let said = below(&["kill", "--grace", grace, &id]);
        let before = world.show(&id);
        machine::kill(Pid::from_raw(left.parse().unwrap()).unwrap());
        assert_eq!(said.code, Some(1), "{said:?}");
        assert!(said.text().contains("KILLED") && said.text().contains(&format!("survivor: pid {left} ")), "{said:?}");
        machine::until("its keeper has left", || world.show(&id)["output"]["complete"] == true);
        // Who looks again is told what is so by now; how it ended stays as it was.
        let again = below(&["kill", &id]);
        assert_eq!(again.code, Some(0), "{again:?}");
        assert!(again.text().contains("KILLED") && !again.text().contains("survivor: "), "{again:?}");
        assert!(again.text().contains(&format!("survived, gone since: pid {left} ")), "{again:?}");
        let after = world.show(&id);
        for field in ["state", "reason", "by", "signal", "exit_code", "ended_at"] {
            assert_eq!(after[field], before[field], "{field}");
        }
    }
}
