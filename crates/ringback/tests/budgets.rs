//! How many instructions the submit path executes, counted by callgrind: no clock, no noise, the same on every run.
//!
//! The budgets are in `budgets.toml` beside this file. Without valgrind nothing is counted, and a word says so. The gate counts
//! the development build's doors, which it has anyway and which costs seconds: what is done twice or read for nothing shows
//! there as well. `cargo xtask budgets` hands in the release program and counts the daemon and the MCP server, too. After a
//! change that is worth its price: `RINGBACK_BLESS=1 cargo test -p ringback --test budgets`, and `cargo xtask budgets --write`.

#![expect(clippy::unwrap_used, reason = "a test that cannot set up its world has failed")]

use std::env;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use serde_json::json;
use toml_edit::{DocumentMut, value};

/// What a count may be over its budget, in percent: another C compiler or processor moves it by less.
const DOOR_MARGIN: u64 = 5;
/// Of what waits for others: how much is done in one round depends on who comes when.
const SERVER_MARGIN: u64 = 10;
/// Tasks of the shorter of the two runs whose difference is what a task costs.
const TASKS: u64 = 20;

/// One count.
struct Count {
    what: &'static str,
    instructions: u64,
    margin: u64,
}

#[test]
fn the_submit_path_is_within_its_budgets() {
    if Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!("valgrind is not installed: no instructions are counted");
        return;
    }
    let release = env::var_os("RINGBACK_BUDGETS_OF");
    let stage = Stage::set(release.as_deref().map_or(Path::new(env!("CARGO_BIN_EXE_ringback")), Path::new));
    let mut counts = doors(&stage);
    if release.is_some() {
        counts.extend(servers(&stage));
    }
    compare(if release.is_some() { "release" } else { "development" }, &counts);
}

/// What starts, asks and ends.
fn doors(stage: &Stage) -> Vec<Count> {
    stage.ringback(&["run", "-q", "--wait", "--", "true"]);
    let event = stage.folder.path().join("event.json");
    fs::write(&event, r#"{"session_id":"budget","hook_event_name":"UserPromptSubmit","cwd":"/","prompt":"go on"}"#)
        .unwrap();
    let count = |what, arguments: &[&str], input: &Path| Count {
        what,
        instructions: stage.count(arguments, File::open(input).unwrap()).finish(),
        margin: DOOR_MARGIN,
    };
    let none = Path::new("/dev/null");
    let mut counts = vec![
        count("ringback --version", &["--version"], none),
        count("ringback run -q -- true", &["run", "-q", "--", "true"], none),
        count("ringback ps", &["ps"], none),
        count("ringback hook claude-prompt", &["hook", "claude-prompt"], &event),
    ];
    // What it prints of it is a line, for which nothing of the output has to be read.
    let million = ["run", "-q", "--wait", "--", "head", "-c", "1000000", "/dev/zero"];
    let run = stage.command(&stage.program).args(million).stdout(Stdio::piped()).output().unwrap();
    let id = String::from_utf8(run.stdout).unwrap();
    counts.push(count("ringback wait, of a task that wrote a megabyte", &["wait", id.trim()], none));
    stage.ringback(&["daemon", "stop"]);
    counts
}

/// What lives on: the difference between two runs, for one task.
fn servers(stage: &Stage) -> Vec<Count> {
    let per_task = |what, count: &dyn Fn(u64) -> u64| {
        let instructions = count(2 * TASKS).saturating_sub(count(TASKS)) / TASKS;
        Count { what, instructions, margin: SERVER_MARGIN }
    };
    vec![
        per_task("daemon, a task that is submitted and runs on", &|tasks| {
            stage.daemon(|| (0..tasks).for_each(|_| stage.ringback(&["run", "-q", "--", "sleep", "1000"])))
        }),
        per_task("daemon, a task from its submission until its end was told", &|tasks| {
            stage.daemon(|| (0..tasks).for_each(|_| stage.ringback(&["run", "-q", "--wait", "--", "true"])))
        }),
        per_task("ringback mcp, a call of `run` that is answered with a handle", &|tasks| stage.mcp(tasks)),
    ]
}

/// A home under a path of the same length everywhere: lengths of paths are instructions, too.
struct Stage {
    folder: tempfile::TempDir,
    program: PathBuf,
}

impl Stage {
    fn set(program: &Path) -> Self {
        let folder = tempfile::Builder::new().prefix("rb").rand_bytes(6).tempdir_in("/tmp").unwrap();
        let link = folder.path().join("ringback");
        symlink(program, &link).unwrap();
        Self { folder, program: link }
    }

    /// Nothing of the caller's environment: each variable costs, and goes into the task.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("LANG", "C").current_dir("/");
        command.env("HOME", self.folder.path()).env("RINGBACK_HOME", self.folder.path().join("h"));
        command.env("RINGBACK_SESSION", "budget").stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    fn ringback(&self, arguments: &[&str]) {
        let status = self.command(&self.program).args(arguments).stderr(Stdio::null()).status().unwrap();
        assert!(status.success(), "{arguments:?} ended with {status}");
    }

    /// Starts the program under callgrind.
    fn count(&self, arguments: &[&str], input: impl Into<Stdio>) -> Counted {
        let log = self.folder.path().join("callgrind.log");
        let valgrind = PathBuf::from("valgrind");
        let mut command = self.command(&valgrind);
        command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
        command.arg(format!("--log-file={}", log.display())).arg(&self.program).args(arguments);
        Counted { child: command.stdin(input).stdout(Stdio::piped()).spawn().unwrap(), log }
    }

    /// A daemon in an empty home, from its start until it leaves after `work`.
    fn daemon(&self, work: impl FnOnce()) -> u64 {
        drop(fs::remove_dir_all(self.folder.path().join("h")));
        let counted = self.count(&["daemon", "run"], Stdio::null());
        let ready = counted.child.stdout.as_ref().unwrap();
        // It says a line when it serves.
        poll(&mut [PollFd::new(ready, PollFlags::IN)], None).unwrap();
        work();
        self.ringback(&["daemon", "stop"]);
        let instructions = counted.finish();
        // What it left running is ended by one that nobody counts.
        self.ringback(&["session", "end", "budget"]);
        self.ringback(&["daemon", "stop"]);
        instructions
    }

    /// An MCP server that is asked this often for a task.
    fn mcp(&self, calls: u64) -> u64 {
        let greeting = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "budget", "version": "0"}});
        let call = json!({"name": "run", "arguments": {"command": "sleep 1000", "wait_ms": 0}});
        let mut messages = vec![
            json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": greeting}),
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        ];
        messages
            .extend((1..=calls).map(|id| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": call})));
        let lines: String = messages.iter().flat_map(|message| [message.to_string(), "\n".to_owned()]).collect();
        let input = self.folder.path().join("calls.jsonl");
        fs::write(&input, lines).unwrap();
        self.ringback(&["stats"]);
        // As with a client: over pipes.
        let (ours, theirs) = std::io::pipe().unwrap();
        let counted = self.count(&["mcp"], ours);
        let writer = std::thread::spawn(move || std::io::copy(&mut File::open(&input).unwrap(), &mut { theirs }));
        let instructions = counted.finish();
        writer.join().unwrap().unwrap();
        self.ringback(&["session", "end", "budget"]);
        self.ringback(&["daemon", "stop"]);
        instructions
    }
}

/// A program that is being counted.
struct Counted {
    child: Child,
    log: PathBuf,
}

impl Counted {
    /// Waits for its end; the instructions that it executed itself.
    #[track_caller]
    fn finish(mut self) -> u64 {
        let mut said = String::new();
        std::io::Read::read_to_string(&mut self.child.stdout.take().unwrap(), &mut said).unwrap();
        let status = self.child.wait().unwrap();
        let log = fs::read_to_string(&self.log).unwrap();
        assert!(status.success(), "the counted program ended with {status}: {log}");
        let collected = log.lines().find_map(|line| line.split_once("Collected :")).unwrap();
        collected.1.trim().parse().unwrap()
    }
}

/// Nothing is over its budget; writes the budgets instead where that was asked for.
fn compare(build: &str, counts: &[Count]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/budgets.toml");
    let mut budgets: DocumentMut = fs::read_to_string(&path).unwrap().parse().unwrap();
    let bless = env::var_os("RINGBACK_BLESS").is_some();
    let mut over = Vec::new();
    for Count { what, instructions, margin } in counts {
        let budget = budgets[build].get(what).and_then(toml_edit::Item::as_integer).map_or(0, i64::unsigned_abs);
        println!("{what}: {instructions} instructions, budget {budget} + {margin} %");
        if bless {
            budgets[build][what] = value(instructions.cast_signed());
        } else if *instructions > budget + budget * margin / 100 {
            over.push(format!("{what}: {instructions} instructions, the budget is {budget} + {margin} %"));
        }
    }
    if bless {
        fs::write(&path, budgets.to_string()).unwrap();
    }
    assert!(over.is_empty(), "{build} build: {}; see the head of this test", over.join("; "));
}
