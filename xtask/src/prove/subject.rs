//! ringback as its users reach it: the real program, in a home of its own.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::Pid;
use serde_json::Value;

use super::processes;

/// No call takes longer unless it hangs.
pub(crate) const HANG: Duration = Duration::from_secs(80);

/// A home, and a folder beside it for what commands say of themselves.
pub(crate) struct Subject {
    pub(crate) program: PathBuf,
    pub(crate) folder: tempfile::TempDir,
    /// Words before the program, for example of a tracer.
    pub(crate) wrapper: Vec<String>,
}

/// What a client printed and how it ended.
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Subject {
    pub(crate) fn new(program: &Path) -> Result<Self, String> {
        Self::of(tempfile::Builder::new().prefix("prove").tempdir(), program)
    }

    /// In memory, where the machine has such a place.
    pub(crate) fn in_memory(program: &Path) -> Result<Self, String> {
        let place = Path::new("/dev/shm");
        if !place.is_dir() {
            return Self::new(program);
        }
        Self::of(tempfile::Builder::new().prefix("prove").tempdir_in(place), program)
    }

    fn of(folder: std::io::Result<tempfile::TempDir>, program: &Path) -> Result<Self, String> {
        let folder = folder.map_err(|error| format!("cannot make a folder: {error}"))?;
        std::fs::create_dir(folder.path().join("oracle")).map_err(|error| format!("cannot make a folder: {error}"))?;
        Ok(Self { program: program.to_path_buf(), folder, wrapper: Vec::new() })
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// Where commands say what they did.
    pub(crate) fn oracle(&self) -> PathBuf {
        self.folder.path().join("oracle")
    }

    /// A client of this session, ready to be started; what it starts is marked.
    pub(crate) fn client(&self, session: &str, args: &[&str]) -> Command {
        let (first, rest) = match self.wrapper.split_first() {
            Some((first, rest)) => (first.into(), [rest, &[self.program.display().to_string()]].concat()),
            None => (self.program.clone(), Vec::new()),
        };
        let mut command = self.with_environment(first, session);
        command.args(rest).args(args);
        command
    }

    /// A program with the environment of a client of this session.
    pub(crate) fn with_environment(&self, program: PathBuf, session: &str) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.folder.path()).env("RINGBACK_HOME", self.home()).env("LANG", "C.UTF-8");
        command.env("RINGBACK_SESSION", session).env("PROVE_MARK", mark(session)).current_dir(self.folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a client to its end.
    pub(crate) fn say(&self, session: &str, args: &[&str]) -> Result<Said, String> {
        let child = self.client(session, args).spawn().map_err(|error| format!("cannot start a client: {error}"))?;
        finish(child).ok_or_else(|| format!("`ringback {}` hung for {HANG:?}", args.join(" ")))
    }

    /// One JSON document of a verb; asked again if a client or the daemon is killed meanwhile.
    pub(crate) fn document(&self, session: &str, args: &[&str]) -> Result<Value, String> {
        let mut last = String::new();
        for _ in 0..20 {
            let said = self.say(session, args)?;
            match serde_json::from_str(&said.out) {
                Ok(value) if said.code == Some(0) => return Ok(value),
                _ => last = format!("{:?} {} {}", said.code, said.out, said.err),
            }
        }
        Err(format!("`ringback {}`: {last}", args.join(" ")))
    }

    pub(crate) fn daemon(&self) -> Option<Pid> {
        processes::daemon(&self.home())
    }

    /// All tasks of a session, ended or not.
    pub(crate) fn tasks(&self, session: &str) -> Result<Vec<Value>, String> {
        let list = self.document("onlooker", &["ps", "-a", "--json", "-s", session, "--limit", "10000"])?;
        Ok(list["tasks"].as_array().cloned().unwrap_or_default())
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        if let Some(daemon) = self.daemon() {
            processes::kill(daemon, |_| true);
        }
        for (keeper, _) in processes::keepers(&self.home()) {
            processes::kill(keeper, |_| true);
        }
    }
}

/// The environment entry by which everything that a session started is found again.
pub(crate) fn mark(session: &str) -> String {
    format!("{session}-{}", std::process::id())
}

/// Waits for a client and all that it prints; nothing if it hangs.
pub(crate) fn finish(child: Child) -> Option<Said> {
    let pid = Pid::from_child(&child);
    let (done, waiting) = mpsc::channel();
    std::thread::spawn(move || done.send(child.wait_with_output()));
    let Ok(Ok(output)) = waiting.recv_timeout(HANG) else {
        processes::kill(pid, |_| true);
        return None;
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Some(Said { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) })
}
