//! Resources: what a task has printed, listed, read page by page, and told of when it changes.

use std::time::Instant;

use serde_json::{Value, json};

use crate::agent::{Agent, Home, Ways};

const UPDATED: &str = "notifications/resources/updated";

fn output(id: &str) -> String {
    format!("ringback://task/{id}/output")
}

fn read(agent: &mut Agent, uri: &str) -> Value {
    let result = agent.request("resources/read", json!({"uri": uri})).unwrap();
    assert_eq!(result["contents"][0]["uri"], uri);
    result["contents"][0].clone()
}

fn is_update_of(note: &Value, uri: &str) -> bool {
    note["method"] == UPDATED && note["params"]["uri"] == uri
}

#[test]
fn the_output_of_a_task_is_listed_and_read_in_both_generations() {
    let home = Home::new();
    for legacy in [true, false] {
        let mut agent = Agent::start_with(&home, Ways { legacy, ..Ways::default() });
        let told = agent.call("run", json!({"command": "printf 'one\\n\\033[2Jtwo\\n'; exit 3", "name": "try"}));
        let id = told.id();
        let list = agent.request("resources/list", json!({})).unwrap();
        let row = list["resources"].as_array().unwrap().iter().find(|row| row["name"] == id.as_str()).unwrap();
        assert_eq!((&row["uri"], &row["title"], &row["size"]), (&output(&id).into(), &"try".into(), &12.into()));
        assert!(row["description"].as_str().unwrap().starts_with("FAILED exit 3"), "{row}");
        let templates = agent.request("resources/templates/list", json!({})).unwrap();
        assert_eq!(templates["resourceTemplates"][0]["uriTemplate"], "ringback://task/{id}/output{?offset}");
        let whole = read(&mut agent, &output(&id));
        assert_eq!((&whole["text"], &whole["mimeType"]), (&"| one\n| two".into(), &"text/plain".into()));
        let meta = &whole["_meta"]["ringback/output"];
        assert_eq!((&meta["cursor"], &meta["eof"]), (&12.into(), &true.into()));
        let state = read(&mut agent, &format!("ringback://task/{id}"));
        let state: Value = serde_json::from_str(state["text"].as_str().unwrap()).unwrap();
        assert_eq!((&state["id"], &state["exit"], &state["tail"]), (&id.into(), &3.into(), &"| one\n| two".into()));
    }
}

#[test]
fn a_long_output_is_read_in_pages_that_lose_nothing() {
    let home = Home::new();
    let mut agent = Agent::start(&home);
    let id = agent.call("run", json!({"command": "seq 1 20000"})).id();
    assert!(read(&mut agent, &output(&id))["text"].as_str().unwrap().len() < 10_000, "what matters of it");
    let (mut uri, mut seen) = (format!("{}?offset=0", output(&id)), Vec::new());
    loop {
        let page = read(&mut agent, &uri);
        let text = page["text"].as_str().unwrap();
        assert!(text.len() < 9000);
        seen.extend(text.lines().filter_map(|line| line.strip_prefix("| ")?.parse::<u32>().ok()));
        if page["_meta"]["ringback/output"]["eof"] == true {
            break;
        }
        uri = page["_meta"]["ringback/output"]["next"].as_str().unwrap().to_owned();
        assert!(text.ends_with(&format!("\n[{uri} reads on]")), "{text}");
    }
    assert!(seen.into_iter().eq(1..=20000));
}

#[test]
fn the_list_has_pages_and_only_the_tasks_of_the_session() {
    let home = Home::new();
    let mut agent = Agent::start(&home);
    let ids: Vec<String> = (0..53).map(|_| agent.begin("true")).collect();
    agent.call("run", json!({"command": "true", "session": "other"}));
    let (mut seen, mut params) = (Vec::new(), json!({}));
    loop {
        let page = agent.request("resources/list", params).unwrap();
        let rows = page["resources"].as_array().unwrap();
        assert!(rows.len() <= 50);
        seen.extend(rows.iter().map(|row| row["name"].as_str().unwrap().to_owned()));
        if page["nextCursor"].is_null() {
            break;
        }
        params = json!({"cursor": page["nextCursor"]});
    }
    seen.reverse();
    assert_eq!(seen, ids);
    assert_eq!(agent.request("resources/list", json!({"cursor": "x"})).unwrap_err()["code"], -32602);
}

#[test]
fn what_is_no_resource_of_ours_is_refused_in_the_words_of_each_generation() {
    let home = Home::new();
    for (legacy, code) in [(true, -32002), (false, -32602)] {
        let mut agent = Agent::start_with(&home, Ways { legacy, ..Ways::default() });
        let long = format!("ringback://task/{}", "x".repeat(1 << 20));
        for uri in ["file:///etc/passwd", "ringback://task/zzzzzzzzzzzz/output", "ringback://task/../spec", "", &long] {
            let error = agent.request("resources/read", json!({"uri": uri})).unwrap_err();
            assert_eq!(error["code"], code, "{error}");
            assert!(error.to_string().len() < 500, "{error}");
        }
        if legacy {
            let error = agent.request("resources/subscribe", json!({"uri": "ringback://task/zzzzzzzzzzzz/output"}));
            assert_eq!(error.unwrap_err()["code"], code);
        }
        assert!(agent.is_running());
    }
}

#[test]
fn reading_a_resource_is_no_hearing() {
    let home = Home::new();
    let mut agent = Agent::start(&home);
    let id = agent.begin("sleep 0.1");
    agent.call("inbox", json!({"wait_ms": 20_000}));
    read(&mut agent, &output(&id));
    assert_eq!(agent.unheard(), [id], "a client reads for a person; the model has heard nothing");
}

#[test]
fn an_older_client_is_told_of_growth_and_end_until_it_unsubscribes() {
    let home = Home::new();
    let mut agent = Agent::start_with(&home, Ways { legacy: true, ..Ways::default() });
    let ids: Vec<String> =
        (0..2).map(|_| agent.call("run", json!({"command": "cat", "stdin": true, "wait_ms": 0})).id()).collect();
    let uris: Vec<String> = ids.iter().map(|id| output(id)).collect();
    for uri in &uris {
        agent.request("resources/subscribe", json!({"uri": uri})).unwrap();
    }
    agent.call("send", json!({"id": ids[0], "text": "first\n"}));
    agent.note(|note| is_update_of(note, &uris[0]));
    assert_eq!(read(&mut agent, &uris[0])["text"], "| first");
    agent.request("resources/unsubscribe", json!({"uri": uris[0]})).unwrap();
    agent.notes.clear();
    agent.call("send", json!({"id": ids[0], "text": "second\n", "eof": true}));
    agent.call("wait", json!({"ids": [ids[0]]}));
    agent.call("send", json!({"id": ids[1], "eof": true}));
    agent.note(|note| is_update_of(note, &uris[1]));
    assert!(!agent.notes.iter().any(|note| is_update_of(note, &uris[0])), "{:?}", agent.notes);
    let page = format!("{}?offset=0", uris[1]);
    assert!(agent.request("resources/subscribe", json!({"uri": page})).is_err(), "a page does not change");
}

#[test]
fn a_modern_client_listens_to_what_it_named_and_nothing_else() {
    let home = Home::new();
    let mut agent = Agent::start(&home);
    let id = agent.call("run", json!({"command": "cat; exit 4", "stdin": true, "wait_ms": 0})).id();
    let (uri, state) = (output(&id), format!("ringback://task/{id}"));
    let wish = json!({"resourceSubscriptions": [uri, state, "file:///etc/passwd"], "toolsListChanged": true});
    let listen = agent.send("subscriptions/listen", json!({"notifications": wish}));
    let acknowledged = agent.note(|note| note["method"] == "notifications/subscriptions/acknowledged");
    assert_eq!(acknowledged["params"]["notifications"], json!({"resourceSubscriptions": [uri, state]}));
    agent.call("send", json!({"id": id, "text": "x\n"}));
    let update = agent.note(|note| is_update_of(note, &uri));
    assert_eq!(update["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], listen);
    assert!(!agent.notes.iter().any(|note| is_update_of(note, &state)), "it runs on as before");
    agent.call("send", json!({"id": id, "eof": true}));
    agent.note(|note| is_update_of(note, &state));
    assert_eq!(agent.call("wait", json!({"ids": [id]})).fields["exit"], 4);
    agent.cancel(listen);
    agent.notes.clear();
    assert!(!agent.call("list", json!({})).is_error, "and it goes on after the stream");
    assert_eq!(agent.request("resources/subscribe", json!({"uri": uri})).unwrap_err()["code"], -32601);
}

#[test]
fn what_was_there_before_the_subscription_is_told_at_once() {
    let home = Home::new();
    let mut agent = Agent::start(&home);
    let id = agent.call("run", json!({"command": "echo early"})).id();
    agent.send("subscriptions/listen", json!({"notifications": {"resourceSubscriptions": [output(&id)]}}));
    agent.note(|note| is_update_of(note, &output(&id)));
}

#[test]
fn an_output_that_grows_fast_is_told_of_slowly_and_to_the_end() {
    let home = Home::new();
    let mut agent = Agent::start(&home);
    let id = agent.call("run", json!({"command": "read go; timeout 2 sh -c 'while :; do echo x; done'; true", "stdin": true, "wait_ms": 0})).id();
    let wish = json!({"resourceSubscriptions": [output(&id), format!("ringback://task/{id}")]});
    agent.send("subscriptions/listen", json!({"notifications": wish}));
    agent.note(|note| note["method"] == "notifications/subscriptions/acknowledged");
    let begun = Instant::now();
    agent.call("send", json!({"id": id, "text": "go\n"}));
    agent.note(|note| is_update_of(note, &format!("ringback://task/{id}")));
    agent.note(|note| is_update_of(note, &output(&id)));
    let told = agent.notes.iter().filter(|note| is_update_of(note, &output(&id))).count();
    let most = begun.elapsed().as_millis() / 500 + 2;
    assert!(told >= 2 && told as u128 <= most, "{told} notices, at most {most}");
}

#[test]
fn a_subscription_outlives_the_daemon() {
    let home = Home::new();
    let mut agent = Agent::start(&home);
    let id = agent.call("run", json!({"command": "cat", "stdin": true, "wait_ms": 0})).id();
    let state = format!("ringback://task/{id}");
    agent.send("subscriptions/listen", json!({"notifications": {"resourceSubscriptions": [state]}}));
    agent.note(|note| note["method"] == "notifications/subscriptions/acknowledged");
    agent.call("list", json!({}));
    home.kill_daemon();
    agent.call("stop", json!({"ids": [id]}));
    agent.note(|note| is_update_of(note, &state));
}

#[test]
fn only_so_many_streams_are_served_and_a_place_that_is_left_is_free() {
    let home = Home::new();
    let mut agent = Agent::start_with(&home, Ways { legacy: true, ..Ways::default() });
    let ids: Vec<String> = (0..17).map(|_| agent.begin("true")).collect();
    let mut answers: Vec<Result<Value, Value>> =
        ids.iter().map(|id| agent.request("resources/subscribe", json!({"uri": output(id)}))).collect();
    assert!(answers.pop().unwrap().unwrap_err()["message"].as_str().unwrap().contains("too many subscriptions"));
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    agent.request("resources/unsubscribe", json!({"uri": output(&ids[0])})).unwrap();
    agent.request("resources/subscribe", json!({"uri": output(&ids[16])})).unwrap();
}
