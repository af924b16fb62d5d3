//! The start of a keeper: its lock, its own surroundings, and the task, at most once.

use core::ffi::CStr;

use super::capture::Capture;
use super::crash::crash;
use super::ledger::Ledger;
use super::members::{By, COOKIE_BYTES, COOKIE_NAME_BYTES, Hold};
use super::news::News;
use super::pty::Pty;
use super::spec_file::Spec;
use super::takeover::Watched;
use super::{Keeper, procfs};
use super::{cgroup, child};
use crate::form::record::{Phase, Step, Who};
use crate::form::spec::{Head, PROGRESS_FD};
use crate::raw::{Errno, Fd, Result, file, process, signal, time};

/// The arguments were not ours.
pub(super) const EXIT_USAGE: i32 = 2;
/// Another keeper has this task, or the record does not want one.
pub(super) const EXIT_NOT_NEEDED: i32 = 3;
/// The command could not be started; the record says why.
pub(super) const EXIT_START_FAILED: i32 = 4;

/// Starts the task of the working directory, if nobody ever did: in a new cgroup at that path, if it can be had.
#[inline(never)]
pub(super) fn begin(id: &CStr, cgroup: Option<&CStr>) -> core::result::Result<Keeper, i32> {
    let mut ledger = settle_in()?;
    if ledger.record.phase != Phase::New {
        return Err(EXIT_NOT_NEEDED);
    }
    crash!("keeper.locked");
    let mut news = News::new(task_number(id));
    introduce(&mut ledger);
    ledger.write();
    match start(id, cgroup, &mut ledger) {
        Ok((head, capture, signals, stdin, in_cgroup)) => {
            news.tell();
            let hold = Hold { keeper: process::id(), by: By::Parent, cookie: cookie(id), in_cgroup };
            Ok(Keeper::new(head, ledger, news, capture, signals, stdin, hold))
        }
        Err((step, error)) => {
            let record = &mut ledger.record;
            if record.phase != Phase::StartFailed {
                record.phase = Phase::StartFailed;
                record.step = step;
                record.errno = error.0;
                ledger.write();
            }
            news.tell();
            cgroup::remove();
            while let Some(fd) = news.waits_for() {
                let _ = crate::raw::poll::wait(&mut [crate::raw::poll::Slot::new(fd, crate::raw::poll::OUT)], None);
                news.retry();
            }
            Err(EXIT_START_FAILED)
        }
    }
}

/// Cuts the ties to the daemon that spawned us, and takes the lock.
pub(super) fn settle_in() -> core::result::Result<Ledger, i32> {
    file::close_from(3);
    // Before anything else may get that number, which the child gives away.
    file::hold_number(PROGRESS_FD);
    process::new_session();
    signal::set_mask(u64::MAX);
    signal::reset_actions();
    process::become_subreaper();
    // Executed from memory it would be called by a number.
    process::set_name(c"ringback-keeper");
    Ledger::open().ok_or(EXIT_NOT_NEEDED)
}

/// Puts this keeper's name into the record; it goes to disk with the next write.
pub(super) fn introduce(ledger: &mut Ledger) {
    let start_ticks = procfs::own_stat().map_or(0, |own| own.start_ticks);
    ledger.record.keeper = Who { pid: process::id(), start_ticks };
    ledger.record.boot = procfs::boot_id();
}

/// The last one is whether the task is in a cgroup of its own.
type Parts = (Head, Capture, Fd, Option<Fd>, bool);

fn start(id: &CStr, cgroup: Option<&CStr>, ledger: &mut Ledger) -> core::result::Result<Parts, (Step, Errno)> {
    let mut spec = Spec::read().ok_or((Step::Spec, Errno::EINVAL))?;
    let head = spec.head;
    if head.task != task_number(id) {
        return Err((Step::Spec, Errno::EINVAL));
    }
    let signals = listen().map_err(|error| (Step::Fork, error))?;
    let mut capture = Capture::open(&head, &mut ledger.record).map_err(|error| (Step::Stdio, error))?;
    let pty = head.pty.map(Pty::open).transpose().map_err(|error| (Step::Stdio, error))?;
    capture.set_pty(pty);
    // Opened for both, which does not wait; a second open for writing alone then finds a reader.
    let both = stdin(&head, file::flag::RDWR).map_err(|error| (Step::Stdio, error))?;
    let made = cgroup.is_some_and(cgroup::make);
    crash!("keeper.before-child");
    let in_cgroup = child::start(&mut spec, ledger, made).map_err(|error| (Step::Fork, error))?;
    crash!("keeper.after-child");
    ledger.reload();
    let stdin = stdin(&head, file::flag::WRONLY).ok().flatten();
    drop(both);
    match ledger.record.phase {
        Phase::Started => Ok((head, capture, signals, stdin, in_cgroup)),
        Phase::StartFailed => Err((ledger.record.step, Errno(ledger.record.errno))),
        // It died before the gate, so the program never ran.
        _ => Err((Step::Fork, Errno::EINTR)),
    }
}

/// The task's stdin, if it has one.
pub(super) fn stdin(head: &Head, how: usize) -> Result<Option<Fd>> {
    if !head.stdin {
        return Ok(None);
    }
    file::open_pipe(c"stdin", how | file::flag::NONBLOCK).map(Some)
}

/// The signals that mean something to a keeper, and those with which somebody might think to end it.
pub(super) fn listen() -> Result<Fd> {
    signal::as_file(&[signal::CHLD, signal::USR1, signal::TERM, signal::INT, signal::HUP])
}

impl Keeper {
    pub(super) fn new(
        head: Head,
        ledger: Ledger,
        news: News,
        capture: Capture,
        signals: Fd,
        stdin: Option<Fd>,
        hold: Hold,
    ) -> Self {
        let idle_from_ms = time::mono_ms();
        Self {
            head,
            ledger,
            news,
            capture,
            signals,
            stdin,
            hold,
            watched: Watched::default(),
            main_over: false,
            tree_empty: false,
            tell_at_ms: 0,
            look_again_at_ms: None,
            idle_from_ms,
            stop: None,
        }
    }
}

/// The number of an id: 12 characters of lower-case Crockford base32, the first one highest.
pub(super) fn task_number(id: &CStr) -> u64 {
    const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let digits = id.to_bytes().iter().filter_map(|byte| DIGITS.iter().position(|digit| digit == byte));
    digits.fold(0, |number, digit| number << 5 | digit as u64)
}

/// The environment entry that every process of the task starts with.
pub(super) fn cookie(id: &CStr) -> [u8; COOKIE_BYTES] {
    let mut cookie = *b"RINGBACK_ID=............";
    for (place, &byte) in cookie.iter_mut().skip(COOKIE_NAME_BYTES).zip(id.to_bytes()) {
        *place = byte;
    }
    cookie
}
