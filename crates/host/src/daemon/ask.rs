//! What a client asks, turned into inputs of the board, records and things to tell.

use std::collections::BTreeSet;

use mio::Token;
use ringback_core::effect::Effect;
use ringback_core::id::{Prefix, TaskId};
use ringback_core::outcome::Cause;
use ringback_core::retention::Rule;
use ringback_core::spec::Leftovers;
use ringback_core::task::{Input, Stop};
use ringback_sys::form::record::{Phase, Record as KeeperRecord};
use ringback_sys::form::request::{Ask, Request as KeeperRequest};
use ringback_sys::{identity, process};

use super::Daemon;
use super::error::store_fault;
use super::round::Act;
use super::tell::{Say, Tell};
use super::wait::{Until, Wait, What};
use crate::store::{Ack, Found, Page, Record};
use crate::wire::{self, Call, Caller, Fault, PROTOCOL, Reply, Request, VERSION, refusal};

/// Among how many of the newest tasks a name is looked for.
const NAMES_LOOKED_AT: u32 = 200;

impl Daemon {
    /// Carries out one call as far as deciding goes; the answer comes at the end of the round, or later.
    pub(super) fn ask(&mut self, to: Token, call: Call) {
        let refused = refuse_stranger(&call);
        if matches!(call.request, Request::Spoken(_)) && call.version != VERSION {
            // Its words may mean something else to us.
            return self.say(to, Say::Reply(refused.map_or_else(Reply::Fault, |()| Reply::OldWay)));
        }
        let Call { caller, request, .. } = call;
        if let Err(fault) = refused.and_then(|()| self.ask_one(to, &caller, request)) {
            self.say(to, Say::Reply(Reply::Fault(fault)));
        }
    }

    fn ask_one(&mut self, to: Token, caller: &Caller, request: Request) -> Result<(), Fault> {
        match request {
            Request::Run(run) => self.ask_run(to, caller, *run, None),
            Request::Spoken(spoken) => self.ask_spoken(to, &spoken),
            Request::Retry { id } => self.ask_retry(to, caller, &id),
            Request::Kill { ids, session, grace_ms } => self.ask_kill(to, caller, &ids, session, grace_ms),
            Request::Signal { ids, signal } => self.ask_signal(to, &ids, signal),
            Request::Send { id, data, eof } => self.ask_send(to, &id, data.into_vec(), eof),
            Request::Resize { id, size } => self.ask_resize(to, &id, size),
            Request::Release { ids } => self.ask_release(to, &ids),
            Request::Wait { ids, any, timeout_ms, until } => self.ask_wait(to, caller, &ids, any, timeout_ms, until),
            Request::Inbox { after, wait_ms, limit } => self.ask_inbox(to, caller, after, wait_ms, limit),
            Request::News { newer_than, wait_ms, limit } => {
                self.say(
                    to,
                    Say::Inbox {
                        caller: caller.clone(),
                        newer_than: Some(newer_than),
                        limit,
                        wait_ms,
                        acknowledges: false,
                    },
                );
                Ok(())
            }
            Request::Ack { up_to, seqs, tasks, endings } => {
                let ended = endings.iter().filter_map(|id| TaskId::parse(id).ok()).map(Ack::Ending).collect();
                self.ask_ack(to, caller, up_to, &seqs, &tasks, ended)
            }
            claim @ Request::Claim { .. } => self.ask_claim(to, caller, claim),
            Request::Report { id, percent, text } => self.ask_report(to, &id, percent, text.as_deref()),
            Request::Changes { .. } if self.has_waits_enough() => Err(self.too_many_waits()),
            Request::Changes { since } => {
                self.changes.ask(to, since);
                Ok(())
            }
            Request::SessionEnd { session } => self.ask_session_end(to, caller, &session),
            Request::SessionWatch { session, pid } => self.ask_session_watch(to, &session, pid),
            Request::SessionLease { session, for_ms } => self.ask_session_lease(to, &session, for_ms),
            Request::Remove { ids } => self.ask_remove(to, &ids),
            Request::Prune { older_than_ms, keep, dry_run } => {
                let rule = Rule { keep_ms: older_than_ms, keep_newest: keep.into() };
                self.ask_prune(to, rule, dry_run);
                Ok(())
            }
            Request::Stop => {
                self.leaving = true;
                self.say(to, Say::Reply(Reply::Done));
                Ok(())
            }
            Request::Show { id } => {
                let id = self.resolve(&id)?;
                self.say(to, Say::Task { id, existing: false });
                Ok(())
            }
            Request::List { .. } | Request::Sessions | Request::Status => {
                self.say(to, Say::Read(Box::new(request)));
                Ok(())
            }
        }
    }

    pub(super) fn say(&mut self, to: Token, say: Say) {
        self.round.tells.push(Tell { to, say });
    }

    /// The task that these characters name.
    pub(super) fn resolve(&self, text: &str) -> Result<TaskId, Fault> {
        let list = Some("`ringback ps -a --all-sessions` lists all tasks".to_owned());
        let fault = |code: &str, message: String, hint| Fault { code: code.into(), message, hint };
        let prefix = Prefix::parse(text).map_err(|bad| {
            fault("bad_id", format!("{text:?} is not a task id: {bad}{}", self.of_name(text)), list.clone())
        })?;
        match self.store.find(prefix).map_err(|error| store_fault(&error))? {
            Found::One(id) => Ok(id),
            Found::Unknown => {
                Err(fault("unknown_id", format!("no task has the id {text}{}", self.of_name(text)), list))
            }
            Found::Expired(id) => {
                let hint = Some("removed tasks cannot be seen again; `ringback prune --help` says when they go".into());
                Err(fault("expired_id", format!("task {id} has expired: it was removed"), hint))
            }
            Found::Ambiguous(ids) => {
                let ids = ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                let hint = Some("give more characters of the id".into());
                Err(fault("ambiguous_id", format!("{text} is the beginning of several ids: {ids}"), hint))
            }
        }
    }

    /// The id that was meant by somebody who gave a name: of the newest task that has it.
    fn of_name(&self, text: &str) -> String {
        let newest = Page { session: None, ended: true, before: None, limit: NAMES_LOOKED_AT };
        let rows = self.store.page(newest).unwrap_or_default();
        let named = rows.iter().find(|row| row.asked.name.as_deref() == Some(text));
        named.map(|row| format!("; the newest task named {text:?} is {}", row.id)).unwrap_or_default()
    }

    /// All of the tasks, or the first that is none; each once.
    fn resolve_all(&self, texts: &[String]) -> Result<Vec<TaskId>, Fault> {
        if texts.is_empty() {
            return Err(Fault {
                code: "no_id".into(),
                message: "no task was named".into(),
                hint: Some("`ringback ps` lists the tasks of this session".into()),
            });
        }
        let mut ids = Vec::new();
        for text in texts {
            let id = self.resolve(text)?;
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        Ok(ids)
    }

    /// Those of the tasks that there are, each once, and a word on each of the others.
    pub(super) fn sort_out(&self, texts: &[String]) -> (Vec<TaskId>, Vec<Fault>) {
        let (mut ids, mut faults) = (Vec::new(), Vec::new());
        for text in texts {
            match self.resolve(text) {
                Ok(id) if ids.contains(&id) => {}
                Ok(id) => ids.push(id),
                Err(fault) => faults.push(fault),
            }
        }
        (ids, faults)
    }

    /// The same, where one is all that was asked for: none at all is a fault.
    pub(super) fn resolve_each(&self, texts: &[String]) -> Result<(Vec<TaskId>, Vec<Fault>), Fault> {
        let (ids, faults) = self.sort_out(texts);
        match faults.first() {
            Some(fault) if ids.is_empty() && faults.len() == 1 => Err(fault.clone()),
            None if ids.is_empty() => self.resolve_all(texts).map(|ids| (ids, Vec::new())),
            _ => Ok((ids, faults)),
        }
    }

    fn ask_kill(
        &mut self,
        to: Token,
        caller: &Caller,
        texts: &[String],
        session: Option<String>,
        grace_ms: Option<u64>,
    ) -> Result<(), Fault> {
        let (ids, faults) = match session {
            Some(session) => (self.board.of_session(&session), Vec::new()),
            None => self.resolve_each(texts)?,
        };
        for id in &ids {
            let stop = Stop { cause: Cause::Request, by: Some(caller.by.clone()), grace_ms };
            let effects = self.board.step(*id, Input::StopAsked(stop));
            self.apply(effects);
        }
        self.wait_gone(to, caller, ids, faults);
        Ok(())
    }

    fn ask_signal(&mut self, to: Token, texts: &[String], signal: i32) -> Result<(), Fault> {
        if !(1..=ringback_sys::signals::SIGNAL_MAX).contains(&signal) {
            return Err(Fault {
                code: "bad_signal".into(),
                message: format!("{signal} is not a signal"),
                hint: Some("signals are 1 to 64, or names like TERM".into()),
            });
        }
        let (ids, mut faults) = self.resolve_each(texts)?;
        for id in &ids {
            if self.board.get(*id).is_some_and(|entry| !entry.state.has_ended()) {
                let request = KeeperRequest { ask: Ask::Signal, signal, ..KeeperRequest::default() };
                self.round.act(Act::Request(*id, request));
            } else {
                faults.push(Fault {
                    code: "already_ended".into(),
                    message: format!("cannot signal {id}: it has ended"),
                    hint: Some(format!("`ringback show {id}` says how; `ringback kill {id}` reaches its leftovers")),
                });
            }
        }
        self.say(to, Say::Tasks { ids, timed_out: false, faults });
        Ok(())
    }

    fn ask_release(&mut self, to: Token, texts: &[String]) -> Result<(), Fault> {
        let (mut ids, mut faults) = self.resolve_each(texts)?;
        ids.retain(|id| {
            let lives = self.board.get(*id).is_some_and(|entry| !entry.state.has_ended());
            if lives {
                let effects = self.board.release(*id);
                self.apply(effects);
            } else {
                faults.push(Fault {
                    code: "already_ended".into(),
                    message: format!("cannot release {id}: it has ended"),
                    hint: Some(format!("nothing has to be done; `ringback ack {id}` marks its end as heard")),
                });
            }
            lives
        });
        match faults.first() {
            Some(fault) if ids.is_empty() && faults.len() == 1 => Err(fault.clone()),
            _ => {
                self.say(to, Say::Tasks { ids, timed_out: false, faults });
                Ok(())
            }
        }
    }

    fn ask_wait(
        &mut self,
        to: Token,
        caller: &Caller,
        texts: &[String],
        any: bool,
        timeout_ms: Option<u64>,
        until: wire::Until,
    ) -> Result<(), Fault> {
        let ids = self.resolve_all(texts)?;
        for id in &ids {
            self.check_can_come(*id, until)?;
        }
        if self.has_waits_enough() {
            return Err(self.too_many_waits());
        }
        let until = match until {
            wire::Until::End => Until::Ended,
            wire::Until::Ready => Until::Ready,
            wire::Until::Match => Until::Matched,
        };
        let due_ms = timeout_ms.map(|ms| process::monotonic_ms().saturating_add(ms));
        self.wait_for(to, caller, ids, any, until, due_ms);
        Ok(())
    }

    /// A task that was never asked to say so is never ready, and nobody should wait for it.
    fn check_can_come(&self, id: TaskId, until: wire::Until) -> Result<(), Fault> {
        let live = self.lives.get(&id).map(|live| live.row.asked.clone());
        let asked = match (until, live) {
            (wire::Until::End, _) => return Ok(()),
            (_, Some(asked)) => Some(asked),
            (_, None) => self.store.task(id).map_err(|error| store_fault(&error))?.map(|row| row.asked),
        };
        let asked = asked.unwrap_or_default();
        let (can, what, option) = match until {
            wire::Until::Match => (!asked.watch.is_empty() || !asked.watch_literal.is_empty(), "matches", "--watch"),
            _ => (asked.ready.is_some(), "is ready", "--ready"),
        };
        if can {
            return Ok(());
        }
        Err(Fault {
            code: "nothing_to_wait_for".into(),
            message: format!("cannot tell when {id} {what}: it was started without {option}"),
            hint: Some(format!("start it with `ringback run {option} …`, or wait for its end")),
        })
    }

    /// Whether as many wait as may.
    pub(super) fn has_waits_enough(&self) -> bool {
        self.waits.len() + self.changes.len() >= self.places.waits
    }

    /// Nobody may wait where those who look and stop would find no place.
    pub(super) fn too_many_waits(&self) -> Fault {
        Fault {
            code: "too_many_waits".into(),
            message: format!("cannot wait: {} clients wait already, as many as there is place for", self.waits.len()),
            hint: Some(
                "look now and then (`ringback show ID`), or raise `ulimit -n` and `ringback daemon restart`".into(),
            ),
        }
    }

    /// The answer comes when the tasks have come that far.
    pub(super) fn wait_for(
        &mut self,
        to: Token,
        caller: &Caller,
        ids: Vec<TaskId>,
        any: bool,
        until: Until,
        due_ms: Option<u64>,
    ) {
        let left: BTreeSet<TaskId> = ids.iter().copied().filter(|id| !self.has_come(*id, until)).collect();
        let what = What::Tasks { ids, left, any, until, faults: Vec::new() };
        self.waits.add(Wait { to, caller: caller.clone(), what, due_ms });
    }

    /// The answer comes when their trees are gone.
    fn wait_gone(&mut self, to: Token, caller: &Caller, ids: Vec<TaskId>, faults: Vec<Fault>) {
        let left: BTreeSet<TaskId> = ids.iter().copied().filter(|id| !self.has_come(*id, Until::Gone)).collect();
        let what = What::Tasks { ids, left, any: false, until: Until::Gone, faults };
        self.waits.add(Wait { to, caller: caller.clone(), what, due_ms: None });
    }

    fn has_come(&self, id: TaskId, until: Until) -> bool {
        match (self.lives.get(&id), until) {
            (None, _) => true,
            (Some(live), Until::Ended) => live.told,
            (Some(live), Until::Ready) => live.told || live.row.watch.ready,
            (Some(live), Until::Matched) => live.told || live.row.watch.matches > 0,
            (Some(_), Until::Gone) => false,
        }
    }

    /// A stop has given up on what it could not kill: whoever waits for the tree to be gone is told what is left.
    pub(super) fn settle_stop(&mut self, id: TaskId, record: &KeeperRecord) {
        let Some(live) = self.lives.get(&id) else { return };
        let waits = live.row.asked.leftovers == Leftovers::Wait.word();
        // A keeper says that its stop is over before it tells the end of a main process that did not survive it.
        let is_yet_to_end = record.phase == Phase::Started && !waits && !identity::is_alive(record.main);
        let over = (record.stop_over || record.has_receipt) && !is_yet_to_end;
        if over && !self.stops_again(id, record) {
            self.waits.gone(id);
        }
    }

    fn ask_session_end(&mut self, to: Token, caller: &Caller, session: &str) -> Result<(), Fault> {
        check_session(session)?;
        let ids = self.board.tied_to(session);
        self.end_session(session, Some(&caller.by));
        self.wait_gone(to, caller, ids, Vec::new());
        Ok(())
    }

    fn ask_session_watch(&mut self, to: Token, session: &str, pid: i32) -> Result<(), Fault> {
        check_session(session)?;
        let gone = || Fault {
            code: "no_process".into(),
            message: format!("cannot watch process {pid}: it is not there"),
            hint: Some("give the pid of a living process, for example $PPID".into()),
        };
        if self.endings.watched_len() >= self.places.witnesses {
            return Err(Fault {
                code: "too_many_watched".into(),
                message: format!("cannot watch process {pid}: the daemon may open no more files"),
                hint: Some("use a lease instead: `ringback session lease`; or raise `ulimit -n` for the daemon".into()),
            });
        }
        let who = identity::who(pid).map_err(|_| gone())?;
        if !self.watch(session, who) {
            return Err(gone());
        }
        let boot = identity::boot_id().unwrap_or_default();
        let process = Some((who.pid, who.start_ticks, boot));
        self.round.records.push(Record::Watch { session: session.to_owned(), process });
        self.say(to, Say::Session(session.to_owned()));
        Ok(())
    }

    fn ask_session_lease(&mut self, to: Token, session: &str, for_ms: u64) -> Result<(), Fault> {
        check_session(session)?;
        let far = i64::try_from(for_ms).unwrap_or(i64::MAX);
        let until = (far > 0).then(|| process::wall_ms().saturating_add(far));
        self.lease(session, until);
        self.say(to, Say::Session(session.to_owned()));
        Ok(())
    }

    /// The task that answers for a key that is taken.
    pub(super) fn same_key(effects: &[Effect]) -> Option<(TaskId, Option<&str>)> {
        effects.iter().find_map(|effect| match effect {
            Effect::Reuse { existing, .. } => Some((*existing, None)),
            Effect::Refuse { existing, key, .. } => Some((*existing, Some(key.as_str()))),
            _ => None,
        })
    }
}

/// A client that could misunderstand us is served only what works across all versions; a newer one starts its tasks
/// with a daemon of its own version, which it puts in our place.
fn refuse_stranger(call: &Call) -> Result<(), Fault> {
    let hint = Some("`ringback daemon restart` brings both to one version; tasks run on".to_owned());
    let message = format!("the client has version {}, the daemon {VERSION}", call.version);
    let newer = version_numbers(&call.version) > version_numbers(VERSION);
    match call.request {
        Request::Status | Request::Stop => Ok(()),
        _ if call.proto != PROTOCOL => Err(Fault { code: "protocol_mismatch".into(), message, hint }),
        Request::Run(_) | Request::Retry { .. } if newer => {
            Err(Fault { code: refusal::DAEMON_OLDER.into(), message, hint })
        }
        _ => Ok(()),
    }
}

fn version_numbers(version: &str) -> Vec<u64> {
    let release = version.split(['-', '+']).next().unwrap_or_default();
    release.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}

/// Whether this may be the name of a session.
pub(super) fn check_session(session: &str) -> Result<(), Fault> {
    if ringback_core::spec::is_label(session) {
        return Ok(());
    }
    Err(Fault {
        code: "bad_session".into(),
        message: format!("{session:?} cannot be the name of a session"),
        hint: Some("a session's name is one line of 1 to 256 bytes".into()),
    })
}
