//! What a row holds, and its translation from and to the core's words.

use ringback_core::id::TaskId;
use ringback_core::outcome::{Cause, Outcome, StartError, WaitStatus};
use ringback_core::task::Stop;
use ringback_core::watch::Stand;
use ringback_sys::form::record::Step;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use crate::limits::Limits;
use crate::wire::task::{LeftoverObject, ReceiptObject, TerminalSize, UsageObject};

/// One task.
#[derive(Clone, Debug)]
pub struct Row {
    /// Position in the order of asking.
    pub seq: u64,
    /// Its id.
    pub id: TaskId,
    /// Its session.
    pub session: String,
    /// `awaited`, `service` or `detached`.
    pub lease: String,
    /// Whether something of it may still live.
    pub live: bool,
    /// When it was asked for, milliseconds after 1970.
    pub created_ms: i64,
    /// What was asked.
    pub asked: Asked,
    /// How it ended, once it has.
    pub facts: Option<Facts>,
    /// The first stop that was asked for.
    pub stop: Option<StoredStop>,
    /// Where its watches stand.
    pub watch: StoredWatch,
    /// What it takes on the disk, once its tree is gone.
    pub disk_bytes: u64,
    /// Whether its output is in the database.
    pub packed: bool,
}

/// What was asked; never changed. The environment is in the task folder only.
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own, and none excludes another")]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Asked {
    /// A label for people.
    pub name: Option<String>,
    /// The caller's key.
    pub key: Option<String>,
    /// `reuse`, `replace` or `reject`.
    pub if_running: String,
    /// What runs.
    pub command: StoredCommand,
    /// Where.
    pub cwd: ByteBuf,
    /// Opaque JSON of the caller, as text.
    pub binding: Option<String>,
    /// How much the whole tree may use.
    pub limit: Limits,
    /// Where it may write; empty is everywhere.
    pub sandbox: String,
    /// Wall-clock limit, milliseconds.
    pub wall_ms: Option<u64>,
    /// Silence limit, milliseconds.
    pub idle_ms: Option<u64>,
    /// From TERM to KILL, milliseconds.
    pub grace_ms: u64,
    /// Cap of the output, bytes; 0 is none.
    pub output_max: u64,
    /// What happens at the cap: `head-tail`, `kill` or `stop-recording`; empty is the first.
    pub output_policy: String,
    /// stdin is a pipe or a terminal, to which can be sent.
    pub stdin: bool,
    /// stdio is a terminal of this size at first.
    pub pty: Option<TerminalSize>,
    /// stdout and stderr are told apart.
    pub split: bool,
    /// TERM goes to the main process only.
    pub term_main_only: bool,
    /// The command has a descriptor to report its progress to.
    pub progress_fd: bool,
    /// `keep`, `kill` or `wait`.
    pub leftovers: String,
    /// First and longest pause between notices of progress, milliseconds.
    pub progress: Option<(u64, u64)>,
    /// Regular expressions whose matching lines are told.
    pub watch: Vec<String>,
    /// Texts whose lines are told.
    pub watch_literal: Vec<String>,
    /// What says that it is ready.
    pub ready: Option<String>,
}

/// What runs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StoredCommand {
    /// Program and arguments, or the words of the shell.
    pub words: Vec<ByteBuf>,
    /// The script, if it is one; with `cut` its beginning, and the whole is in the task folder.
    pub script: Option<ByteBuf>,
    /// Whether `script` is not the whole.
    pub cut: bool,
}

/// How a task ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// The outcome.
    pub outcome: StoredOutcome,
    /// When the command started, milliseconds after 1970.
    pub started_ms: Option<i64>,
    /// When the main process ended.
    pub ended_ms: Option<i64>,
    /// By the monotonic clock, milliseconds.
    pub duration_ms: Option<u64>,
    /// The main process.
    pub pid: Option<i32>,
    /// Length of the output.
    pub output_bytes: u64,
    /// Whether no more can come.
    pub output_complete: bool,
    /// `[from, to, why]`.
    pub gaps: Vec<(u64, u64, String)>,
    /// Processes that outlived the main process.
    pub leftovers: Vec<LeftoverObject>,
    /// When each of them started, ticks after boot: a pid alone may be another's by now.
    pub leftover_starts: Vec<u64>,
    /// The receipt of the last stop.
    pub receipt: Option<ReceiptObject>,
    /// When each of its survivors started, ticks after boot, where that is known; 0 where it is not.
    pub survivor_starts: Vec<u64>,
    /// What it used, if its keeper saw its end.
    pub usage: Option<UsageObject>,
    /// How long it was stopped, milliseconds, if that was seen from start to end.
    pub paused_ms: Option<u64>,
    /// What held it back; nothing if it never started.
    pub held: Option<StoredHeld>,
    /// Whether it was closed, without a stop, by who cannot know that its tree is gone.
    pub unseen: bool,
}

/// What held a command back: what limited its tree (`cgroup`, `rlimit` or nothing), and its sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StoredHeld {
    /// Memory.
    pub mem_by: Option<String>,
    /// Processes.
    pub pids_by: Option<String>,
    /// CPU time.
    pub cpu_by: Option<String>,
    /// How many of its processes the kernel has killed for want of memory.
    pub oom_kills: u32,
    /// The version of Landlock that was put on it, 0 for none.
    pub landlock_abi: u32,
    /// Whether that is the whole sandbox that was asked for.
    pub sandboxed: bool,
    /// Why it is not.
    pub sandbox_errno: i32,
}

/// The outcome, as stored: words and numbers of the contract.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StoredOutcome {
    /// `exited`, …
    pub state: String,
    /// `oom`, `wall`, …
    pub reason: Option<String>,
    /// Who asked.
    pub by: Option<String>,
    /// The code it returned, if it returned.
    pub code: Option<i32>,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
    /// Whether it left a core.
    pub core: bool,
    /// The system's error of a failed start.
    pub errno: Option<i32>,
}

/// A stop that was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StoredStop {
    /// `request`, `session_end`, …
    pub cause: String,
    /// Who asked.
    pub by: Option<String>,
    /// From TERM to KILL, milliseconds.
    pub grace_ms: Option<u64>,
}

/// Where the watches of a task stand; see [`Stand`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StoredWatch {
    /// Up to here the output was searched.
    pub searched: u64,
    /// That is within a line that was told.
    pub within: bool,
    /// [`Stand::given`].
    pub given: u32,
    /// [`Stand::progress_at_ms`].
    pub progress_at_ms: u64,
    /// [`Stand::progress_offset`].
    pub progress_offset: u64,
    /// [`Stand::stalled_at`].
    pub stalled_at: Option<u64>,
    /// [`Stand::matches`].
    pub matches: u64,
    /// [`Stand::folds`].
    pub folds: u32,
    /// [`Stand::folded`].
    pub folded: u64,
    /// [`Stand::match_at_ms`].
    pub match_at_ms: u64,
    /// [`Stand::ready`].
    pub ready: bool,
    /// The last report of the command.
    pub report: Option<StoredReport>,
}

/// How far a command said that it is; see [`ringback_core::report::Report`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StoredReport {
    /// Hundredths done.
    pub percent: Option<u8>,
    /// In its own words.
    pub text: Option<String>,
}

impl StoredWatch {
    /// What is stored of this.
    pub fn new(stand: &Stand, (searched, within): (u64, bool)) -> Self {
        let Stand { given, progress_at_ms, progress_offset, stalled_at, matches, folds, folded, match_at_ms, ready } =
            *stand;
        Self {
            searched,
            within,
            given,
            progress_at_ms,
            progress_offset,
            stalled_at,
            matches,
            folds,
            folded,
            match_at_ms,
            ready,
            report: None,
        }
    }

    /// In the core's words.
    pub fn stand(&self) -> Stand {
        Stand {
            given: self.given,
            progress_at_ms: self.progress_at_ms,
            progress_offset: self.progress_offset,
            stalled_at: self.stalled_at,
            matches: self.matches,
            folds: self.folds,
            folded: self.folded,
            match_at_ms: self.match_at_ms,
            ready: self.ready,
        }
    }
}

const CAUSES: [Cause; 6] =
    [Cause::Wall, Cause::Idle, Cause::Request, Cause::SessionEnd, Cause::OutputLimit, Cause::Replaced];

impl From<&Stop> for StoredStop {
    fn from(stop: &Stop) -> Self {
        Self { cause: stop.cause.word().into(), by: stop.by.clone(), grace_ms: stop.grace_ms }
    }
}

impl StoredStop {
    /// The wish in the core's words; an unknown cause reads as a request.
    pub fn to_stop(&self) -> Stop {
        let cause = CAUSES.into_iter().find(|cause| cause.word() == self.cause).unwrap_or(Cause::Request);
        Stop { cause, by: self.by.clone(), grace_ms: self.grace_ms }
    }
}

impl From<&Outcome> for StoredOutcome {
    fn from(outcome: &Outcome) -> Self {
        let mut stored =
            Self { state: outcome.state().into(), reason: outcome.reason().map(str::to_owned), ..Self::default() };
        match outcome.real() {
            Some(WaitStatus::Exited(code)) => stored.code = Some(code),
            Some(WaitStatus::Signaled { signal, core }) => (stored.signal, stored.core) = (Some(signal), core),
            None => {}
        }
        match outcome {
            Outcome::Killed { by, .. } => stored.by.clone_from(by),
            Outcome::StartFailed { errno, .. } => stored.errno = Some(*errno).filter(|errno| *errno != 0),
            Outcome::Exited { .. } | Outcome::Signaled { .. } | Outcome::TimedOut { .. } | Outcome::Lost { .. } => {}
        }
        stored
    }
}

impl StoredOutcome {
    /// `exit_code` of the contract: only a process that returned by itself has one.
    pub fn exit_code(&self) -> Option<i32> {
        self.code.filter(|_| self.state == "exited")
    }

    /// `final_exit_code` of the contract: the code it chose after we had asked it to end.
    pub fn final_exit_code(&self) -> Option<i32> {
        self.code.filter(|_| self.state != "exited")
    }
}

/// What an errno of a failed start means; `step` is where it happened.
pub fn start_error(step: Step, errno: i32) -> StartError {
    // Numbers of asm-generic/errno-base.h; the same on every Linux.
    match (step, errno) {
        (Step::Cwd, _) => StartError::Cwd,
        (Step::Exec, 2 | 20) => StartError::NotFound,
        (Step::Exec, 1 | 13) => StartError::Permission,
        (Step::Exec, 8) => StartError::Format,
        // The keeper's word for a child that was gone before it came to its program.
        (Step::Fork, 4) => StartError::Killed,
        (Step::Sandbox, _) => StartError::Sandbox,
        (Step::Stdio, 17) => StartError::InTheWay,
        (_, 7) => StartError::TooLong,
        (_, 11 | 12 | 23 | 24) => StartError::Resources,
        (Step::Stdio, _) => StartError::Stdio,
        (Step::None | Step::Exec | Step::Fork | Step::Spec, _) => StartError::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_after_our_stop_is_final_and_never_the_exit_code() {
        let killed = Outcome::Killed { cause: Cause::Request, by: None, real: Some(WaitStatus::Exited(0)) };
        let stored = StoredOutcome::from(&killed);
        assert_eq!((stored.exit_code(), stored.final_exit_code()), (None, Some(0)));
        let exited = StoredOutcome::from(&Outcome::Exited { code: 7 });
        assert_eq!((exited.exit_code(), exited.final_exit_code()), (Some(7), None));
    }

    #[test]
    fn a_failed_start_is_called_what_it_was() {
        assert_eq!(start_error(Step::Exec, 2).word(), "not_found");
        assert_eq!(start_error(Step::Cwd, 2).word(), "cwd_missing");
        assert_eq!(start_error(Step::Stdio, 2).word(), "stdio");
        assert_eq!(start_error(Step::Stdio, 17).word(), "file_in_the_way");
        assert_eq!(start_error(Step::Fork, 11).word(), "resources");
        // The child was killed before its gate; nothing was wrong with stdin, stdout or stderr.
        assert_eq!(start_error(Step::Fork, 4).word(), "killed_before_start");
        assert_eq!(start_error(Step::Spec, 22).word(), "start_error");
    }

    #[test]
    fn a_stop_is_read_back_as_it_was_stored() {
        for cause in CAUSES {
            let stop = Stop { cause, by: Some("s".into()), grace_ms: Some(5) };
            assert_eq!(StoredStop::from(&stop).to_stop(), stop);
        }
    }
}
