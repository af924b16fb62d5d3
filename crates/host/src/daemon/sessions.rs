//! Sessions that end by themselves: when a process exits, or when a lease lapses.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsRawFd as _;

use mio::unix::SourceFd;
use mio::{Interest, Token};
use ringback_sys::form::record::Who;
use ringback_sys::pidfd::PidFd;
use ringback_sys::{identity, process};

use super::error::DaemonError;
use super::{Daemon, Source};
use crate::store::Record;

/// How each session may end by itself.
#[derive(Default)]
pub(super) struct Endings {
    watched: BTreeMap<Token, (String, PidFd)>,
    leases: BTreeSet<(i64, String)>,
}

impl Endings {
    /// When the next lease lapses, by the monotonic clock.
    pub(super) fn next_due(&self) -> Option<u64> {
        let (until_ms, _) = self.leases.first()?;
        let left_ms = u64::try_from(until_ms - process::wall_ms()).unwrap_or(0);
        Some(process::monotonic_ms() + left_ms)
    }

    /// How many processes are watched.
    pub(super) fn watched_len(&self) -> usize {
        self.watched.len()
    }

    fn forget_lease(&mut self, session: &str) {
        self.leases.retain(|(_, name)| name != session);
    }
}

impl Daemon {
    /// Takes up the watches and leases that an earlier daemon recorded.
    pub(super) fn adopt_sessions(&mut self, boot: [u8; 16]) -> Result<(), DaemonError> {
        for watch in self.store.watches()? {
            let who = Who { pid: watch.pid, start_ticks: watch.start_ticks };
            if watch.boot != boot || !self.watch(&watch.session, who) {
                self.end_session(&watch.session, None);
            }
        }
        for lease in self.store.leases()? {
            self.endings.leases.insert((lease.until_ms, lease.session));
        }
        Ok(())
    }

    /// From now on the session ends when this process does. False if it is gone already.
    pub(super) fn watch(&mut self, session: &str, who: Who) -> bool {
        let Ok(process) = PidFd::open(who) else { return false };
        if !identity::is_alive(who) {
            return false;
        }
        self.unwatch(session);
        let token = self.token(Source::Watched);
        let fd = process.as_raw_fd();
        if let Err(error) = self.poll.registry().register(&mut SourceFd(&fd), token, Interest::READABLE) {
            self.troubles.note(&format!("watch the process of session {session}"), &error);
        }
        self.endings.watched.insert(token, (session.to_owned(), process));
        true
    }

    /// From now on the session ends at this time of the wall clock, or not by time at all.
    pub(super) fn lease(&mut self, session: &str, until_ms: Option<i64>) {
        self.endings.forget_lease(session);
        if let Some(until_ms) = until_ms {
            self.endings.leases.insert((until_ms, session.to_owned()));
        }
        self.round.records.push(Record::SessionLease { session: session.to_owned(), until_ms });
    }

    /// The process of a session is gone.
    pub(super) fn watched_exit(&mut self, token: Token) {
        if let Some((session, _)) = self.endings.watched.get(&token) {
            let session = session.clone();
            self.end_session(&session, None);
        }
    }

    /// Ends sessions whose lease has lapsed.
    pub(super) fn lapse_sessions(&mut self) {
        let now_ms = process::wall_ms();
        while let Some((until_ms, session)) = self.endings.leases.first().cloned() {
            if until_ms > now_ms {
                return;
            }
            self.end_session(&session, None);
        }
    }

    /// Ends a session: its tasks are asked to stop, its watch and lease are taken away.
    pub(super) fn end_session(&mut self, session: &str, by: Option<&str>) {
        let had_watch = self.unwatch(session);
        let had_lease = self.endings.leases.iter().any(|(_, name)| name == session);
        self.endings.forget_lease(session);
        let effects = self.board.end_session(session, by);
        // The stops are recorded before the reason for them is forgotten: in one transaction, in this order.
        self.apply(effects);
        if had_watch {
            self.round.records.push(Record::Watch { session: session.to_owned(), process: None });
        }
        if had_lease {
            self.round.records.push(Record::SessionLease { session: session.to_owned(), until_ms: None });
        }
    }

    /// Takes a watch away; true if there was one.
    fn unwatch(&mut self, session: &str) -> bool {
        let tokens: Vec<Token> =
            self.endings.watched.iter().filter(|(_, (name, _))| name == session).map(|(token, _)| *token).collect();
        for token in &tokens {
            self.sources.remove(token);
            if let Some((_, process)) = self.endings.watched.remove(token) {
                let _ = self.poll.registry().deregister(&mut SourceFd(&process.as_raw_fd()));
            }
        }
        !tokens.is_empty()
    }
}
