//! The stage of the demo: a home of its own, a daemon to kill, gates to hold tasks at, and a list of what held.

use std::env;
use std::ffi::CString;
use std::fs;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ringback_host::client::output::{Follow, Output, Turn};
use ringback_host::client::{Capture, Client, Launcher};
use ringback_host::home::Home;
use ringback_host::quantity::{duration_text, millis};
use ringback_host::wire::{ByteBuf, Caller, Command, Notice, Reply, Request, RunRequest, TaskObject};
use ringback_sys::pidfd::PidFd;
use ringback_sys::signals::SIGKILL;
use ringback_sys::watch::{For, poll};
use ringback_sys::{files, identity, process};

use super::super::door::{self, unexpected};
use crate::explain::Failure;
use crate::render::style::Tone;

/// The demo's session.
const SESSION: &str = "demo";
/// Nothing here takes this long, unless something is broken.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where the demo plays.
pub(super) struct Stage {
    folder: PathBuf,
    home: Home,
    launcher: Launcher,
    client: Option<Client>,
    since: Instant,
    aloud: bool,
    checks: Vec<(String, bool)>,
}

impl Stage {
    /// A fresh stage. `aloud` tells the story as it goes.
    pub(super) fn open(aloud: bool) -> Result<Self, Failure> {
        let base = env::var_os("TMPDIR").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
        let folder = base.join(format!("ringback-demo-{:016x}", process::random_u64()?));
        fs::DirBuilder::new().mode(0o700).create(&folder)?;
        let (home, program) = (Home::at(folder.join("home"))?, env::current_exe()?);
        let launcher = Launcher::program(program);
        let since = Instant::now();
        Ok(Self { folder, home, launcher, client: None, since, aloud, checks: Vec::new() })
    }

    /// Tells what happens next.
    pub(super) fn say(&self, text: &str) -> Result<(), Failure> {
        if !self.aloud {
            return Ok(());
        }
        let at = format!("{:>6}", duration_text(millis(self.since.elapsed())));
        door::out(&format!("{}  {text}\n", door::style().paint(Tone::Dim, &at)))
    }

    /// Notes whether something holds, and says it.
    pub(super) fn check(&mut self, what: &str, holds: bool) -> Result<(), Failure> {
        let (tone, word) = if holds { (Tone::Good, "ok") } else { (Tone::Bad, "NOT SO") };
        self.checks.push((what.to_owned(), holds));
        self.say(&format!("    {}: {what}", door::style().paint(tone, word)))
    }

    /// What was checked.
    pub(super) fn checks(&self) -> &[(String, bool)] {
        &self.checks
    }

    /// Whether everything held.
    pub(super) fn holds(&self) -> bool {
        !self.checks.is_empty() && self.checks.iter().all(|(_, held)| *held)
    }

    /// The last line.
    pub(super) fn say_verdict(&self) -> Result<(), Failure> {
        let held = self.checks.iter().filter(|(_, held)| *held).count();
        let verdict =
            if self.holds() { "every ending told once, nothing lost, nothing left" } else { "something does NOT hold" };
        let tone = if self.holds() { Tone::Good } else { Tone::Bad };
        let text = format!("{held} of {} checks hold: {verdict}", self.checks.len());
        door::out(&format!("\n{}\n", door::style().paint(tone, &text)))
    }

    /// A folder of the demo.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A connection; a daemon is started if none runs.
    pub(super) fn client(&mut self) -> Result<&mut Client, Failure> {
        if self.client.is_none() {
            self.client = Some(self.another_client()?);
        }
        self.client.as_mut().ok_or_else(unexpected)
    }

    fn another_client(&self) -> Result<Client, Failure> {
        let caller = Caller { session: SESSION.to_owned(), by: SESSION.to_owned() };
        Ok(Client::open_with(&self.home, caller, self.launcher.clone())?)
    }

    /// Starts a script under a name.
    pub(super) fn run(&mut self, name: &str, script: &str) -> Result<TaskObject, Failure> {
        let shell = vec![ByteBuf::from(*b"sh")];
        let command = Command::Script { text: ByteBuf::from(script.as_bytes()), shell };
        let capture = Capture { cwd: Some(self.folder.clone()), ..Capture::default() };
        let request = RunRequest { name: Some(name.to_owned()), ..capture.request(command)? };
        match self.client()?.call(Request::Run(Box::new(request)))? {
            Reply::Task { task, .. } => Ok(*task),
            _ => Err(unexpected()),
        }
    }

    /// The task as it is now.
    pub(super) fn show(&mut self, id: &str) -> Result<TaskObject, Failure> {
        match self.client()?.call(Request::Show { id: id.to_owned() })? {
            Reply::Task { task, .. } => Ok(*task),
            _ => Err(unexpected()),
        }
    }

    /// Asks for tasks, for example by waiting.
    pub(super) fn tasks(&mut self, request: Request) -> Result<Vec<TaskObject>, Failure> {
        match self.client()?.call(request)? {
            Reply::Tasks { tasks, .. } => Ok(tasks),
            _ => Err(unexpected()),
        }
    }

    /// What the session has not heard; acknowledges nothing.
    pub(super) fn inbox(&mut self) -> Result<Vec<Notice>, Failure> {
        match self.client()?.call(Request::Inbox { after: None, wait_ms: None, limit: 100 })? {
            Reply::Notices { notices, .. } => Ok(notices),
            _ => Err(unexpected()),
        }
    }

    /// Waits until the task's output has this many lines.
    pub(super) fn await_lines(&self, task: &TaskObject, count: usize) -> Result<(), Failure> {
        let mut follow = Follow::start(self.another_client()?, task)?;
        loop {
            if let Some(mut output) = Output::open(task)? {
                let length = output.len()?;
                let lines = output.read(0..length)?.split(|byte| *byte == b'\n').count();
                if lines > count {
                    return Ok(());
                }
            }
            if let Turn::Ended(ended) = follow.next(&[])? {
                return Err(broken(&format!("{} ended before its output was there: {}", ended.id, ended.state)));
            }
        }
    }

    /// Kills the daemon as a crash would, and sees that it is gone. Gives its pid.
    pub(super) fn kill_daemon(&mut self) -> Result<i32, Failure> {
        let pid = self.client()?.daemon_pid()?;
        let daemon = hold(pid)?;
        daemon.signal(SIGKILL)?;
        await_end(&daemon)?;
        self.client = None;
        Ok(pid)
    }

    /// A gate that a task waits at (`read x < gate`).
    pub(super) fn gate(&self, name: &str) -> Result<PathBuf, Failure> {
        let path = self.path(name);
        files::fifo(&path)?;
        Ok(path)
    }

    /// Lets the daemon go and takes the stage away.
    pub(super) fn close(&mut self, keep: bool) -> Result<(), Failure> {
        self.client = None;
        if let Ok(mut client) = self.another_client() {
            let all = Request::Kill { ids: Vec::new(), session: Some(SESSION.to_owned()), grace_ms: Some(0) };
            client.call(all)?;
            client.dismiss_daemon()?;
        }
        if keep {
            return self.say(&format!("its home is kept: {}", self.folder.display()));
        }
        Ok(fs::remove_dir_all(&self.folder)?)
    }
}

/// Everything that the task wrote.
pub(super) fn output_of(task: &TaskObject) -> Result<Vec<u8>, Failure> {
    let Some(mut output) = Output::open(task)? else { return Ok(Vec::new()) };
    let length = output.len()?;
    Ok(output.read(0..length)?)
}

/// Opens a gate: whoever reads it goes on.
pub(super) fn open_gate(path: &Path) -> Result<(), Failure> {
    Ok(fs::OpenOptions::new().write(true).open(path)?.write_all(b"go\n")?)
}

/// Takes hold of exactly this process.
pub(super) fn hold(pid: i32) -> Result<PidFd, Failure> {
    Ok(identity::who(pid).and_then(PidFd::open)?)
}

/// Waits until the process has ended.
pub(super) fn await_end(process: &PidFd) -> Result<(), Failure> {
    let ready = poll(&[(process.as_fd(), For::Read)], Some(PATIENCE))?;
    if ready == [true] { Ok(()) } else { Err(broken("a process that should have ended lives")) }
}

/// The processes that carry this task's cookie in their environment.
pub(super) fn alive_with_cookie(id: &str) -> Result<Vec<i32>, Failure> {
    let cookie = CString::new(format!("RINGBACK_ID={id}")).unwrap_or_default();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Ok(pid) = name.to_string_lossy().parse::<i32>() else { continue };
        // A process may end, or belong to somebody else, between two looks.
        let Ok(environment) =
            fs::read(Path::new("/proc").join(std::ffi::OsStr::from_bytes(name.as_bytes())).join("environ"))
        else {
            continue;
        };
        if environment.split(|byte| *byte == 0).any(|pair| pair == cookie.as_bytes()) {
            found.push(pid);
        }
    }
    Ok(found)
}

/// The failure of a demo that cannot go on.
pub(super) fn broken(what: &str) -> Failure {
    Failure::new("demo", what, Some("please report it with the output of `ringback doctor`".to_owned()))
}
