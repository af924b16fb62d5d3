//! The end of a task: the main process's status, the moment to tell it, what outlived it, and the moment to leave.

use super::Keeper;
use super::cgroup;
use super::crash::crash;
use super::members::{By, Members, Order};
use super::oom;
use super::procfs;
use crate::form::receipt::Ended;
use crate::form::record::{Cause, Leftover, Phase, Who, Witness};
use crate::form::spec::Leftovers;
use crate::raw::process::Usage;
use crate::raw::{process, time};

/// How long a task that left processes behind may go on talking before its end is told, milliseconds: what a process
/// substitution still has to say comes within it.
const DRAIN_MS: u64 = 100;

impl Keeper {
    /// Looks whether our child, the main process, has ended, and records it before anybody reaps it.
    pub(super) fn look_at_main(&mut self) {
        if self.main_over || !self.hold.is_parent() {
            return;
        }
        if let Some((status, usage)) = process::peek(self.ledger.record.main.pid) {
            self.note_main_end(Witness::Parent, status, usage);
        }
    }

    /// Records how the main process ended. Not told yet: output and tree come first.
    pub(super) fn note_main_end(&mut self, witness: Witness, status: i32, usage: Usage) {
        let record = &mut self.ledger.record;
        record.witness = witness;
        record.wait_status = status;
        record.user_us = usage.user_us;
        record.system_us = usage.system_us;
        record.max_rss_kb = usage.max_rss_kb;
        record.ended_wall_ms = time::wall_ms().cast_signed();
        record.ended_mono_ms = time::mono_ms();
        // SIGKILL (9) that is none of ours may be the kernel's, for want of memory.
        record.oom = status & 0x7f == 9 && record.cause == Cause::None && oom::killed(record, self.hold.in_cgroup);
        if self.hold.in_cgroup {
            record.oom_kills = u32::try_from(cgroup::oom_kills()).unwrap_or(u32::MAX);
        }
        let ended_ms = record.ended_mono_ms;
        self.end_pause(ended_ms);
        self.tell_at_ms = ended_ms + DRAIN_MS;
        self.look_again_at_ms = Some(self.tell_at_ms);
        self.main_over = true;
        self.capture.let_go_of_pty();
        self.ledger.write();
        crash!("keeper.main-ended");
    }

    /// The kernel says that there are no children; that means something only if the tree is ours.
    pub(super) fn note_no_children(&mut self) {
        match self.hold.by {
            By::Parent => self.note_tree_empty(),
            By::Marks { .. } => self.look_at_tree(),
        }
    }

    /// The kernel says that there are children; if all of them are ringback itself, the tree is empty all the same.
    pub(super) fn note_children(&mut self) {
        self.tree_empty = false;
        if !self.main_over || !self.hold.is_parent() {
            return;
        }
        let mut strangers_only = true;
        let listed = procfs::children(self.hold.keeper, 1, |pid| {
            strangers_only =
                strangers_only && procfs::stat(pid).is_some_and(|stat| procfs::is_ringback(pid, &stat.comm));
        });
        if listed.is_ok() && strangers_only {
            self.note_tree_empty();
        }
    }

    pub(super) fn note_tree_empty(&mut self) {
        if !self.tree_empty && self.head.leftovers == Leftovers::Wait {
            self.tell_at_ms = time::mono_ms() + DRAIN_MS;
        }
        self.tree_empty = true;
    }

    /// Whether only the time is missing until the end is told.
    pub(super) fn is_telling(&self) -> bool {
        let waits = self.head.leftovers == Leftovers::Wait && !self.tree_empty;
        self.main_over && self.ledger.record.phase == Phase::Started && self.stop.is_none() && !waits
    }

    /// Tells what can be told now; whether nothing is left to keep.
    #[inline(never)]
    pub(super) fn settle(&mut self, now_ms: u64) -> bool {
        if !self.main_over || self.stop.is_some() {
            return false;
        }
        if self.look_again_at_ms.is_some_and(|at_ms| now_ms >= at_ms) {
            self.look_again_at_ms = None;
            if !self.tree_empty {
                self.note_children();
            }
        }
        self.capture.drain(&mut self.ledger);
        let output_over = self.capture.is_over();
        if self.tree_empty && output_over {
            self.close();
            return true;
        }
        // With leftovers that write no output, or output held by strangers alone, there is nothing to wait for.
        if self.is_telling() && (self.tree_empty || output_over || now_ms >= self.tell_at_ms) {
            self.tell_end();
            if self.head.leftovers == Leftovers::Kill && !self.tree_empty {
                self.stop_tree(Cause::None, self.head.grace_ms);
            }
        }
        false
    }

    fn tell_end(&mut self) {
        self.capture.notice_loss(&mut self.ledger);
        if self.head.leftovers == Leftovers::Wait {
            self.note_late_end();
        }
        self.ledger.record.phase = Phase::Ended;
        self.note_output();
        self.name_leftovers();
        crash!("keeper.before-ended");
        self.ledger.write();
        crash!("keeper.after-ended");
        self.news.tell();
    }

    fn close(&mut self) {
        self.capture.notice_loss(&mut self.ledger);
        let record = &mut self.ledger.record;
        if record.phase == Phase::Started && self.head.leftovers == Leftovers::Wait {
            self.note_late_end();
        }
        self.note_output();
        let record = &mut self.ledger.record;
        record.phase = Phase::Closed;
        record.leftovers_count = 0;
        record.leftovers = [Leftover::default(); _];
        crash!("keeper.before-closed");
        self.ledger.write();
        crash!("keeper.after-closed");
        self.news.tell();
        if self.hold.in_cgroup {
            cgroup::remove();
        }
    }

    /// A task that waits for its tree ends with the tree.
    fn note_late_end(&mut self) {
        self.ledger.record.ended_wall_ms = time::wall_ms().cast_signed();
        self.ledger.record.ended_mono_ms = time::mono_ms();
    }

    fn note_output(&mut self) {
        let record = &mut self.ledger.record;
        record.output_bytes = self.capture.length();
        record.output_complete = self.capture.is_over() && !record.output_torn;
        record.last_output_mono_ms = self.capture.last_ms;
    }

    /// Writes into the record who is still alive.
    pub(super) fn name_leftovers(&mut self) {
        let record = &mut self.ledger.record;
        record.leftovers_count = 0;
        record.leftovers = [Leftover::default(); _];
        if self.tree_empty {
            return;
        }
        let Ok(mut members) = Members::new(self.hold) else { return };
        members.scan(Order::default());
        let main = if self.main_over { 0 } else { record.main.pid };
        let alive = members.all().iter().filter(|member| member.ended == Ended::Alive && member.pid != main);
        for member in alive {
            if let Some(place) = record.leftovers.get_mut(record.leftovers_count as usize) {
                let who = Who { pid: member.pid, start_ticks: member.start_ticks };
                *place = Leftover { who, comm: member.comm };
            }
            record.leftovers_count += 1;
        }
    }
}
