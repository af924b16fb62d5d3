//! The receipt: what a stop did to which processes.
//!
//! A 64-byte head, then one 48-byte entry per process seen, at most [`ENTRIES_MAX`] of them (the counts are of all).
//! Written to `receipt.new` and renamed, so it is there whole or not at all.

use super::bytes::{Reader, Writer};
use super::record::{Cause, from_byte};

/// Length of the head, in bytes.
pub const HEAD_BYTES: usize = 64;
/// Length of one entry, in bytes.
pub const ENTRY_BYTES: usize = 48;
/// How many processes a receipt names one by one: a tree of 4,096 is a fork bomb, and naming each helps nobody.
pub const ENTRIES_MAX: usize = 4096;

const MAGIC: u32 = 0x3152_4252; // "RBR1"

/// What held the tree together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Layer {
    /// The keeper as child subreaper: every orphan comes back to it (prctl(2), Linux 3.4).
    #[default]
    Subreaper = 0,
    /// A cgroup v2 of the task.
    Cgroup = 1,
    /// Only marks: the environment cookie, session and process group (a keeper that took over).
    Marks = 2,
}

/// How a process of the tree ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Ended {
    /// It did not: a survivor.
    #[default]
    Alive = 0,
    /// It returned; `how` is the exit code.
    Exited = 1,
    /// A signal ended it; `how` is the signal.
    Signaled = 2,
    /// It is gone, and its status went to a parent of its own.
    Vanished = 3,
}

/// Why a receipt cannot say that nobody is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Doubt {
    /// It can; or a keeper from before this field wrote it.
    #[default]
    None = 0,
    /// Somebody is left, and named.
    Survivors = 1,
    /// It was not over in time.
    Unfinished = 2,
    /// The keeper that was everybody's ancestor died, and no cgroup knows them: who has dropped both the environment and
    /// the session cannot be told from a stranger.
    KeeperDied = 3,
    /// The kernel counts somebody in the cgroup whom we cannot see.
    CgroupPopulated = 4,
}

from_byte!(Doubt: None, Survivors, Unfinished, KeeperDied, CgroupPopulated);
from_byte!(Layer: Subreaper, Cgroup, Marks);
from_byte!(Ended: Alive, Exited, Signaled, Vanished);

/// One process that the stop saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Entry {
    /// Process id.
    pub pid: i32,
    /// Its parent when first seen.
    pub parent_pid: i32,
    /// Steps below the keeper; the main process has 1.
    pub depth: u32,
    /// How it ended.
    pub ended: Ended,
    /// Exit code or signal number.
    pub how: i32,
    /// For a survivor: the error of the last attempt (`EPERM`: it belongs to another user), or 0.
    pub errno: i32,
    /// For a survivor: its state letter in `/proc/PID/stat` (`D` cannot be killed now).
    pub state: u8,
    /// `comm`, NUL padded.
    pub comm: [u8; 16],
}

/// The head of a receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Head {
    /// What held the tree together.
    pub layer: Layer,
    /// Why it was stopped.
    pub cause: Cause,
    /// Whether two scans in a row (and the kernel's `ECHILD`) found nothing alive.
    pub verified_empty: bool,
    /// Signals sent, as bits: bit N is signal N (TERM, CONT, STOP, KILL).
    pub signals: u64,
    /// Processes seen in all.
    pub observed: u32,
    /// Of these, how many this keeper waited for.
    pub reaped: u32,
    /// Of these, how many still live.
    pub survivors: u32,
    /// How many scans it took.
    pub scans: u32,
    /// From the first signal to the last scan, milliseconds.
    pub duration_ms: u64,
    /// How many entries follow.
    pub entries: u32,
    /// Why `verified_empty` is not so.
    pub doubt: Doubt,
}

impl Head {
    /// The bytes of this head.
    pub fn encode(&self) -> [u8; HEAD_BYTES] {
        let mut head = [0; HEAD_BYTES];
        let mut w = Writer::new(&mut head);
        w.u32(MAGIC);
        w.u8(self.layer as u8);
        w.u8(self.cause as u8);
        w.u8(u8::from(self.verified_empty));
        w.u64(self.signals);
        w.u32(self.observed);
        w.u32(self.reaped);
        w.u32(self.survivors);
        w.u32(self.scans);
        w.u64(self.duration_ms);
        w.u32(self.entries);
        w.u8(self.doubt as u8);
        head
    }

    /// The head in these bytes, or nothing if they are foreign.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut r = Reader::new(bytes.get(..HEAD_BYTES)?);
        if r.u32() != MAGIC {
            return None;
        }
        Some(Self {
            layer: Layer::of(r.u8())?,
            cause: Cause::of(r.u8())?,
            verified_empty: r.u8() != 0,
            signals: r.u64(),
            observed: r.u32(),
            reaped: r.u32(),
            survivors: r.u32(),
            scans: r.u32(),
            duration_ms: r.u64(),
            entries: r.u32(),
            doubt: Doubt::of(r.u8()).unwrap_or_default(),
        })
    }
}

impl Entry {
    /// The bytes of this entry.
    pub fn encode(&self) -> [u8; ENTRY_BYTES] {
        let mut entry = [0; ENTRY_BYTES];
        let mut w = Writer::new(&mut entry);
        w.i32(self.pid);
        w.i32(self.parent_pid);
        w.u32(self.depth);
        w.u8(self.ended as u8);
        w.i32(self.how);
        w.i32(self.errno);
        w.u8(self.state);
        w.put(&self.comm);
        entry
    }

    /// The entry in these bytes, or nothing if they are short.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut r = Reader::new(bytes.get(..ENTRY_BYTES)?);
        Some(Self {
            pid: r.i32(),
            parent_pid: r.i32(),
            depth: r.u32(),
            ended: Ended::of(r.u8())?,
            how: r.i32(),
            errno: r.i32(),
            state: r.u8(),
            comm: r.take(),
        })
    }
}
