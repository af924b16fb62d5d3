//! The loop. Whoever reads this knows everything that can wake the daemon.

use std::io::{self, Read as _};
use std::time::Duration;

use mio::{Events, Token};
use ringback_core::id::TaskId;
use ringback_core::task::Input;
use ringback_sys::form::news::{self, FRAME_BYTES};
use ringback_sys::form::record::Phase;
use ringback_sys::signals::SIGCHLD;
use ringback_sys::{identity, process, reap};

use super::error::{DaemonError, machine};
use super::{Daemon, Source};

/// How many events are taken at once: what comes in one go is committed in one transaction.
const EVENTS_MAX: usize = 1024;

/// How long a daemon that leaves waits for clients that do not read their answers, milliseconds.
const LEAVE_MS: u64 = 2000;

impl Daemon {
    /// Waits, decides, records, acts and tells, until somebody says stop.
    pub(super) fn drive(&mut self) -> Result<(), DaemonError> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        while !self.has_left() {
            let timeout =
                self.next_wake_ms().map(|at| Duration::from_millis(at.saturating_sub(process::monotonic_ms())));
            let (urgent, ahead) = (self.round.is_urgent(), self.is_blank_due() || self.is_log_due());
            let timeout = if urgent || ahead { Some(Duration::ZERO) } else { timeout };
            match self.poll.poll(&mut events, timeout) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(machine("wait for events")(error)),
            }
            if ahead && !urgent && events.is_empty() {
                self.work_ahead();
            }
            // Reaped first: a status that we inherited has to be there before the keeper's record is read.
            for event in &events {
                if self.sources.get(&event.token()) == Some(&Source::Signals) {
                    self.take_signals();
                }
            }
            for event in &events {
                self.take(event.token(), event.is_writable(), event.is_read_closed());
            }
            for client in self.round.take_resumed() {
                self.serve(client, false, false);
            }
            self.take_time();
            self.close_round();
        }
        if self.post.is_lost() {
            return Err(DaemonError::Moved { home: self.home.root().to_owned() });
        }
        self.drop_blank();
        // Those that still wait have their reports read while nobody serves.
        self.collect_last();
        Ok(())
    }

    /// What makes later answers come sooner, one thing at a time.
    fn work_ahead(&mut self) {
        if self.is_blank_due() {
            self.make_blank();
        } else {
            self.lengthen_log();
        }
    }

    /// Whether there is nothing left to say, or nobody who listens.
    fn has_left(&mut self) -> bool {
        if self.post.is_lost() {
            return true;
        }
        if !self.leaving {
            return false;
        }
        let now_ms = process::monotonic_ms();
        let until_ms = *self.leave_at_ms.get_or_insert(now_ms + LEAVE_MS);
        !self.connections.has_words_left() || now_ms >= until_ms
    }

    fn take(&mut self, token: Token, writable: bool, closed: bool) {
        match self.sources.get(&token).copied() {
            Some(Source::Listener) => self.accept_all(),
            Some(Source::Client) => self.serve(token, writable, closed),
            Some(Source::News) => self.take_news(),
            Some(Source::Keeper(id)) => self.round.keeper_gone(id),
            Some(Source::Main(id)) => self.main_ended(id),
            Some(Source::Watched) => self.watched_exit(token),
            Some(Source::Stdin) => self.feed_more(token),
            Some(Source::Reports(id)) => self.reports.came(id),
            Some(Source::Outputs) => self.outputs_grew(),
            // Signals were taken; a token without a source belonged to something that this round has closed.
            Some(Source::Signals) | None => {}
        }
    }

    fn take_signals(&mut self) {
        loop {
            match self.signals.read() {
                Ok(Some(SIGCHLD)) => {
                    self.reap_all();
                    self.look_at_stopped();
                }
                Ok(Some(_)) => self.leaving = true,
                Ok(None) => return,
                Err(error) => return self.troubles.note("read signals", &error),
            }
        }
    }

    /// Takes in the dead. A keeper's own end says nothing; that of an orphan may be the end of a task whose keeper was
    /// killed, so it is remembered, by an identity that no later process can have.
    pub(super) fn reap_all(&mut self) {
        self.reap_dead();
        while self.inherit() {
            self.reap_dead();
        }
    }

    fn reap_dead(&mut self) {
        loop {
            let dead = match reap::dead_child() {
                Ok(Some(pid)) => pid,
                Ok(None) => return,
                Err(error) => return self.troubles.note("look for dead children", &error),
            };
            let keeper = self.keepers.remove(&dead);
            let orphan = if keeper.is_some() { None } else { identity::who(dead).ok() };
            let taken = reap::take_in(dead);
            if let (Some(kept), Ok(Some(status))) = (keeper, &taken) {
                self.inherited.keeper_ended(kept, *status);
            }
            if self.delivered(dead, taken.as_ref().ok().copied().flatten()) || self.collected(dead) {
                continue;
            }
            match (taken, orphan) {
                (Ok(Some(status)), Some(who)) => self.bear_witness(who, status),
                (Ok(_), _) => {}
                (Err(error), _) => return self.troubles.note("take in a dead child", &error),
            }
        }
    }

    /// Hints of keepers. Each names a task whose record is to be read; the record is believed, the hint is not.
    fn take_news(&mut self) {
        let mut buffer = [0; 256 * FRAME_BYTES];
        loop {
            match self.news.read(&mut buffer) {
                Ok(0) => return,
                Ok(length) => {
                    for frame in buffer[..length].chunks(FRAME_BYTES) {
                        if let Some(bits) = news::task(frame) {
                            self.round.news(TaskId::from_bits(bits));
                        }
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => return self.troubles.note("read the news", &error),
            }
        }
    }

    /// Everything whose time has come.
    fn take_time(&mut self) {
        let now_ms = process::monotonic_ms();
        self.lapse_sessions();
        for key in self.waits.due(now_ms) {
            self.answer_late(key);
        }
        self.takeovers_due(now_ms);
        self.hand_over_due(now_ms);
        self.go_on_due(now_ms);
        self.unread_due(now_ms);
        self.connections.drop_overdue(now_ms);
        self.sweep_due(now_ms);
        self.prune_some(now_ms);
        self.pack_due(now_ms);
        if self.accept_at_ms.is_some_and(|at_ms| at_ms <= now_ms) {
            self.accept_all();
        }
        self.post_due(now_ms);
        self.watch_due(now_ms);
        self.reports_due(now_ms);
        self.outbox_due();
        if self.round.retry_at_ms().is_none() {
            self.collect_due(now_ms);
        }
    }

    /// When the loop has to wake by itself, by the monotonic clock.
    fn next_wake_ms(&self) -> Option<u64> {
        let retry = self.round.retry_at_ms();
        let watches = self.watches.next_due().filter(|_| retry.is_none());
        let outbox = self.outbox.next_due().filter(|_| retry.is_none());
        let collector = self.collector.next_due().filter(|_| retry.is_none());
        let prunes = self.prunes.next_due().filter(|_| retry.is_none());
        let packing = self.pack_at_ms.filter(|_| retry.is_none());
        let times = [
            self.waits.next_due(),
            self.endings.next_due(),
            self.reports.next_due(),
            self.takeovers.first().map(|(at_ms, _)| *at_ms),
            self.unsent.next_due(),
            self.goings_on.next_due(),
            self.unread.next_due(),
            self.leave_at_ms,
            self.connections.next_due(),
            self.accept_at_ms,
            self.post.next_due(),
            self.sweep.next_due(),
            retry,
            watches,
            outbox,
            collector,
            prunes,
            packing,
        ];
        times.into_iter().flatten().min()
    }

    /// Reads the records that somebody hinted at, and steps the board.
    pub(super) fn look_at_records(&mut self) {
        for (id, gone) in self.round.take_looks() {
            if !self.lives.contains_key(&id) {
                continue;
            }
            self.changes.note();
            if gone {
                self.let_go(id);
            }
            // Two keepers may have been launched by two daemons; the one that has the lock is the keeper.
            let found = gone.then(|| self.find(id));
            if found.as_ref().is_some_and(|look| look.unread) {
                if self.put_off(id) {
                    continue;
                }
                self.looked_in_vain(id);
            }
            let gone = found.as_ref().is_some_and(|look| !look.lives);
            let record = if gone { found.and_then(|look| look.record) } else { self.record(id) };
            let Some(record) = record else {
                if gone {
                    self.lose(id);
                }
                continue;
            };
            self.was_read(id);
            let sight = self.sight(id, &record);
            if record.stop_over || record.has_receipt || record.phase == Phase::Closed {
                self.take_stock(id);
            }
            self.hold_known(id, &record);
            if !gone {
                self.is_held_again(id);
            }
            if record.phase == Phase::Started {
                self.feed(id);
            }
            let input = if gone { Input::KeeperGone(sight) } else { Input::Saw(sight) };
            let effects = self.board.step(id, input);
            // What follows from this record is told from this record: read once, and the same throughout.
            self.seen = Some((id, record));
            self.apply(effects);
            self.seen = None;
            self.settle_stop(id, &record);
        }
    }

    /// Whether what was made for this task before it was recorded is there.
    pub(super) fn has_folder(&self, id: TaskId) -> bool {
        std::fs::symlink_metadata(self.dir(id)).is_ok()
    }

    /// A keeper is gone and left no record that can be read.
    pub(super) fn lose(&mut self, id: TaskId) {
        if self.has_lost_home() {
            return;
        }
        let state = self.dir(id).join(super::folder::STATE);
        let there = std::fs::symlink_metadata(state).is_ok() || !self.has_folder(id);
        let found = ringback_core::board::found(true, false, there, None);
        let effects = self.board.step(id, found);
        self.apply(effects);
    }
}
