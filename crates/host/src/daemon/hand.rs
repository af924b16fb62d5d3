//! What the daemon asks of a keeper: written where it reads, and poked; what cannot be handed over now is handed over later.

use std::collections::VecDeque;
use std::io;

use ringback_core::id::TaskId;
use ringback_sys::form::record::Phase;
use ringback_sys::form::request::Request;
use ringback_sys::pidfd::PidFd;
use ringback_sys::signals::{SIGCONT, SIGUSR1};
use ringback_sys::{process, task_files};

use super::Daemon;
use super::crash::crash_point;

/// How long what could not be handed over waits for the next try, milliseconds: nothing rings when a machine has memory,
/// descriptors or disk space to give again.
const AGAIN_MS: u64 = 200;
/// After so long those who wait for a stop are told how things stand, milliseconds; the stop itself is not given up.
const TOLD_MS: u64 = 5000;
/// How many requests may wait; more than tasks that can be asked at once. The oldest goes.
const UNSENT_MAX: usize = 8192;

/// Requests that no keeper knows of yet.
#[derive(Default)]
pub(super) struct Unsent {
    waiting: VecDeque<Left>,
    due_ms: Option<u64>,
}

/// What is left of a request.
struct Left {
    id: TaskId,
    /// Nothing where it is written, and only the poke is missing.
    request: Option<Request>,
    since_ms: u64,
}

impl Unsent {
    /// When they are tried again.
    pub(super) fn next_due(&self) -> Option<u64> {
        self.due_ms
    }

    fn push(&mut self, left: Left) {
        if self.waiting.len() == UNSENT_MAX {
            self.waiting.pop_front();
        }
        self.waiting.push_back(left);
        self.due_ms.get_or_insert_with(|| process::monotonic_ms() + AGAIN_MS);
    }
}

impl Daemon {
    /// Appends a request and pokes the keeper. A stop that fails here would be waited for without an end, so it is tried again.
    pub(super) fn request(&mut self, id: TaskId, request: &Request) {
        self.hand_over(Left { id, request: Some(*request), since_ms: process::monotonic_ms() });
    }

    fn hand_over(&mut self, mut left: Left) {
        let id = left.id;
        if let Some(request) = &left.request {
            crash_point("daemon.before-request");
            let written = task_files::append_request(&self.dir(id), request);
            crash_point("daemon.after-request");
            match written {
                Ok(_) => left.request = None,
                Err(error) => self.troubles.note(&format!("write a request to the keeper of {id}"), &error),
            }
        }
        if left.request.is_some() || !self.poke(id) {
            self.unsent.push(left);
        }
    }

    /// Tries again, in the order in which they were asked; those of tasks that are over are dropped.
    pub(super) fn hand_over_due(&mut self, now_ms: u64) {
        if self.unsent.due_ms.is_none_or(|due_ms| due_ms > now_ms) {
            return;
        }
        let Unsent { waiting, .. } = std::mem::take(&mut self.unsent);
        for left in waiting.into_iter().filter(|left| self.lives.contains_key(&left.id)).collect::<Vec<_>>() {
            self.hand_over(left);
        }
        let late = self.unsent.waiting.iter().filter(|left| left.since_ms + TOLD_MS <= now_ms);
        late.for_each(|left| self.waits.gone(left.id));
    }

    /// Has the keeper read its requests; false if it could not be reached. One that is gone needs no poke: whoever takes its
    /// place reads them all.
    fn poke(&mut self, id: TaskId) -> bool {
        if self.lives.get(&id).is_some_and(|live| live.keeper.is_none()) && !self.find_keeper(id) {
            return false;
        }
        let Some(held) = self.lives.get(&id).and_then(|live| live.keeper.as_ref()) else { return true };
        for signal in [SIGUSR1, SIGCONT] {
            match held.process.signal(signal) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => return true,
                Err(error) => {
                    self.troubles.note(&format!("poke the keeper of {id}"), &error);
                    return false;
                }
            }
        }
        true
    }

    /// Takes hold of a keeper that could not be held before; false if it lives and still cannot be.
    fn find_keeper(&mut self, id: TaskId) -> bool {
        let record = match task_files::read_state(&self.dir(id)) {
            Ok(Some(record)) if record.keeper.pid > 0 && record.phase != Phase::Closed => record,
            Ok(_) => return true,
            Err(error) => return error.kind() == io::ErrorKind::NotFound,
        };
        match PidFd::open_living(record.keeper) {
            Ok(process) => {
                self.hold_found(id, process);
                true
            }
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }
}
