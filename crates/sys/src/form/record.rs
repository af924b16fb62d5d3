//! The state record: what a keeper knows of its task, in two checksummed slots of one small file.
//!
//! The keeper writes slot `seq % 2` with one `pwrite` and never touches the other one, so a crash in the middle
//! of a write leaves the previous record whole. A reader takes the valid slot with the higher `seq`.

use super::bytes::{Reader, Writer};
use super::crc::crc32c;

/// Length of one slot, in bytes.
pub const SLOT_BYTES: usize = 1024;
/// Length of the file `state`, in bytes.
pub const FILE_BYTES: usize = 2 * SLOT_BYTES;
/// Where its number lies in a slot: after the checksum and the magic word.
const SEQ_AT: usize = 8;
/// How many gaps of the output a record can name; later ones are merged into the last.
pub const GAPS_MAX: usize = 8;
/// How many gaps of each of the files `stdout` and `stderr` a record can name; later ones are merged into the last.
pub const STREAM_GAPS_MAX: usize = 2;
/// How many leftover processes a record can name; [`Record::leftovers_count`] counts them all.
pub const LEFTOVERS_MAX: usize = 16;

const MAGIC: u32 = 0x3153_4252; // "RBS1"

/// How far a task has come, as its keeper sees it. The order is the order of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
#[repr(u8)]
pub enum Phase {
    /// The folder is ready; no command was started. Safe to start, or to start again.
    #[default]
    New = 0,
    /// The command may have run; it must never be started again.
    Started = 1,
    /// The command was never executed: see [`Record::step`] and [`Record::errno`].
    StartFailed = 2,
    /// The main process ended; its wait status is known (or known to be unknowable). Leftovers may live.
    Ended = 3,
    /// The tree is empty, the output is complete, the keeper leaves.
    Closed = 4,
}

/// Who asked for the end, if it was us. Kept from the first moment a signal is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Cause {
    /// Nobody of ours.
    #[default]
    None = 0,
    /// The wall-clock limit.
    Wall = 1,
    /// The silence limit.
    Idle = 2,
    /// A stop request.
    Request = 3,
    /// The end of the owning session.
    SessionEnd = 4,
    /// The output limit, where its policy is to kill.
    OutputLimit = 5,
    /// A newer task with the same key.
    Replaced = 6,
}

/// Who witnessed the wait status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Witness {
    /// Nobody: the status is not known.
    #[default]
    None = 0,
    /// The keeper, as the parent (`wait4`).
    Parent = 1,
    /// A pidfd (`PIDFD_GET_INFO`, Linux 6.15).
    Pidfd = 2,
    /// The daemon, which inherited the orphan as a subreaper.
    Daemon = 3,
    /// Field 52 of `/proc/PID/stat` of the zombie (proc(5)).
    Zombie = 4,
}

/// The step of the start that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Step {
    /// None failed.
    #[default]
    None = 0,
    /// Entering the working directory.
    Cwd = 1,
    /// Executing the program.
    Exec = 2,
    /// Opening stdin, stdout or stderr.
    Stdio = 3,
    /// Making the process.
    Fork = 4,
    /// Reading the spec.
    Spec = 5,
    /// Putting the command into its sandbox.
    Sandbox = 6,
}

/// What holds a limit of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum By {
    /// Nothing: it is no limit.
    #[default]
    Nobody = 0,
    /// The task's cgroup: it is the limit of the whole tree.
    Cgroup = 1,
    /// A resource limit (setrlimit(2)): of each process, or of all processes of the user.
    Rlimit = 2,
}

/// What holds the command back, from its first instruction on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Held {
    /// What limits memory.
    pub memory: By,
    /// What limits processes.
    pub processes: By,
    /// What limits CPU time.
    pub cpu: By,
    /// The version of Landlock that was put on the command; 0 if none was.
    pub landlock_abi: u8,
    /// Whether that is the whole sandbox that was asked for.
    pub sandboxed: bool,
    /// Why it is not.
    pub sandbox_errno: i32,
}

/// A process that cannot be mistaken for another one of the same number, within one boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Who {
    /// Process id; 0 means "nobody".
    pub pid: i32,
    /// Field 22 of `/proc/PID/stat`, in clock ticks after boot (proc(5)).
    pub start_ticks: u64,
}

/// Bytes of the output that are not there: `from..to` are offsets in `output`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Gap {
    /// First missing byte.
    pub from: u64,
    /// First byte that is there again.
    pub to: u64,
    /// Why they are missing.
    pub why: GapWhy,
}

/// Why output bytes are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum GapWhy {
    /// The cap was reached; the middle was freed.
    #[default]
    OutputLimit = 0,
    /// The disk was full (`ENOSPC`, `EDQUOT`).
    NoSpace = 1,
    /// Another write error.
    Io = 2,
    /// Somebody else shortened the file.
    Truncated = 3,
    /// Somebody else removed the file; another one was begun in its place.
    Removed = 4,
}

/// A process of the tree that is alive after the main process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Leftover {
    /// Which process.
    pub who: Who,
    /// `comm`, NUL padded (16 bytes, proc(5)).
    pub comm: [u8; 16],
}

/// One state record.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own, and none excludes another")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Record {
    /// Rises by one with every write.
    pub seq: u64,
    /// How far the task has come.
    pub phase: Phase,
    /// Who asked for the end.
    pub cause: Cause,
    /// Who witnessed `wait_status`.
    pub witness: Witness,
    /// Which step of the start failed.
    pub step: Step,
    /// The error of that step.
    pub errno: i32,
    /// The status word of wait(2); meaningful when `witness` is not `None`.
    pub wait_status: i32,
    /// The keeper that writes.
    pub keeper: Who,
    /// The main process; it leads its own session and process group.
    pub main: Who,
    /// Boot id (`/proc/sys/kernel/random/boot_id`) as 16 bytes.
    pub boot: [u8; 16],
    /// Wall clock of the start, milliseconds after 1970.
    pub started_wall_ms: i64,
    /// `CLOCK_MONOTONIC` of the start, milliseconds.
    pub started_mono_ms: u64,
    /// Wall clock of the main process's end.
    pub ended_wall_ms: i64,
    /// `CLOCK_MONOTONIC` of the main process's end.
    pub ended_mono_ms: u64,
    /// `CLOCK_MONOTONIC` of the last output, or of the start.
    pub last_output_mono_ms: u64,
    /// User CPU time of the main process and its waited children, microseconds.
    pub user_us: u64,
    /// System CPU time of the same, microseconds.
    pub system_us: u64,
    /// Largest resident set of the same, kilobytes.
    pub max_rss_kb: u64,
    /// Length of `output` when the record was written.
    pub output_bytes: u64,
    /// Whether every writer of the output is gone and all was copied.
    pub output_complete: bool,
    /// Whether a pipe of the output was held by nobody for a while, so that nobody knows what was in it; it is not complete
    /// then, whoever copies the rest. (Keepers before this field never say so.)
    pub output_torn: bool,
    /// Whether `receipt` holds the receipt of a finished stop.
    pub has_receipt: bool,
    /// How many requests of `requests` were carried out.
    pub requests_done: u64,
    /// How many processes of the tree outlived the main process.
    pub leftovers_count: u32,
    /// The first of them.
    pub leftovers: [Leftover; LEFTOVERS_MAX],
    /// How many of `gaps` are meant.
    pub gaps_count: u32,
    /// What is missing from the output.
    pub gaps: [Gap; GAPS_MAX],
    /// What is missing from the files `stdout` and `stderr` of a split task (offsets in those files); an empty range
    /// is no gap.
    pub stream_gaps: [[Gap; STREAM_GAPS_MAX]; 2],
    /// Whether the last stop that was begun is over, also if its receipt could not be written. (Keepers before this
    /// field never say so; theirs is over when there is a receipt.)
    pub stop_over: bool,
    /// Whether the kernel's out-of-memory killer ended the main process, or one beside it in the same cgroup.
    pub oom: bool,
    /// Whether the keeper has seen every pause from the start on; keepers from before this field say no.
    pub pauses_seen: bool,
    /// How long the main process was stopped (SIGSTOP and its like) in all pauses that are over, milliseconds.
    pub paused_ms: u64,
    /// `CLOCK_MONOTONIC` of the stop that is not over, 0 if there is none.
    pub stopped_mono_ms: u64,
    /// What holds the command back. (Keepers before this field held nothing back.)
    pub held: Held,
    /// How many processes of the tree the kernel has killed for want of memory, by the count of its cgroup.
    pub oom_kills: u32,
}

impl Record {
    /// The bytes of this record's slot.
    pub fn encode(&self) -> [u8; SLOT_BYTES] {
        let mut slot = [0; SLOT_BYTES];
        let mut w = Writer::new(&mut slot[4..]);
        w.u32(MAGIC);
        w.u64(self.seq);
        for byte in [self.phase as u8, self.cause as u8, self.witness as u8, self.step as u8] {
            w.u8(byte);
        }
        w.i32(self.errno);
        w.i32(self.wait_status);
        for who in [self.keeper, self.main] {
            w.i32(who.pid);
            w.u64(who.start_ticks);
        }
        w.put(&self.boot);
        w.i64(self.started_wall_ms);
        w.u64(self.started_mono_ms);
        w.i64(self.ended_wall_ms);
        for n in [
            self.ended_mono_ms,
            self.last_output_mono_ms,
            self.user_us,
            self.system_us,
            self.max_rss_kb,
            self.output_bytes,
        ] {
            w.u64(n);
        }
        w.u8(u8::from(self.output_complete) | u8::from(self.output_torn) << 1);
        w.u8(u8::from(self.has_receipt));
        w.u64(self.requests_done);
        w.u32(self.leftovers_count);
        for left in &self.leftovers {
            w.i32(left.who.pid);
            w.u64(left.who.start_ticks);
            w.put(&left.comm);
        }
        w.u32(self.gaps_count);
        for gap in self.gaps.iter().chain(self.stream_gaps.as_flattened()) {
            w.u64(gap.from);
            w.u64(gap.to);
            w.u8(gap.why as u8);
        }
        for flag in [self.stop_over, self.oom, self.pauses_seen] {
            w.u8(u8::from(flag));
        }
        w.u64(self.paused_ms);
        w.u64(self.stopped_mono_ms);
        let Held { memory, processes, cpu, landlock_abi, sandboxed, sandbox_errno } = self.held;
        for byte in [memory as u8, processes as u8, cpu as u8, landlock_abi, u8::from(sandboxed)] {
            w.u8(byte);
        }
        w.i32(sandbox_errno);
        w.u32(self.oom_kills);
        debug_assert!(!w.overflowed());
        let crc = crc32c(&slot[4..]);
        slot[..4].copy_from_slice(&crc.to_le_bytes());
        slot
    }

    /// The record in `slot`, or nothing if the slot is torn, foreign or empty.
    pub fn decode(slot: &[u8]) -> Option<Self> {
        let slot = slot.get(..SLOT_BYTES)?;
        let mut r = Reader::new(slot);
        if r.u32() != crc32c(&slot[4..]) || r.u32() != MAGIC {
            return None;
        }
        let mut record = Self { seq: r.u64(), ..Self::default() };
        record.phase = Phase::of(r.u8())?;
        record.cause = Cause::of(r.u8())?;
        record.witness = Witness::of(r.u8())?;
        record.step = Step::of(r.u8())?;
        record.errno = r.i32();
        record.wait_status = r.i32();
        record.keeper = Who { pid: r.i32(), start_ticks: r.u64() };
        record.main = Who { pid: r.i32(), start_ticks: r.u64() };
        record.boot = r.take();
        record.started_wall_ms = r.i64();
        record.started_mono_ms = r.u64();
        record.ended_wall_ms = r.i64();
        record.ended_mono_ms = r.u64();
        record.last_output_mono_ms = r.u64();
        record.user_us = r.u64();
        record.system_us = r.u64();
        record.max_rss_kb = r.u64();
        record.output_bytes = r.u64();
        let output = r.u8();
        (record.output_complete, record.output_torn) = (output & 1 != 0, output & 2 != 0);
        record.has_receipt = r.u8() != 0;
        record.requests_done = r.u64();
        record.leftovers_count = r.u32();
        for left in &mut record.leftovers {
            left.who = Who { pid: r.i32(), start_ticks: r.u64() };
            left.comm = r.take();
        }
        record.gaps_count = r.u32();
        // A reason of a later keeper is none that we know; what is missing is known all the same.
        for gap in record.gaps.iter_mut().chain(record.stream_gaps.as_flattened_mut()) {
            *gap = Gap { from: r.u64(), to: r.u64(), why: GapWhy::of(r.u8()).unwrap_or(GapWhy::Io) };
        }
        [record.stop_over, record.oom, record.pauses_seen] = r.take::<3>().map(|b| b != 0);
        record.paused_ms = r.u64();
        record.stopped_mono_ms = r.u64();
        let held = &mut record.held;
        for by in [&mut held.memory, &mut held.processes, &mut held.cpu] {
            *by = By::of(r.u8())?;
        }
        held.landlock_abi = r.u8();
        held.sandboxed = r.u8() != 0;
        held.sandbox_errno = r.i32();
        record.oom_kills = r.u32();
        (!r.short()).then_some(record)
    }

    /// The newest valid record of a whole `state` file.
    pub fn newest(file: &[u8]) -> Option<Self> {
        let (first, second) = file.split_at_checked(SLOT_BYTES).unwrap_or((file, &[]));
        // The older one is looked at only if the newer one is damaged; what claims to be the newest has to prove it.
        let (newer, older) = if claimed_seq(first) >= claimed_seq(second) { (first, second) } else { (second, first) };
        Self::decode(newer).or_else(|| Self::decode(older))
    }

    /// Where in the file this record belongs.
    pub fn slot_offset(&self) -> u64 {
        (self.seq % 2) * SLOT_BYTES as u64
    }
}

/// The number that a slot claims to have, before its checksum is looked at.
fn claimed_seq(slot: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(slot.get(SEQ_AT..SEQ_AT + 8)?.try_into().ok()?))
}

macro_rules! from_byte {
    ($name:ident: $($variant:ident),+) => {
        impl $name {
            /// The variant with this byte value.
            pub fn of(byte: u8) -> Option<Self> {
                $(if byte == Self::$variant as u8 { return Some(Self::$variant); })+
                None
            }
        }
    };
}
pub(crate) use from_byte;

from_byte!(Phase: New, Started, StartFailed, Ended, Closed);
from_byte!(Cause: None, Wall, Idle, Request, SessionEnd, OutputLimit, Replaced);
from_byte!(Witness: None, Parent, Pidfd, Daemon, Zombie);
from_byte!(Step: None, Cwd, Exec, Stdio, Fork, Spec, Sandbox);
from_byte!(By: Nobody, Cgroup, Rlimit);
from_byte!(GapWhy: OutputLimit, NoSpace, Io, Truncated, Removed);

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(seq: u64) -> Record {
        let mut record =
            Record { seq, phase: Phase::Ended, wait_status: 42 << 8, witness: Witness::Parent, ..Record::default() };
        (record.stop_over, record.oom, record.pauses_seen) = (true, true, true);
        (record.paused_ms, record.stopped_mono_ms) = (5, u64::MAX);
        record.leftovers[3].who.pid = 77;
        (record.held.memory, record.held.processes, record.held.cpu) = (By::Rlimit, By::Cgroup, By::Nobody);
        (record.held.landlock_abi, record.held.sandboxed, record.held.sandbox_errno) = (7, true, 5);
        record.oom_kills = 2;
        record.gaps[7] = Gap { from: 1, to: 9, why: GapWhy::NoSpace };
        record.stream_gaps[1][1] = Gap { from: 2, to: 8, why: GapWhy::Truncated };
        record
    }

    #[test]
    fn a_record_comes_back_as_it_went() {
        assert_eq!(Record::decode(&sample(5).encode()), Some(sample(5)));
    }

    #[test]
    fn the_newest_whole_slot_wins_and_a_torn_one_is_not_believed() {
        let mut file = [0; FILE_BYTES];
        assert_eq!(Record::newest(&file), None);
        for seq in [4, 5] {
            let at = usize::try_from(sample(seq).slot_offset()).unwrap();
            file[at..at + SLOT_BYTES].copy_from_slice(&sample(seq).encode());
        }
        assert_eq!(Record::newest(&file).map(|r| r.seq), Some(5));
        file[SLOT_BYTES + 600] ^= 1;
        assert_eq!(Record::newest(&file).map(|r| r.seq), Some(4));
        assert_eq!(Record::newest(&file[..700]), None);
    }
}
