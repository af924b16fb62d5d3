//! The two generations of the protocol, the handshake, and what is listed.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::agent::{Agent, Home, MODERN, Ways};

#[test]
fn the_first_answer_comes_at_once_and_needs_no_daemon() {
    let home = Home::new();
    for (method, params) in [
        ("server/discover", json!({})),
        (
            "initialize",
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}),
        ),
    ] {
        let began = Instant::now();
        let mut agent = Agent::spawn(&home, Ways { legacy: method == "initialize", ..Ways::default() });
        let hello = agent.request(method, params).unwrap();
        let took = began.elapsed();
        assert!(hello["capabilities"]["tools"].is_object(), "{hello}");
        assert!(took < Duration::from_millis(300), "{method} took {took:?}");
    }
    assert!(!home.path().join("home").exists(), "nobody has asked for a task, so there is nothing to keep");
}

#[test]
fn both_generations_speak_to_one_process() {
    let home = Home::new();
    let mut agent = Agent::start_with(&home, Ways { legacy: true, ..Ways::default() });
    let legacy = agent.request("tools/call", json!({"name": "run", "arguments": {"command": "echo old"}})).unwrap();
    assert!(legacy["resultType"].is_null() && legacy["structuredContent"]["tail"] == "| old", "{legacy}");
    let meta = agent.meta();
    let params = json!({"name": "run", "arguments": {"command": "echo new"}, "_meta": meta});
    let modern = agent.request("tools/call", params).unwrap();
    assert!(modern["resultType"] == "complete" && modern["structuredContent"]["tail"] == "| new", "{modern}");
    let hello = agent.request("server/discover", json!({"_meta": agent.meta()})).unwrap();
    assert!(hello["supportedVersions"].as_array().unwrap().contains(&MODERN.into()));
}

#[test]
fn the_tools_are_listed_the_same_for_everybody() {
    let home = Home::new();
    let mut lists = [true, false].map(|legacy| {
        let mut agent = Agent::start_with(&home, Ways { legacy, ..Ways::default() });
        agent.request("tools/list", json!({})).unwrap()["tools"].clone()
    });
    let names: Vec<&Value> = lists[0].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["run", "wait", "output", "list", "stop", "send", "inbox"]);
    assert_eq!(lists[0], lists[1]);
    for tool in lists[0].as_array_mut().unwrap() {
        tool.as_object_mut().unwrap().remove("outputSchema");
        // A model is not shown these.
        tool.as_object_mut().unwrap().remove("annotations");
    }
    let tokens = lists[0].to_string().len() / 4;
    println!("{tokens} tokens for names, titles, descriptions and input schemas of all tools");
    assert!(tokens < 1500, "{tokens}");
}

#[test]
fn odd_messages_are_survived() {
    let home = Home::new();
    let mut agent = Agent::spawn(&home, Ways::default());
    agent.write_line("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
    agent.write_line("not json");
    agent.write_line("{\"jsonrpc\":\"2.0\",\"id\":77,\"result\":{}}");
    agent.write_line("");
    assert!(agent.request("server/discover", json!({})).is_ok());
    agent.write_line("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":5}}");
    agent.write(
        &json!({"jsonrpc": "2.0", "id": 99, "method": "tools/call", "params": {"name": "list", "arguments": {}}}),
    );
    assert_eq!(agent.answer(99).unwrap_err()["code"], -32602, "a modern request says which protocol it speaks");
    assert_eq!(agent.request("no/such", json!({})).unwrap_err()["code"], -32601);
    assert_eq!(agent.request("tools/list", json!({})).unwrap()["tools"].as_array().unwrap().len(), 7);
    let mut meta = agent.meta();
    meta.insert("io.modelcontextprotocol/protocolVersion".into(), "2099-01-01".into());
    let error = agent.request("tools/list", json!({"_meta": meta})).unwrap_err();
    assert!(error["code"] == -32022 && error["data"]["supported"].is_array(), "{error}");
    assert!(agent.is_running());
}

#[test]
fn a_call_that_blocks_shows_that_it_is_alive() {
    let home = Home::new();
    let mut agent = Agent::start(&home);
    let ids = [agent.begin("printf '[4/8] linking\\033[2J'; exec sleep 60"), agent.begin("exec sleep 60")];
    let mut wait = |ids: &[String], token: &str| {
        let params =
            json!({"name": "wait", "arguments": {"ids": ids, "mode": "all"}, "_meta": {"progressToken": token}});
        let call = agent.send("tools/call", params);
        let is_progress =
            |note: &Value| note["method"] == "notifications/progress" && note["params"]["progressToken"] == token;
        let note = agent.note(is_progress)["params"].clone();
        agent.cancel(call);
        note
    };
    let one = wait(&ids[..1], "p1");
    let (message, share) =
        (one["message"].as_str().unwrap(), one["progress"].as_f64().unwrap() / one["total"].as_f64().unwrap());
    assert!(
        message.starts_with("50% · [4/8] linking") && message.contains("waiting, ") && !message.contains('\u{1b}'),
        "{one}"
    );
    assert!((share - 0.5).abs() < 1e-6, "{one}");
    let two = wait(&ids, "p2");
    assert!(
        two["message"].as_str().unwrap().starts_with("0 of 2 ended · waiting, ") && two["total"].is_null(),
        "{two}"
    );
}
