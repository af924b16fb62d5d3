//! One ending is heard once: by the session that owns it, when the answer has been written, and by nobody else.

use serde_json::json;

use crate::agent::{Agent, Home, Ways};

#[test]
fn a_result_that_was_given_counts_as_heard() {
    let home = Home::new();
    let mut agent = Agent::start(&home);
    agent.call("run", json!({"command": "true"}));
    assert!(agent.unheard().is_empty(), "run");
    let ways: [fn(&mut Agent, &str); 4] = [
        |agent, id| drop(agent.call("wait", json!({"ids": [id]}))),
        |agent, id| drop(agent.call("output", json!({"id": id}))),
        |agent, id| drop(agent.call("stop", json!({"ids": [id]}))),
        |agent, _| drop(agent.call("list", json!({}))),
    ];
    for (number, way) in ways.iter().enumerate() {
        let id = agent.begin("sleep 0.1");
        agent.call("inbox", json!({"wait_ms": 20_000}));
        assert_eq!(agent.unheard(), std::slice::from_ref(&id));
        way(&mut agent, &id);
        assert!(agent.unheard().is_empty(), "way {number}");
    }
}

#[test]
fn every_answer_lists_what_was_not_heard_also_an_error() {
    let home = Home::new();
    let mut agent = Agent::start(&home);
    let id = agent.begin("sleep 0.1; exit 9");
    agent.call("inbox", json!({"wait_ms": 20_000}));
    for (tool, arguments) in [
        ("run", json!({"command": "true"})),
        ("wait", json!({"ids": ["zzzzzzzzzzzz"]})),
        ("list", json!({"nonsense": 1})),
    ] {
        let told = agent.call(tool, arguments);
        let unheard = told.fields["unheard"].as_array().unwrap();
        assert_eq!(unheard.len(), 1, "{tool}: {told:?}");
        let line = unheard[0].as_str().unwrap();
        assert!(line.contains(&id) && line.contains("FAILED exit 9"), "{line}");
    }
    let told = agent.call("wait", json!({"ids": [id]}));
    assert!(told.fields["unheard"].as_array().unwrap().is_empty(), "what an answer shows is not also listed");
}

#[test]
fn what_ends_between_two_runs_stands_in_the_answer_to_the_second() {
    let home = Home::new();
    let mut agent = Agent::start(&home);
    let first = agent.begin("exit 4");
    // Another client waits for it, and does not hear it for this session.
    home.cli_as("another", &["wait", &first]);
    let next = agent.call("run", json!({"command": "sleep 60", "wait_ms": 0}));
    assert!(next.fields["unheard"].to_string().contains(&first), "{next:?}");
    agent.call("inbox", json!({"after": 1}));
    let last = agent.call("run", json!({"command": "sleep 60", "wait_ms": 0}));
    assert_eq!(last.fields["unheard"], json!([]));
}

#[test]
fn a_result_does_not_take_the_lines_away_that_were_watched_for() {
    let home = Home::new();
    let mut agent = Agent::start_with(&home, Ways { env: &[("RINGBACK_SESSION", "r")], ..Ways::default() });
    let run = home.cli_as("r", &["run", "--watch-literal", "found", "--", "echo", "found it"]);
    let id = run["id"].as_str().unwrap();
    agent.call("wait", json!({"ids": [id]}));
    agent.call("list", json!({"ended": true}));
    let inbox = home.cli_as("r", &["inbox"]);
    let kinds: Vec<&str> =
        inbox["notices"].as_array().unwrap().iter().map(|notice| notice["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["tool_match"]);
}

#[test]
fn many_endings_are_bounded_to_a_few_lines() {
    let home = Home::new();
    let mut agent = Agent::start(&home);
    let ids: Vec<String> = (0..9).map(|_| agent.begin("true")).collect();
    agent.call("wait", json!({"ids": [ids[0]]}));
    let all: Vec<&str> = std::iter::once("wait").chain(ids.iter().map(String::as_str)).collect();
    home.cli_as("somebody", &all);
    let told = agent.call("list", json!({"all_sessions": true, "ended": true, "limit": 1}));
    let unheard = told.fields["unheard"].as_array().unwrap();
    assert!(unheard.len() == 6 && unheard[5].as_str().unwrap().starts_with("and "), "{told:?}");
}

#[test]
fn another_session_may_look_but_does_not_hear() {
    let home = Home::new();
    let mut owner = Agent::start_with(&home, Ways { env: &[("CLAUDE_CODE_SESSION_ID", "owner")], ..Ways::default() });
    let mut other = Agent::start(&home);
    let id = owner.begin("echo secret");
    let told = other.call("wait", json!({"ids": [id]}));
    assert!(
        told.verdict().starts_with("SUCCEEDED") && told.fields["tail"] == "| secret",
        "any id works from any client"
    );
    assert_eq!(owner.unheard(), std::slice::from_ref(&id));
    assert!(other.unheard().is_empty());
    let told = other.call("wait", json!({"ids": [id], "session": "owner"}));
    assert!(told.verdict().starts_with("SUCCEEDED"));
    // What an answer has shown is reported before the next call of the same process is made.
    other.call("list", json!({}));
    assert!(owner.unheard().is_empty(), "whoever speaks for the session hears for it");
}

#[test]
fn a_session_is_named_by_the_call_before_the_process() {
    let home = Home::new();
    let mut agent = Agent::start_with(&home, Ways { env: &[("RINGBACK_SESSION", "r")], ..Ways::default() });
    let session = |agent: &mut Agent, arguments: serde_json::Value, meta: serde_json::Value| {
        let params = json!({"name": "run", "arguments": arguments, "_meta": meta});
        let id = agent.request("tools/call", params).unwrap()["structuredContent"]["id"].as_str().unwrap().to_owned();
        home.cli(&["show", &id])["session"].as_str().unwrap().to_owned()
    };
    assert_eq!(session(&mut agent, json!({"command": "true"}), json!({})), "r");
    assert_eq!(session(&mut agent, json!({"command": "true"}), json!({"threadId": "t1"})), "t1");
    assert_eq!(session(&mut agent, json!({"command": "true", "session": "s"}), json!({"threadId": "t1"})), "s");
}

#[test]
fn fifty_endings_at_once_are_heard_once_each_in_their_own_sessions() {
    let home = Home::new();
    let mut agent = Agent::start(&home);
    let sends: Vec<(i64, String)> = (0..50)
        .map(|number| {
            let session = format!("s{}", number % 5);
            (agent.send_call("run", json!({"command": "sleep 0.3", "wait_ms": 0, "session": session})), session)
        })
        .collect();
    let ids: Vec<(String, String)> =
        sends.into_iter().map(|(call, session)| (agent.told(call).id(), session)).collect();
    let mut heard = Vec::new();
    for number in 0..5 {
        let session = format!("s{number}");
        let mine: Vec<&String> = ids.iter().filter(|(_, owner)| *owner == session).map(|(id, _)| id).collect();
        agent.call("wait", json!({"ids": mine, "session": "nobody"}));
        let told = agent.call("inbox", json!({"session": session, "limit": 100}));
        let rows = told.fields["tasks"].as_array().unwrap();
        assert_eq!(rows.len(), 10, "{session}: {told:?}");
        heard.extend(rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()));
        agent.call("inbox", json!({"session": session, "after": told.fields["cursor"]}));
        assert_eq!(agent.call("inbox", json!({"session": session})).verdict(), "nothing unheard");
    }
    heard.sort();
    let mut all: Vec<String> = ids.into_iter().map(|(id, _)| id).collect();
    all.sort();
    assert_eq!(heard, all);
}

#[test]
fn two_clients_of_a_session_may_answer_one_notice() {
    let home = Home::new();
    let (mut one, mut other) = (Agent::start(&home), Agent::start(&home));
    let ids = [one.begin("sleep 0.1"), one.begin("sleep 0.1; exit 2")];
    home.cli_as("somebody", &["wait", &ids[0], &ids[1]]);
    let cursors = [&mut one, &mut other].map(|agent| agent.call("inbox", json!({})).fields["cursor"].clone());
    assert_eq!(cursors[0], cursors[1]);
    let answers = [
        (one.send_call("inbox", json!({"after": cursors[0]})), other.send_call("inbox", json!({"after": cursors[1]}))),
        (one.send_call("wait", json!({"ids": ids})), other.send_call("wait", json!({"ids": ids}))),
    ];
    for (first, second) in answers {
        for told in [one.told(first), other.told(second)] {
            assert!(!told.is_error && told.fields["unheard"].as_array().unwrap().is_empty(), "{told:?}");
        }
    }
    assert!(one.unheard().is_empty() && other.unheard().is_empty());
}

/// A `codex` that writes what it is told into a FIFO, which a test can wait for.
fn fake_codex(home: &Home) -> std::path::PathBuf {
    let (program, fifo) = (home.path().join("bin/codex"), home.path().join("told"));
    std::fs::create_dir(program.parent().unwrap()).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    std::fs::write(&program, format!("#!/bin/sh\nprintf '%s\\n' \"$@\" > {}\n", fifo.display())).unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    fifo
}

#[test]
fn a_codex_thread_is_told_once_unless_a_call_has_told_it() {
    let home = Home::new();
    let fifo = fake_codex(&home);
    let path = format!("{}:{}", home.path().join("bin").display(), std::env::var("PATH").unwrap());
    let ways = Ways { legacy: true, name: Some("codex-mcp-client"), env: &[("PATH", &path)], ..Ways::default() };
    let mut agent = Agent::start_with(&home, ways);
    let mut call = |tool: &str, arguments: serde_json::Value| {
        let params = json!({"name": tool, "arguments": arguments, "_meta": {"threadId": "t1"}});
        crate::agent::Told::of(&agent.request("tools/call", params).unwrap())
    };
    let first = call("run", json!({"command": "sleep 0.3; echo why; exit 3", "wait_ms": 0}));
    assert!(first.fields["next"].as_str().unwrap().contains("gets a message"), "{first:?}");
    let told = std::fs::read_to_string(&fifo).unwrap();
    assert!(told.starts_with("queue\n--thread=t1\n--message=[ringback] "), "{told}");
    assert!(told.contains(&first.id()) && told.contains("FAILED exit 3") && told.contains("| why"), "{told}");
    let second = call("run", json!({"command": "sleep 0.3; exit 4", "wait_ms": 0}));
    assert!(call("wait", json!({"ids": [second.id()]})).verdict().starts_with("FAILED exit 4"));
    let third = call("run", json!({"command": "sleep 0.3; exit 5", "wait_ms": 0}));
    let told = std::fs::read_to_string(&fifo).unwrap();
    assert!(told.contains(&third.id()) && !told.contains(&second.id()) && !told.contains(&first.id()), "{told}");
    assert!(told.contains("a background task of this thread has ended (an automatic notice"), "{told}");
    let server = json!({"command": "sleep 0.3; echo up; exec sleep 60", "ready": "^up", "wait_ms": 0});
    let fourth = call("run", server);
    let told = std::fs::read_to_string(&fifo).unwrap();
    assert!(told.contains(&fourth.id()) && told.contains("is ready (") && !told.contains("ended"), "{told}");
}
