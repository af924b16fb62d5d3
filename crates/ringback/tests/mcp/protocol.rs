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

/// What the page says of the cost, and what is seen here: a row's name, and tokens (bytes / 4).
type Cost = (String, Vec<usize>);

fn tokens(text: &str) -> usize {
    text.len().div_ceil(4)
}

/// Descriptions as a model is shown them, alone and with the input schema.
fn costs_of_tools(agent: &mut Agent) -> Vec<Cost> {
    let tools = agent.request("tools/list", json!({})).unwrap()["tools"].clone();
    let mut rows: Vec<Cost> = tools
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| {
            let words = format!("{}{}", tool["name"].as_str().unwrap(), tool["description"].as_str().unwrap());
            (
                tool["name"].as_str().unwrap().to_owned(),
                vec![tokens(&words), tokens(&(words.clone() + &tool["inputSchema"].to_string()))],
            )
        })
        .collect();
    let all = (0..2).map(|column| rows.iter().map(|row| row.1[column]).sum()).collect();
    rows.push(("all".to_owned(), all));
    rows
}

/// Typical results, as words and as fields.
fn costs_of_results(agent: &mut Agent) -> Vec<Cost> {
    let mut rows = Vec::new();
    let mut row = |name: &str, told: &crate::agent::Told| {
        rows.push((name.to_owned(), vec![tokens(&told.text), tokens(&told.fields.to_string())]));
    };
    row("run, a short command", &agent.call("run", json!({"command": "echo hello"})));
    let failing = "seq -f 'test case_%g ... ok' 1 40; echo 'case_41: assertion failed'; exit 1";
    let failed = agent.call("run", json!({"command": failing, "name": "tests"}));
    row("run, a failure with 41 lines", &failed);
    let running = agent.call("run", json!({"command": "sleep 60", "wait_ms": 0}));
    row("run, a handle", &running);
    let ids: Vec<String> = (0..3).map(|_| agent.begin("echo done")).collect();
    row("wait, three ends", &agent.call("wait", json!({"ids": ids, "mode": "all"})));
    let long = agent.call("run", json!({"command": "seq 1 20000"})).id();
    row("output, the digest of 20 000 lines", &agent.call("output", json!({"id": long})));
    let quiet = agent.begin("echo why; exit 5");
    row("inbox, one end", &agent.call("inbox", json!({"wait_ms": 20_000})));
    agent.call("wait", json!({"ids": [quiet]}));
    row("stop, one task", &agent.call("stop", json!({"ids": [running.id()]})));
    rows
}

#[test]
fn the_page_says_what_tools_and_results_cost() {
    let home = Home::new();
    let mut agent = Agent::start(&home);
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/mcp.md");
    let page = std::fs::read_to_string(page).unwrap();
    let page = page.split_once("## What it costs").unwrap().1;
    let said = |name: &str| -> Option<Vec<usize>> {
        let cells: Vec<&str> =
            page.lines().find(|line| line.starts_with(&format!("| `{name}`")))?.split('|').skip(2).collect();
        Some(cells.iter().filter_map(|cell| cell.trim().parse().ok()).collect())
    };
    let (tools, results) = (costs_of_tools(&mut agent), costs_of_results(&mut agent));
    // Ids and times have other lengths every time.
    let is_near = |said: &[usize], seen: &[usize]| {
        said.len() == seen.len() && said.iter().zip(seen).all(|(a, b)| a.abs_diff(*b) <= 3 + b / 20)
    };
    let wrong = |rows: &[Cost], exact: bool| {
        rows.iter().any(|(name, seen)| {
            !said(name).is_some_and(|said| if exact { said == *seen } else { is_near(&said, seen) })
        })
    };
    let table: Vec<String> =
        tools.iter().chain(&results).map(|(name, seen)| format!("| `{name}` | {} | {} |", seen[0], seen[1])).collect();
    assert!(!wrong(&tools, true) && !wrong(&results, false), "docs/mcp.md should say:\n{}", table.join("\n"));
    assert!(tools.last().unwrap().1[1] < 1500, "{tools:?}");
}

#[test]
fn odd_messages_are_survived() {
    let home = Home::new();
    let mut agent = Agent::spawn(&home, Ways::default());
    agent.write_line("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
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
fn what_cannot_be_read_is_answered_and_the_next_message_is_served() {
    let home = Home::new();
    let mut agent = Agent::spawn(&home, Ways::default());
    let long = vec![b'x'; 20_000_000];
    let cut = [b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":\"", long.as_slice()].concat();
    let beyond = vec![b' '; (80 << 20) + 1];
    let lines: [(&str, &[u8], i64); 10] = [
        ("garbage", b"not json", -32700),
        ("cut off", b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/li", -32700),
        ("no UTF-8", b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\xfe\"}", -32700),
        ("bytes", b"\0\x01\x02\xff\r", -32700),
        ("20 MB", &long, -32700),
        ("20 MB, cut off", &cut, -32700),
        ("longer than anything", &beyond, -32600),
        ("a list", b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", -32600),
        ("no message", b"{\"jsonrpc\":\"2.0\"}", -32600),
        ("a strange id", b"{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"tools/list\"}", -32600),
    ];
    for is_first in [true, false] {
        for (what, line, code) in &lines {
            agent.write_raw(line);
            agent.write_raw(b"\n");
            assert_eq!(agent.refused(), *code, "{what}");
        }
        assert!(agent.request("tools/list", json!({})).is_ok(), "before the first request: {is_first}");
    }
    // Who sends us back what we said, or something that wants no answer, gets none: two programs could go on for ever.
    agent.write_line("{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"m\"}}");
    agent.write_line("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/of/nobody\",\"params\":5}");
    agent.write_line("\r");
    let told = agent.call("run", json!({"command": "echo on"}));
    assert!(told.fields["tail"] == "| on" && !agent.has_refused(), "{told:?}");
    let huge = String::from_utf8(long).unwrap();
    let told = agent.call("run", json!({"command": huge}));
    assert!(told.is_error && told.text.contains("20000000 bytes"), "{told:?}");
    // The last message needs no newline behind it.
    agent.write_raw(b"{\"jsonrpc\":\"2.0\",\"id\":901,\"method\":\"ping\"");
    agent.close_stdin();
    assert_eq!(agent.refused(), -32700);
}

#[test]
fn lists_of_messages_are_taken_where_the_version_has_them() {
    let home = Home::new();
    let list = "[{\"jsonrpc\":\"2.0\",\"id\":801,\"method\":\"tools/list\"},{\"jsonrpc\":\"2.0\",\"method\":\
                \"notifications/initialized\"},5,{\"jsonrpc\":\"2.0\",\"id\":802,\"method\":\"ping\"}]";
    for (version, taken) in [("2024-11-05", false), ("2025-03-26", true), ("2025-06-18", false), ("2025-11-25", false)]
    {
        let mut agent = Agent::spawn(&home, Ways { legacy: true, ..Ways::default() });
        let hello =
            json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        assert_eq!(agent.request("initialize", hello).unwrap()["protocolVersion"], version);
        agent.write_line("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
        agent.write_line(list);
        assert_eq!(agent.refused(), -32600, "{version}: of a list one element, or the list");
        if taken {
            assert_eq!(agent.answer(801).unwrap()["tools"].as_array().unwrap().len(), 7);
            assert!(agent.answer(802).is_ok());
            agent.write_line("[]");
            assert_eq!(agent.refused(), -32600);
        }
        assert!(agent.request("ping", json!({})).is_ok() && !agent.has_refused(), "{version}");
    }
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
