//! The keeper: one small process per task that holds the tree, its output and its exit status, and outlives the daemon.
//!
//! It runs in the task folder, speaks through the files of [`crate::form`], and never allocates. The same source is part
//! of this crate and of the freestanding binary that `build.rs` makes of `bin.rs`.

mod asked;
mod capture;
mod cgroup;
mod child;
mod crash;
mod end;
mod exec;
mod gaps;
mod hold_back;
mod ledger;
mod members;
mod news;
mod oom;
mod pause;
mod procfs;
mod pty;
mod receipts;
mod sink;
mod spec_file;
mod start;
mod stop;
mod takeover;

pub use crash::CRASH_POINTS;

use core::ffi::CStr;

use capture::Capture;
use ledger::Ledger;
use members::Hold;
use news::News;
use stop::Stop;

use crate::form::record::{Cause, Phase};
use crate::form::spec::{Head, Leftovers};
use crate::raw::{Fd, memory, poll, time};

/// Keeps the task of the working directory until it is over. `arguments` are argv: the name, the id, and either
/// `takeover` (`takeover-torn` if the pipes of its output were held by nobody), or the path of the cgroup that is made for
/// the task, or nothing.
///
/// `crash` is the value of `RINGBACK_CRASH`; it means something in debug builds only. Gives the exit code.
pub fn run(arguments: [Option<&CStr>; 3], crash: Option<&'static CStr>) -> i32 {
    #[cfg(crash_points)]
    if let Some(crash) = crash {
        crash::arm(crash.to_bytes());
    }
    #[cfg(not(crash_points))]
    let _ = crash;
    let [_, Some(id), how] = arguments else { return start::EXIT_USAGE };
    let mut keeper = match how.map(CStr::to_bytes) {
        Some(b"takeover") => takeover::begin(id, false),
        Some(b"takeover-torn") => takeover::begin(id, true),
        _ => start::begin(id, how),
    };
    // Borrowed, not moved: a second copy would cost each keeper a page of stack for its whole life.
    match &mut keeper {
        Ok(keeper) => {
            keeper.serve();
            0
        }
        Err(code) => *code,
    }
}

/// A task being kept.
struct Keeper {
    head: Head,
    ledger: Ledger,
    news: News,
    capture: Capture,
    signals: Fd,
    /// The write end of the task's stdin.
    stdin: Option<Fd>,
    hold: Hold,
    /// The main process and one leftover, when the keeper is not their parent.
    watched: takeover::Watched,
    main_over: bool,
    tree_empty: bool,
    /// After the main process's end: when to tell although output or tree are still open.
    tell_at_ms: u64,
    /// When to look once more whether only ringback itself is left: a new daemon may not have been itself yet.
    look_again_at_ms: Option<u64>,
    /// Since when the task counts as silent.
    idle_from_ms: u64,
    stop: Option<Stop>,
}

impl Keeper {
    /// Waits and acts until the tree is empty and the output complete.
    ///
    /// What waits has a small frame and what acts is never inlined into it, so that the stack of a waiting keeper is
    /// two pages.
    fn serve(&mut self) {
        self.read_requests();
        loop {
            let now_ms = time::mono_ms();
            self.run_timers(now_ms);
            if self.settle(now_ms) {
                break;
            }
            self.wait(now_ms);
        }
        // A full news FIFO has a daemon at its other end, or gives an error.
        while let Some(fd) = self.news.waits_for() {
            let _ = poll::wait(&mut [poll::Slot::new(fd, poll::OUT)], None);
            self.news.retry();
        }
    }

    #[inline(never)]
    fn wait(&mut self, now_ms: u64) {
        let [first, second] = self.capture.slots();
        let signals = poll::Slot::new(self.signals.number(), poll::IN);
        let news = poll::Slot::new(self.news.waits_for().unwrap_or(-1), poll::OUT);
        let mut slots = [signals, first, second, news, self.watch_slot(), self.capture.typed_slot()];
        let timeout_ms = self.next_timer_ms().map(|at_ms| at_ms.saturating_sub(now_ms));
        let mut ready = poll::wait(&mut slots, Some(0));
        if ready == Ok(0) && timeout_ms != Some(0) {
            // Only a keeper that really waits gives its stack back; a busy one would take it again at once.
            memory::forget_stack();
            ready = poll::wait(&mut slots, timeout_ms);
        }
        if ready.is_ok() {
            self.act_on(slots);
        }
    }

    #[inline(never)]
    fn act_on(&mut self, slots: [poll::Slot; 6]) {
        if slots[3].ready != 0 {
            self.news.retry();
        }
        self.capture.take([slots[1], slots[2]], &mut self.ledger);
        if slots[4].ready != 0 {
            self.look_at_watched();
        }
        if slots[5].ready != 0 {
            self.capture.type_in();
        }
        if slots[0].ready != 0 {
            self.clear_signals();
            self.look_for_pause();
            let mut stop = self.stop.take();
            self.reap_into(stop.as_mut());
            self.stop = stop;
            self.read_requests();
        }
    }

    /// When something has to happen without an event.
    fn next_timer_ms(&self) -> Option<u64> {
        if let Some(stop) = &self.stop {
            return Some(self.witness_at_ms().map_or(stop.firm_at_ms, |at_ms| at_ms.min(stop.firm_at_ms)));
        }
        let telling = self.is_telling().then_some(self.tell_at_ms);
        [telling, self.look_again_at_ms, self.witness_at_ms(), self.wall_at_ms(), self.idle_at_ms()]
            .into_iter()
            .flatten()
            .min()
    }

    #[inline(never)]
    fn run_timers(&mut self, now_ms: u64) {
        self.give_up_witness(now_ms);
        if let Some(stop) = &self.stop {
            if now_ms >= stop.firm_at_ms || (self.tree_empty && self.main_over) {
                self.finish_stop();
            }
            return;
        }
        let grace_ms = self.head.grace_ms;
        if self.limits_apply() && self.head.kill_at_output_max && self.capture.over_limit() {
            self.stop_tree(Cause::OutputLimit, grace_ms);
        } else if self.wall_at_ms().is_some_and(|at_ms| now_ms >= at_ms) {
            self.stop_tree(Cause::Wall, grace_ms);
        } else if self.idle_at_ms().is_some_and(|at_ms| now_ms >= at_ms) {
            // Somebody has stopped it (SIGSTOP), which a keeper that took over is not told: that is not silence.
            if procfs::stat(self.ledger.record.main.pid).is_some_and(|main| main.state == b'T') {
                self.idle_from_ms = now_ms;
            } else {
                self.stop_tree(Cause::Idle, grace_ms);
            }
        }
    }

    /// Limits end a task that has not ended, once.
    fn limits_apply(&self) -> bool {
        let record = &self.ledger.record;
        let going_on = !self.main_over || self.head.leftovers == Leftovers::Wait;
        record.phase == Phase::Started && record.cause == Cause::None && going_on
    }

    fn wall_at_ms(&self) -> Option<u64> {
        let limit_ms = self.head.wall_ms;
        (limit_ms != 0 && self.limits_apply()).then(|| self.ledger.record.started_mono_ms.saturating_add(limit_ms))
    }

    fn idle_at_ms(&self) -> Option<u64> {
        let limit_ms = self.head.idle_ms;
        if self.ledger.record.stopped_mono_ms != 0 {
            return None;
        }
        let from_ms = self.idle_from_ms.max(self.capture.last_ms);
        (limit_ms != 0 && self.limits_apply()).then(|| from_ms.saturating_add(limit_ms))
    }

    /// Which signals came does not matter: each means "look again".
    fn clear_signals(&self) {
        let mut infos = [0; 512];
        while matches!(crate::raw::file::read(&self.signals, &mut infos), Ok(1..)) {}
    }
}
