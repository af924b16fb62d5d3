//! Programs with a command line that put a command into the background.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::super::measure::{pause, proc_kib, time};
use super::super::stage::Stage;
use super::find;
use crate::Done;
use crate::prove::processes;

/// How a peer is used.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The shell alone, which keeps nothing.
    Setsid,
    /// task-spooler, whose program is `tsp` in Debian.
    TaskSpooler,
    Nq,
    Pueue,
}

/// A peer that runs, with a folder of its own.
pub(crate) struct Peer {
    kind: Kind,
    dir: TempDir,
    daemon: Option<Child>,
}

/// Every peer that is installed, started. The others are named on stderr.
pub(crate) fn start_all(stage: &Stage) -> Done<Vec<Peer>> {
    let mut started = Vec::new();
    for (kind, program) in
        [(Kind::Setsid, "setsid"), (Kind::TaskSpooler, "tsp"), (Kind::Nq, "nq"), (Kind::Pueue, "pueued")]
    {
        if find(program).is_some() {
            started.push(Peer::start(kind, stage.folder()?)?);
        } else {
            eprintln!("  {program} is not installed (`--install-peers`): its peer is left out");
        }
    }
    Ok(started)
}

impl Peer {
    fn start(kind: Kind, dir: TempDir) -> Done<Self> {
        let mut peer = Self { kind, dir, daemon: None };
        match kind {
            Kind::Setsid | Kind::Nq => {}
            Kind::TaskSpooler => {
                time(peer.command("tsp").args(["-S", "64"]))?;
            }
            Kind::Pueue => {
                let config = "shared:\n  use_unix_socket: true\n  pueue_directory: DIR/data\n  runtime_directory: DIR\n\
                              client: {}\ndaemon: {}\n";
                let dir = peer.dir.path().to_string_lossy().into_owned();
                fs::write(peer.path("pueue.yml"), config.replace("DIR", &dir))?;
                let mut daemon = peer.command("pueued");
                daemon.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
                peer.daemon = Some(daemon.spawn()?);
                peer.until(|peer| time(peer.command("pueue").arg("status")).is_ok())?;
                time(peer.command("pueue").args(["parallel", "1000"]))?;
            }
        }
        Ok(peer)
    }

    pub(crate) fn name(&self) -> String {
        match self.kind {
            Kind::Setsid => "shell `setsid … &`",
            Kind::TaskSpooler => "task-spooler",
            Kind::Nq => "nq",
            Kind::Pueue => "pueue",
        }
        .to_owned()
    }

    /// How many tasks it can have at once: task-spooler has a client for each, and a limit on those; nq and the shell have
    /// nobody who would hold them.
    pub(crate) fn live_max(&self) -> usize {
        match self.kind {
            Kind::Setsid | Kind::Nq | Kind::TaskSpooler => 0,
            Kind::Pueue => 1_000,
        }
    }

    /// What its daemon has in memory, in MB; nothing where there is none.
    pub(crate) fn resident(&self) -> Done<Option<f64>> {
        let daemon = match (&self.daemon, self.kind) {
            (Some(daemon), _) => daemon.id().cast_signed(),
            // Its server and the clients that wait for a turn have one name; the server is the oldest.
            (None, Kind::TaskSpooler) => {
                let entry = format!("TS_SOCKET={}", self.path("socket").display());
                processes::marked(&entry).iter().map(|pid| pid.as_raw_nonzero().get()).min().ok_or("no task-spooler")?
            }
            (None, _) => return Ok(None),
        };
        Ok(Some(proc_kib(&format!("/proc/{daemon}/status"), "VmRSS")? / 1024.0))
    }

    /// How long a submission takes the one who submits.
    pub(crate) fn submit(&self, argv: &[&str]) -> Done<Duration> {
        let mut command = self.submission(argv);
        Ok(time(&mut command)?)
    }

    /// How long after `argv` wrote its stamp the waiter was back, in nanoseconds of the clock; nothing where it cannot wait.
    pub(crate) fn wait_for(&self, argv: &[&str]) -> Done<bool> {
        let answer = self.submission(argv).stdin(Stdio::null()).stderr(Stdio::null()).output()?;
        let id = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
        let mut wait = match self.kind {
            Kind::Setsid => return Ok(false),
            Kind::TaskSpooler => self.command("tsp"),
            Kind::Nq => self.command("nq"),
            Kind::Pueue => self.command("pueue"),
        };
        match self.kind {
            Kind::Pueue => wait.args(["wait", "--quiet", &id]),
            _ => wait.args(["-w", &id]),
        };
        wait.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        Ok(true)
    }

    /// Waits until this many ended tasks are recorded; false where nothing is recorded.
    pub(crate) fn until_recorded(&self, count: usize) -> Done<bool> {
        match self.kind {
            Kind::Setsid => return Ok(false),
            Kind::Nq => {
                self.command("nq").arg("-w").stdout(Stdio::null()).stderr(Stdio::null()).status()?;
            }
            Kind::TaskSpooler => self.until(|peer| peer.count("tsp", &[], "finished") >= count)?,
            Kind::Pueue => self.until(|peer| peer.count("pueue", &["status", "--json"], "\"Done\":") >= count)?,
        }
        Ok(true)
    }

    fn submission(&self, argv: &[&str]) -> Command {
        match self.kind {
            Kind::Setsid => {
                let mut command = self.command("/bin/sh");
                command.args(["-c", "setsid \"$@\" >/dev/null 2>&1 </dev/null & echo $!", "sh"]).args(argv);
                command
            }
            Kind::TaskSpooler => {
                let mut command = self.command("tsp");
                command.args(argv);
                command
            }
            Kind::Nq => {
                let mut command = self.command("nq");
                command.args(argv);
                command
            }
            Kind::Pueue => {
                let mut command = self.command("pueue");
                command.args(["add", "--print-task-id", "--"]).args(argv);
                command
            }
        }
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(find(program).unwrap_or_else(|| program.into()));
        command.env("TS_SOCKET", self.path("socket")).env("TMPDIR", self.dir.path()).env("TS_MAXFINISHED", "20000");
        command.env("NQDIR", self.dir.path()).env("PUEUE_CONFIG_PATH", self.path("pueue.yml"));
        command
    }

    fn count(&self, program: &str, arguments: &[&str], what: &str) -> usize {
        let answer = self.command(program).args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).output();
        answer.map_or(0, |answer| String::from_utf8_lossy(&answer.stdout).matches(what).count())
    }

    fn until(&self, holds: impl Fn(&Self) -> bool) -> Done {
        let begun = Instant::now();
        while !holds(self) {
            if begun.elapsed() > Duration::from_mins(5) {
                return Err(format!("{} was not ready after 300 s", self.name()).into());
            }
            pause(Duration::from_millis(20));
        }
        Ok(())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if self.kind == Kind::TaskSpooler {
            drop(time(self.command("tsp").arg("-K")));
        }
        if let Some(mut daemon) = self.daemon.take() {
            drop(daemon.kill());
            drop(daemon.wait());
        }
    }
}
