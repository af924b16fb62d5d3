//! What happens in the new process between its making and its program: the gate through which a task starts once.
//!
//! The child may share the keeper's memory (vfork), so it changes nothing that the keeper reads but the state file.

use super::cgroup;
use super::crash::crash;
use super::exec;
use super::hold_back;
use super::ledger::Ledger;
use super::procfs;
use super::pty;
use super::spec_file::Spec;
use crate::form::record::{By, Held, Phase, Record, Step, Who};
use crate::form::spec::{LIMIT_KEEP, PROGRESS_FD};
use crate::raw::memory::Mapping;
use crate::raw::{Errno, Fd, Result, file, process, signal, time};

/// Room for the path search, two records and what they call.
const STACK_BYTES: usize = 64 * 1024;

/// What the child needs.
struct Plan<'a> {
    spec: &'a Spec,
    ledger: &'a Ledger,
    /// The child was not born in the task's cgroup, and has to go there itself.
    enter: bool,
    /// What the cgroup limits.
    held: Held,
    /// A byte in it says that it could not; whoever reads it sees its end when the child is through.
    through: &'a Fd,
    /// The free place and the arguments, for a script without `#!`.
    pointers: *mut usize,
}

/// Makes the child, in the task's cgroup if one was `made`, and lets it go as far as its program, or to a recorded failure.
/// Gives whether it was in the cgroup before that; where it could not be, the cgroup is gone.
pub(super) fn start(spec: &mut Spec, ledger: &Ledger, made: bool) -> Result<bool> {
    let stack = Mapping::scratch(STACK_BYTES)?;
    let pointers = spec.pointers_mut().as_mut_ptr();
    let (ended, through) = file::pipe()?;
    let held = if made { hold_back::limit_cgroup(&spec.head.tree) } else { Held::default() };
    let mut plan = Plan { spec, ledger, enter: false, held, through: &through, pointers };
    let cgroup = if made { cgroup::open().ok() } else { None };
    let born = cgroup.is_some_and(|cgroup| process::vfork_into(&cgroup, run, &plan, &stack).is_ok());
    if !born {
        plan.enter = made;
        process::vfork(run, &plan, &stack)?;
    }
    drop(through);
    // The kernel has let us go on only now that the child is through. An emulator of another machine's programs may do
    // a plain fork(2) instead; the child's end of this pipe is closed when it is through, in any case.
    let refused = loop {
        match file::read(&ended, &mut [0]) {
            Err(Errno::EINTR) => {}
            said => break said == Ok(1),
        }
    };
    if refused {
        cgroup::remove();
    }
    Ok(made && !refused)
}

extern "C" fn run(plan: *const ()) -> ! {
    // SAFETY: `start` gave the address of a plan that lives until this child has executed a program or is gone.
    let plan = unsafe { &*plan.cast::<Plan<'_>>() };
    process::new_session();
    let mut held = plan.held;
    if plan.enter && cgroup::enter().is_err() {
        let _ = file::write(plan.through, &[1]);
        (held.memory, held.processes, held.cpu) = (By::Nobody, By::Nobody, By::Nobody);
    }
    if let Err((step, error)) = prepare(plan.spec, &mut held) {
        fail(plan.ledger, &plan.ledger.record, step, error);
    }
    crash!("child.before-started");
    // The gate: from here on the task counts as started, whatever dies. The lock is also ours until execve(2) closes
    // it, so nobody can read the record between "not started" and this write.
    let record = plan.ledger.write_as_next(Record { held, ..started(&plan.ledger.record) });
    crash!("child.after-started");
    set_limits(plan.spec);
    signal::set_mask(0);
    let error = exec::search(plan.spec, plan.pointers);
    crash!("child.before-start-failed");
    fail(plan.ledger, &record, Step::Exec, error)
}

fn prepare(spec: &Spec, held: &mut Held) -> core::result::Result<(), (Step, Errno)> {
    stdio(spec).map_err(|error| (Step::Stdio, error))?;
    progress().map_err(|error| (Step::Stdio, error))?;
    let folder = hold_back::own_folder(&spec.head).map_err(|error| (Step::Sandbox, error))?;
    process::change_directory(spec.directory()).map_err(|error| (Step::Cwd, error))?;
    process::set_umask(spec.head.umask);
    process::set_nice(spec.head.nice);
    hold_back::limit_process(&spec.head.tree, held);
    // Last, as it cannot be undone: what comes after writes to what is open already.
    hold_back::enter_sandbox(&spec.head, folder.as_ref(), held).map_err(|error| (Step::Sandbox, error))
}

/// The output ends are opened for reading too: then the pipe has a reader even when the keeper is dead, and the task
/// waits for the next one instead of dying of SIGPIPE (fifo(7): Linux opens `O_RDWR` without waiting).
fn stdio(spec: &Spec) -> Result<()> {
    use file::flag::{NOCTTY, RDONLY, RDWR};
    if spec.head.pty.is_some() {
        return pty::enter();
    }
    // The keeper holds a writer of `stdin`, so this does not wait.
    let input =
        if spec.head.stdin { file::open_pipe(c"stdin", RDONLY) } else { file::open(c"/dev/null", RDONLY | NOCTTY) };
    place(&input?, 0)?;
    if spec.head.split {
        place(&file::open_pipe(c"io.out", RDWR)?, 1)?;
        return place(&file::open_pipe(c"io.err", RDWR)?, 2);
    }
    let merged = file::open_pipe(c"io", RDWR)?;
    place(&merged, 1)?;
    place(&merged, 2)
}

/// Where the command reports its progress, if it was given something for that. A full pipe refuses, and holds nobody up.
fn progress() -> Result<()> {
    use file::flag::{NONBLOCK, RDWR};
    match file::open_pipe(c"progress", RDWR | NONBLOCK) {
        Err(Errno::ENOENT) => Ok(()),
        opened => place(&opened?, PROGRESS_FD),
    }
}

fn place(fd: &Fd, number: i32) -> Result<()> {
    file::put_at(fd, number)
}

fn started(before: &Record) -> Record {
    let own = procfs::own_stat().unwrap_or_default();
    let now_ms = time::mono_ms();
    Record {
        phase: Phase::Started,
        main: Who { pid: process::id(), start_ticks: own.start_ticks },
        started_wall_ms: time::wall_ms().cast_signed(),
        started_mono_ms: now_ms,
        last_output_mono_ms: now_ms,
        pauses_seen: true,
        ..*before
    }
}

/// After the gate: a file size limit of zero must not keep the record from being written.
fn set_limits(spec: &Spec) {
    for (resource, &soft) in spec.head.limits.iter().enumerate() {
        if soft != LIMIT_KEEP {
            process::set_limit(resource, soft);
        }
    }
}

fn fail(ledger: &Ledger, record: &Record, step: Step, error: Errno) -> ! {
    ledger.write_as_next(Record { phase: Phase::StartFailed, step, errno: error.0, ..*record });
    process::exit(127)
}
