//! The spool through the real program: requests in, records out, whatever dies in between.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use ringback_sys::watch::{FolderWatch, For, poll};
use serde_json::{Value, json};

/// No wait of a test may take longer.
const HANG: Duration = Duration::from_secs(40);

struct World {
    root: tempfile::TempDir,
}

/// A server, stopped with the test.
struct Server {
    child: Child,
}

impl Drop for Server {
    fn drop(&mut self) {
        // Its own child: not yet waited for, so the number is still its own.
        let _gone = self.child.kill();
        let _status = self.child.wait();
    }
}

impl Server {
    fn signal(&mut self, signal: &str) -> i32 {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{signal}"), &pid]).status().unwrap().success());
        self.child.wait().unwrap().code().unwrap_or(-1)
    }

    /// Reads what it says up to a line with these words.
    fn until_said(&mut self, words: &str) {
        let mut lines = BufReader::new(self.child.stderr.take().unwrap()).lines();
        assert!(lines.by_ref().any(|line| line.unwrap().contains(words)), "it never said `{words}`");
        // What it says later must not meet a closed pipe.
        std::thread::spawn(move || lines.for_each(drop));
    }
}

impl World {
    fn new() -> Self {
        let root = tempfile::Builder::new().prefix("rbspool").tempdir().unwrap();
        fs::create_dir(root.path().join("dir")).unwrap();
        fs::set_permissions(root.path().join("dir"), fs::Permissions::from_mode(0o700)).unwrap();
        Self { root }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn dir(&self, name: &str) -> PathBuf {
        self.path("dir").join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringback"));
        command.args(args).env("RINGBACK_HOME", self.path("home")).env("XDG_CONFIG_HOME", self.path("config"));
        for name in
            ["RINGBACK_SESSION", "RINGBACK_ID", "CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID", "GEMINI_SESSION_ID"]
        {
            command.env_remove(name);
        }
        command.stdin(Stdio::null()).current_dir(self.root.path());
        command
    }

    fn json(&self, args: &[&str]) -> Value {
        let out = self.command(args).output().unwrap();
        assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
        serde_json::from_slice(&out.stdout).unwrap()
    }

    fn spawn(&self, options: &[&str]) -> Server {
        let dir = self.path("dir");
        let mut args = vec!["spool", dir.to_str().unwrap()];
        args.extend(options);
        let child = self.command(&args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        Server { child }
    }

    fn serve(&self, options: &[&str]) -> Server {
        let mut server = self.spawn(options);
        server.until_said("serving");
        server
    }

    /// Hands a request in as it should be: written beside, then renamed.
    fn submit(&self, id: &str, request: &Value) {
        fs::write(self.dir(".new"), request.to_string()).unwrap();
        fs::rename(self.dir(".new"), self.dir(&format!("{id}.json"))).unwrap();
    }

    fn ask(&self, id: &str, cmd: &str) {
        self.submit(id, &json!({ "id": id, "cmd": cmd, "status": "pending" }));
    }

    /// Waits for a change in the folder until `found` finds something.
    #[track_caller]
    fn until<T>(&self, what: &str, found: impl Fn() -> Option<T>) -> T {
        let (arrivals, growth) = (FolderWatch::new().unwrap(), FolderWatch::new().unwrap());
        arrivals.arrivals(&self.path("dir")).unwrap();
        growth.growth(&self.path("dir")).unwrap();
        let end = Instant::now() + HANG;
        loop {
            if let Some(found) = found() {
                return found;
            }
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "never: {what}");
            poll(&[(arrivals.as_fd(), For::Read), (growth.as_fd(), For::Read)], Some(left)).unwrap();
            arrivals.read().unwrap();
            growth.read().unwrap();
        }
    }

    #[track_caller]
    fn until_status(&self, id: &str, status: &str) -> Value {
        self.until(&format!("{id} is {status}"), || {
            let record = read(&self.dir(&format!("{id}.json")))?;
            (record["status"] == status).then_some(record)
        })
    }

    #[track_caller]
    fn until_refused(&self, file: &str) -> Value {
        self.until(&format!("{file} is there"), || read(&self.dir(file)))
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.dir(name)).unwrap_or_default()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for session in ["spool", "agent"] {
            let _stopped = self.command(&["kill", "-s", session, "--grace", "0"]).output();
        }
        let _stopped = self.command(&["daemon", "stop"]).output();
    }
}

fn read(path: &Path) -> Option<Value> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

#[test]
fn a_request_becomes_a_task_and_its_file_the_record() {
    let world = World::new();
    world.submit("early", &json!({ "cmd": "true" }));
    let _server = world.serve(&[]);
    assert_eq!(world.until_status("early", "done")["exit_code"], 0);

    let request = json!({ "id": "a1", "cmd": "echo out; echo err >&2; exit 3", "timeout_secs": 60, "status": "pending",
        "created_at": 1_700_000_000, "note": { "kept": true } });
    world.submit("a1", &request);
    let record = world.until_status("a1", "done");
    assert_eq!(
        (&record["exit_code"], &record["stdout_tail"], &record["stderr_tail"]),
        (&json!(3), &json!("out\n"), &json!("err\n"))
    );
    assert_eq!((&record["created_at"], &record["note"]), (&request["created_at"], &request["note"]));
    assert!(record["completed_at"].as_i64().unwrap() >= record["started_at"].as_i64().unwrap());
    assert_eq!((world.text("a1.out"), world.text("a1.err")), ("out\n".to_owned(), "err\n".to_owned()));
    assert_eq!(fs::metadata(world.dir("a1.json")).unwrap().permissions().mode() & 0o777, 0o600);

    let id = record["ringback"]["task"].as_str().unwrap();
    let task = world.json(&["show", id, "--json"]);
    assert_eq!(
        (&task["session"], &task["key"], &task["timeouts"]["wall_ms"]),
        (&json!("spool"), &json!("a1"), &json!(60_000))
    );
    // The next record is only written when the one before was acknowledged.
    world.ask("a2", "true");
    world.until_status("a2", "done");
    let unheard = world.json(&["inbox", "-s", "spool", "--json"]);
    assert!(unheard["notices"].as_array().unwrap().iter().all(|notice| notice["task"] != id), "{unheard}");
    assert!(world.command(&["rm", id]).output().unwrap().status.success());
    assert_eq!(world.text("a1.out"), "out\n", "the output stays when the task is removed");
}

#[test]
fn outputs_grow_while_it_runs_and_tails_are_short() {
    let world = World::new();
    let _server = world.serve(&[]);
    let gate = world.path("gate");
    assert!(Command::new("mkfifo").arg(&gate).status().unwrap().success());
    world.ask("grow", &format!("echo one; read x < {}; yes ü | head -c 20000; echo two >&2", gate.display()));
    world.until("the first line", || (world.text("grow.out") == "one\n").then_some(()));
    let record = read(&world.dir("grow.json")).unwrap();
    assert_eq!((&record["status"], record.get("exit_code")), (&json!("running"), None));
    fs::write(&gate, "go\n").unwrap();
    let record = world.until_status("grow", "done");
    assert_eq!(record["stderr_tail"], "two\n");
    assert_eq!((world.text("grow.out").len(), &record["ringback"]["stdout_bytes"]), (20_004, &json!(20_004)));
    let tail = record["stdout_tail"].as_str().unwrap();
    assert!(tail.len() <= 4096 && tail.len() > 4000 && !tail.contains('\u{fffd}'), "{}", tail.len());
}

#[test]
fn every_kind_of_ending_has_its_status() {
    let world = World::new();
    let _server = world.serve(&[]);
    world.submit("late", &json!({ "cmd": "echo before; exec sleep 600", "timeout_secs": 1 }));
    world.ask("shot", "kill -SEGV $$");
    world.submit("nowhere", &json!({ "cmd": "true", "cwd": "/surely/not/here" }));
    world.ask("unwanted", "echo up; exec sleep 600");
    world.until("it runs", || (world.text("unwanted.out") == "up\n").then_some(()));
    fs::write(world.dir("unwanted.stop"), "").unwrap();

    let stopped = world.until_status("unwanted", "interrupted");
    assert_eq!((&stopped["ringback"]["state"], stopped.get("exit_code")), (&json!("killed"), None));
    assert!(!world.dir("unwanted.stop").exists());
    let late = world.until_status("late", "timed_out");
    assert_eq!((&late["stdout_tail"], late.get("exit_code")), (&json!("before\n"), None));
    let shot = world.until_status("shot", "done");
    assert_eq!((&shot["ringback"]["signal"], shot.get("exit_code")), (&json!("SIGSEGV"), None));
    let nowhere = world.until_status("nowhere", "done");
    assert_eq!((&nowhere["ringback"]["reason"], nowhere.get("exit_code")), (&json!("cwd_missing"), None));
}

#[test]
fn a_grandchild_that_holds_the_pipe_delays_no_record() {
    let world = World::new();
    let _server = world.serve(&[]);
    world.ask("holder", "sleep 600 & echo done");
    assert_eq!(world.until_status("holder", "done")["stdout_tail"], "done\n");
}

#[test]
fn a_half_written_request_is_waited_for_and_a_broken_one_refused() {
    let world = World::new();
    let _server = world.serve(&[]);
    let mut slow = fs::File::create(world.dir("slow.json")).unwrap();
    slow.write_all(br#"{"id": "slow", "cmd": "echo sl"#).unwrap();
    world.ask("other", "true");
    world.until_status("other", "done");
    assert!(!world.dir("slow.error").exists());
    slow.write_all(br#"ow", "status": "pending"}"#).unwrap();
    drop(slow);
    assert_eq!(world.until_status("slow", "done")["stdout_tail"], "slow\n");

    fs::write(world.dir("broken.json"), r#"{"id": "broken", "#).unwrap();
    let refusal = world.until_refused("broken.error");
    assert!(refusal["error"].as_str().unwrap().contains("JSON") && refusal["hint"].is_string(), "{refusal}");
    world.ask("broken", "echo mended");
    assert_eq!(world.until_status("broken", "done")["stdout_tail"], "mended\n");
    assert!(!world.dir("broken.error").exists());

    world.submit("empty", &json!({ "id": "empty", "cmd": "", "status": "pending" }));
    assert!(world.until_status("empty", "interrupted")["error"].as_str().unwrap().contains("cmd"));
    let rounded = r#"{"id":"long","cmd":"true","note":123456789012345678901}"#;
    fs::write(world.dir(".new"), rounded).unwrap();
    fs::rename(world.dir(".new"), world.dir("long.json")).unwrap();
    let refusal = world.until_status("long", "interrupted");
    assert!(refusal["error"].as_str().unwrap().contains("123456789012345678901 would be rounded"), "{refusal}");
}

#[test]
fn hostile_names_links_and_sizes_are_refused_and_touch_nothing() {
    let world = World::new();
    let outside = world.path("outside.json");
    fs::write(&outside, r#"{"cmd":"echo followed","status":"pending"}"#).unwrap();
    symlink(&outside, world.dir("link.json")).unwrap();
    fs::create_dir(world.dir("folder.json")).unwrap();
    assert!(Command::new("mkfifo").arg(world.dir("pipe.json")).status().unwrap().success());
    fs::write(world.dir("huge.json"), vec![b' '; 2 << 20]).unwrap();
    for bad in ["-rf.json", "a b.json", "esc\u{1b}[2J.json", "new\nline.json", &format!("{}.json", "x".repeat(240))] {
        fs::write(world.dir(bad), r#"{"cmd":"true","status":"pending"}"#).unwrap();
    }
    let _server = world.serve(&[]);
    world.submit("climb", &json!({ "id": "../outside", "cmd": "true", "status": "pending" }));
    for refused in ["link.error", "folder.error", "pipe.error", "huge.error", "climb.error"] {
        assert!(world.until_refused(refused)["error"].is_string(), "{refused}");
    }
    let names: Vec<String> = fs::read_dir(world.path("dir"))
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
        .filter(|name| name.starts_with("refused-"))
        .collect();
    assert_eq!(names.len(), 5, "{names:?}");
    let text = fs::read_to_string(&outside).unwrap();
    assert!(text.contains("pending") && !world.path("outside.out").exists(), "{text}");
    assert_eq!(world.json(&["ps", "-a", "-s", "spool", "--json"])["tasks"], json!([]));
}

#[test]
fn outputs_are_never_written_through_a_planted_link() {
    let world = World::new();
    let _server = world.serve(&[]);
    let precious = world.path("precious");
    fs::write(&precious, "mine").unwrap();
    for name in ["planted.out", "planted.err"] {
        symlink(&precious, world.dir(name)).unwrap();
    }
    world.ask("planted", "echo over; echo over >&2");
    world.until_status("planted", "done");
    assert_eq!(fs::read_to_string(&precious).unwrap(), "mine");
    assert_eq!(world.text("planted.out"), "over\n");
}

#[test]
fn a_fault_that_passes_puts_a_request_off_and_does_not_refuse_it() {
    let world = World::new();
    let mut server = world.spawn(&[]);
    world.ask("first", "true");
    world.until_status("first", "done");
    // The daemon can make no folder for a task.
    fs::rename(world.path("home/t"), world.path("home/aside")).unwrap();
    fs::write(world.path("home/t"), "").unwrap();
    world.ask("second", "echo at last");
    server.until_said("is tried again");
    assert_eq!(read(&world.dir("second.json")).unwrap()["status"], "pending");
    fs::remove_file(world.path("home/t")).unwrap();
    fs::rename(world.path("home/aside"), world.path("home/t")).unwrap();
    assert_eq!(world.until_status("second", "done")["stdout_tail"], "at last\n");
    assert!(!world.dir("second.error").exists());
}

#[test]
fn a_folder_of_others_is_served_only_on_demand() {
    let world = World::new();
    fs::set_permissions(world.path("dir"), fs::Permissions::from_mode(0o777)).unwrap();
    let out = world.command(&["spool", world.path("dir").to_str().unwrap()]).output().unwrap();
    let told = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(
        out.status.code() == Some(125) && told.contains("written to by other") && told.contains("--shared"),
        "{told}"
    );
    let _server = world.serve(&["--shared"]);
    world.ask("ok", "true");
    world.until_status("ok", "done");
}

#[test]
fn two_servers_on_one_folder_run_each_request_once_though_one_is_killed() {
    let world = World::new();
    let mut first = world.serve(&[]);
    let mut second = world.spawn(&[]);
    second.until_said("standing by");
    let marks = world.path("marks");
    for n in 0..40 {
        world.ask(&format!("r{n:02}"), &format!("echo r{n:02} >> {}; exec sleep 0.{}", marks.display(), n % 4));
        if n == 20 {
            world.until("some have begun", || {
                read(&world.dir("r05.json")).filter(|record| record["status"] != "pending")
            });
            first.signal("KILL");
        }
    }
    for n in 0..40 {
        let record = world.until_status(&format!("r{n:02}"), "done");
        assert_eq!(record["exit_code"], 0, "{record}");
    }
    let text = fs::read_to_string(&marks).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, (0..40).map(|n| format!("r{n:02}")).collect::<Vec<_>>());
    let left = fs::read_dir(world.path("dir")).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(!left.into_iter().any(|name| name.to_string_lossy().ends_with(".claim")), "a claim is left");
}

#[test]
fn a_death_between_claim_and_record_starts_nothing_twice() {
    let world = World::new();
    let claim = "0123456789abcdef";
    let marks = world.path("marks");
    let cmd = format!("echo ran >> {}", marks.display());
    // As a server leaves it that dies after it has asked for the task.
    let binding = json!({ "spool": claim }).to_string();
    let run = ["run", "--wait", "-s", "spool", "--split", "--key", "died", "--binding", &binding, "-c", &cmd];
    assert!(world.command(&run).output().unwrap().status.success());
    fs::write(world.dir(".died.claim"), claim).unwrap();
    world.ask("died", &cmd);
    // And as one that dies before.
    fs::write(world.dir(".early.claim"), "fedcba9876543210").unwrap();
    world.ask("early", &cmd);
    fs::write(world.dir(".torn.claim"), "fedc").unwrap();
    world.ask("torn", &cmd);
    let _server = world.serve(&[]);
    for id in ["died", "early", "torn"] {
        assert_eq!(world.until_status(id, "done")["exit_code"], 0);
    }
    assert_eq!(fs::read_to_string(&marks).unwrap(), "ran\n".repeat(3));
}

#[test]
fn a_stopped_server_leaves_its_tasks_and_the_next_takes_them_up() {
    let world = World::new();
    let gate = world.path("gate");
    assert!(Command::new("mkfifo").arg(&gate).status().unwrap().success());
    let mut server = world.serve(&[]);
    world.ask("long", &format!("echo one; read x < {}; echo two; exit 7", gate.display()));
    world.ask("short", "echo first; sleep 0.2; echo last");
    world.until("the first line", || (world.text("long.out") == "one\n").then_some(()));
    world.until("the other's", || world.text("short.out").starts_with("first").then_some(()));
    assert_eq!(server.signal("TERM"), 0);
    let task = read(&world.dir("short.json")).unwrap()["ringback"]["task"].as_str().unwrap().to_owned();
    world.json(&["wait", &task, "--json", "-s", "onlooker"]);
    let status = world.json(&["daemon", "status", "--json"]);
    assert!(Command::new("kill").args(["-KILL", &status["pid"].to_string()]).status().unwrap().success());

    let _server = world.serve(&[]);
    assert_eq!(world.until_status("short", "done")["exit_code"], 0);
    assert_eq!(world.text("short.out"), "first\nlast\n");
    assert_eq!(read(&world.dir("long.json")).unwrap()["status"], "running");
    fs::write(&gate, "go\n").unwrap();
    let record = world.until_status("long", "done");
    assert_eq!((&record["exit_code"], world.text("long.out")), (&json!(7), "one\ntwo\n".to_owned()));
}

/// Sets the times of a file or folder, in seconds since 1970.
fn set_times(path: &Path, seconds: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    let times = fs::FileTimes::new().set_accessed(time).set_modified(time);
    fs::File::open(path).unwrap().set_times(times).unwrap();
}

#[test]
fn clocks_that_jump_change_nothing() {
    const LONG_AGO: u64 = 5;
    const FAR_AHEAD: u64 = 4_000_000_000;
    let world = World::new();
    let (gate, marks) = (world.path("gate"), world.path("marks"));
    assert!(Command::new("mkfifo").arg(&gate).status().unwrap().success());
    let cmd = format!("echo x >> {}; echo one; read x < {}; echo two; exit 6", marks.display(), gate.display());
    // Asked for by clocks that do not agree, with folders and files of other times than ours.
    world.submit("long", &json!({ "cmd": cmd, "created_at": FAR_AHEAD }));
    set_times(&world.dir("long.json"), FAR_AHEAD);
    set_times(&world.path("dir"), FAR_AHEAD);
    let mut server = world.serve(&[]);
    world.until("the first line", || (world.text("long.out") == "one\n").then_some(()));
    for (n, seconds) in [LONG_AGO, FAR_AHEAD, 0].into_iter().enumerate() {
        let id = format!("n{n}");
        fs::write(world.dir(".new"), json!({ "cmd": "exit 3", "created_at": seconds }).to_string()).unwrap();
        set_times(&world.dir(".new"), seconds);
        set_times(&world.path("dir"), seconds);
        fs::rename(world.dir(".new"), world.dir(&format!("{id}.json"))).unwrap();
        let record = world.until_status(&id, "done");
        assert_eq!((&record["exit_code"], &record["created_at"]), (&json!(3), &json!(seconds)));
        assert!(record["completed_at"].as_u64().unwrap() >= record["started_at"].as_u64().unwrap(), "{record}");
    }
    // While it runs, time goes back and forth, and server after server finds it.
    for seconds in [LONG_AGO, FAR_AHEAD] {
        assert_eq!(server.signal("TERM"), 0);
        for name in ["long.json", "long.out", "long.err", "n0.json", "."] {
            set_times(&world.dir(name), seconds);
        }
        server = world.serve(&[]);
        world.ask(&format!("after{seconds}"), "true");
        world.until_status(&format!("after{seconds}"), "done");
        assert_eq!(read(&world.dir("long.json")).unwrap()["status"], "running");
    }
    fs::write(&gate, "go\n").unwrap();
    let record = world.until_status("long", "done");
    assert_eq!((&record["exit_code"], &record["created_at"]), (&json!(6), &json!(FAR_AHEAD)));
    assert_eq!((world.text("long.out").as_str(), fs::read_to_string(marks).unwrap().as_str()), ("one\ntwo\n", "x\n"));
    let task = world.json(&["show", record["ringback"]["task"].as_str().unwrap(), "--json"]);
    assert!(u128::from(task["duration_ms"].as_u64().unwrap()) < HANG.as_millis(), "{task}");
}

#[test]
fn a_running_record_without_its_task_is_interrupted_and_shows_nothing_of_others() {
    let world = World::new();
    let other =
        world.command(&["run", "--wait", "-q", "-s", "agent", "--split", "-c", "echo secret"]).output().unwrap();
    let other = String::from_utf8(other.stdout).unwrap().trim().to_owned();
    world.submit("orphan", &json!({ "id": "orphan", "cmd": "true", "status": "running", "started_at": 5 }));
    world.submit(
        "forged",
        &json!({ "id": "forged", "cmd": "true", "status": "running", "ringback": { "task": other } }),
    );
    world.submit(
        "gone",
        &json!({ "id": "gone", "cmd": "true", "status": "running", "ringback": { "task": "000000000000" } }),
    );
    let foreign =
        json!({ "id": "foreign", "cmd": "true", "status": "running", "ringback": { "task": other, "home": "/else" } });
    world.submit("foreign", &foreign);
    let _server = world.serve(&[]);
    for id in ["orphan", "forged", "gone"] {
        let record = world.until_status(id, "interrupted");
        assert!(record["completed_at"].is_i64() && record["error"].is_string(), "{record}");
        assert!(!world.dir(&format!("{id}.out")).exists());
    }
    assert_eq!(read(&world.dir("foreign.json")).unwrap(), foreign, "left to the server of its home");
}

#[test]
fn a_named_session_hears_of_the_end_in_its_inbox() {
    let world = World::new();
    let _server = world.serve(&["--session", "agent"]);
    world.ask("told", "exit 4");
    world.until_status("told", "done");
    let inbox = world.json(&["inbox", "-s", "agent", "--wait", "20s", "--json"]);
    assert_eq!((&inbox["notices"][0]["key"], &inbox["notices"][0]["exit_code"]), (&json!("told"), &json!(4)));
}
