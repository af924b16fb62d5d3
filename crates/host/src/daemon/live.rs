//! What the daemon holds of a task that is not closed: its row, and descriptors that outlast a killed keeper.

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::OwnedFd;

use mio::Token;
use ringback_core::board::Ask;
use ringback_core::id::TaskId;
use ringback_core::spec::{IfRunning, Lease};
use ringback_core::task::Sight;
use ringback_sys::form::record::{Phase, Record, Who, Witness};
use ringback_sys::pidfd::PidFd;
use ringback_sys::signals::SIGCONT;
use ringback_sys::{files, identity, reap, task_files};

use super::{Daemon, Source, folder, sight};
use crate::store::{Claim, Row};

/// A task that is not closed.
pub(super) struct Live {
    /// What the store has, or will have with the next commit.
    pub row: Row,
    /// Its keeper.
    pub keeper: Option<Held>,
    /// The main process: a second witness of its end, should the keeper be killed.
    pub main: Option<Held>,
    /// Readers of its pipes that never read: they keep what is in the pipe should the keeper be killed.
    pub idle: Vec<File>,
    /// The master of its terminal: as long as anybody has it open, the terminal is not hung up.
    pub terminal: Option<OwnedFd>,
    /// Whether its outcome was recorded and may be told.
    pub told: bool,
    /// What is known of its pipes from before we held them.
    pub pipes: Pipes,
    /// Whether its stdin was closed.
    pub stdin_closed: bool,
    /// Who the main process is, once it is known.
    pub main_who: Who,
    /// How often its keeper was replaced since one was last heard of.
    pub takeovers: u32,
    /// When its keeper was last replaced, by the monotonic clock.
    pub taken_over_ms: u64,
    /// Who will tell its end, and has said so before it came.
    pub foretold: Option<Box<Claim>>,
    /// When a report of its progress was last recorded, by the monotonic clock.
    pub reported_ms: Option<u64>,
}

/// Whether somebody had the pipes of a task until we had them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pipes {
    /// All the time.
    Kept,
    /// Its record could not be read then, so that whoever had them is yet to be found.
    Unproved,
    /// For a while nobody: what was in them then is gone, and nobody knows how much.
    Lost,
}

/// A keeper, or the main process that it keeps, which the loop watches.
pub(super) struct Held {
    /// The process.
    pub process: PidFd,
    /// Its place in the loop.
    pub token: Token,
}

/// How many ends of inherited processes are remembered: those of tasks whose keeper was killed a moment ago.
const ORPHANS_MAX: usize = 4096;

/// How processes ended that came to us because their keeper was killed.
#[derive(Default)]
pub(super) struct Orphans {
    ends: VecDeque<(Who, i32)>,
}

impl Orphans {
    /// Remembers an end; the oldest is forgotten when there are too many.
    pub(super) fn remember(&mut self, who: Who, status: i32) {
        if self.ends.len() == ORPHANS_MAX {
            self.ends.pop_front();
        }
        self.ends.push_back((who, status));
    }

    /// How this very process ended, if we saw it.
    pub(super) fn status(&self, who: Who) -> Option<i32> {
        self.ends.iter().find(|(other, _)| *other == who).map(|(_, status)| *status)
    }
}

/// What is found of a task that somebody else held until now.
#[derive(Default)]
pub(super) struct Look {
    /// Whether its keeper lives.
    pub lives: bool,
    /// Whether there is a record, be it readable or not.
    pub written: bool,
    /// Whether it is not to be believed yet: one that could not be read and perhaps can be soon, or another is being written.
    pub unread: bool,
    /// The record.
    pub record: Option<Record>,
    /// The keeper.
    pub keeper: Option<PidFd>,
}

impl Live {
    /// A task of which only the row is known.
    pub(super) fn new(row: Row) -> Self {
        let told = row.facts.is_some();
        Self {
            row,
            keeper: None,
            main: None,
            idle: Vec::new(),
            terminal: None,
            pipes: Pipes::Kept,
            stdin_closed: false,
            main_who: Who::default(),
            takeovers: 0,
            taken_over_ms: 0,
            foretold: None,
            reported_ms: None,
            told,
        }
    }

    /// The pipes that a killed keeper leaves to us. What is typed into a terminal is read by the keeper; else by the command.
    fn pipe_names(&self) -> impl Iterator<Item = &'static str> {
        let typed = self.row.asked.pty.map(|_| folder::STDIN);
        folder::pipes(self.row.asked.split).iter().copied().chain(typed)
    }

    /// Whether each of them is held.
    fn holds_pipes(&self) -> bool {
        self.idle.len() == self.pipe_names().count()
    }

    /// What the board has to know of it.
    pub(super) fn ask(&self) -> Ask {
        Ask {
            session: self.row.session.clone(),
            lease: Lease::parse(&self.row.lease).unwrap_or_default(),
            key: self.row.asked.key.clone(),
            if_running: IfRunning::parse(&self.row.asked.if_running).unwrap_or_default(),
        }
    }
}

impl Daemon {
    /// The record of a task; nothing if it has none that can be believed.
    pub(super) fn record(&mut self, id: TaskId) -> Option<Record> {
        if let Some((_, record)) = self.seen.as_ref().filter(|(seen, _)| *seen == id) {
            return Some(*record);
        }
        match task_files::read_state(&self.dir(id)) {
            Ok(record) => record,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => {
                self.troubles.note(&format!("read the record of {id}"), &error);
                None
            }
        }
    }

    /// What this record of a task shows, with the daemon as a second witness.
    pub(super) fn sight(&self, id: TaskId, record: &Record) -> Sight {
        let witnessed = if record.witness == Witness::None { self.witness(id, record) } else { None };
        sight::sight(record, witnessed)
    }

    /// Takes hold of a keeper, and of what may outlive it.
    pub(super) fn hold(&mut self, id: TaskId, process: PidFd) {
        let held = self.watch_end(process, Source::Keeper(id), id);
        self.hold_pipes(id);
        if let Some(live) = self.lives.get_mut(&id) {
            live.keeper = Some(held);
        }
    }

    /// Has the loop woken by the end of a process.
    fn watch_end(&mut self, process: PidFd, source: Source, id: TaskId) -> Held {
        let token = self.token(source);
        let fd = std::os::fd::AsRawFd::as_raw_fd(&process);
        let added = self.poll.registry().register(&mut mio::unix::SourceFd(&fd), token, mio::Interest::READABLE);
        if let Err(error) = added {
            self.troubles.note(&format!("watch the processes of {id}"), &error);
        }
        Held { process, token }
    }

    fn watch_no_more(&mut self, held: &Held) {
        self.sources.remove(&held.token);
        let fd = std::os::fd::AsRawFd::as_raw_fd(&held.process);
        let _ = self.poll.registry().deregister(&mut mio::unix::SourceFd(&fd));
    }

    /// Lets go of a keeper that is gone.
    pub(super) fn let_go(&mut self, id: TaskId) {
        if let Some(held) = self.lives.get_mut(&id).and_then(|live| live.keeper.take()) {
            self.watch_no_more(&held);
        }
    }

    /// Takes hold of a keeper that was found, and perhaps is no child of ours.
    pub(super) fn hold_found(&mut self, id: TaskId, process: PidFd) {
        self.hold(id, process);
        self.take_terminal(id);
        self.goings_on.begin();
    }

    /// Takes hold of whoever the record names and we do not hold yet.
    pub(super) fn hold_known(&mut self, id: TaskId, record: &Record) {
        let held = self.lives.get(&id).is_none_or(|live| live.keeper.is_some());
        if !held && record.keeper.pid > 0 && record.phase != Phase::Closed {
            match PidFd::open_living(record.keeper) {
                Ok(process) => self.hold_found(id, process),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                // Its next hint is the next chance.
                Err(error) => self.troubles.note(&format!("hold the keeper of {id}"), &error),
            }
        }
        self.hold_main(id, record.main);
        self.begin_watch(id, record);
        if record.phase == Phase::Started {
            self.begin_reports(id);
        }
    }

    /// Takes hold of the main process, once it is known.
    pub(super) fn hold_main(&mut self, id: TaskId, main: Who) {
        let room = self.has_room();
        let Some(live) = self.lives.get_mut(&id).filter(|_| main.pid > 0) else { return };
        live.main_who = main;
        if !room || live.main.is_some() {
            return;
        }
        let Ok(process) = PidFd::open(main) else { return };
        self.witnesses += 1;
        let held = self.watch_end(process, Source::Main(id), id);
        if let Some(live) = self.lives.get_mut(&id) {
            live.main = Some(held);
        }
    }

    /// The main process has ended. Its keeper records how, and tells; one that somebody has stopped (SIGSTOP) is made to go
    /// on, which means nothing to one that runs.
    pub(super) fn main_ended(&mut self, id: TaskId) {
        let Some(live) = self.lives.get(&id) else { return };
        if let Some(main) = &live.main {
            self.sources.remove(&main.token);
        }
        // One that is gone needs nothing, and its own end is told.
        if let Some(keeper) = &live.keeper {
            let _ = keeper.process.signal(SIGCONT);
        }
    }

    /// Takes hold of the pipes of a task, where there is a descriptor for each.
    pub(super) fn hold_pipes(&mut self, id: TaskId) {
        if self.has_room() {
            self.open_pipes(id);
        }
    }

    /// The keeper of this task is gone, and we had not held its pipes until now. What is in them is there as long as anybody has
    /// them open: we, or else the main process. Where neither can be said, nobody knows how much is gone.
    fn hold_what_is_left(&mut self, id: TaskId, record: &Record) {
        if !matches!(record.phase, Phase::Started | Phase::Ended) || record.output_complete {
            return;
        }
        self.open_pipes(id);
        if let Some(live) = self.lives.get_mut(&id) {
            // First the pipes: whoever has them open after that has kept them until we had them.
            let kept = live.holds_pipes() && live.idle.iter().all(|pipe| identity::has_open(record.main, pipe));
            // What a terminal has shown is in a pipe that the command does not hold.
            if !kept || live.row.asked.pty.is_some() {
                live.pipes = Pipes::Lost;
            }
        }
    }

    fn open_pipes(&mut self, id: TaskId) {
        let dir = self.dir(id);
        let Some(live) = self.lives.get_mut(&id).filter(|live| !live.holds_pipes()) else { return };
        self.witnesses -= live.idle.len();
        live.idle = live.pipe_names().filter_map(|pipe| files::open_fifo_idle(&dir.join(pipe)).ok()).collect();
        self.witnesses += live.idle.len();
    }

    /// Whether there is a descriptor for one more that is useful, but that no task needs.
    pub(super) fn has_room(&self) -> bool {
        self.witnesses < self.places.witnesses
    }

    /// Lets go of a task, and of everything that was held of it.
    pub(super) fn drop_live(&mut self, id: TaskId) {
        self.let_go(id);
        if let Some(live) = self.lives.remove(&id) {
            self.witnesses -= live.idle.len() + usize::from(live.main.is_some());
            if let Some(main) = &live.main {
                self.watch_no_more(main);
            }
        }
    }

    /// The status of a main process whose keeper did not see it: inherited and reaped by us, or kept by a pidfd.
    fn witness(&self, id: TaskId, record: &Record) -> Option<i32> {
        if let Some(status) = self.orphans.status(record.main) {
            return Some(status);
        }
        let held = self.lives.get(&id)?.main.as_ref()?;
        held.process.exit_status().ok().flatten().or_else(|| reap::zombie_status(record.main))
    }

    /// Looks for the keeper of a task and for what it has recorded, and takes hold of its pipes.
    ///
    /// First the pipes: a keeper that has its lock after that has them open, too. It lets go of the lock, which has the lowest of
    /// its numbers, before them (`close_files`, fs/file.c); and one that takes over has had them from its start.
    pub(super) fn find(&mut self, id: TaskId) -> Look {
        let held = self.lives.get(&id).is_some_and(|live| live.holds_pipes() && live.pipes != Pipes::Unproved);
        self.hold_pipes(id);
        let look = self.look_for(id);
        if let Some(live) = self.lives.get_mut(&id).filter(|live| !held && live.pipes != Pipes::Lost) {
            let is_unread = look.written && look.record.is_none();
            live.pipes = if is_unread { Pipes::Unproved } else { Pipes::Kept };
        }
        if let Some(record) = look.record.as_ref().filter(|_| !look.lives && !held) {
            self.hold_what_is_left(id, record);
        }
        look
    }

    fn look_for(&mut self, id: TaskId) -> Look {
        let found = match task_files::find_state(&self.dir(id)) {
            Ok(found) => found,
            Err(error) => {
                self.troubles.note(&format!("see whether the keeper of {id} lives"), &error);
                // It is there, and nobody knows what it says: never taken for a task that was not started.
                return Look { written: true, unread: task_files::may_be_read_later(&error), ..Look::default() };
            }
        };
        let mut look = Look { lives: found.held, written: found.written, record: found.record, ..Look::default() };
        if let Some(record) = look.record.as_ref().filter(|record| look.lives && record.keeper.pid > 0) {
            match PidFd::open_living(record.keeper) {
                Ok(process) => look.keeper = Some(process),
                // The child of a killed keeper has the lock too, until it has gone through its gate; nobody would tell us
                // when. Before that its record is not the last word: whoever took it for one told that nothing was started.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    (look.lives, look.unread) = (false, record.phase == Phase::New);
                }
                Err(error) => self.troubles.note(&format!("hold the keeper of {id}"), &error),
            }
        }
        look
    }
}
