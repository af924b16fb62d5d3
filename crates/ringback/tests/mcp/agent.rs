//! An agent without a model: a home of its own, and messages as they go over the pipe, in either generation.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tempfile::TempDir;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_ringback");
/// How long anything may take before the test has failed; nothing waits for it to pass.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);
pub(crate) const MODERN: &str = "2026-07-28";
const TASKS: &str = "io.modelcontextprotocol/tasks";

/// A home with its daemon and tasks, all of which are gone when it is dropped.
pub(crate) struct Home {
    dir: TempDir,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The command line in this home.
    pub(crate) fn cli(&self, args: &[&str]) -> Value {
        self.cli_as("default", args)
    }

    /// The command line as another session.
    pub(crate) fn cli_as(&self, session: &str, args: &[&str]) -> Value {
        let output = self.command().env("RINGBACK_SESSION", session).arg("--json").args(args).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{args:?}: {text}"))
    }

    /// Kills the daemon where it stands.
    pub(crate) fn kill_daemon(&self) {
        let pid = self.cli(&["daemon", "status"])["pid"].to_string();
        assert!(Command::new("kill").args(["-9", &pid]).status().unwrap().success());
    }

    pub(crate) fn has_daemon(&self) -> bool {
        self.cli(&["daemon", "status"])["daemon"] == "running"
    }

    pub(crate) fn command(&self) -> Command {
        self.command_of(PROGRAM)
    }

    /// A program that lives in this home, and in no agent's session.
    pub(crate) fn command_of(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        for name in [
            "CLAUDE_CODE_SESSION_ID",
            "RINGBACK_SESSION",
            "RINGBACK_ID",
            "CODEX_THREAD_ID",
            "GEMINI_SESSION_ID",
            "GEMINI_CLI",
            "OPENCODE",
        ] {
            command.env_remove(name);
        }
        command.env("RINGBACK_HOME", self.path().join("home")).env("XDG_CONFIG_HOME", self.path());
        command.current_dir(self.path());
        command
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if !self.path().join("home").exists() {
            return;
        }
        let sessions = self.cli(&["ps", "--all-sessions"]);
        for task in sessions["tasks"].as_array().into_iter().flatten() {
            let _gone = self.command().args(["kill", "-q", task["id"].as_str().unwrap()]).output();
        }
        let _gone = self.command().args(["daemon", "stop", "-q"]).output();
    }
}

/// How an agent differs from a plain one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ways<'a> {
    pub(crate) legacy: bool,
    pub(crate) tasks: bool,
    pub(crate) name: Option<&'a str>,
    pub(crate) env: &'a [(&'a str, &'a str)],
}

/// One server process and what it has said.
pub(crate) struct Agent {
    child: Child,
    stdin: Option<ChildStdin>,
    messages: Receiver<Value>,
    early: Vec<Value>,
    pub(crate) notes: Vec<Value>,
    modern: bool,
    tasks: bool,
    name: String,
    next: i64,
}

/// The result of a tool call, in its parts.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) text: String,
    pub(crate) fields: Value,
    pub(crate) is_error: bool,
}

impl Agent {
    /// A modern agent without tasks.
    pub(crate) fn start(home: &Home) -> Self {
        Self::start_with(home, Ways::default())
    }

    pub(crate) fn start_with(home: &Home, ways: Ways<'_>) -> Self {
        let mut agent = Self::spawn(home, ways);
        if ways.legacy {
            let capabilities = agent.capabilities();
            let hello =
                json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": agent.info()});
            agent.request("initialize", hello).unwrap();
            agent.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        }
        agent
    }

    /// A server that nobody has said a word to.
    pub(crate) fn spawn(home: &Home, ways: Ways<'_>) -> Self {
        let mut command = home.command();
        command.arg("mcp").envs(ways.env.iter().copied());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let message = serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON on stdout: {line}"));
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let stdin = child.stdin.take();
        let name = ways.name.unwrap_or("tester").to_owned();
        let (early, notes) = (Vec::new(), Vec::new());
        Self { child, stdin, messages, early, notes, modern: !ways.legacy, tasks: ways.tasks, name, next: 0 }
    }

    fn info(&self) -> Value {
        json!({"name": self.name, "version": "1"})
    }

    fn capabilities(&self) -> Value {
        if self.tasks { json!({"extensions": {TASKS: {}}}) } else { json!({}) }
    }

    /// The `_meta` of one modern request.
    pub(crate) fn meta(&self) -> Map<String, Value> {
        let capabilities = self.capabilities();
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": capabilities,
            "io.modelcontextprotocol/clientInfo": self.info(),
        });
        meta.as_object().unwrap().clone()
    }

    pub(crate) fn write(&mut self, message: &Value) {
        self.write_line(&message.to_string());
    }

    pub(crate) fn write_line(&mut self, line: &str) {
        self.write_raw(line.as_bytes());
        self.write_raw(b"\n");
    }

    /// What need not be a line, or text at all.
    pub(crate) fn write_raw(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    /// The code of the next answer that says that a message could not be read.
    #[track_caller]
    pub(crate) fn refused(&mut self) -> i64 {
        let answer = self.answer_of(|answer| answer.get("id") == Some(&Value::Null));
        assert!(answer["jsonrpc"] == "2.0" && answer["result"].is_null(), "{answer}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(!message.is_empty() && message.len() < 200, "{answer}");
        answer["error"]["code"].as_i64().unwrap()
    }

    /// Whether it has said, unasked so far, that a message could not be read.
    pub(crate) fn has_refused(&self) -> bool {
        self.early.iter().any(|answer| answer["id"].is_null())
    }

    /// Sends a request and gives its number.
    pub(crate) fn send(&mut self, method: &str, mut params: Value) -> i64 {
        self.next += 1;
        if self.modern && params["_meta"]["io.modelcontextprotocol/protocolVersion"].is_null() {
            let mut meta = self.meta();
            meta.extend(params["_meta"].as_object().cloned().unwrap_or_default());
            params["_meta"] = meta.into();
        }
        let id = self.next;
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// The answer to a request that was sent: a result, or an error.
    #[track_caller]
    pub(crate) fn answer(&mut self, id: i64) -> Result<Value, Value> {
        let message = self.answer_of(|message| message["id"] == id);
        if message["error"].is_null() { Ok(message["result"].clone()) } else { Err(message["error"].clone()) }
    }

    /// The answer that this is true of, as it came.
    #[track_caller]
    pub(crate) fn answer_of(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + LIMIT;
        loop {
            if let Some(at) = self.early.iter().position(&is_it) {
                return self.early.swap_remove(at);
            }
            let left = end.saturating_duration_since(Instant::now());
            let message = self.messages.recv_timeout(left).unwrap_or_else(|why| panic!("no such answer: {why}"));
            if message["method"].is_string() { self.notes.push(message) } else { self.early.push(message) }
        }
    }

    /// The next notification that this is true of; those before it are kept in `notes`, and it too.
    pub(crate) fn note(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + LIMIT;
        let mut from = 0;
        loop {
            if let Some(at) = self.notes[from..].iter().position(&is_it) {
                return self.notes[from + at].clone();
            }
            from = self.notes.len();
            let left = end.saturating_duration_since(Instant::now());
            let message = self.messages.recv_timeout(left).unwrap_or_else(|why| panic!("{why}: {:?}", self.notes));
            if message["method"].is_string() { self.notes.push(message) } else { self.early.push(message) }
        }
    }

    pub(crate) fn request(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.send(method, params);
        self.answer(id)
    }

    /// Sends a call of a tool.
    #[expect(clippy::needless_pass_by_value, reason = "calls read better with `json!` in place")]
    pub(crate) fn send_call(&mut self, tool: &str, arguments: Value) -> i64 {
        self.send("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// Calls a tool.
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Told {
        let id = self.send_call(tool, arguments);
        self.told(id)
    }

    pub(crate) fn told(&mut self, id: i64) -> Told {
        let result = self.answer(id).unwrap();
        Told::of(&result)
    }

    /// Starts a command and gives its id at once.
    pub(crate) fn begin(&mut self, command: &str) -> String {
        let told = self.call("run", json!({"command": command, "wait_ms": 0}));
        told.fields["id"].as_str().unwrap_or_else(|| panic!("{told:?}")).to_owned()
    }

    /// What the session has not heard, as ids.
    pub(crate) fn unheard(&mut self) -> Vec<String> {
        let told = self.call("inbox", json!({"limit": 100}));
        let rows = told.fields["tasks"].as_array().cloned().unwrap_or_default();
        rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
    }

    pub(crate) fn cancel(&mut self, id: i64) {
        let mut params = json!({"requestId": id, "reason": "no longer needed"});
        if self.modern {
            params["_meta"] = self.meta().into();
        }
        self.write(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
    }

    /// Closes stdin.
    pub(crate) fn close_stdin(&mut self) {
        drop(self.stdin.take());
    }

    /// Closes stdin and waits for the exit; gives the exit code and how long that took.
    pub(crate) fn close(mut self) -> (Option<i32>, Duration) {
        self.close_stdin();
        let began = Instant::now();
        let status = self.child.wait().unwrap();
        (status.code(), began.elapsed())
    }

    /// Kills the server where it stands.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _reaped = self.child.wait();
    }
}

impl Told {
    pub(crate) fn of(result: &Value) -> Self {
        let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}")).to_owned();
        let told = Self { text, fields: result["structuredContent"].clone(), is_error: result["isError"] == true };
        told.check_both_say_the_same();
        told
    }

    /// Some clients show the model only the text, others only the fields.
    fn check_both_say_the_same(&self) {
        for name in ["verdict", "next", "tail"] {
            let part = self.fields[name].as_str().unwrap_or_default();
            assert!(self.text.contains(part), "{name} is not in the text: {self:?}");
        }
        for line in self.fields["unheard"].as_array().unwrap() {
            assert!(self.text.contains(line.as_str().unwrap()), "{self:?}");
        }
    }

    pub(crate) fn verdict(&self) -> &str {
        self.fields["verdict"].as_str().unwrap()
    }

    pub(crate) fn id(&self) -> String {
        self.fields["id"].as_str().unwrap().to_owned()
    }
}
