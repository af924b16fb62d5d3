//! Whoever dies or leaves, no task does, and no ending is lost.

use std::process::Command;
use std::time::Duration;

use serde_json::json;

use crate::agent::{Agent, Home};

#[test]
fn a_closed_stdin_ends_the_server_and_no_task() {
    let home = Home::new();
    let mut agent = Agent::start(&home);
    let id = agent.begin("sleep 1; exit 6");
    let waiting = agent.begin("sleep 60");
    agent.send_call("wait", json!({"ids": [waiting]}));
    let (code, took) = agent.close();
    assert!(code == Some(0) && took < Duration::from_secs(6), "{code:?} after {took:?}");
    assert_eq!(home.cli(&["show", &waiting])["state"], "running");
    let mut next = Agent::start(&home);
    let told = next.call("wait", json!({"ids": [id]}));
    assert!(told.verdict().starts_with("FAILED exit 6"), "{told:?}");
}

#[test]
fn an_answer_that_is_due_still_comes_after_stdin_has_closed() {
    let home = Home::new();
    home.cli(&["run", "--wait", "true"]);
    let mut agent = Agent::start(&home);
    let call = agent.send_call("run", json!({"command": "sleep 0.2; echo late"}));
    agent.close_stdin();
    assert_eq!(agent.told(call).fields["tail"], "| late");
}

#[test]
fn a_killed_server_takes_no_task_and_no_notice_with_it() {
    let home = Home::new();
    let mut agent = Agent::start(&home);
    let id = agent.begin("sleep 0.5; exit 7");
    agent.send_call("wait", json!({"ids": [id]}));
    agent.kill();
    let mut next = Agent::start(&home);
    let told = next.call("inbox", json!({"wait_ms": 20_000}));
    assert!(told.text.contains(&id) && told.text.contains("FAILED exit 7"), "{told:?}");
}

#[test]
fn a_cancelled_request_stops_nothing_and_is_not_heard() {
    let home = Home::new();
    let mut agent = Agent::start(&home);
    let id = agent.begin("sleep 0.5; exit 8");
    let wait = agent.send_call("wait", json!({"ids": [id]}));
    agent.cancel(wait);
    // The answer to a later call comes although the cancelled one never gets one.
    let told = agent.call("inbox", json!({"wait_ms": 20_000}));
    assert!(told.text.contains(&id) && told.text.contains("FAILED exit 8"), "{told:?}");
    let run = agent.send_call("run", json!({"command": "sleep 0.5; exit 9", "wait_ms": 20_000, "name": "kept"}));
    agent.call("list", json!({}));
    agent.cancel(run);
    let told = agent.call("wait", json!({}));
    assert!(told.text.contains("FAILED exit 9") && told.text.contains("kept"), "{told:?}");
}

#[test]
fn a_wait_outlives_the_daemon() {
    let home = Home::new();
    let mut agent = Agent::start(&home);
    let id = agent.begin("sleep 1; echo through; exit 4");
    let wait = agent.send_call("wait", json!({"ids": [id]}));
    let pattern = agent.send_call("wait", json!({"ids": [id], "pattern": "thr.ugh"}));
    agent.call("list", json!({}));
    home.kill_daemon();
    let told = agent.told(wait);
    assert!(told.verdict().starts_with("FAILED exit 4") && told.fields["tail"] == "| through", "{told:?}");
    assert_eq!(agent.told(pattern).fields["matched"], true);
    assert!(agent.unheard().is_empty());
}

#[test]
fn a_daemon_that_is_gone_is_found_again_at_the_next_call() {
    let home = Home::new();
    let mut agent = Agent::start(&home);
    let id = agent.begin("sleep 60");
    home.kill_daemon();
    assert!(!home.has_daemon());
    assert!(!agent.call("run", json!({"command": "true"})).is_error);
    home.cli(&["daemon", "stop"]);
    assert_eq!(agent.call("output", json!({"id": id})).fields["state"], "running");
    home.kill_daemon();
    assert!(agent.call("stop", json!({"ids": [id]})).verdict().starts_with("KILLED"));
}

#[test]
fn the_daemon_may_die_between_an_ending_and_its_telling() {
    let home = Home::new();
    let mut agent = Agent::start(&home);
    let id = agent.begin("sleep 0.3; exit 2");
    home.kill_daemon();
    let told = agent.call("inbox", json!({"wait_ms": 20_000}));
    assert!(told.text.contains(&id) && told.text.contains("FAILED exit 2"), "{told:?}");
}

#[test]
fn a_daemon_that_stands_still_holds_up_the_one_call_and_no_other_message() {
    let home = Home::new();
    let mut agent = Agent::start(&home);
    agent.call("run", json!({"command": "true"}));
    let frozen = Frozen::of(&home);
    let runs = ["first", "second"].map(|name| agent.send_call("run", json!({"command": name, "wait_ms": 0})));
    agent.request("tools/list", json!({})).unwrap();
    drop(frozen);
    let ids = runs.map(|run| agent.told(run).fields["id"].clone());
    assert!(ids[0].is_string() && ids[0] != ids[1], "{ids:?}");
}

/// The daemon of a home, stopped until this is dropped.
struct Frozen(String);

impl Frozen {
    fn of(home: &Home) -> Self {
        let pid = home.cli(&["daemon", "status"])["pid"].to_string();
        assert!(Command::new("kill").args(["-STOP", &pid]).status().unwrap().success());
        Self(pid)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        assert!(Command::new("kill").args(["-CONT", &self.0]).status().unwrap().success());
    }
}
