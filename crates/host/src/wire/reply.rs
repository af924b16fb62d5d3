//! What the daemon answers.

use ringback_core::notice::Kind;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;
use serde_json::Value;

use super::task::TaskObject;

/// One frame from the daemon.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Answer {
    /// The daemon's protocol number.
    pub proto: u16,
    /// The daemon's version.
    pub version: String,
    /// The answer.
    pub reply: Reply,
}

/// An answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// One task. `existing` is true when a key was reused instead of starting anew.
    Task {
        /// The task.
        task: Box<TaskObject>,
        /// An older task of the same key answered.
        existing: bool,
        /// The session that asked for it had nothing unheard just before; false also where nobody has looked.
        #[serde(default)]
        inbox_empty: bool,
        /// What it had not heard, where the request asked for that: as with `Notices`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unheard: Option<(Vec<Notice>, bool)>,
    },
    /// A task was started, and this is what the command line says of it. The front knows these fields in this order.
    Said {
        /// The task.
        id: String,
        /// For stdout.
        stdout: ByteBuf,
        /// For stderr.
        stderr: ByteBuf,
    },
    /// Nothing was done: the command line is to be read where it was given.
    OldWay,
    /// Several tasks, in the order asked for.
    Tasks {
        /// The tasks.
        tasks: Vec<TaskObject>,
        /// The wait ran out (the tasks run on).
        timed_out: bool,
        /// Where the next page starts, if there is one.
        next: Option<u64>,
        /// What could not be done, per id, where the rest could.
        faults: Vec<Fault>,
    },
    /// Unheard notices.
    Notices {
        /// In order.
        notices: Vec<Notice>,
        /// Whether there are more.
        more: bool,
    },
    /// Notices that are the asker's to speak of.
    Claimed {
        /// In order.
        notices: Vec<Notice>,
        /// How long the first of those that others have claimed is held, if there are any; milliseconds.
        held_ms: Option<u64>,
    },
    /// How many notices were acknowledged.
    Acknowledged {
        /// The count.
        count: u64,
        /// What could not be acknowledged.
        #[serde(default)]
        faults: Vec<Fault>,
    },
    /// How many bytes reached the pipe.
    Sent {
        /// The count.
        bytes: u64,
    },
    /// Something has changed.
    Changed {
        /// Rises with every change, within one daemon.
        at: u64,
    },
    /// One session.
    Session(SessionObject),
    /// Several sessions.
    Sessions(Vec<SessionObject>),
    /// What was removed.
    Removed {
        /// Ids.
        ids: Vec<String>,
        /// Bytes of disk that were freed (or would be).
        bytes: u64,
        /// What could not be removed.
        faults: Vec<Fault>,
        /// Whether there is more that would go; asked again, it goes.
        #[serde(default)]
        more: bool,
    },
    /// Facts about the daemon.
    Status(Box<StatusObject>),
    /// Done; nothing to say.
    Done,
    /// It could not be done.
    Fault(Fault),
}

/// An error with its next step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Fault {
    /// A word that programs can compare, for example `unknown_id`.
    pub code: String,
    /// What failed, to what.
    pub message: String,
    /// What can be run or changed next.
    pub hint: Option<String>,
}

/// One thing a session has to hear. The task's facts stand beside it, flat.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Notice {
    /// Rises by one per session.
    pub seq: u64,
    /// `tool_result`; of a task that runs `tool_progress`, `tool_match`, `tool_ready` or `tool_stalled`.
    pub kind: String,
    /// When, RFC 3339 with milliseconds.
    pub at: String,
    /// What to read: the verdict, then quoted output.
    pub text: String,
    /// The task as it stands now.
    pub task: TaskObject,
    /// What was seen of it, where it is not its end. In JSON these fields stand beside the others.
    pub sighting: Sighting,
}

impl Notice {
    /// What it is about; nothing if it is of a kind that only a newer ringback knows.
    pub fn about(&self) -> Option<Kind> {
        Kind::parse(&self.kind)
    }

    /// The notice as one flat JSON object: the task's fields, then the notice's; `task` is the id.
    pub fn flat(&self, session: &str) -> Value {
        let mut all = serde_json::to_value(&self.task).unwrap_or_default();
        all["seq"] = self.seq.into();
        all["kind"] = self.kind.clone().into();
        all["at"] = self.at.clone().into();
        all["text"] = self.text.clone().into();
        all["task"] = self.task.id.clone().into();
        if let (Value::Object(all), Ok(Value::Object(sighting))) = (&mut all, serde_json::to_value(&self.sighting)) {
            all.extend(sighting);
        }
        if self.task.session.is_empty() {
            all["session"] = session.into();
        }
        all
    }
}

/// What was seen of a running task. Which fields there are depends on the notice's kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sighting {
    /// Byte offset in the output: of the line that matched, else how long the output was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// The output that is new since the last notice of progress that was heard.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delta: Option<Span>,
    /// The part of it that does not stand in the text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<Span>,
    /// Bytes of stderr so far, for a split task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr_bytes: Option<u64>,
    /// How long nothing had been written then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silence_ms: Option<u64>,
    /// The pattern that matched, or the port that is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// The line that matched: shortened, without control characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
    /// How many lines matched that were not told one by one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

/// Bytes of an output: from the first one up to, and without, the last one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Span {
    /// The first byte.
    pub from: u64,
    /// The byte after the last one.
    pub to: u64,
}

/// A session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionObject {
    /// Its name.
    pub session: String,
    /// Live tasks.
    pub live: u64,
    /// Unheard notices.
    pub unheard: u64,
    /// The process whose exit ends it.
    pub watched_pid: Option<i32>,
    /// When its lease lapses, RFC 3339.
    pub lease_until: Option<String>,
}

/// Facts about the daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StatusObject {
    /// Process id.
    pub pid: i32,
    /// Its version.
    pub version: String,
    /// Its protocol number.
    pub proto: u16,
    /// When it started, RFC 3339.
    pub started_at: String,
    /// The home it serves.
    pub home: String,
    /// Tasks queued.
    pub queued: u64,
    /// Tasks running.
    pub running: u64,
    /// Tasks ended and not removed.
    pub ended: u64,
    /// Unheard notices of all sessions.
    pub unheard: u64,
    /// Tasks found running at start.
    pub adopted: u64,
    /// What ended tasks take on the disk, bytes.
    pub kept_bytes: u64,
    /// How much of that there may be; 0 is no limit.
    pub quota_bytes: u64,
    /// How many tasks were let go since the start.
    pub freed_tasks: u64,
    /// How many bytes of disk that freed.
    pub freed_bytes: u64,
    /// Resident memory, bytes.
    pub rss_bytes: u64,
    /// How keepers are started: `embedded`, `memory` (the home refuses programs) or `multi-call`.
    pub keeper: String,
    /// What holds the trees of new tasks: `cgroup` (beside the subreaper) or `subreaper` alone.
    pub trees: String,
    /// Where their cgroups are, or why they have none.
    pub trees_note: String,
    /// What of `mem`, `pids` and `cpu` a cgroup limits for new tasks.
    pub cgroup_limits: Vec<String>,
    /// What of them limits of the kernel's own (getrlimit(2)) hold, less well, where no cgroup does.
    pub rlimit_limits: Vec<String>,
    /// What that which was acknowledged survives: `power` (a power cut, too) or `process` (whatever is killed).
    pub durability: String,
    /// What went wrong since the start, newest last (bounded).
    pub troubles: Vec<String>,
}
