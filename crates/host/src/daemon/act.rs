//! What is done to the machine, after it was recorded: keepers are launched and poked, folders deleted.

use std::io;
use std::os::fd::AsFd;

use ringback_core::id::TaskId;
use ringback_core::outcome::{Cause, StartError};
use ringback_core::task::{Input, Stop};
use ringback_sys::form::record::{Phase, Record, Step, Who};
use ringback_sys::form::request::{Ask, Request};
use ringback_sys::keeper::CRASH_POINTS;
use ringback_sys::launch::{Inherited, Work};
use ringback_sys::pidfd::PidFd;
use ringback_sys::{image, process, task_files};

use super::crash::{armed, crash_point};
use super::inherited::Kept;
use super::live::Pipes;
use super::round::Act;
use super::start::keeper_image;
use super::{Daemon, folder, sight};
use crate::store::row::start_error;

/// The first pause before a keeper is replaced again, milliseconds; it doubles.
const TAKEOVER_MS: u64 = 100;
/// The longest such pause, milliseconds.
const TAKEOVER_MS_MAX: u64 = 30_000;
/// One that lived so long did not die of taking over, milliseconds.
const TAKEOVER_LIFE_MS: u64 = 1000;
/// After so many replacements in a row those who wait for an empty tree are not kept waiting.
const TAKEOVERS_TOLD: u32 = 3;

/// The number of [`io::ErrorKind::AlreadyExists`] (asm-generic/errno-base.h).
const EEXIST: i32 = 17;

impl Daemon {
    /// Launches a keeper that starts the command.
    pub(super) fn launch(&mut self, id: TaskId) {
        crash_point("daemon.before-launch");
        if let Err(error) = self.complete_folder(id).and_then(|()| self.spawn_keeper(id, false)) {
            self.launch_failed(id, &error);
        }
        crash_point("daemon.after-launch");
    }

    /// Launches a keeper that holds what the dead one held: the first at once, each further one later than the one before,
    /// until one is heard of. A task that nobody can hold now is not given up.
    pub(super) fn take_over(&mut self, id: TaskId) {
        let now_ms = process::monotonic_ms();
        let Some(live) = self.lives.get_mut(&id) else { return };
        if now_ms >= live.taken_over_ms + TAKEOVER_LIFE_MS {
            live.takeovers = 0;
        }
        let tries = live.takeovers;
        live.takeovers = tries.saturating_add(1);
        if tries > 0 {
            let pause_ms = (TAKEOVER_MS << (tries - 1).min(16)).min(TAKEOVER_MS_MAX);
            self.takeovers.insert((now_ms + pause_ms, id));
            if tries >= TAKEOVERS_TOLD {
                // Nobody can say that the tree is gone: whoever waits for that is told what is known.
                self.waits.gone(id);
            }
            return;
        }
        self.take_over_now(id);
    }

    /// Those whose pause is over.
    pub(super) fn takeovers_due(&mut self, now_ms: u64) {
        while let Some((at_ms, id)) = self.takeovers.first().copied() {
            if at_ms > now_ms {
                return;
            }
            self.takeovers.pop_first();
            self.take_over_now(id);
        }
    }

    /// A keeper of this task was heard of.
    pub(super) fn is_held_again(&mut self, id: TaskId) {
        if let Some(live) = self.lives.get_mut(&id) {
            live.takeovers = 0;
        }
    }

    fn take_over_now(&mut self, id: TaskId) {
        let Some(live) = self.lives.get_mut(&id) else { return };
        live.taken_over_ms = process::monotonic_ms();
        crash_point("daemon.before-takeover");
        if let Err(error) = self.mend_record(id).and_then(|()| self.spawn_keeper(id, true)) {
            self.troubles.note(&format!("replace the keeper of {id}"), &error);
            self.take_over(id);
        }
        crash_point("daemon.after-takeover");
    }

    /// A damaged record is written anew, so that a keeper can look for what carries the task's mark. One that only cannot be read
    /// now may say how the task ended: it stays, unless that was told to be lost.
    fn mend_record(&mut self, id: TaskId) -> io::Result<()> {
        let has_outcome = self.lives.get(&id).is_some_and(|live| live.row.facts.is_some());
        match task_files::read_state(&self.dir(id)) {
            Ok(Some(_)) => return Ok(()),
            Err(error) if task_files::may_be_read_later(&error) && !has_outcome => return Err(error),
            Ok(None) | Err(_) => {}
        }
        let boot = ringback_sys::identity::boot_id()?;
        task_files::write_state_anew(&self.dir(id), &Record { phase: Phase::Ended, boot, ..Record::default() })
    }

    /// An orphan came to us and ended: if it was the main process of a task, its next keeper is told how.
    pub(super) fn bear_witness(&mut self, who: Who, status: i32) {
        self.orphans.remember(who, status);
        let task = self.lives.iter().find(|(_, live)| live.main_who == who).map(|(id, _)| *id);
        if let Some(id) = task {
            self.round.act(Act::Request(id, Request { ask: Ask::Witness, status, ..Request::default() }));
        }
    }

    fn complete_folder(&mut self, id: TaskId) -> io::Result<()> {
        let asked = self.lives.get(&id).map(|live| &live.row.asked);
        folder::complete(&self.dir(id), asked.ok_or(io::ErrorKind::NotFound)?)?;
        // Before anything can be written into them: what a killed keeper leaves in a pipe is lost with its last holder.
        self.hold_pipes(id);
        self.open_terminal(id)?;
        crash_point("daemon.after-complete");
        Ok(())
    }

    fn spawn_keeper(&mut self, id: TaskId, takeover: bool) -> io::Result<()> {
        let pid = match self.spawn(id, takeover) {
            Err(_) if self.mend_image() => self.spawn(id, takeover)?,
            spawned => spawned?,
        };
        self.keepers.insert(pid, Kept { task: id, from_the_start: !takeover });
        match PidFd::open_child(pid) {
            Ok(process) => self.hold(id, process),
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.round.keeper_gone(id),
            // Its next hint is the next chance.
            Err(error) => self.troubles.note(&format!("hold the keeper of {id}"), &error),
        }
        Ok(())
    }

    fn spawn(&self, id: TaskId, takeover: bool) -> io::Result<i32> {
        let keeper_point = armed().filter(|point| CRASH_POINTS.iter().any(|name| point == name));
        let name = id.to_string();
        let cgroup = self.cgroups.as_ref().ok().map(|cgroups| cgroups.of_task(&name));
        let live = self.lives.get(&id);
        let torn = live.is_some_and(|live| live.pipes == Pipes::Lost);
        let work = if takeover { Work::TakeOver { torn } } else { Work::Start(cgroup.as_deref()) };
        let point = keeper_point.map(AsRef::as_ref);
        let terminal = live.and_then(|live| live.terminal.as_ref()).map(AsFd::as_fd);
        // Of a task that has ended we may be the only one who has its pipes, and may be killed before the keeper opens them.
        let idle = |at: usize| live.and_then(|live| live.idle.get(at)).map(AsFd::as_fd);
        let pipes = if takeover { [idle(0), idle(1)] } else { [None, None] };
        self.image.spawn_with(&self.dir(id), &name, work, point, Inherited { terminal, pipes })
    }

    /// Puts the keeper program back if somebody has taken it away, or changed it; whether keepers can be launched again.
    fn mend_image(&mut self) -> bool {
        if self.image.is_whole(image::bytes()) || self.has_lost_home() {
            return false;
        }
        match keeper_image(&self.home) {
            Ok(image) => self.image = image,
            Err(error) => {
                self.troubles.note("put the keeper program back", &error);
                return false;
            }
        }
        true
    }

    fn launch_failed(&mut self, id: TaskId, error: &io::Error) {
        self.troubles.note(&format!("launch the keeper of {id}"), error);
        if self.has_lost_home() {
            return;
        }
        if !self.has_folder(id) {
            // Somebody has taken it away, and with it whatever it would say of a start.
            self.lose(id);
            return self.round.hurry();
        }
        let in_the_way = error.kind() == io::ErrorKind::AlreadyExists;
        let errno = error.raw_os_error().unwrap_or(if in_the_way { EEXIST } else { 0 });
        let why = match start_error(Step::Exec, errno) {
            _ if in_the_way => StartError::InTheWay,
            StartError::Resources => StartError::Resources,
            // What was not found or not permitted is our own program, not the command.
            _ => StartError::Other,
        };
        let effects = self.board.step(id, Input::LaunchFailed { why, errno });
        self.apply(effects);
        self.round.hurry();
    }

    /// Hands a stop to the keeper. One that is gone is replaced, and the new one reads it.
    pub(super) fn press(&mut self, id: TaskId, stop: &Stop) {
        crash_point("daemon.before-press");
        if stop.cause == Cause::Replaced && !self.replace(id, stop) {
            crash_point("daemon.after-press");
            return;
        }
        self.take_stock(id);
        let grace_ms = stop.grace_ms.or_else(|| self.lives.get(&id).map(|live| live.row.asked.grace_ms));
        self.request(
            id,
            &Request {
                ask: Ask::Stop,
                cause: sight::cause_of(stop.cause),
                grace_ms: grace_ms.unwrap_or(ringback_core::spec::GRACE_MS),
                ..Request::default()
            },
        );
        crash_point("daemon.after-press");
        // Somebody asks: a takeover that pauses is tried at once.
        if let Some(paused) = self.takeovers.iter().find(|(_, paused)| *paused == id).copied() {
            self.takeovers.remove(&paused);
            self.take_over_now(id);
        }
    }

    /// A task that another one replaces, now that both are recorded; whether a keeper has to be told.
    fn replace(&mut self, id: TaskId, stop: &Stop) -> bool {
        let effects = self.board.hand_on(id, stop);
        if !effects.is_empty() {
            self.apply(effects);
            self.round.hurry();
        }
        self.board.get(id).is_some()
    }

    /// Deletes what a task with a sandbox has left for the time that it ran.
    pub(super) fn tidy(&mut self, id: TaskId) {
        crash_point("daemon.before-tidy");
        if let Err(error) = folder::delete_temporary(&self.dir(id)) {
            self.troubles.note(&format!("delete the temporary files of {id}"), &error);
        }
        crash_point("daemon.after-tidy");
    }

    /// Deletes the folder of a task that nobody can ask for any more.
    pub(super) fn delete(&mut self, id: TaskId) {
        crash_point("daemon.before-delete");
        if let Err(error) = folder::delete(&self.dir(id)) {
            self.troubles.note(&format!("delete the folder of {id}"), &error);
            self.sweep_again(id);
        }
        crash_point("daemon.after-delete");
    }
}
