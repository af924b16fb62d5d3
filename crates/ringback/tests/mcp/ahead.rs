//! Calls that are answered on the thread that reads, before the general library has seen them: nobody can tell.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use serde_json::{Value, json};

use crate::agent::{Home, LIMIT, MODERN};

/// A server, and its stdin and stdout as bytes.
struct Server {
    child: Child,
    stdin: Option<Box<dyn Write>>,
    stdout: Box<dyn BufRead>,
}

impl Server {
    /// One that answers at once: both ways are pipes.
    fn at_once(home: &Home) -> Self {
        let mut child = home.command().arg("mcp").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self::open(child, Box::new(stdin), Box::new(stdout))
    }

    /// One that does so over sockets, as clients that are programs of Node have them.
    fn over_sockets(home: &Home) -> Self {
        let [(stdin, theirs), (stdout, others)] = [UnixStream::pair().unwrap(), UnixStream::pair().unwrap()];
        stdout.set_read_timeout(Some(LIMIT)).unwrap();
        let ends = [theirs, others].map(OwnedFd::from).map(Stdio::from);
        let [theirs, others] = ends;
        let child = home.command().arg("mcp").stdin(theirs).stdout(others).spawn().unwrap();
        Self::open(child, Box::new(stdin), Box::new(stdout))
    }

    /// One whose stdout is a terminal: all of its answers go through the general library.
    fn general(home: &Home) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let ours = openpt(flags).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let theirs = ioctl_tiocgptpeer(&ours, flags).unwrap();
        let mut modes = tcgetattr(&theirs).unwrap();
        modes.make_raw();
        tcsetattr(&theirs, OptionalActions::Now, &modes).unwrap();
        let mut child = home.command().arg("mcp").stdin(Stdio::piped()).stdout(theirs).spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        Self::open(child, Box::new(stdin), Box::new(File::from(ours)))
    }

    fn open(child: Child, stdin: Box<dyn Write>, stdout: Box<dyn Read>) -> Self {
        let mut server = Self { child, stdin: Some(stdin), stdout: Box::new(BufReader::new(stdout)) };
        let hello =
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}});
        server.ask(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}).to_string());
        server.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
        server
    }

    fn write(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(line.as_bytes()).unwrap();
        stdin.write_all(b"\n").unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert_ne!(self.stdout.read_line(&mut line).unwrap(), 0, "the server has left");
        line
    }

    fn ask(&mut self, line: &str) -> String {
        self.write(line);
        self.line()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stdin.take());
        self.child.wait().unwrap();
    }
}

/// A call as a client writes it.
fn call(id: &Value, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
}

fn run(arguments: &Value) -> Value {
    json!({"name": "run", "arguments": arguments})
}

/// Calls of every kind that `run` knows how to answer.
fn calls() -> Vec<String> {
    let newer = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "n", "version": "1"},
    });
    let params = [
        run(&json!({"command": "sleep 60", "wait_ms": 0})),
        run(
            &json!({"argv": ["sleep", "60"], "wait_ms": 0, "name": "a\u{1b}\"name", "binding": {"b": [1, null, "\u{e9}"]}}),
        ),
        run(
            &json!({"command": "sleep 60", "wait_ms": 0, "key": "k", "lease": "service", "env": {"A": "b"}, "timeout": "5m"}),
        ),
        run(&json!({"command": "sleep 60", "wait_ms": 0, "key": "k"})),
        run(&json!({"command": "sleep 60", "wait_ms": 0, "key": "k", "if_running": "reject"})),
        run(&json!({"command": "sleep 60", "wait_ms": 0, "session": "other"})),
        run(&json!({"command": "sleep 60", "wait_ms": 0, "session": "two\nlines"})),
        run(&json!({"command": "sleep 60", "wait_ms": 0, "comand": "x"})),
        run(&json!({"command": 5})),
        run(&json!({"command": "x", "cwd": "/no/such/folder", "wait_ms": "soon"})),
        run(&json!({"command": format!("sleep 60 # {}", "\u{20ac}".repeat(6000)), "wait_ms": 0})),
        run(&json!({"command": "sleep 60", "wait_ms": 0, "name": "x".repeat(257)})),
        json!({"name": "run", "arguments": {"command": "sleep 60", "wait_ms": 0}, "_meta": {"progressToken": 7, "threadId": "mine"}}),
        json!({"name": "run", "arguments": {"command": "sleep 60", "wait_ms": 0}, "_meta": newer}),
        json!({"name": "run", "arguments": {"command": "sleep 60", "wait_ms": 0}, "inputResponses": {}, "other": 1}),
        json!({"name": "run"}),
        json!({"name": "run", "arguments": []}),
        run(&json!({"command": "sleep 60", "wait_ms": 50})),
        json!({"name": "runs", "arguments": {}}),
    ];
    let mut calls: Vec<String> = (1..).zip(&params).map(|(id, params)| call(&json!(id), params)).collect();
    calls.push(call(&json!("an id \u{2028} of text"), &params[0]));
    calls.push(call(&json!(i64::MIN), &params[0]));
    let rounded = r#"{"name":"run","arguments":{"command":"sleep 60","wait_ms":0,"binding":123456789012345678901}}"#;
    calls.push(format!(r#"{{"params":{rounded},"method":"tools/call","id":77,"jsonrpc":"2.0"}}"#));
    // Last: where a thread writes to stdout, a call that comes right behind an answer may list what that has shown.
    calls.push(call(&json!(78), &run(&json!({"command": "kill -9 $$", "wait_ms": 30000}))));
    calls
}

/// What differs from one run to the next, replaced: the ids of tasks, in the order in which they come.
fn without_ids(answers: &[String]) -> Vec<String> {
    let mut ids: Vec<String> = Vec::new();
    for answer in answers {
        let answer: Value = serde_json::from_str(answer).unwrap();
        let id = answer["result"]["structuredContent"]["id"].as_str().unwrap_or_default().to_owned();
        if !id.is_empty() && !ids.contains(&id) {
            ids.push(id);
        }
    }
    // How long the one that is waited for took.
    let is_time =
        |word: &str| word.trim_end_matches(',').strip_suffix("ms").is_some_and(|number| number.parse::<u32>().is_ok());
    let name = |answer: &String| {
        let named = ids.iter().enumerate().fold(answer.clone(), |text, (at, id)| text.replace(id, &format!("id-{at}")));
        named.split(' ').map(|word| if is_time(word) { "time " } else { word }).collect()
    };
    answers.iter().map(name).collect()
}

#[test]
fn an_answer_at_once_is_the_same_to_the_byte() {
    let homes = [Home::new(), Home::new(), Home::new()];
    let calls = calls();
    // Whether the task of a key has started yet is not up to the way: it is asked for until it has.
    let is_early = |answer: &str| answer.contains("was there already") && answer.contains("queued");
    let ask = |mut server: Server| {
        let mut answer =
            |call: &String| std::iter::repeat_with(|| server.ask(call)).find(|answer| !is_early(answer)).unwrap();
        calls.iter().map(&mut answer).collect::<Vec<_>>()
    };
    let left = ask(Server::at_once(&homes[0]));
    for right in [ask(Server::over_sockets(&homes[1])), ask(Server::general(&homes[2]))] {
        for ((left, right), call) in without_ids(&left).iter().zip(&without_ids(&right)).zip(&calls) {
            assert_eq!(left, right, "{call:.300}");
        }
    }
    assert!(left[0].contains("NOT started yet") && left[6].contains("cannot be the name of a session"), "{left:?}");
    assert!(left[21].contains("would be rounded") && left[22].contains("SIGKILL"), "{left:?}");
}

#[test]
fn a_call_that_is_cancelled_after_its_answer_was_written_leaves_the_next_of_its_id_alone() {
    let home = Home::new();
    let mut server = Server::at_once(&home);
    let params = run(&json!({"command": "sleep 60", "wait_ms": 0}));
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}).to_string();
    for _ in 0..3 {
        let answer: Value = serde_json::from_str(&server.ask(&call(&json!(5), &params))).unwrap();
        assert_eq!(answer["id"], 5);
        server.write(&cancel);
    }
    assert_eq!(home.cli(&["ps"])["tasks"].as_array().unwrap().len(), 3);
}

#[test]
fn an_answer_at_once_lists_what_was_not_heard_and_never_what_was() {
    let home = Home::new();
    let mut server = Server::at_once(&home);
    let ended: Vec<String> = (0..7)
        .map(|at| {
            let started: Value =
                serde_json::from_str(&server.ask(&call(&json!(at), &run(&json!({"command": "true", "wait_ms": 0})))))
                    .unwrap();
            started["result"]["structuredContent"]["id"].as_str().unwrap().to_owned()
        })
        .collect();
    // Somebody else waits: that is no hearing.
    let waited: Vec<&str> = ["wait"].into_iter().chain(ended.iter().map(String::as_str)).collect();
    home.cli_as("somebody else", &waited);
    let params = run(&json!({"command": "sleep 60", "wait_ms": 0}));
    let unheard = |answer: String| {
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let unheard = answer["result"]["structuredContent"]["unheard"].as_array().unwrap().clone();
        unheard.iter().map(|line| line.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let listed = unheard(server.ask(&call(&json!("a"), &params)));
    // In the order in which they ended, which is not that of their starts.
    let is_one = |line: &String| ended.iter().any(|id| line.contains(id));
    assert!(listed.len() == 6 && listed[..5].iter().all(is_one) && listed[5].starts_with("and "), "{listed:?}");
    server.ask(&call(&json!("b"), &json!({"name": "wait", "arguments": {"ids": ended[..6]}})));
    let listed = unheard(server.ask(&call(&json!("c"), &params)));
    assert!(listed.len() == 1 && listed[0].contains(&ended[6]), "{listed:?}");
    server.ask(&call(&json!("d"), &json!({"name": "wait", "arguments": {"ids": ended}})));
    assert!(unheard(server.ask(&call(&json!("e"), &params))).is_empty());
}

#[test]
fn whoever_sends_many_calls_before_reading_an_answer_gets_every_one() {
    let homes = [Home::new(), Home::new()];
    sends_many(Server::at_once(&homes[0]));
    sends_many(Server::over_sockets(&homes[1]));
}

fn sends_many(mut server: Server) {
    // More than a pipe takes of their answers, and of one of another kind in between.
    let binding = "b".repeat(700);
    let calls = 120;
    for id in 1..=calls {
        let run = run(&json!({"command": "sleep 60", "wait_ms": 0, "key": "k", "binding": binding}));
        server.write(&call(&json!(id), &if id % 10 == 0 { json!({"name": "list"}) } else { run }));
    }
    let mut ids: Vec<i64> =
        (0..calls).map(|_| serde_json::from_str::<Value>(&server.line()).unwrap()["id"].as_i64().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, (1..=calls).collect::<Vec<_>>());
}
