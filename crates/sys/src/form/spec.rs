//! The spec: everything a keeper has to know to start its task, in one file that only the owner can read.
//!
//! A 512-byte head, then the strings, each with its closing NUL, in this order: working directory, program arguments,
//! environment (`KEY=VALUE`). The keeper maps the file and points into it; nothing of it is ever an argument or an
//! environment value of the keeper itself.

use super::bytes::{Reader, Writer};
use super::crc::crc32c;
use super::record::from_byte;

/// Length of the head, in bytes.
pub const HEAD_BYTES: usize = 512;
/// How many resource limits a spec carries (`RLIM_NLIMITS` of Linux).
pub const LIMITS: usize = 16;
/// A limit that is left as it is.
pub const LIMIT_KEEP: u64 = u64::MAX - 1;

const MAGIC: u32 = 0x3150_4252; // "RBP1"

/// What happens to processes that outlive the main process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Leftovers {
    /// They run on, named in the task; a stop still reaches them.
    #[default]
    Keep = 0,
    /// They are stopped at once.
    Kill = 1,
    /// The task ends when the tree is empty; the exit status is the main process's.
    Wait = 2,
}

from_byte!(Leftovers: Keep, Kill, Wait);

/// Where the command may write. What it may read stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Sandbox {
    /// Everywhere that its user may.
    #[default]
    None = 0,
    /// To its own output, to `tmp` in its folder, and to devices that keep nothing.
    ReadOnly = 1,
    /// The same, and below its working directory.
    Directory = 2,
}

from_byte!(Sandbox: None, ReadOnly, Directory);

/// From this version of Landlock on a sandbox is whole: before, a file outside could still be shortened (truncate(2)).
pub const LANDLOCK_WHOLE: u32 = 3;

/// How much a tree may use. In each field 0 is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TreeLimits {
    /// Memory of the whole tree, bytes; where no cgroup counts that, private writable memory of each process.
    pub memory: u64,
    /// Processes and threads of the whole tree.
    pub processes: u64,
    /// Where no cgroup counts them, the user gets so many more than he has when the command starts (`RLIMIT_NPROC`). For
    /// a user against whom the kernel holds no such limit this is false.
    pub limits_user: bool,
    /// CPU time, hundredths of one processor.
    pub cpu_percent: u64,
}

/// The descriptor to which a command reports its progress, if the FIFO `progress` is in its folder: the highest with one
/// digit, which is all that a POSIX shell redirects to.
pub const PROGRESS_FD: i32 = 9;

/// The head of a spec.
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own, and none excludes another")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The task's id as a number.
    pub task: u64,
    /// What happens to leftovers.
    pub leftovers: Leftovers,
    /// stdout and stderr are told apart (FIFOs `io.out` and `io.err`) instead of merged (`io`).
    pub split: bool,
    /// stdin is the FIFO `stdin` (the keeper holds its write end until asked to close it), else `/dev/null`.
    pub stdin: bool,
    /// TERM goes to the main process only; the tree follows after the grace.
    pub term_main_only: bool,
    /// More output than `output_max` ends the task ([`super::record::Cause::OutputLimit`]); else only the middle of the output is freed.
    pub kill_at_output_max: bool,
    /// File mode creation mask of the command.
    pub umask: u32,
    /// Nice value of the command, −20 to 19.
    pub nice: i32,
    /// Wall-clock limit, milliseconds; 0 is none.
    pub wall_ms: u64,
    /// Silence limit, milliseconds; 0 is none.
    pub idle_ms: u64,
    /// How long TERM may take, milliseconds.
    pub grace_ms: u64,
    /// Cap of `output` on disk, bytes; 0 is none.
    pub output_max: u64,
    /// Soft resource limits by number (getrlimit(2)); [`LIMIT_KEEP`] leaves one as it is.
    pub limits: [u64; LIMITS],
    /// How many arguments follow the working directory; at least one.
    pub args: u32,
    /// How many environment entries follow the arguments.
    pub vars: u32,
    /// How many bytes of strings follow the head.
    pub strings: u64,
    /// What comes after the first `output_max` bytes is counted and dropped; else the middle of the output is freed. So say
    /// specs from before this field.
    pub stop_at_output_max: bool,
    /// How many bytes stay free on the disk of the task folder: below that, what was kept of an output is thinned before
    /// more is written. 0 is no such floor; so say specs from before this field.
    pub free_min: u64,
    /// stdio is a pseudo-terminal of this size, whose master the keeper finds as its own stdin. (Specs before this field
    /// have zeros here, which is none.)
    pub pty: Option<Size>,
    /// How much the tree may use. (In specs before this field nothing is limited; so with the next two.)
    pub tree: TreeLimits,
    /// Where the command may write.
    pub sandbox: Sandbox,
    /// Where the kernel has no sandbox, or only a part of it, the command runs all the same.
    pub sandbox_optional: bool,
}

/// How large a terminal is, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Size {
    /// Characters in a row; at least 1.
    pub columns: u16,
    /// Rows; at least 1.
    pub rows: u16,
}

impl Size {
    /// A size with nothing in it is none.
    pub fn new(columns: u16, rows: u16) -> Option<Self> {
        (columns > 0 && rows > 0).then_some(Self { columns, rows })
    }
}

impl Default for Head {
    /// No task, no limits, the usual umask.
    fn default() -> Self {
        Self {
            task: 0,
            leftovers: Leftovers::Keep,
            split: false,
            stdin: false,
            term_main_only: false,
            kill_at_output_max: false,
            umask: 0o022,
            nice: 0,
            wall_ms: 0,
            idle_ms: 0,
            grace_ms: 10_000,
            output_max: 0,
            limits: [LIMIT_KEEP; LIMITS],
            args: 0,
            vars: 0,
            strings: 0,
            stop_at_output_max: false,
            free_min: 0,
            pty: None,
            tree: TreeLimits::default(),
            sandbox: Sandbox::None,
            sandbox_optional: false,
        }
    }
}

impl Head {
    /// The bytes of this head.
    pub fn encode(&self) -> [u8; HEAD_BYTES] {
        let mut head = [0; HEAD_BYTES];
        let mut w = Writer::new(&mut head[4..]);
        w.u32(MAGIC);
        w.u64(self.task);
        w.u8(self.leftovers as u8);
        for flag in [self.split, self.stdin, self.term_main_only, self.kill_at_output_max] {
            w.u8(u8::from(flag));
        }
        w.u32(self.umask);
        w.i32(self.nice);
        for n in [self.wall_ms, self.idle_ms, self.grace_ms, self.output_max] {
            w.u64(n);
        }
        for n in self.limits {
            w.u64(n);
        }
        w.u32(self.args);
        w.u32(self.vars);
        w.u64(self.strings);
        w.u64(self.free_min);
        let Size { columns, rows } = self.pty.unwrap_or_default();
        w.u16(columns);
        w.u16(rows);
        w.u8(u8::from(self.stop_at_output_max));
        let TreeLimits { memory, processes, limits_user, cpu_percent } = self.tree;
        for n in [memory, processes, u64::from(limits_user), cpu_percent] {
            w.u64(n);
        }
        w.u8(self.sandbox as u8);
        w.u8(u8::from(self.sandbox_optional));
        let crc = crc32c(&head[4..]);
        head[..4].copy_from_slice(&crc.to_le_bytes());
        head
    }

    /// The head in these bytes, or nothing if they are torn or foreign.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let head = bytes.get(..HEAD_BYTES)?;
        let mut r = Reader::new(head);
        if r.u32() != crc32c(&head[4..]) || r.u32() != MAGIC {
            return None;
        }
        let task = r.u64();
        let leftovers = Leftovers::of(r.u8())?;
        let [split, stdin, term_main_only, kill_at_output_max] = r.take::<4>().map(|b| b != 0);
        let (umask, nice) = (r.u32(), r.i32());
        let (wall_ms, idle_ms, grace_ms, output_max) = (r.u64(), r.u64(), r.u64(), r.u64());
        let mut limits = [LIMIT_KEEP; LIMITS];
        for limit in &mut limits {
            *limit = r.u64();
        }
        let (args, vars, strings, free_min) = (r.u32(), r.u32(), r.u64(), r.u64());
        let pty = Size::new(r.u16(), r.u16());
        let stop_at_output_max = r.u8() != 0;
        // The third was once the number that the user might have in all.
        let [memory, processes, limits_user, cpu_percent] = core::array::from_fn(|_| r.u64());
        let tree = TreeLimits { memory, processes, limits_user: limits_user != 0, cpu_percent };
        // A sandbox that is not known here must not be left away.
        let sandbox = Sandbox::of(r.u8())?;
        let sandbox_optional = r.u8() != 0;
        Some(Self {
            task,
            leftovers,
            split,
            stdin,
            term_main_only,
            kill_at_output_max,
            umask,
            nice,
            wall_ms,
            idle_ms,
            grace_ms,
            output_max,
            limits,
            args,
            vars,
            strings,
            stop_at_output_max,
            free_min,
            pty,
            tree,
            sandbox,
            sandbox_optional,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_comes_back_as_it_went_and_one_without_a_terminal_has_none() {
        let plain = Head { task: 7, stdin: true, grace_ms: 3, args: 2, ..Head::default() };
        assert_eq!(Head::decode(&plain.encode()), Some(plain));
        let tree = TreeLimits { memory: 1, processes: 2, limits_user: true, cpu_percent: 4 };
        let held = Head { tree, sandbox: Sandbox::Directory, sandbox_optional: true, ..plain };
        assert_eq!(Head::decode(&held.encode()), Some(held));
        let terminal = Head { pty: Size::new(120, 40), ..plain };
        assert_eq!(Head::decode(&terminal.encode()), Some(terminal));
        assert_eq!((Size::new(0, 24), Size::new(80, 0)), (None, None));
    }
}
