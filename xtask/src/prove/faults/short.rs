//! Calls that do less than they were asked for: a tracer lowers the count of reads, writes and splices of the daemon and
//! its keepers, where the kernel may do less too, and gives it back afterwards. No call is skipped, so what it answers is so.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::libc::{
    PTRACE_EVENT_EXEC, SYS_pread64, SYS_pwrite64, SYS_read, SYS_recvfrom, SYS_sendto, SYS_splice, SYS_write,
    user_regs_struct,
};
use nix::sys::ptrace::{self, Options};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::super::chance::{Chance, pause};
use super::super::processes;
use super::super::subject::Subject;
use super::story::{Lost, SESSION, ask_under_fault, look_after, until_it_listens};
use super::{Told, counted};

/// How long the last keepers may take to leave when all was looked at.
const LEAVING_MAX: Duration = Duration::from_secs(20);
/// Calls whose first argument is a file, and whose third is a count.
const READS: [i64; 3] = [SYS_read, SYS_pread64, SYS_recvfrom];
const WRITES: [i64; 3] = [SYS_write, SYS_pwrite64, SYS_sendto];
/// Where a write to a pipe may be cut: up to here it is whole or nothing (pipe(7), `PIPE_BUF`).
const PIPE_BUF: u64 = 4096;
/// What execve(2) has for a call that was not made yet: at its entry each call has this answer.
const NOT_YET: u64 = (-38_i64).cast_unsigned();

/// All that is asked for under every fault, with short calls.
pub(super) fn story(program: &Path, chance: Chance) -> Result<Told, String> {
    let subject = Subject::new(program)?;
    let mut wrong = Vec::new();
    let tracing = Tracing::begin(&subject, chance)?;
    until_it_listens(&subject, || tracing.thread.is_finished());
    let begun = ask_under_fault(&subject, &mut wrong)?;
    if let Some(daemon) = subject.daemon() {
        processes::kill(daemon, |_| true);
    }
    let tasks = look_after(&subject, &begun, Lost::Never, &mut wrong)?;
    let calls = tracing.end()?;
    if calls == 0 {
        wrong.push("no call was shortened".to_owned());
    }
    let mut counts = counted(tasks, begun.len(), &wrong);
    counts.insert("calls", calls);
    Ok((counts, wrong))
}

/// A thread that traces: only the one that began it may go on (ptrace(2)).
struct Tracing {
    thread: JoinHandle<Result<u64, String>>,
}

impl Tracing {
    /// Starts a daemon that is traced from its first instruction on.
    fn begin(subject: &Subject, chance: Chance) -> Result<Self, String> {
        let daemon = subject.client(SESSION, &["daemon", "run"]);
        let home = subject.home();
        let (ready, is_ready) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let tracer = Tracer::start(&daemon, home, chance);
            let _ = ready.send(tracer.as_ref().map(|_| ()).map_err(Clone::clone));
            tracer?.follow()
        });
        is_ready.recv().map_err(|error| format!("the tracer said nothing: {error}"))??;
        Ok(Self { thread })
    }

    /// How many calls were shortened, when everybody who was traced is gone.
    fn end(self) -> Result<u64, String> {
        let until = Instant::now() + LEAVING_MAX;
        while !self.thread.is_finished() && Instant::now() < until {
            pause(Duration::from_millis(10));
        }
        if !self.thread.is_finished() {
            return Err(format!("keepers of ended tasks stay for {LEAVING_MAX:?}"));
        }
        self.thread.join().map_err(|_| "the tracer has panicked".to_owned())?
    }
}

struct Tracer {
    home: PathBuf,
    chance: Chance,
    /// Who is in a call that was shortened, and what was asked for.
    within: HashMap<Pid, u64>,
    calls: u64,
}

impl Tracer {
    fn start(daemon: &Command, home: PathBuf, chance: Chance) -> Result<Self, String> {
        let mut command = Command::new("sh");
        command.args(["-c", "read -r _; exec \"$@\" < /dev/null", "sh"]).arg(daemon.get_program());
        command.args(daemon.get_args()).env_clear().stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        command.envs(daemon.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let mut child = command.spawn().map_err(|error| format!("cannot start a shell: {error}"))?;
        let pid = Pid::from_raw(child.id().cast_signed());
        let options = Options::PTRACE_O_TRACESYSGOOD
            | Options::PTRACE_O_TRACEFORK
            | Options::PTRACE_O_TRACEVFORK
            | Options::PTRACE_O_TRACECLONE
            | Options::PTRACE_O_TRACEEXEC;
        ptrace::seize(pid, options).map_err(|error| format!("cannot trace: {error}"))?;
        // It waits for the end of its input.
        drop(child.stdin.take());
        Ok(Self { home, chance, within: HashMap::new(), calls: 0 })
    }

    /// Goes on until all are gone.
    fn follow(mut self) -> Result<u64, String> {
        // Children of other threads are theirs to wait for.
        let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
        loop {
            let status = match waitpid(None, Some(flags)) {
                Ok(status) => status,
                Err(Errno::EINTR) => continue,
                Err(Errno::ECHILD) => return Ok(self.calls),
                Err(error) => return Err(format!("cannot wait for the traced: {error}")),
            };
            let gone_on = match status {
                WaitStatus::PtraceSyscall(pid) => self.at_call(pid).and_then(|()| ptrace::syscall(pid, None)),
                WaitStatus::PtraceEvent(pid, _, PTRACE_EVENT_EXEC) if !is_ours(pid) => ptrace::detach(pid, None),
                WaitStatus::PtraceEvent(pid, ..) => ptrace::syscall(pid, None),
                WaitStatus::Stopped(pid, signal) => ptrace::syscall(pid, signal),
                WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, ..) => {
                    self.within.remove(&pid);
                    Ok(())
                }
                WaitStatus::Continued(_) | WaitStatus::StillAlive => Ok(()),
            };
            // One that was killed meanwhile is seen by the next wait.
            if let Err(error) = gone_on
                && error != Errno::ESRCH
            {
                return Err(format!("cannot go on: {error}"));
            }
        }
    }

    /// At its entry a call may be shortened; at its end the register is given back, as the kernel keeps it.
    fn at_call(&mut self, pid: Pid) -> Result<(), Errno> {
        let mut registers = ptrace::getregs(pid)?;
        if registers.rax == NOT_YET {
            let Some(asked) = self.wanted(pid, &registers) else { return Ok(()) };
            let count = count(&mut registers);
            *count = if self.chance.once_in(2) || asked <= 2 { asked / 2 } else { asked - 1 };
            ptrace::setregs(pid, registers)?;
            self.within.insert(pid, asked);
            self.calls += 1;
        } else if let Some(asked) = self.within.remove(&pid) {
            *count(&mut registers) = asked;
            ptrace::setregs(pid, registers)?;
        }
        Ok(())
    }

    /// What a call asked for, if it is one to be shortened: of those that may be, half.
    fn wanted(&mut self, pid: Pid, registers: &user_regs_struct) -> Option<u64> {
        let call = registers.orig_rax.cast_signed();
        let asked = *count(&mut registers.clone());
        let may_be = if READS.contains(&call) {
            self.may_be_short(pid, registers.rdi, None)
        } else if WRITES.contains(&call) {
            self.may_be_short(pid, registers.rdi, Some(asked))
        } else {
            call == SYS_splice
        };
        (may_be && asked > 1 && self.chance.once_in(2)).then_some(asked)
    }

    /// Whether the kernel may take or give less here: a file of the home, a stream, a long write to a pipe.
    fn may_be_short(&self, pid: Pid, fd: u64, written: Option<u64>) -> bool {
        let path = format!("/proc/{pid}/fd/{fd}");
        let Ok(what) = fs::metadata(&path) else { return false };
        let kind = what.file_type();
        kind.is_socket()
            || kind.is_fifo() && written.is_some_and(|count| count > PIPE_BUF)
            || kind.is_file() && fs::read_link(&path).is_ok_and(|path| path.starts_with(&self.home))
    }
}

/// The register with the count of what is to be moved.
fn count(registers: &mut user_regs_struct) -> &mut u64 {
    if registers.orig_rax.cast_signed() == SYS_splice { &mut registers.r8 } else { &mut registers.rdx }
}

/// Whether it is a daemon or a keeper now; commands are let go.
fn is_ours(pid: Pid) -> bool {
    let exe = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    exe.file_name().is_some_and(|name| name.to_string_lossy().starts_with("ringback"))
}
