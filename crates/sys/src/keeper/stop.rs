//! Ending a tree: TERM and the grace, then freeze, kill and reap until nothing is left, with the output still drained.

use super::Keeper;
use super::cgroup;
use super::crash::crash;
use super::members::{Members, Order, bit};
use super::receipts;
use crate::form::receipt::Doubt;
use crate::form::record::{Cause, Phase};
use crate::form::spec::Leftovers;
use crate::raw::process::Reaped;
use crate::raw::{poll, process, signal, time};

/// How long killing may take before the rest is named as survivors, milliseconds.
const KILL_MS: u64 = 10_000;
/// How long nobody may die before the tree is looked at again, milliseconds.
const QUIET_MS: u64 = 100;
/// How long a killed cgroup may take to become empty before its members are looked at one by one, milliseconds.
const CGROUP_MS: u64 = 1000;
/// How many more looks are taken for processes to ask with TERM; one that is born still later gets the KILL.
const ASK_ROUNDS: u32 = 8;
/// How many freezing rounds are tried before killing what is there; each finds only what was born since the last one.
const FREEZE_ROUNDS: u32 = 64;
/// After so many rounds in which every one refused the signal, there is no point in more.
const REFUSED_ROUNDS: u32 = 3;

/// A stop under way.
pub(super) struct Stop {
    pub(super) cause: Cause,
    pub(super) began_ms: u64,
    /// When the grace is over.
    pub(super) firm_at_ms: u64,
    pub(super) members: Members,
    /// Signals sent, as bits.
    pub(super) signals: u64,
    /// How many processes this keeper waited for.
    pub(super) reaped: u32,
}

impl Keeper {
    /// Begins a stop, or shortens the grace of the one under way; a tree that is already empty needs none.
    pub(super) fn stop_tree(&mut self, cause: Cause, grace_ms: u64) {
        if self.main_over && self.tree_empty {
            return;
        }
        if self.stop.is_none() {
            receipts::set_aside();
        }
        self.begin_stop(cause, grace_ms);
    }

    /// Begins a stop that ends with a receipt even if nobody is left, as the one of a keeper that died in it.
    pub(super) fn begin_stop(&mut self, cause: Cause, grace_ms: u64) {
        let now_ms = time::mono_ms();
        if let Some(stop) = &mut self.stop {
            stop.firm_at_ms = stop.firm_at_ms.min(now_ms.saturating_add(grace_ms));
            return;
        }
        // The cause goes on record before the first signal, so that its effect is never taken for a natural end. An end
        // that was natural stays so: then only the leftovers are stopped.
        let natural = self.main_over && self.head.leftovers != Leftovers::Wait;
        if !natural && self.ledger.record.cause == Cause::None {
            self.ledger.record.cause = cause;
        }
        // A receipt that is there is of an earlier stop, or the dead keeper's, which the end of this one finds.
        self.ledger.record.has_receipt = false;
        self.ledger.record.stop_over = false;
        self.ledger.write();
        crash!("keeper.cause-recorded");
        // What somebody has put in its place says nothing of who is left.
        self.hold.in_cgroup = self.hold.in_cgroup && cgroup::is_there();
        let Ok(members) = Members::new(self.hold) else {
            // Without 5 MB for the list only the main process's group is reached; the next request tries again.
            if self.main_is_held() {
                let _ = process::kill(-self.ledger.record.main.pid, signal::KILL);
            }
            return;
        };
        let firm_at_ms = now_ms.saturating_add(grace_ms);
        let mut stop = Stop { cause, began_ms: now_ms, firm_at_ms, members, signals: 0, reaped: 0 };
        // Without a grace nobody could act on TERM.
        if grace_ms > 0 {
            self.ask(&mut stop);
        }
        crash!("keeper.after-term");
        self.stop = Some(stop);
    }

    /// TERM, and CONT so that a stopped process can act on it.
    fn ask(&mut self, stop: &mut Stop) {
        let only_main = self.head.term_main_only && !self.main_over;
        let only = if only_main { self.ledger.record.main.pid } else { 0 };
        let term = Order { signals: [signal::TERM, signal::CONT], only, ..Order::default() };
        stop.members.scan(term);
        // A parent that obeys at once takes the list of its children with it before it was read to the end (proc(5):
        // such a list is reliable only while nobody in it ends). They are ours now, and asked once like all others. Whoever
        // was asked is not looked at again: of a large tree most are dying, and each look costs more than the question.
        for _ in 0..ASK_ROUNDS {
            if stop.members.fresh == 0 {
                break;
            }
            stop.members.scan(Order { fresh: true, frozen: true, ..term });
        }
        stop.signals |= bit(signal::TERM) | bit(signal::CONT);
    }

    /// Ends the stop under way: kills what is left, writes the receipt and says so in the record.
    pub(super) fn finish_stop(&mut self) {
        let Some(mut stop) = self.stop.take() else { return };
        let doubt = self.kill_all(&mut stop);
        crash!("keeper.before-receipt");
        self.ledger.record.has_receipt = receipts::write(&stop, self.hold, doubt);
        self.ledger.record.stop_over = true;
        crash!("keeper.after-receipt");
        // What is over is told when it closes; but output that strangers hold may keep an ended task open for long.
        if !(self.main_over && self.tree_empty) || self.ledger.record.phase == Phase::Ended {
            self.name_leftovers();
            self.ledger.write();
            self.news.tell();
        }
        // Killing took the pokes of what was asked meanwhile.
        self.read_requests();
    }

    /// Freezes and kills in rounds, until two looks in a row, and the kernel's `ECHILD`, found nobody; gives what speaks
    /// against that.
    fn kill_all(&mut self, stop: &mut Stop) -> Doubt {
        let deadline_ms = time::mono_ms() + KILL_MS;
        let (mut empty, mut refused) = (0, 0);
        self.kill_cgroup(stop, deadline_ms);
        while empty < 2 {
            stop.members.make_room();
            let alive = freeze(stop);
            crash!("keeper.after-freeze");
            if alive == 0 {
                empty += 1;
                self.reap_into(Some(stop));
                if !self.tree_empty && !self.wait_for_deaths(stop, deadline_ms) && time::mono_ms() > deadline_ms {
                    return Doubt::Unfinished;
                }
                continue;
            }
            empty = 0;
            let denied = stop.members.kill_frozen();
            stop.signals |= bit(signal::KILL);
            crash!("keeper.after-kill");
            refused = if denied == alive { refused + 1 } else { 0 };
            self.wait_for_deaths(stop, deadline_ms);
            if refused >= REFUSED_ROUNDS || time::mono_ms() > deadline_ms {
                let left = stop.members.scan(Order::default());
                return if left == 0 { Doubt::Unfinished } else { Doubt::Survivors };
            }
        }
        // The main process of a dead keeper is in no tree, though its end may still lack a witness.
        let gone = self.tree_empty || self.witness_at_ms().is_some();
        if !gone {
            return Doubt::Unfinished;
        }
        if self.hold.in_cgroup {
            // The kernel must say so as well; what is left there may only be ringback itself.
            let hidden = cgroup::is_populated() && stop.members.look_into_cgroup();
            return if hidden { Doubt::CgroupPopulated } else { Doubt::None };
        }
        if self.hold.is_parent() { Doubt::None } else { Doubt::KeeperDied }
    }

    /// Kills whoever is in the cgroup at once. Who has left it is met in the rounds after this.
    fn kill_cgroup(&mut self, stop: &mut Stop, deadline_ms: u64) {
        // A daemon that a command of the task called into being is nobody's tree: then each is killed by itself.
        if !self.hold.in_cgroup || !stop.members.look_into_cgroup() || cgroup::kill().is_err() {
            return;
        }
        stop.signals |= bit(signal::KILL);
        crash!("keeper.after-cgroup-kill");
        if !self.hold.is_parent() {
            cgroup::wait_until_empty(deadline_ms.min(time::mono_ms() + CGROUP_MS));
        }
        self.wait_for_deaths(stop, deadline_ms);
    }

    /// Reaps and drains until the tree is empty (`true`), nobody has died for a while, or the deadline is over.
    /// Output does not count: a survivor may pour it for ever.
    fn wait_for_deaths(&mut self, stop: &mut Stop, deadline_ms: u64) -> bool {
        let mut until_ms = deadline_ms.min(time::mono_ms() + QUIET_MS);
        loop {
            let reaped = stop.reaped;
            self.reap_into(Some(stop));
            if self.tree_empty {
                return true;
            }
            let now_ms = time::mono_ms();
            if stop.reaped != reaped {
                until_ms = deadline_ms.min(now_ms + QUIET_MS);
            }
            if now_ms >= until_ms {
                return false;
            }
            let [first, second] = self.capture.slots();
            let mut slots = [poll::Slot::new(self.signals.number(), poll::IN), first, second, self.watch_slot()];
            if poll::wait(&mut slots, Some(until_ms - now_ms)).is_err() {
                return false;
            }
            self.capture.take([slots[1], slots[2]], &mut self.ledger);
            self.clear_signals();
            if slots[3].ready != 0 {
                self.look_at_watched();
                until_ms = deadline_ms.min(time::mono_ms() + QUIET_MS);
            }
        }
    }

    /// Waits for every child that has ended; the main process's end goes on record before it is reaped.
    pub(super) fn reap_into(&mut self, mut stop: Option<&mut Stop>) {
        let own = self.hold.is_parent();
        loop {
            self.look_at_main();
            let spared = if own && !self.main_over { self.ledger.record.main.pid } else { 0 };
            match process::reap(spared) {
                // It ended between the two looks.
                Reaped::Spared => {}
                Reaped::Ended { pid, status } => {
                    if let Some(stop) = stop.as_deref_mut() {
                        stop.members.note_reaped(pid, status);
                        stop.reaped += 1;
                    }
                }
                Reaped::AllAlive => return self.note_children(),
                Reaped::NoChildren => return self.note_no_children(),
            }
        }
    }
}

/// Stops every member, again and again until no new one appears. A fork(2) does not return while a signal is pending,
/// so a round after which nobody is new has everybody.
fn freeze(stop: &mut Stop) -> usize {
    let halt = Order { signals: [signal::STOP, 0], ..Order::default() };
    let mut alive = stop.members.scan(halt);
    for _ in 0..FREEZE_ROUNDS {
        if alive == 0 {
            break;
        }
        stop.signals |= bit(signal::STOP);
        alive = stop.members.scan(Order { frozen: true, ..halt });
        if stop.members.fresh == 0 {
            break;
        }
    }
    alive
}
