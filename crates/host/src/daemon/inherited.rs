//! Processes that came to us because their keeper was killed: whose they are, and whether a tree can be shown to be gone.
//!
//! As the subreaper above its keepers the daemon inherits the children of one that dies (prctl(2)), and later whoever loses
//! a parent among them. None of them can hide from that, whatever it does to its environment and session, so they are
//! evidence that a keeper which takes over does not have. It is told who is of its tree.

use std::collections::BTreeMap;

use ringback_core::id::TaskId;
use ringback_core::outcome::WaitStatus;
use ringback_sys::form::record::{Phase, Record, Who};
use ringback_sys::form::request::{Ask, Request};
use ringback_sys::{identity, reap};

use super::Daemon;
use super::sight::KEEPER_DIED;
use crate::sink::Destination;
use crate::store::Facts;
use crate::wire::task::SurvivorObject;

/// What a keeper exits with that found itself wrong.
const EXIT_PANIC: i32 = 101;

/// How often a stop is repeated for those who came to us while it went on.
const STOPS_MAX: u32 = 3;

/// A keeper that is our child.
#[derive(Clone, Copy)]
pub(super) struct Kept {
    /// Its task.
    pub task: TaskId,
    /// It started the command; one that took over is nobody's ancestor.
    pub from_the_start: bool,
}

/// What was inherited.
#[derive(Default)]
pub(super) struct Inherited {
    /// Our children that are neither keepers nor deliveries, and whose tree each is of, where that is known.
    children: BTreeMap<i32, (Who, Option<TaskId>)>,
    /// Tasks whose whole tree came to us.
    trees: BTreeMap<TaskId, Tree>,
}

/// A tree that came to us.
#[derive(Default)]
struct Tree {
    /// Somebody came who may be of this tree or of another.
    unsure: bool,
    /// How often its stop was repeated.
    stops: u32,
}

impl Inherited {
    /// A keeper was taken in. One that left by itself has no tree, or never had one.
    pub(super) fn keeper_ended(&mut self, kept: Kept, status: i32) {
        let left = matches!(WaitStatus::read(status), WaitStatus::Exited(code) if code != EXIT_PANIC);
        if kept.from_the_start && !left {
            self.trees.entry(kept.task).or_default();
        }
    }

    /// A task is closed.
    pub(super) fn forget(&mut self, id: TaskId) {
        self.trees.remove(&id);
    }

    /// Puts into the receipt what a keeper that took over could not know: that everybody is gone, or who is not.
    pub(super) fn weigh(&self, id: TaskId, facts: &mut Facts) {
        let Some(receipt) = &mut facts.receipt else { return };
        if receipt.verified_empty || receipt.unverified_reason.as_deref() != Some(KEEPER_DIED) {
            return;
        }
        let Some(tree) = self.trees.get(&id) else { return };
        let left: Vec<Who> = self.living(id).collect();
        receipt.verified_empty = left.is_empty() && !tree.unsure;
        if receipt.verified_empty {
            receipt.unverified_reason = None;
        }
        if !left.is_empty() && receipt.survivors.is_empty() {
            receipt.unverified_reason = Some("survivors".to_owned());
            receipt.survivor_count = u32::try_from(left.len()).unwrap_or(u32::MAX);
            facts.survivor_starts = left.iter().map(|who| who.start_ticks).collect();
            receipt.survivors = left.into_iter().map(survivor).collect();
        }
    }

    /// Whether the whole of this tree came to us, and nobody of it lives.
    pub(super) fn has_all(&self, id: TaskId) -> bool {
        self.trees.get(&id).is_some_and(|tree| !tree.unsure) && self.living(id).next().is_none()
    }

    /// Those of this tree that are our children and live.
    fn living(&self, id: TaskId) -> impl Iterator<Item = Who> {
        let of_it = self.children.values().filter(move |(_, owner)| *owner == Some(id));
        of_it.map(|(who, _)| *who).filter(|who| identity::is_alive(*who))
    }
}

fn survivor(who: Who) -> SurvivorObject {
    let command = identity::stat(who.pid).map(|stat| stat.comm).unwrap_or_default();
    SurvivorObject { pid: who.pid, command, why: "it lost its parent while the stop went on".to_owned(), gone: false }
}

impl Daemon {
    /// Looks who has come to us, where the proof that this tree is gone depends on it.
    pub(super) fn take_stock(&mut self, id: TaskId) {
        if self.inherited.trees.contains_key(&id) {
            self.reap_all();
        }
    }

    /// A keeper that took over has stopped all it knew of: whether somebody came to us meanwhile, so that it was told to
    /// stop once more.
    pub(super) fn stops_again(&mut self, id: TaskId, record: &Record) -> bool {
        let left = self.inherited.living(id).next().is_some();
        let Some(tree) = self.inherited.trees.get_mut(&id) else { return false };
        // Survivors that the keeper knows of stand in its receipt.
        if !left || record.leftovers_count > 0 || record.phase == Phase::Closed || tree.stops == STOPS_MAX {
            return false;
        }
        tree.stops += 1;
        self.request(id, &Request { ask: Ask::Stop, cause: record.cause, ..Request::default() });
        true
    }

    /// Finds out whose those are that have come to us, and tells their keepers. True if somebody died meanwhile: then the
    /// dead have to be taken in first, since what a dead keeper had could pass for another one's.
    pub(super) fn inherit(&mut self) -> bool {
        if self.inherited.trees.is_empty() {
            return false;
        }
        let listed = reap::children().and_then(|children| Ok((children, reap::dead_child()?.is_some())));
        let (children, died) = match listed {
            Ok(listed) => listed,
            Err(error) => {
                self.troubles.note("see who has come to us", &error);
                self.inherited.trees.values_mut().for_each(|tree| tree.unsure = true);
                return false;
            }
        };
        if !died {
            self.inherited.children.retain(|pid, _| children.contains(pid));
            for pid in children {
                self.inherit_one(pid);
            }
        }
        died
    }

    fn inherit_one(&mut self, pid: i32) {
        if self.keepers.contains_key(&pid) || self.outbox.is_delivery(pid) || self.collector.is_ours(pid) {
            return;
        }
        let Ok(stat) = identity::stat(pid) else { return };
        let who = stat.who();
        if self.inherited.children.get(&pid).is_some_and(|(known, _)| *known == who) {
            return;
        }
        // Ringback itself, called into being by a command of a task, is nobody's tree.
        let stranger = identity::is_ringback(pid, &stat.comm);
        let marked = self.marked_for(who).filter(|_| !stranger);
        let owner = if stranger || marked.is_some() { marked } else { self.owner_of(who) };
        self.inherited.children.insert(pid, (who, owner));
        // Marks its keeper sees itself.
        if let Some(id) = owner.filter(|_| marked.is_none()) {
            self.request(id, &Request { ask: Ask::Adopt, who, ..Request::default() });
        }
    }

    fn marked_for(&self, who: Who) -> Option<TaskId> {
        let mark = String::from_utf8(identity::variable(who.pid, "RINGBACK_ID")?).ok()?;
        TaskId::parse(&mark).ok().filter(|id| self.lives.contains_key(id))
    }

    /// Whose tree a process without a mark is of: by the files that it has open, or because there is only one that it can
    /// be of. Where it can be of several, none of them can be shown to be gone.
    fn owner_of(&mut self, who: Who) -> Option<TaskId> {
        let possible =
            |id: &TaskId| self.lives.get(id).is_some_and(|live| live.main_who.start_ticks <= who.start_ticks);
        let possible: Vec<TaskId> = self.inherited.trees.keys().copied().filter(possible).collect();
        let holds = possible.iter().copied().find(|id| identity::holds_file_in(who.pid, &self.dir(*id)));
        if holds.is_some() {
            return holds;
        }
        // Programs that we start ourselves, and strangers that we have already, may leave orphans too.
        let alone = !self.config.sinks.iter().any(|sink| matches!(sink.to, Destination::Exec(_)))
            && self.inherited.children.values().all(|(_, owner)| owner.is_some());
        if let ([id], true) = (possible.as_slice(), alone) {
            return Some(*id);
        }
        for id in &possible {
            if let Some(tree) = self.inherited.trees.get_mut(id) {
                tree.unsure = true;
            }
        }
        None
    }
}
