//! Taking up a task whose keeper was killed: its output, its timers, and the end of a process that is not our child.

use core::ffi::CStr;

use super::Keeper;
use super::asked;
use super::capture::Capture;
use super::cgroup;
use super::crash::crash;
use super::members::{By, Hold, Member, Members, Order};
use super::news::News;
use super::procfs;
use super::pty::Pty;
use super::spec_file::Spec;
use super::start::{self, EXIT_NOT_NEEDED, EXIT_USAGE};
use crate::form::receipt::Ended;
use crate::form::record::{Cause, Phase, Who, Witness};
use crate::form::request::Ask;
use crate::form::spec::Leftovers;
use crate::raw::process::Usage;
use crate::raw::{Fd, file, poll, process, time};

/// How long the daemon, which may have inherited and reaped the main process, has to say so, milliseconds.
const WITNESS_MS: u64 = 500;

/// Handles of processes that are not our children.
#[derive(Default)]
pub(super) struct Watched {
    main: Option<Fd>,
    /// One process that outlived the main one; when it ends, the next is looked for.
    leftover: Option<Fd>,
    /// Until when somebody may still witness an end that we did not see.
    witness_until_ms: Option<u64>,
}

/// Takes up the task of the working directory, if it was started and is not over. `torn`: something of its output may be gone.
#[inline(never)]
pub(super) fn begin(id: &CStr, torn: bool) -> Result<Keeper, i32> {
    let mut ledger = start::settle_in()?;
    let phase = ledger.record.phase;
    if !matches!(phase, Phase::Started | Phase::Ended) || ledger.record.boot != procfs::boot_id() {
        return Err(EXIT_NOT_NEEDED);
    }
    crash!("keeper.takeover");
    let head = Spec::read().ok_or(EXIT_USAGE)?.head;
    start::introduce(&mut ledger);
    // What happened since the last keeper's death nobody has seen.
    ledger.record.pauses_seen &= ledger.record.phase == Phase::Ended || ledger.record.witness != Witness::None;
    ledger.record.stopped_mono_ms = 0;
    ledger.record.output_torn |= torn;
    let signals = start::listen().map_err(|_| EXIT_USAGE)?;
    let mut capture = Capture::open(&head, &mut ledger.record).map_err(|_| EXIT_USAGE)?;
    // Without it the kernel has hung the terminal up, and its session with it.
    capture.set_pty(head.pty.and_then(|_| Pty::take_up()));
    capture.repair(&mut ledger);
    crash!("keeper.takeover-repaired");
    let open = !asked::done(&ledger.record, |request| request.ask == Ask::CloseStdin);
    let stdin = if open { start::stdin(&head, file::flag::WRONLY).ok().flatten() } else { None };
    let by = By::Marks { main: ledger.record.main };
    let hold = Hold { keeper: process::id(), by, cookie: start::cookie(id), in_cgroup: cgroup::is_there() };
    let news = News::new(start::task_number(id));
    let mut keeper = Keeper::new(head, ledger, news, capture, signals, stdin, hold);
    keeper.capture.probe(&mut keeper.ledger);
    keeper.ledger.write();
    keeper.find_main();
    keeper.resume_stop();
    Ok(keeper)
}

impl Keeper {
    /// Finds the main process, its zombie, or what was already known of its end.
    fn find_main(&mut self) {
        let record = &self.ledger.record;
        if record.phase == Phase::Ended || record.witness != Witness::None {
            self.main_over = true;
            self.capture.let_go_of_pty();
            self.tell_at_ms = time::mono_ms();
            self.look_at_tree();
            return;
        }
        self.watched.main = handle_of(record.main);
        if self.watched.main.is_none() {
            self.await_witness();
        }
    }

    /// Goes on with a stop that the dead keeper had begun and not finished.
    fn resume_stop(&mut self) {
        let record = &self.ledger.record;
        if record.has_receipt {
            return;
        }
        let mut last = None;
        asked::done(record, |request| {
            if request.ask == Ask::Stop {
                last = Some(*request);
            }
            false
        });
        if let Some(request) = last {
            self.begin_stop(request.cause, request.grace_ms);
        } else if record.cause != Cause::None {
            self.begin_stop(record.cause, self.head.grace_ms);
        } else if record.phase == Phase::Ended && self.head.leftovers == Leftovers::Kill {
            self.begin_stop(Cause::None, self.head.grace_ms);
        }
    }

    /// What to wait for besides files, as long as the tree is not ours.
    pub(super) fn watch_slot(&self) -> poll::Slot {
        let watched = self.watched.main.as_ref().or(self.watched.leftover.as_ref());
        poll::Slot::new(watched.map_or(-1, Fd::number), poll::IN)
    }

    /// A watched process has ended.
    pub(super) fn look_at_watched(&mut self) {
        let Some(main) = self.watched.main.take() else {
            self.watched.leftover = None;
            return self.look_at_tree();
        };
        let who = self.ledger.record.main;
        // A zombie shows its status to its own user; one that was reaped has left it in the handle.
        if let Some(status) = zombie_status(who) {
            self.note_main_end(Witness::Zombie, status, Usage::default());
        } else if let Some(status) = process::status_of_handle(&main) {
            self.note_main_end(Witness::Pidfd, status, Usage::default());
        } else {
            return self.await_witness();
        }
        self.look_at_tree();
    }

    fn await_witness(&mut self) {
        self.watched.witness_until_ms = Some(time::mono_ms() + WITNESS_MS);
    }

    /// When an end that nobody witnessed is told as such.
    pub(super) fn witness_at_ms(&self) -> Option<u64> {
        self.watched.witness_until_ms
    }

    /// Nobody has witnessed the end in time: it is told, and that nobody knows how it was.
    pub(super) fn give_up_witness(&mut self, now_ms: u64) {
        if self.watched.witness_until_ms.is_some_and(|until_ms| now_ms >= until_ms) {
            self.watched.witness_until_ms = None;
            self.note_main_end(Witness::None, 0, Usage::default());
            self.look_at_tree();
        }
    }

    /// The daemon was the main process's parent at its end. What we saw ourselves is not changed by it.
    pub(super) fn hear_witness(&mut self, status: i32) {
        if self.main_over || self.hold.is_parent() {
            return;
        }
        if let Some(main) = &self.watched.main {
            let mut slots = [poll::Slot::new(main.number(), poll::IN)];
            if poll::wait(&mut slots, Some(0)) != Ok(1) {
                return;
            }
            self.look_at_watched();
            if self.main_over {
                return;
            }
        }
        self.watched.witness_until_ms = None;
        self.note_main_end(Witness::Daemon, status, Usage::default());
        self.look_at_tree();
    }

    /// The daemon has inherited somebody of the tree.
    pub(super) fn hear_of_orphan(&mut self) {
        if !self.hold.is_parent() {
            self.tree_empty = false;
            self.look_at_tree();
        }
    }

    /// Looks for members that are left, when no `ECHILD` can tell, and watches one of them.
    pub(super) fn look_at_tree(&mut self) {
        if !self.main_over || self.watched.leftover.is_some() || self.hold.is_parent() {
            return;
        }
        let Ok(mut members) = Members::new(self.hold) else { return };
        members.scan(Order::default());
        let alive = |member: &&Member| member.ended == Ended::Alive;
        let mut whos =
            members.all().iter().filter(alive).map(|member| Who { pid: member.pid, start_ticks: member.start_ticks });
        self.watched.leftover = whos.find_map(handle_of);
        if self.watched.leftover.is_none() {
            self.note_tree_empty();
        }
    }

    /// Whether the main process is there, so that its number and its group's are its own.
    pub(super) fn main_is_held(&self) -> bool {
        !self.main_over && (self.watched.main.is_some() || self.hold.is_parent())
    }
}

/// A handle of that very process; nothing if it is gone. A zombie has one too.
fn handle_of(who: Who) -> Option<Fd> {
    // The handle first: then the start time that is read belongs to the process of the handle, or that one is dead.
    let handle = process::handle(who.pid).ok()?;
    procfs::stat(who.pid).filter(|stat| stat.start_ticks == who.start_ticks).map(|_| handle)
}

/// The status word of a zombie, from field 52 of its stat; only if we are allowed to see it (proc(5)), as 0 would lie.
fn zombie_status(who: Who) -> Option<i32> {
    let stat = procfs::stat(who.pid).filter(|stat| stat.start_ticks == who.start_ticks && stat.is_dead())?;
    (stat.status != 0 || procfs::is_same_user(who.pid)).then_some(stat.status)
}
