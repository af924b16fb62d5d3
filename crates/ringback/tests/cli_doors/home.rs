//! A private home with its own daemon, taken away with everything that runs in it.

use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use ringback_sys::pidfd::PidFd;
use ringback_sys::watch::{For, poll};
use ringback_sys::{identity, signals};
use serde_json::Value;

/// Nothing here takes this long unless it hangs.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Home {
    dir: tempfile::TempDir,
}

/// What a client said and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) code: Option<i32>,
}

impl Said {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

impl Home {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// A client that is ready to be started.
    pub(crate) fn client(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringback"));
        let path = std::env::var_os("PATH").unwrap_or_default();
        command.args(args).env_clear().env("PATH", path).env("HOME", self.dir.path());
        command.env("RINGBACK_HOME", self.dir.path().join("home")).current_dir(self.dir.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn say(&self, args: &[&str]) -> Said {
        self.client(args).output().unwrap().into()
    }

    /// Writes the config that a daemon of this home reads at its start.
    pub(crate) fn configure(&self, text: &str) {
        let folder = self.dir.path().join(".config/ringback");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("config.toml"), text).unwrap();
    }

    /// A path in the folder that clients stand in.
    pub(crate) fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    /// The unheard notices; waits for a first one.
    pub(crate) fn notices(&self) -> Vec<Value> {
        let said = self.say(&["inbox", "--json", "--wait", "30s"]).json();
        said["notices"].as_array().unwrap().clone()
    }

    /// A FIFO in the folder that clients stand in: a command that reads from it waits for the test. One for each read: what is
    /// written while an earlier reader has not yet closed is lost with it.
    pub(crate) fn gate(&self, name: &str) -> std::path::PathBuf {
        let path = self.path(name);
        ringback_sys::files::fifo(&path).unwrap();
        path
    }

    /// Starts a task and gives its id.
    pub(crate) fn run(&self, args: &[&str]) -> String {
        let said = self.say(&[&["run", "-q"], args].concat());
        assert_eq!(said.code, Some(0), "{said:?}");
        said.out.trim().to_owned()
    }

    /// Runs a script to its end and gives its id; nobody has heard of it.
    pub(crate) fn ended(&self, args: &[&str]) -> String {
        let id = self.run(args);
        self.say(&["wait", "-s", "onlooker", &id]);
        id
    }

    /// Kills the keeper of a task as a crash would.
    pub(crate) fn kill_keeper(&self, id: &str) {
        let folder = self.path("home").join("t").join(&id[..2]).join(id);
        let record = ringback_sys::task_files::read_state(&folder).unwrap().unwrap();
        let keeper = PidFd::open(record.keeper).unwrap();
        keeper.signal(signals::SIGKILL).unwrap();
        assert_eq!(poll(&[(keeper.as_fd(), For::Read)], Some(PATIENCE)).unwrap(), [true]);
    }

    /// Kills the daemon as a crash would.
    pub(crate) fn kill_daemon(&self) {
        let status = self.say(&["daemon", "status", "--json"]).json();
        let pid = i32::try_from(status["pid"].as_i64().unwrap()).unwrap();
        let daemon = identity::who(pid).and_then(PidFd::open).unwrap();
        daemon.signal(signals::SIGKILL).unwrap();
        assert_eq!(poll(&[(daemon.as_fd(), For::Read)], Some(PATIENCE)).unwrap(), [true]);
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        for session in ["default", "s1", "onlooker"] {
            self.say(&["kill", "-s", session, "--now"]);
        }
        self.say(&["daemon", "stop"]);
    }
}

/// What seq(1) prints.
pub(crate) fn seq(last: u32) -> String {
    let lines: Vec<String> = (1..=last).map(|number| number.to_string()).collect();
    lines.join("\n") + "\n"
}

/// A client that runs, read line by line.
pub(crate) struct Running {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, out }
    }

    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line
    }

    pub(crate) fn press_ctrl_c(&self) {
        let pid = i32::try_from(self.child.id()).unwrap();
        identity::who(pid).and_then(PidFd::open).unwrap().signal(signals::SIGINT).unwrap();
    }

    /// Everything that is still said, and the exit code.
    pub(crate) fn end(mut self) -> Said {
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        let mut said: Said = self.child.wait_with_output().unwrap().into();
        said.out = rest;
        said
    }
}
