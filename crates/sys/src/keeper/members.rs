//! The members of a tree: found by walking down from the keeper, told apart by start time, signalled so that a signal
//! can never reach a stranger.

use core::cmp::Ordering;

use super::procfs::{self, Stat};
use super::{asked, cgroup};
use crate::form::receipt::Ended;
use crate::form::record::Who;
use crate::raw::memory::{Plain, Table};
use crate::raw::{Errno, Fd, Result, process, signal};

/// How many processes one stop keeps in mind; a fork bomb beyond that is killed in waves.
const MEMBERS_MAX: usize = 65_536;
/// A power of two, twice as large, so that open addressing stays short.
const INDEX_SLOTS: usize = 2 * MEMBERS_MAX;

/// What tells the members from all other processes.
#[derive(Clone, Copy)]
pub(super) struct Hold {
    /// This keeper.
    pub(super) keeper: i32,
    /// How it reaches them.
    pub(super) by: By,
    /// The environment entry that every process of the task starts with.
    pub(super) cookie: [u8; COOKIE_BYTES],
    /// The task has a cgroup, which lists them too.
    pub(super) in_cgroup: bool,
}

/// How a keeper reaches the tree.
#[derive(Clone, Copy)]
pub(super) enum By {
    /// It is their ancestor and subreaper.
    Parent,
    /// It took over: the session of the main process, or the cookie in the environment.
    Marks { main: Who },
}

impl Hold {
    /// Whether the keeper is the ancestor of all.
    pub(super) fn is_parent(&self) -> bool {
        matches!(self.by, By::Parent)
    }

    /// The task's id.
    fn id(&self) -> &[u8] {
        self.cookie.get(COOKIE_NAME_BYTES..).unwrap_or_default()
    }
}

/// Length of `RINGBACK_ID=` and an id.
pub(super) const COOKIE_BYTES: usize = 24;
/// Length of `RINGBACK_ID=`.
pub(super) const COOKIE_NAME_BYTES: usize = 12;

/// How a process was found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    /// Among the children of this one.
    Below(i32),
    /// By its marks.
    Marked,
    /// By the daemon, which has inherited the one that started then.
    Adopted(u64),
    /// In the cgroup.
    InCgroup,
}

/// One process of the tree.
#[derive(Clone, Copy)]
pub(super) struct Member {
    pub(super) pid: i32,
    pub(super) parent: i32,
    pub(super) depth: u32,
    pub(super) start_ticks: u64,
    pub(super) ended: Ended,
    pub(super) how: i32,
    pub(super) errno: i32,
    pub(super) state: u8,
    pub(super) comm: [u8; 16],
    threads: u32,
    seen_in: u32,
}

// SAFETY: zero is a value of each field (`Ended::Alive` is 0), and there is nothing to drop.
unsafe impl Plain for Member {}

/// All processes of the tree that were seen.
pub(super) struct Members {
    hold: Hold,
    list: Table<Member>,
    count: usize,
    index: Table<u32>,
    queue: Table<u32>,
    queued: usize,
    /// How many scans there were.
    pub(super) scans: u32,
    /// How many new ones the last scan found.
    pub(super) fresh: usize,
    /// What the scan under way does to whom it meets.
    order: Order,
}

/// What a scan does to the members that it meets.
#[derive(Clone, Copy, Default)]
pub(super) struct Order {
    /// Signals for them, in this order; 0 is none.
    pub(super) signals: [i32; 2],
    /// Only this process is signalled; 0 is all.
    pub(super) only: i32,
    /// Only those that no earlier scan has met are signalled.
    pub(super) fresh: bool,
    /// Those that are known are not looked at again: right while they are stopped, and can neither end nor fork, or where
    /// only new ones count.
    pub(super) frozen: bool,
}

impl Members {
    /// Nothing seen so far.
    pub(super) fn new(hold: Hold) -> Result<Self> {
        Ok(Self {
            hold,
            list: Table::new(MEMBERS_MAX)?,
            count: 0,
            index: Table::new(INDEX_SLOTS)?,
            queue: Table::new(MEMBERS_MAX)?,
            queued: 0,
            scans: 0,
            fresh: 0,
            order: Order::default(),
        })
    }

    /// Looks for members; afterwards those not seen are marked as gone. Gives the number of living ones.
    pub(super) fn scan(&mut self, order: Order) -> usize {
        self.order = order;
        self.scans += 1;
        self.queued = 0;
        self.fresh = 0;
        let Hold { keeper, by, cookie, in_cgroup } = self.hold;
        if in_cgroup && order.fresh {
            // Newborns are in the cgroup of their parents: one list has them, and says nothing of who is gone.
            cgroup::processes(|pid| self.visit_in_cgroup(pid));
            return self.queued;
        }
        match by {
            By::Parent => {
                let threads = 1;
                if procfs::children(keeper, threads, |pid| self.visit(pid, Found::Below(keeper), 1)).is_err() {
                    self.walk_by_parent(keeper);
                }
            }
            By::Marks { main } => {
                self.walk_by_marks(keeper, main, &cookie);
                asked::adopted(|who| self.visit(who.pid, Found::Adopted(who.start_ticks), 1));
            }
        }
        let walked = self.walk_down(0);
        if in_cgroup {
            cgroup::processes(|pid| {
                if !self.was_met(pid) {
                    self.visit_in_cgroup(pid);
                }
            });
            self.walk_down(walked);
        }
        self.note_gone();
        self.queued
    }

    /// Looks at who is in the cgroup, without a walk; whether nobody there is ringback itself, so that all may be killed
    /// at once.
    pub(super) fn look_into_cgroup(&mut self) -> bool {
        self.order = Order { frozen: true, ..Order::default() };
        self.scans += 1;
        self.queued = 0;
        let mut strangers = false;
        cgroup::processes(|pid| {
            self.visit_in_cgroup(pid);
            strangers = strangers
                || (self.find(pid).is_none()
                    && procfs::stat(pid).is_some_and(|stat| procfs::is_ringback(pid, &stat.comm)));
        });
        !strangers
    }

    fn visit_in_cgroup(&mut self, pid: i32) {
        self.visit(pid, Found::InCgroup, 1);
    }

    fn was_met(&self, pid: i32) -> bool {
        self.find(pid).is_some_and(|at| self.list.values()[at].seen_in == self.scans)
    }

    /// Visits the children of all that were visited, and theirs, from this place in the queue on; gives the next place.
    fn walk_down(&mut self, mut at: usize) -> usize {
        while at < self.queued {
            let parent = self.list.values()[self.queue.values()[at] as usize];
            let found = Found::Below(parent.pid);
            let _ = procfs::children(parent.pid, parent.threads, |pid| self.visit(pid, found, parent.depth + 1));
            at += 1;
        }
        at
    }

    /// For kernels without `/proc/PID/task/TID/children`: everybody whose parent is a member, until nobody new is found.
    fn walk_by_parent(&mut self, keeper: i32) {
        loop {
            let before = self.queued;
            procfs::all(|pid| {
                let Some(stat) = procfs::stat(pid) else { return };
                let depth = if stat.parent == keeper { 1 } else { self.depth_below(stat.parent) };
                if depth != 0 {
                    self.visit(pid, Found::Below(stat.parent), depth);
                }
            });
            if self.queued == before {
                return;
            }
        }
    }

    fn depth_below(&self, parent: i32) -> u32 {
        self.find(parent).map_or(0, |at| {
            let member = self.list.values()[at];
            if member.seen_in == self.scans { member.depth + 1 } else { 0 }
        })
    }

    /// The session counts only while its leader is there to prove that the number was not given again.
    fn walk_by_marks(&mut self, keeper: i32, main: Who, cookie: &[u8]) {
        let leader = procfs::stat(main.pid).filter(|leader| leader.start_ticks == main.start_ticks);
        let session = leader.map(|_| main.pid);
        procfs::all(|pid| {
            let marked = |stat: Stat| Some(stat.session) == session || procfs::has_variable(pid, cookie);
            if pid != keeper && procfs::stat(pid).is_some_and(marked) {
                self.visit(pid, Found::Marked, 1);
            }
        });
    }

    /// Notes that `pid` was found so, and does to it what was ordered.
    fn visit(&mut self, pid: i32, found: Found, depth: u32) {
        if self.order.frozen
            && let Some(at) = self.find(pid)
            && self.list.values()[at].ended == Ended::Alive
        {
            return self.enqueue(at);
        }
        // The handle is taken before the look: so what is seen belongs to the process of the handle, or that one is dead.
        let handle = self.handle_for(pid, found);
        let Some(stat) = procfs::stat(pid) else { return };
        let known = self.find(pid).filter(|&at| self.list.values()[at].start_ticks == stat.start_ticks);
        if stat.is_dead() {
            if let Some(at) = known {
                self.note_zombie(at, &stat);
            }
            return;
        }
        if known.is_none() && procfs::is_ringback(pid, &stat.comm) {
            return;
        }
        // The number may have gone to a stranger since it was listed; then its parent is none of ours.
        let of_ours = self.is_keeper(stat.parent) || self.find(stat.parent).is_some();
        let (ours, depth) = match found {
            Found::Below(parent) => (stat.parent == parent || of_ours, depth),
            Found::Marked => (true, depth),
            Found::Adopted(start_ticks) => (stat.start_ticks == start_ticks, depth),
            Found::InCgroup => {
                let ours = of_ours || known.is_some() || procfs::is_in_cgroup_of(pid, self.hold.id());
                (ours, self.find(stat.parent).map_or(depth, |at| self.list.values()[at].depth + 1))
            }
        };
        let Some(at) = known.or_else(|| if ours { self.insert(pid, &stat, depth) } else { None }) else { return };
        let member = &mut self.list.values_mut()[at];
        member.parent = stat.parent;
        member.threads = stat.threads;
        member.state = stat.state;
        if member.seen_in != self.scans && (known.is_none() || !self.order.fresh) {
            self.send_ordered(at, handle.as_ref());
        }
        self.enqueue(at);
    }

    fn enqueue(&mut self, at: usize) {
        let member = &mut self.list.values_mut()[at];
        if member.seen_in != self.scans && self.queued < MEMBERS_MAX {
            member.seen_in = self.scans;
            self.queue.values_mut()[self.queued] = u32::try_from(at).unwrap_or(0);
            self.queued += 1;
        }
    }

    /// A handle to signal `pid` with, unless nothing is ordered or it is a child of ours, which keeps its number until
    /// we wait for it.
    fn handle_for(&self, pid: i32, found: Found) -> Option<Fd> {
        let wanted = self.order.signals != [0; 2] && (self.order.only == 0 || self.order.only == pid);
        let own = matches!(found, Found::Below(parent) if self.is_child_of_ours(parent));
        if wanted && !own { process::handle(pid).ok() } else { None }
    }

    fn is_child_of_ours(&self, parent: i32) -> bool {
        self.hold.is_parent() && parent == self.hold.keeper
    }

    fn send_ordered(&mut self, at: usize, handle: Option<&Fd>) {
        let member = self.list.values()[at];
        if self.order.only != 0 && self.order.only != member.pid {
            return;
        }
        for number in self.order.signals {
            if number == 0 || (number == signal::STOP && member.state == b'T') {
                continue;
            }
            let answer = match handle {
                Some(handle) => process::kill_handle(handle, number),
                None if self.is_child_of_ours(member.parent) => process::kill(member.pid, number),
                None => send(&member, number),
            };
            self.list.values_mut()[at].errno = refusal(answer);
        }
    }

    fn is_keeper(&self, pid: i32) -> bool {
        pid == self.hold.keeper
    }

    fn insert(&mut self, pid: i32, stat: &Stat, depth: u32) -> Option<usize> {
        let at = self.count;
        let member = Member {
            pid,
            parent: stat.parent,
            depth,
            start_ticks: stat.start_ticks,
            ended: Ended::Alive,
            how: 0,
            errno: 0,
            state: stat.state,
            comm: stat.comm,
            threads: stat.threads,
            seen_in: 0,
        };
        *self.list.values_mut().get_mut(at)? = member;
        self.count += 1;
        self.fresh += 1;
        let slot = self.slot(pid);
        if let Some(old) = self.index.values()[slot].checked_sub(1) {
            // The same number with another start time: the first one is gone.
            let old = &mut self.list.values_mut()[old as usize];
            if old.ended == Ended::Alive {
                old.ended = Ended::Vanished;
            }
        }
        self.index.values_mut()[slot] = u32::try_from(at + 1).unwrap_or(0);
        Some(at)
    }

    fn find(&self, pid: i32) -> Option<usize> {
        self.index.values()[self.slot(pid)].checked_sub(1).map(|at| at as usize)
    }

    /// The index slot that holds `pid`, or the free one where it would go.
    fn slot(&self, pid: i32) -> usize {
        let mut slot = usize::try_from(pid).unwrap_or(0) % INDEX_SLOTS;
        while let Some(at) = self.index.values()[slot].checked_sub(1) {
            if self.list.values()[at as usize].pid == pid {
                break;
            }
            slot = (slot + 1) % INDEX_SLOTS;
        }
        slot
    }

    fn note_zombie(&mut self, at: usize, stat: &Stat) {
        let member = &mut self.list.values_mut()[at];
        if member.ended == Ended::Alive {
            // Zero may also mean that we may not see the status, so it is no evidence.
            (member.ended, member.how) = if stat.status == 0 { (Ended::Vanished, 0) } else { ending(stat.status) };
        }
    }

    fn note_gone(&mut self) {
        let scan = self.scans;
        let count = self.count;
        for member in self.list.values_mut().iter_mut().take(count) {
            if member.seen_in != scan && member.ended == Ended::Alive {
                member.ended = Ended::Vanished;
            }
        }
    }

    /// Notes the status of a child that was waited for; one that was never seen is counted all the same.
    pub(super) fn note_reaped(&mut self, pid: i32, status: i32) {
        let stat = Stat::default();
        let at = self.find(pid).or_else(|| self.insert(pid, &stat, 1));
        if let Some(member) = at.and_then(|at| self.list.values_mut().get_mut(at)) {
            (member.ended, member.how) = ending(status);
        }
    }

    /// Kills everybody whom the last scan, which found them stopped, saw; gives how many refused it.
    pub(super) fn kill_frozen(&mut self) -> usize {
        let mut refused = 0;
        for at in 0..self.queued {
            let place = self.queue.values()[at] as usize;
            let member = self.list.values()[place];
            let answer = match self.hold.by {
                // Below us nobody but us can wait for it while its parent is stopped, so it keeps its number.
                By::Parent if !self.hold.in_cgroup => process::kill(member.pid, signal::KILL),
                By::Parent | By::Marks { .. } => send(&member, signal::KILL),
            };
            let errno = refusal(answer);
            refused += usize::from(errno != 0);
            self.list.values_mut()[place].errno = errno;
        }
        refused
    }

    /// All that were seen, the living and the dead, in the order in which they were found.
    pub(super) fn all(&self) -> &[Member] {
        self.list.values().get(..self.count).unwrap_or_default()
    }

    /// Whether another scan could still hold everything; else the members are forgotten and the next wave begins.
    pub(super) fn make_room(&mut self) {
        if self.count.cmp(&(MEMBERS_MAX / 2)) == Ordering::Less {
            return;
        }
        if let Ok(fresh) = Self::new(self.hold) {
            let scans = self.scans;
            *self = fresh;
            self.scans = scans;
        }
    }
}

/// How a process ended, by the status word of wait(2).
fn ending(status: i32) -> (Ended, i32) {
    match status & 0x7f {
        0 => (Ended::Exited, status >> 8 & 0xff),
        signal => (Ended::Signaled, signal),
    }
}

/// The handle is taken first, then the start time is compared: so the handle is the member's, or dead.
fn send(member: &Member, number: i32) -> Result<()> {
    let handle = process::handle(member.pid)?;
    match procfs::stat(member.pid) {
        Some(stat) if stat.start_ticks == member.start_ticks => process::kill_handle(&handle, number),
        _ => Ok(()),
    }
}

/// The error that will be named if it stays alive; one that is gone has not refused.
fn refusal(answer: Result<()>) -> i32 {
    answer.err().filter(|error| *error == Errno::EPERM).map_or(0, |error| error.0)
}

/// The signals of a stop as bits of a receipt.
pub(super) const fn bit(number: i32) -> u64 {
    1 << number
}
