//! The task object: what `show --json`, notices and every other door say of a task.

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;
use serde_json::Value;

/// The number of this shape, in every JSON document.
pub const SCHEMA: u32 = 1;

/// A task as everybody sees it. Times are RFC 3339 with milliseconds; durations are milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskObject {
    /// [`SCHEMA`].
    pub schema: u32,
    /// 12 characters.
    pub id: String,
    /// A label for people.
    pub name: Option<String>,
    /// The session that is told.
    pub session: String,
    /// `queued`, `running`, `exited`, `signaled`, `timed_out`, `killed`, `start_failed` or `lost`.
    pub state: String,
    /// Why it is in this state, where there is more to say.
    pub reason: Option<String>,
    /// Who ended it, for `killed`.
    pub by: Option<String>,
    /// 0–255 for `exited`, else nothing.
    pub exit_code: Option<i32>,
    /// The code it chose on TERM, for `killed` and `timed_out`.
    pub final_exit_code: Option<i32>,
    /// The signal that ended it, for example `SIGSEGV`.
    pub signal: Option<String>,
    /// Whether it left a core.
    pub core_dumped: bool,
    /// The system's error of a failed start.
    pub errno: Option<i32>,
    /// What runs.
    pub command: CommandObject,
    /// Where it runs.
    pub cwd: String,
    /// When it was asked for.
    pub created_at: String,
    /// When the command started.
    pub started_at: Option<String>,
    /// When its main process ended.
    pub ended_at: Option<String>,
    /// From start to end, or to now.
    pub duration_ms: Option<u64>,
    /// How long the main process was stopped (SIGSTOP and its like); nothing if nobody saw that from start to end.
    pub paused_ms: Option<u64>,
    /// The main process, once started.
    pub pid: Option<i32>,
    /// Its process group.
    pub process_group_id: Option<i32>,
    /// `awaited`, `service` or `detached`.
    pub lease: String,
    /// The caller's key.
    pub key: Option<String>,
    /// Opaque JSON of the caller.
    pub binding: Option<Value>,
    /// The limits in force.
    pub timeouts: TimeoutsObject,
    /// How much the whole tree may use, where that was limited.
    pub limits: Option<LimitsObject>,
    /// Where it may write, where that was limited.
    pub sandbox: Option<SandboxObject>,
    /// Where the output is.
    pub output: OutputObject,
    /// The present size of its terminal, where it has one.
    pub pty: Option<TerminalSize>,
    /// stdout alone, for a split task.
    pub stdout_path: Option<String>,
    /// stderr alone, for a split task.
    pub stderr_path: Option<String>,
    /// How long nothing was written, while it runs.
    pub silence_ms: Option<u64>,
    /// Whether it said that it is ready, where that was asked for.
    pub ready: Option<bool>,
    /// How many lines of output matched so far, where it is watched for some.
    pub matches: Option<u64>,
    /// How far it is, while it runs and where that is known.
    pub progress: Option<ProgressObject>,
    /// Processes of the tree that outlived the main process.
    pub leftovers: Vec<LeftoverObject>,
    /// The receipt of the last stop.
    pub cleanup: Option<ReceiptObject>,
    /// What it used, once ended; nothing if its keeper did not see the end.
    pub usage: Option<UsageObject>,
    /// Whether its keeper was killed, and nobody who came after it could see whether its tree is gone.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub end_unseen: bool,
}

/// What runs: `argv`, or `script` and `shell`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CommandObject {
    /// Program and arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argv: Option<Vec<String>>,
    /// The script.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// The words of the shell that runs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
    /// One line for people, quoted so that a shell would read it back.
    pub display: String,
}

/// How far a running task is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProgressObject {
    /// Hundredths done.
    pub percent: Option<u8>,
    /// In words.
    pub text: Option<String>,
    /// Who says so: `reported` (the command), `terminal` (the sequence OSC 9;4 in its output), `output` (the line it redraws)
    /// or `usual_duration`, which is an estimate from earlier runs of the same command.
    pub source: String,
    /// How long it usually takes, milliseconds, where that is what the estimate is from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usual_ms: Option<u64>,
}

impl ProgressObject {
    /// The command itself.
    pub const REPORTED: &str = "reported";
    /// An estimate.
    pub const USUAL_DURATION: &str = "usual_duration";
}

/// How large a terminal is, in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TerminalSize {
    /// Characters in a row.
    pub columns: u16,
    /// Rows.
    pub rows: u16,
}

impl TerminalSize {
    /// What a terminal has where nobody says (the DEC VT100's).
    pub const USUAL: Self = Self { columns: 80, rows: 24 };
}

/// Limits, milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TimeoutsObject {
    /// Wall clock.
    pub wall_ms: Option<u64>,
    /// Silence.
    pub idle_ms: Option<u64>,
    /// From TERM to KILL.
    pub grace_ms: u64,
}

/// How much a tree may use. In each limit `by` says what holds it once it has started: `cgroup` the whole tree, `rlimit` each
/// process (memory) or all processes of the user (processes), and nothing if nothing holds it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LimitsObject {
    /// Memory.
    pub mem: Option<MemLimitObject>,
    /// Processes and threads.
    pub pids: Option<PidsLimitObject>,
    /// CPU time.
    pub cpu: Option<CpuLimitObject>,
}

/// A limit of memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemLimitObject {
    /// How much.
    pub bytes: u64,
    /// What holds it.
    pub by: Option<String>,
    /// How many of its processes the kernel has killed for want of memory, where its cgroup counts them.
    pub oom_kills: Option<u32>,
}

/// A limit of processes and threads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PidsLimitObject {
    /// How many.
    pub max: u64,
    /// What holds it.
    pub by: Option<String>,
}

/// A limit of CPU time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuLimitObject {
    /// Hundredths of one processor.
    pub percent: u64,
    /// What holds it.
    pub by: Option<String>,
}

/// A sandbox.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SandboxObject {
    /// `ro` or `cwd`.
    pub mode: String,
    /// Whether all of it was in force before the command's first instruction; nothing before it has started.
    pub enforced: Option<bool>,
    /// The version of Landlock that was put on it.
    pub landlock_abi: Option<u32>,
    /// Why it is not enforced.
    pub reason: Option<String>,
}

/// The output on disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OutputObject {
    /// The raw bytes, append only. Empty, and null in JSON, once they are packed.
    #[serde(serialize_with = "packed::path")]
    pub path: String,
    /// When which bytes came.
    #[serde(serialize_with = "packed::path")]
    pub index_path: String,
    /// Whether the bytes are in the database instead, and what they are.
    #[serde(with = "packed")]
    pub packed: Packed,
    /// How many so far.
    pub bytes: u64,
    /// How many lines, where they were counted.
    pub lines: Option<u64>,
    /// `[from, to, why]` of bytes that are not there.
    pub gaps: Vec<(u64, u64, String)>,
    /// Its cap on disk; 0 where it has none, and from a daemon that does not say it.
    pub max_bytes: u64,
    /// What happens when it reaches its cap: `head-tail`, `kill` or `stop-recording`.
    pub policy: String,
    /// Whether no more can come.
    pub complete: bool,
    /// Processes that may still write, after the end.
    pub open_by: Vec<i32>,
    /// Hash of a complete output, where it was computed.
    pub sha256: Option<String>,
}

/// Whether an output is kept in the database. Its bytes go with the whole object of a task, and never into JSON.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Packed {
    /// Whether it is.
    pub is: bool,
    /// Output (nothing if there never was one) and index.
    pub bytes: Option<(Option<ByteBuf>, ByteBuf)>,
}

mod packed {
    //! On the wire everything, in JSON a word.

    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use super::Packed;

    pub(super) fn serialize<S: Serializer>(packed: &Packed, to: S) -> Result<S::Ok, S::Error> {
        if to.is_human_readable() { packed.is.serialize(to) } else { (packed.is, &packed.bytes).serialize(to) }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Packed, D::Error> {
        if from.is_human_readable() {
            return Ok(Packed { is: bool::deserialize(from)?, bytes: None });
        }
        let (is, bytes) = <_>::deserialize(from)?;
        Ok(Packed { is, bytes })
    }

    pub(super) fn path<S: Serializer>(path: &str, to: S) -> Result<S::Ok, S::Error> {
        if to.is_human_readable() && path.is_empty() { to.serialize_none() } else { to.serialize_str(path) }
    }
}

/// A process that outlived the main process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LeftoverObject {
    /// Process id.
    pub pid: i32,
    /// Its command line.
    pub command: String,
}

/// What a stop did to which processes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReceiptObject {
    /// `subreaper`, `cgroup` or `marks`.
    pub layer: String,
    /// Why it was stopped.
    pub reason: String,
    /// Signals sent.
    pub signals: Vec<String>,
    /// The processes seen.
    pub observed: Vec<ObservedObject>,
    /// How many in all.
    pub observed_count: u32,
    /// How many were waited for.
    pub reaped_count: u32,
    /// How many lived on.
    pub survivor_count: u32,
    /// Those.
    pub survivors: Vec<SurvivorObject>,
    /// How many scans it took.
    pub scans: u32,
    /// Whether nothing is left, as two scans in a row saw and nothing speaks against.
    pub verified_empty: bool,
    /// What speaks against it: `survivors`, `unfinished`, `keeper_died` or `cgroup_populated`.
    pub unverified_reason: Option<String>,
    /// From the first signal to the last scan.
    pub duration_ms: u64,
}

impl ReceiptObject {
    /// Whether both tell of one stop, whatever could be proved of it since.
    pub fn is_of_the_same_stop(&self, other: &Self) -> bool {
        let bare = |receipt: &Self| Self { verified_empty: false, unverified_reason: None, ..receipt.clone() };
        bare(self) == bare(other)
    }

    /// Whether whoever survived it is gone by now.
    pub fn is_outlived(&self) -> bool {
        let gone = self.survivors.iter().filter(|survivor| survivor.gone).count();
        u32::try_from(gone) == Ok(self.survivor_count)
    }
}

/// A process that a stop saw.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ObservedObject {
    /// Process id.
    pub pid: i32,
    /// Its parent when first seen.
    pub parent_pid: i32,
    /// Steps below the keeper.
    pub depth: u32,
    /// Its name.
    pub command: String,
    /// `exited`, `signaled`, `vanished` or `alive`.
    pub ended: String,
    /// The exit code or the signal, as text.
    pub how: Option<String>,
}

/// A process that a stop could not end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SurvivorObject {
    /// Process id.
    pub pid: i32,
    /// Its name.
    pub command: String,
    /// Why it lived on.
    pub why: String,
    /// Whether it has ended since, as seen when the task was asked for.
    pub gone: bool,
}

/// What a task used: the main process and the children it waited for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct UsageObject {
    /// User CPU time.
    pub user_ms: u64,
    /// System CPU time.
    pub system_ms: u64,
    /// Largest resident set.
    pub max_rss_bytes: u64,
}

impl TaskObject {
    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        !matches!(self.state.as_str(), "queued" | "running")
    }

    /// Whether somebody looked and saw that no process of it is left: a stop that left a receipt, or else the keeper of what ended by
    /// itself. What a stop saw may be without a proof ([`ReceiptObject::verified_empty`]), where the keeper had been killed.
    pub fn is_seen_gone(&self) -> bool {
        match &self.cleanup {
            _ if !self.has_ended() => false,
            Some(receipt) => receipt.is_outlived(),
            None => self.leftovers.is_empty() && !self.has_unseen_end(),
        }
    }

    /// Whether nobody saw its processes end, and no stop has looked for them since. A restart of the machine leaves none.
    pub fn has_unseen_end(&self) -> bool {
        let is_lost = self.state == "lost" && self.reason.as_deref() != Some("reboot");
        (is_lost || self.end_unseen) && self.cleanup.is_none()
    }
}
