//! The tasks extension: an MCP task is one of ours, kept, cancelled once or twice, and heard when its end was fetched.

use serde_json::{Value, json};

use crate::agent::{Agent, Home, Told, Ways};

fn start(home: &Home) -> Agent {
    Agent::start_with(home, Ways { tasks: true, name: Some("claude-code"), ..Ways::default() })
}

fn task(agent: &mut Agent, command: &str) -> Value {
    let params = json!({"name": "run", "arguments": {"command": command, "wait_ms": 0}});
    let task = agent.request("tools/call", params).unwrap();
    assert_eq!(task["resultType"], "task", "{task}");
    task
}

/// Fetches until the task is over; each fetch comes after the end of a wait, so none is in vain.
fn end(agent: &mut Agent, home: &Home, id: &str) -> Value {
    home.cli_as("somebody", &["wait", id]);
    agent.request("tasks/get", json!({"taskId": id})).unwrap()
}

#[test]
fn an_unfinished_run_is_a_task_under_our_own_id() {
    let home = Home::new();
    let mut agent = start(&home);
    let made = task(&mut agent, "sleep 0.3; echo done; exit 3");
    let id = made["taskId"].as_str().unwrap().to_owned();
    assert!(made["status"] == "working" && made["ttlMs"].is_null() && made["pollIntervalMs"].is_u64(), "{made}");
    let note = made["_meta"]["com.anthropic/agent-task"]["modelImmediateResponse"].as_str().unwrap();
    assert!(note.contains(&id) && note.contains("woken"), "{note}");
    let state = home.cli(&["show", &id])["state"].clone();
    assert!(state == "queued" || state == "running", "{state}");
    assert_eq!(agent.request("tasks/get", json!({"taskId": id})).unwrap()["status"], "working");
    let ended = end(&mut agent, &home, &id);
    assert!(ended["resultType"] == "complete" && ended["status"] == "completed", "{ended}");
    let told = Told::of(&ended["result"]);
    assert!(
        told.is_error && told.verdict().starts_with("FAILED exit 3") && told.fields["tail"] == "| done",
        "{told:?}"
    );
    assert!(agent.unheard().is_empty(), "its end was fetched, so it was heard");
    // Kept, also over another process of the server.
    drop(agent);
    let mut agent = start(&home);
    assert_eq!(agent.request("tasks/get", json!({"taskId": id})).unwrap()["status"], "completed");
}

#[test]
fn a_run_that_ends_soon_is_no_task() {
    let home = Home::new();
    let mut agent = start(&home);
    let told = agent.call("run", json!({"command": "echo quick"}));
    assert_eq!(told.fields["tail"], "| quick");
    let mut legacy = Agent::start_with(&home, Ways { legacy: true, tasks: true, ..Ways::default() });
    let told = legacy.call("run", json!({"command": "sleep 60", "wait_ms": 0}));
    assert!(told.fields["id"].is_string(), "the old generation has no tasks: {told:?}");
}

#[test]
fn a_cancel_is_idempotent_and_its_end_is_cancelled() {
    let home = Home::new();
    let mut agent = start(&home);
    let id = task(&mut agent, "sleep 60")["taskId"].as_str().unwrap().to_owned();
    for _ in 0..2 {
        assert_eq!(agent.request("tasks/cancel", json!({"taskId": id})).unwrap()["resultType"], "complete");
    }
    assert_eq!(end(&mut agent, &home, &id)["status"], "cancelled");
    assert_eq!(home.cli(&["show", &id])["state"], "killed");
    assert!(agent.unheard().is_empty());
    let id = task(&mut agent, "true")["taskId"].as_str().unwrap().to_owned();
    assert_eq!(end(&mut agent, &home, &id)["status"], "completed");
    agent.request("tasks/cancel", json!({"taskId": id})).unwrap();
    assert_eq!(end(&mut agent, &home, &id)["status"], "completed", "an end is never taken back");
}

#[test]
fn the_end_of_a_task_is_left_to_the_client_that_has_it() {
    let home = Home::new();
    let mut agent = start(&home);
    let id = task(&mut agent, "sleep 0.3; exit 3")["taskId"].as_str().unwrap().to_owned();
    home.cli_as("somebody", &["wait", &id]);
    let hook = |name: &str| {
        let mut command = home.command();
        let event = json!({"session_id": "default", "prompt": "hi"}).to_string();
        command.args(["hook", name]).stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), event.as_bytes()).unwrap();
        String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
    };
    assert_eq!((hook("claude-stop"), hook("claude-prompt")), (String::new(), String::new()));
    assert_eq!(end(&mut agent, &home, &id)["status"], "completed");
    assert!(agent.unheard().is_empty());
    let id = task(&mut agent, "sleep 60")["taskId"].as_str().unwrap().to_owned();
    agent.request("tasks/cancel", json!({"taskId": id})).unwrap();
    assert!(agent.unheard().is_empty(), "who took it back is not told that it was");
}

#[test]
fn a_task_that_somebody_else_killed_says_so() {
    let home = Home::new();
    let mut agent = start(&home);
    let id = task(&mut agent, "sleep 60")["taskId"].as_str().unwrap().to_owned();
    home.cli_as("elsewhere", &["kill", &id]);
    let ended = end(&mut agent, &home, &id);
    let told = Told::of(&ended["result"]);
    assert!(told.is_error && told.verdict().starts_with("KILLED by elsewhere"), "{told:?}");
}

#[test]
fn what_is_no_task_of_ours_is_refused_in_the_protocols_words() {
    let home = Home::new();
    let mut agent = start(&home);
    let id = task(&mut agent, "sleep 60")["taskId"].as_str().unwrap().to_owned();
    for bad in ["zzzzzzzzzzzz", "../../etc/passwd", "", &id[..6]] {
        for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
            let error = agent.request(method, json!({"taskId": bad, "inputResponses": {}})).unwrap_err();
            assert_eq!(error["code"], -32602, "{method} {bad}: {error}");
        }
    }
    let ack = agent.request("tasks/update", json!({"taskId": id, "inputResponses": {}})).unwrap();
    assert_eq!(ack["resultType"], "complete");
    let mut plain = Agent::start(&home);
    assert_eq!(plain.request("tasks/get", json!({"taskId": id})).unwrap_err()["code"], -32021);
    let told = plain.call("run", json!({"command": "sleep 60", "wait_ms": 0}));
    assert_eq!(told.fields["state"].as_str().map(|state| state == "running" || state == "queued"), Some(true));
}
