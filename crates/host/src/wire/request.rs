//! What a client may ask.

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use super::task::TerminalSize;
use crate::limits::Limits;

/// As the number to acknowledge up to: everything, whatever was given. Every store can hold it.
pub const ACK_ALL: u64 = i64::MAX as u64;

/// One frame from a client: who speaks, and what is asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Call {
    /// The client's protocol number.
    pub proto: u16,
    /// The client's version.
    pub version: String,
    /// Who asks.
    pub caller: Caller,
    /// What is asked.
    pub request: Request,
}

/// Who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Caller {
    /// The session the caller speaks for.
    pub session: String,
    /// Who is named as the cause of a stop: the session, or `person`.
    pub by: String,
}

/// A request. Each is answered by exactly one [`super::Answer`]; those marked *blocks* may take as long as they wait.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Start a command. → `Task`
    Run(Box<RunRequest>),
    /// Start a command as this command line of ours says, if that is plain and the daemon has our very version; else nothing is
    /// done. → `Said` or `OldWay`
    Spoken(Box<Spoken>),
    /// Start the command of an ended task again, as a new task of the caller's session. → `Task`
    Retry {
        /// Id or unique prefix.
        id: String,
    },
    /// List tasks, newest first. → `Tasks`
    List {
        /// Only this session; `None` is all sessions.
        session: Option<String>,
        /// Ended tasks too.
        ended: bool,
        /// Only tasks older than this position (`next` of the previous page).
        before: Option<u64>,
        /// At most this many.
        limit: u32,
    },
    /// One task. → `Task`
    Show {
        /// Id or unique prefix.
        id: String,
    },
    /// *Blocks* until the tasks have come that far, or ended. → `Tasks`
    Wait {
        /// Ids or unique prefixes.
        ids: Vec<String>,
        /// Return when the first of them has.
        any: bool,
        /// Return after this long in any case, milliseconds.
        timeout_ms: Option<u64>,
        /// How far they have to come.
        #[serde(default)]
        until: Until,
    },
    /// Stop tasks; *blocks* until their trees are gone. → `Tasks`
    Kill {
        /// Ids or unique prefixes; empty with `session`.
        ids: Vec<String>,
        /// All live tasks of this session.
        session: Option<String>,
        /// How long TERM may take, milliseconds; `None` is each task's own.
        grace_ms: Option<u64>,
    },
    /// Send one signal to the main process group; nothing is waited for. → `Tasks`
    Signal {
        /// Ids or unique prefixes.
        ids: Vec<String>,
        /// Signal number.
        signal: i32,
    },
    /// Write to the stdin or the terminal of a task; *blocks* while its pipe is full. → `Sent`
    Send {
        /// Id or unique prefix.
        id: String,
        /// What to write.
        data: ByteBuf,
        /// Close stdin afterwards; at a terminal, type what ends the input there (`^D`).
        eof: bool,
    },
    /// Give the terminal of a task this size. → `Tasks`
    Resize {
        /// Id or unique prefix.
        id: String,
        /// How large.
        size: TerminalSize,
    },
    /// Turn awaited tasks into services. → `Tasks`
    Release {
        /// Ids or unique prefixes.
        ids: Vec<String>,
    },
    /// Unheard notices of the caller's session, in order. *Blocks* with `wait_ms` until there is one. → `Notices`
    Inbox {
        /// First acknowledge everything up to this number, then return what is newer. Refused if no such number was given.
        after: Option<u64>,
        /// How long to wait for a first notice, milliseconds.
        wait_ms: Option<u64>,
        /// At most this many.
        limit: u32,
    },
    /// Unheard notices of the caller's session that are newer than one that is known; nothing is acknowledged. *Blocks* until
    /// there is one. → `Notices`
    News {
        /// Only those after this number.
        newer_than: u64,
        /// How long to wait for a first one, milliseconds.
        wait_ms: u64,
        /// At most this many.
        limit: u32,
    },
    /// Acknowledge notices of the caller's session. → `Acknowledged`
    Ack {
        /// Everything up to this number, which must have been given, or `ACK_ALL`.
        up_to: Option<u64>,
        /// These numbers.
        seqs: Vec<u64>,
        /// The notices of these tasks (ids or unique prefixes).
        tasks: Vec<String>,
        /// The endings of these tasks (full ids), which were shown to the session: those of its own count as heard.
        #[serde(default)]
        endings: Vec<String>,
    },
    /// Take unheard notices of the caller's session to speak of them: while the lease lasts nobody else is given them by a
    /// claim. One that was acknowledged is never given; one that was not is given to the next when the lease lapses.
    /// → `Claimed`
    Claim {
        /// Who will speak, for people; for example `claude-stop`.
        rung: String,
        /// A random number. Asked again with the same one, as after the death of a daemon, the answer is the same.
        word: u64,
        /// How long it holds, milliseconds; at most ten minutes.
        lease_ms: u64,
        /// Only notices of these tasks (ids or unique prefixes); none is all.
        #[serde(default)]
        tasks: Vec<String>,
        /// Only notices of these kinds; none is all.
        #[serde(default)]
        kinds: Vec<String>,
        /// At most this many.
        limit: u32,
        /// Of the named tasks that run: their endings too, once they come, for as long from then on. Forgotten by a daemon
        /// that dies, so who means it says it again.
        #[serde(default)]
        ahead: bool,
    },
    /// A command reports how far it is; the last report counts. → `Done`
    Report {
        /// Id or unique prefix.
        id: String,
        /// Hundredths done.
        percent: Option<u8>,
        /// In its own words.
        text: Option<String>,
    },
    /// *Blocks* until something has changed that a list shows: tasks, notices or reports. → `Changed`
    Changes {
        /// The number of the last answer; `None` is answered at once.
        since: Option<u64>,
    },
    /// End a session: stop its awaited and service tasks; *blocks* until they are gone. → `Tasks`
    SessionEnd {
        /// Which session.
        session: String,
    },
    /// End a session when this process exits. → `Session`
    SessionWatch {
        /// Which session.
        session: String,
        /// Which process.
        pid: i32,
    },
    /// End a session when this long passes without another lease. → `Session`
    SessionLease {
        /// Which session.
        session: String,
        /// How long, milliseconds; 0 takes the lease away.
        for_ms: u64,
    },
    /// All sessions that have live tasks, unheard notices, a watch or a lease. → `Sessions`
    Sessions,
    /// Forget ended tasks and delete their output. → `Removed`
    Remove {
        /// Ids or unique prefixes.
        ids: Vec<String>,
    },
    /// Forget ended tasks that nobody has still to hear of. → `Removed`
    Prune {
        /// Ended at least this long ago, milliseconds.
        older_than_ms: u64,
        /// Keep at least this many of the newest.
        keep: u32,
        /// Only say what would go.
        dry_run: bool,
    },
    /// Facts about the daemon. Works across any version. → `Status`
    Status,
    /// The daemon leaves; its tasks run on. Works across any version. → `Done`
    Stop,
}

/// How far a task has to come. One that has ended will not come further, and is waited for no longer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Until {
    /// It has ended.
    #[default]
    End,
    /// It is ready, as `ready` of its run says.
    Ready,
    /// A line of its output has matched.
    Match,
}

/// Everything that is captured of the caller when it asks for a task.
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own, and none excludes another")]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RunRequest {
    /// What to run.
    pub command: Command,
    /// A label for people.
    pub name: Option<String>,
    /// The session that is told; empty is the caller's.
    pub session: String,
    /// Absolute working directory.
    pub cwd: ByteBuf,
    /// The whole environment of the command, as `KEY=VALUE`.
    pub env: Vec<ByteBuf>,
    /// File mode creation mask.
    pub umask: u32,
    /// Nice value.
    pub nice: i32,
    /// Soft resource limits by number; empty leaves them as they are.
    pub limits: Vec<u64>,
    /// How much the whole tree may use.
    pub limit: Limits,
    /// Where it may write: `none`, `ro`, `cwd`, `ro-if-possible` or `cwd-if-possible`; empty is `none`.
    pub sandbox: String,
    /// Wall-clock limit, milliseconds.
    pub timeout_ms: Option<u64>,
    /// Silence limit, milliseconds.
    pub idle_timeout_ms: Option<u64>,
    /// How long TERM may take, milliseconds; `None` is the default.
    pub grace_ms: Option<u64>,
    /// Cap of the output on disk, bytes; `None` is the default, 0 is no cap.
    pub output_max: Option<u64>,
    /// What happens at that cap: `head-tail`, `kill` or `stop-recording`; empty is `head-tail`.
    pub output_policy: String,
    /// stdin is a pipe for `send`.
    pub stdin: bool,
    /// stdio is a terminal of this size, and `send` types into it.
    pub pty: Option<TerminalSize>,
    /// stdout and stderr are told apart.
    pub split: bool,
    /// TERM goes to the main process only.
    pub term_main_only: bool,
    /// The command gets a descriptor to report its progress to, named by `RINGBACK_PROGRESS_FD`.
    pub progress_fd: bool,
    /// `keep`, `kill` or `wait`; empty is `keep`.
    pub leftovers: String,
    /// `awaited`, `service` or `detached`; empty is `awaited`.
    pub lease: String,
    /// Opaque JSON of the caller.
    pub binding: Option<serde_json::Value>,
    /// Tasks of one session with the same key are the same work.
    pub key: Option<String>,
    /// `reuse`, `replace` or `reject`; empty is `reuse`.
    pub if_running: String,
    /// Tell how it goes on, first after this long, then after pauses that double; milliseconds.
    pub progress_ms: Option<u64>,
    /// The longest of these pauses, milliseconds; `None` is 30 s.
    pub progress_max_ms: Option<u64>,
    /// Tell each line of output that matches one of these regular expressions.
    pub watch: Vec<String>,
    /// Tell each line of output that contains one of these texts.
    pub watch_literal: Vec<String>,
    /// It is ready when a line matches this regular expression, or when it listens at `tcp:[HOST:]PORT`.
    pub ready: Option<String>,
    /// How many notices that the session has not heard the answer lists at most; 0 for none.
    pub unheard_max: u32,
}

/// A command line as the front hands it over, which understands nothing of it (`crates/sys/src/front`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spoken {
    /// The words with a NUL between, the program's own name first.
    pub words: ByteBuf,
    /// The entries of the environment with a NUL between.
    pub env: ByteBuf,
    /// Absolute working directory, as the kernel calls it.
    pub cwd: ByteBuf,
    /// File mode creation mask.
    pub umask: u32,
    /// Nice value.
    pub nice: i32,
    /// Soft resource limits by number.
    pub limits: Vec<u64>,
}

/// What to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// A program and its arguments, exactly as given.
    Argv(Vec<ByteBuf>),
    /// A script and the words of the shell that runs it.
    Script {
        /// The text.
        text: ByteBuf,
        /// For example `sh` or `bash -e`.
        shell: Vec<ByteBuf>,
    },
}

impl Default for Command {
    fn default() -> Self {
        Self::Argv(Vec::new())
    }
}
