//! A private home with its own daemon, and the few verbs with which a test speaks to it, all through the real binary.
//!
//! Nothing here sleeps and looks again: a test waits for a verb that blocks, a pidfd, or a FIFO that the command opens.

pub(crate) mod fifo;
pub(crate) mod machine;
pub(crate) mod model;
pub(crate) mod oracle;
pub(crate) mod stranger;
pub(crate) mod wire;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use ringback_sys::cgroup::Cgroups;
use serde_json::Value;

pub(crate) use fifo::Fifo;
pub(crate) use machine::Pid;

/// No client call and no wait of a test may take longer: a hang is a failure with a name, not a stuck suite.
pub(crate) const HANG: Duration = Duration::from_secs(40);
/// The session that owns the tasks of a test.
pub(crate) const MINE: &str = "mine";
/// A session that looks on: what it is shown does not count as heard.
pub(crate) const ONLOOKER: &str = "onlooker";

/// A private home. Dropping it kills whatever still runs of it.
pub(crate) struct World {
    dir: tempfile::TempDir,
    home: PathBuf,
    env: Vec<(OsString, OsString)>,
}

/// What a client printed and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    /// Exit code; a client that a signal ended has none.
    pub(crate) code: Option<i32>,
    /// The signal that ended it.
    pub(crate) signal: Option<i32>,
    /// stdout, raw.
    pub(crate) out: Vec<u8>,
    /// stderr, for people.
    pub(crate) err: String,
}

impl Said {
    fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            signal: output.status.signal(),
            out: output.stdout,
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// stdout as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.out).into_owned()
    }

    /// stdout as one JSON document.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.out).unwrap_or_else(|error| panic!("not one JSON document ({error}): {self:?}"))
    }

    /// The same, where the verb must have succeeded.
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert_eq!(self.code, Some(0), "{self:?}");
        self
    }
}

/// Waits for a client and what it prints up to end-of-file: a daemon that kept the client's stdout open is a hang.
#[track_caller]
pub(crate) fn finish(child: Child) -> Said {
    let pid = machine::pid_of(&child);
    let (done, waiting) = mpsc::channel();
    std::thread::spawn(move || done.send(child.wait_with_output()));
    if let Ok(output) = waiting.recv_timeout(HANG) {
        return Said::of(output.expect("the client's output"));
    }
    machine::kill(pid);
    panic!("the client {pid:?} hung for {HANG:?}, or somebody keeps its stdout open");
}

impl World {
    /// A new, empty home; no daemon runs yet.
    pub(crate) fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("rb").rand_bytes(6).tempdir().expect("a temporary folder");
        let home = dir.path().join("h");
        Self::with_home(dir, home)
    }

    /// A world whose home is this path.
    pub(crate) fn with_home(dir: tempfile::TempDir, home: PathBuf) -> Self {
        for folder in ["user", "work"] {
            std::fs::create_dir(dir.path().join(folder)).expect("a folder");
        }
        let env = vec![
            ("PATH".into(), std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into())),
            ("HOME".into(), dir.path().join("user").into()),
            ("LANG".into(), "C.UTF-8".into()),
            ("RINGBACK_HOME".into(), home.clone().into()),
            ("RINGBACK_SESSION".into(), MINE.into()),
        ];
        Self { dir, home, env }
    }

    /// A home for each layer that trees are held by here: by a subreaper alone, and where there can be one, in a cgroup.
    pub(crate) fn of_each_layer() -> Vec<(Self, &'static str)> {
        let plain = Self::new();
        plain.configure("cgroup = \"off\"\n");
        let other = Self::new();
        let mut worlds = vec![(plain, "subreaper")];
        if other.cgroups().is_some() {
            worlds.push((other, "cgroup"));
        }
        worlds
    }

    /// Where tasks of this home get their cgroups, if they can have any here.
    pub(crate) fn cgroups(&self) -> Option<Cgroups> {
        std::fs::create_dir_all(&self.home).expect("the home");
        Cgroups::find(&self.home).inspect_err(|error| eprintln!("no cgroups here: {error}")).ok()
    }

    /// Writes the config that a daemon of this home reads at its start.
    pub(crate) fn configure(&self, text: &str) {
        let folder = self.dir.path().join("user/.config/ringback");
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("config.toml"), text).expect("a config");
    }

    /// The home folder.
    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    /// A path in the folder that the clients stand in.
    pub(crate) fn work(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.path().join("work").join(name)
    }

    /// A client with these arguments, ready to be started.
    pub(crate) fn client<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        self.client_below(&[], args)
    }

    /// The same below these words, for example those of a sandbox.
    pub(crate) fn client_below<S: AsRef<OsStr>>(&self, words: &[&str], args: &[S]) -> Command {
        let mut command = self.command(&[words, &[env!("CARGO_BIN_EXE_ringback")]].concat());
        command.args(args);
        command
    }

    /// Any command where a client would be: with its environment, folder and stdio.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, words: &[S]) -> Command {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).env_clear().envs(self.env.iter().map(|(k, v)| (k, v)));
        command.current_dir(self.work("")).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// A client of the session that looks on.
    pub(crate) fn onlooker<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        let mut command = self.client(args);
        command.env("RINGBACK_SESSION", ONLOOKER);
        command
    }

    /// Runs a client to its end.
    #[track_caller]
    pub(crate) fn rb<S: AsRef<OsStr>>(&self, args: &[S]) -> Said {
        finish(self.client(args).spawn().expect("a client"))
    }

    /// Runs a client of the onlooker to its end.
    #[track_caller]
    pub(crate) fn look<S: AsRef<OsStr>>(&self, args: &[S]) -> Said {
        finish(self.onlooker(args).spawn().expect("a client"))
    }

    /// `run` with these arguments; its id.
    #[track_caller]
    pub(crate) fn run<S: AsRef<OsStr>>(&self, args: &[S]) -> String {
        let mut all: Vec<&OsStr> = vec![OsStr::new("run")];
        all.extend(args.iter().map(AsRef::as_ref));
        id_of(&self.rb(&all).ok())
    }

    /// `run -c SCRIPT`; its id.
    #[track_caller]
    pub(crate) fn sh(&self, script: &str) -> String {
        self.run(&["-c", script])
    }

    /// The task object, as the onlooker sees it.
    #[track_caller]
    pub(crate) fn show(&self, id: &str) -> Value {
        self.look(&["show", id, "--json"]).ok().json()
    }

    /// Waits, as the onlooker, until the task ended; the task object.
    #[track_caller]
    pub(crate) fn end(&self, id: &str) -> Value {
        let said = self.look(&["wait", "--timeout", "30s", id]);
        assert!(said.signal.is_none(), "{said:?}");
        let task = self.show(id);
        let (keeper, tree) = (self.keeper(id), self.tree(id));
        assert!(has_ended(&task), "it never ends; keeper {keeper:?}, tree {tree:?}, {said:?}: {task:#}");
        task
    }

    /// `kill ID` by the onlooker, to whom it is no hearing; it returns when the tree is gone. The task object.
    #[track_caller]
    pub(crate) fn kill(&self, id: &str) -> Value {
        let said = self.look(&["kill", id]);
        assert_eq!(said.code, Some(0), "{said:?}");
        self.show(id)
    }

    /// All unheard notices of a session, in order, over all pages; nothing is acknowledged.
    #[track_caller]
    pub(crate) fn inbox(&self, session: &str) -> Vec<Value> {
        let page = self.rb(&["inbox", "-s", session, "--json", "--limit", "10000"]).ok().json();
        assert_eq!(page["schema"], 1, "{page:#}");
        assert_eq!(page["more"], false, "more than one page");
        page["notices"].as_array().expect("notices").clone()
    }

    /// The raw output of a task, from its file.
    #[track_caller]
    pub(crate) fn output(&self, id: &str) -> Vec<u8> {
        let task = self.show(id);
        let path = task["output"]["path"].as_str().expect("an output path").to_owned();
        std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// The folder of a task.
    pub(crate) fn folder(&self, id: &str) -> PathBuf {
        self.home.join("t").join(&id[..2]).join(id)
    }

    /// The folders of all tasks, also of those that are not recorded.
    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        let below =
            |folder: PathBuf| std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        below(self.home.join("t")).flat_map(below).collect()
    }

    /// The keeper that stands in the task's folder, if one does.
    pub(crate) fn keeper(&self, id: &str) -> Option<Pid> {
        machine::standing_in(&self.folder(id))
    }

    /// The living processes of a task, by its cookie.
    #[allow(clippy::unused_self, reason = "a task is one of this world's")]
    pub(crate) fn tree(&self, id: &str) -> Vec<Pid> {
        machine::with_environment(format!("RINGBACK_ID={id}").as_bytes())
    }

    /// The daemon of this home, if one runs.
    pub(crate) fn daemon(&self) -> Option<Pid> {
        machine::holder_of(&self.home.join("daemon.lock"))
    }

    /// Kills the daemon with SIGKILL and waits until it is gone.
    #[track_caller]
    pub(crate) fn kill_daemon(&self) {
        machine::kill(self.daemon().expect("a daemon"));
    }

    /// A FIFO of this name in the clients' folder.
    pub(crate) fn fifo(&self, name: &str) -> Fifo {
        Fifo::make(&self.work(name))
    }

    /// The daemon in the foreground, as a child of the test, once it answers; `None` if it ended before.
    pub(crate) fn start_daemon(&self, env: &[(&str, &str)]) -> Option<Child> {
        let log = std::fs::File::options().create(true).append(true).open(self.work("daemon.err")).expect("a log");
        let mut command = self.client(&["daemon", "run"]);
        command.envs(env.iter().copied()).stderr(log);
        let mut child = command.spawn().expect("a daemon");
        machine::until_listening(&mut child).then_some(child)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = std::fs::read(self.home.join("daemon.log")).unwrap_or_default();
            eprintln!("--- daemon.log of {}\n{}", self.home.display(), String::from_utf8_lossy(&log));
            let said = std::fs::read(self.work("daemon.err")).unwrap_or_default();
            eprintln!("--- what its daemons said\n{}", String::from_utf8_lossy(&said));
        }
        // The daemon first, so that nobody starts another keeper; then whoever carries our home in its environment or
        // stands in it, again until a look finds nobody (a respawner may have been faster).
        if let Some(daemon) = self.daemon() {
            machine::kill(daemon);
        }
        let mark = [b"RINGBACK_HOME=", self.home.as_os_str().as_bytes()].concat();
        for _ in 0..64 {
            let mut left = machine::with_environment(&mark);
            left.extend(machine::standing_below(&self.home));
            if left.is_empty() {
                break;
            }
            left.into_iter().for_each(machine::kill);
        }
        // A killed keeper leaves an empty one.
        if let Ok(cgroups) = Cgroups::find(&self.home) {
            let _ = cgroups.sweep(|_| false);
        }
    }
}

/// The id that `run` printed, which must be all that it printed.
#[track_caller]
pub(crate) fn id_of(said: &Said) -> String {
    let text = said.text();
    let id = text.strip_suffix('\n').unwrap_or_else(|| panic!("run prints one line: {said:?}"));
    let alphabet = "0123456789abcdefghjkmnpqrstvwxyz";
    assert!(id.len() == 12 && id.chars().all(|c| alphabet.contains(c)), "run prints an id alone: {said:?}");
    id.to_owned()
}

/// Whether a task object is that of an ended task.
pub(crate) fn has_ended(task: &Value) -> bool {
    !matches!(task["state"].as_str(), Some("queued" | "running") | None)
}

/// Milliseconds after 1970 of an RFC 3339 time in a task object.
#[track_caller]
pub(crate) fn millis(time: &Value) -> i64 {
    let text = time.as_str().unwrap_or_else(|| panic!("no time: {time}"));
    text.parse::<jiff::Timestamp>().unwrap_or_else(|error| panic!("{text}: {error}")).as_millisecond()
}

/// The notices about one task.
pub(crate) fn about<'a>(notices: &'a [Value], id: &str) -> Vec<&'a Value> {
    notices.iter().filter(|notice| notice["task"] == id).collect()
}
