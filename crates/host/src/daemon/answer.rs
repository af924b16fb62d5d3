//! What is told, after it was recorded: answers are made from what the store and the folders say at that moment.

use mio::Token;
use ringback_core::id::TaskId;
use ringback_sys::form::record::Record;
use ringback_sys::process;

use super::error::store_fault;
use super::hold_back;
use super::tell::{Say, Tell};
use super::view::{self, Detail};
use super::wait::{Wait, What};
use super::{Daemon, sight};
use crate::spoken::Saying;
use crate::store::{NoticeRow, Page, Row};
use crate::wire::{Fault, Notice, PROTOCOL, Reply, Request, SessionObject, StatusObject, TaskObject, VERSION};

/// How many tasks or notices one answer holds at most; a client asks for the next page.
const PAGE_MAX: u32 = 1000;

impl Daemon {
    /// Tells one client.
    pub(super) fn tell(&mut self, tell: Tell) {
        let Tell { to, say } = tell;
        let reply = match say {
            Say::Reply(reply) | Say::Changed(reply) => Ok(reply),
            Say::Begun { id, inbox_empty, unheard_max, say } => self.begun_reply(id, inbox_empty, unheard_max, say),
            Say::Task { id, existing } => self.task_reply(id, Detail::Full, existing),
            Say::Tasks { ids, timed_out, faults } => self.tasks_reply(&ids, timed_out, faults),
            Say::Read(request) => self.read(&request),
            Say::Session(session) => self.session_reply(&session),
            Say::Claimed(claim) => self.claimed_reply(&claim),
            Say::Acknowledged { first, count, faults } => {
                Ok(Reply::Acknowledged { count: self.round.acknowledged(first, count), faults })
            }
            Say::Inbox { caller, newer_than, limit, wait_ms, .. } => {
                match self.inbox(&caller.session, newer_than, limit) {
                    Ok(Reply::Notices { notices, .. })
                        if notices.is_empty() && wait_ms > 0 && self.has_waits_enough() =>
                    {
                        Err(self.too_many_waits())
                    }
                    Ok(Reply::Notices { notices, .. }) if notices.is_empty() && wait_ms > 0 => {
                        let due_ms = Some(process::monotonic_ms().saturating_add(wait_ms));
                        return self.waits.add(Wait { to, caller, what: What::Inbox { newer_than, limit }, due_ms });
                    }
                    other => other,
                }
            }
        };
        self.reply(to, reply);
    }

    /// A wait has what it waited for.
    pub(super) fn answer_wait(&mut self, key: u64) {
        let Some(Wait { to, caller, what, .. }) = self.waits.take(key) else { return };
        let reply = match what {
            What::Tasks { ids, faults, .. } => self.tasks_reply(&ids, false, faults),
            What::Inbox { newer_than, limit } => self.inbox(&caller.session, newer_than, limit),
        };
        self.reply(to, reply);
    }

    /// A wait has waited enough.
    pub(super) fn answer_late(&mut self, key: u64) {
        let Some(Wait { to, caller, what, .. }) = self.waits.take(key) else { return };
        let reply = match what {
            What::Tasks { ids, faults, .. } => self.tasks_reply(&ids, true, faults),
            What::Inbox { newer_than, limit } => self.inbox(&caller.session, newer_than, limit),
        };
        self.reply(to, reply);
    }

    /// Queues an answer.
    pub(super) fn reply(&mut self, to: Token, reply: Result<Reply, Fault>) {
        if self.connections.answer(to, reply.unwrap_or_else(Reply::Fault)) {
            // What it asks next belongs to the next round: this one has been recorded already.
            self.round.resume(to);
        }
    }

    fn read(&mut self, request: &Request) -> Result<Reply, Fault> {
        match request {
            Request::List { session, ended, before, limit } => {
                let limit = (*limit).min(PAGE_MAX);
                let page = Page { session: session.as_deref(), ended: *ended, before: *before, limit };
                let rows = self.store.page(page).map_err(|error| store_fault(&error))?;
                let next = rows.last().filter(|_| rows.len() == limit as usize).map(|row| row.seq);
                let now = |row: Row| self.live_row(row.id).unwrap_or(row);
                let rows: Vec<Row> = rows.into_iter().map(now).filter(|row| *ended || row.facts.is_none()).collect();
                let tasks = rows.iter().map(|row| self.object(row, Detail::Brief)).collect();
                Ok(Reply::Tasks { tasks, timed_out: false, next, faults: Vec::new() })
            }
            Request::Sessions => {
                let rows = self.store.sessions().map_err(|error| store_fault(&error))?;
                Ok(Reply::Sessions(rows.into_iter().map(session_object).collect()))
            }
            _ => Ok(Reply::Status(Box::new(self.status()?))),
        }
    }

    fn task_reply(&mut self, id: TaskId, detail: Detail, existing: bool) -> Result<Reply, Fault> {
        Ok(Reply::Task { task: Box::new(self.task(id, detail)?), existing, inbox_empty: false, unheard: None })
    }

    /// The task that this round has recorded: its keeper is still to be launched, so nobody has written into its record.
    fn begun_reply(
        &mut self,
        id: TaskId,
        inbox_empty: bool,
        unheard_max: u32,
        say: Option<Saying>,
    ) -> Result<Reply, Fault> {
        self.seen = Some((id, Record::default()));
        let reply = match say {
            None => self.task(id, Detail::Brief).map(|task| {
                let asked = unheard_max > 0 && !inbox_empty;
                // The task is recorded: what cannot be read now is asked for anew.
                let unheard = asked.then(|| self.notices(&task.session, None, unheard_max).ok()).flatten();
                Reply::Task { task: Box::new(task), existing: false, inbox_empty, unheard }
            }),
            Some(say) => self.said_reply(id, &say),
        };
        self.seen = None;
        reply
    }

    fn tasks_reply(&mut self, ids: &[TaskId], timed_out: bool, faults: Vec<Fault>) -> Result<Reply, Fault> {
        let tasks = ids.iter().map(|id| self.task(*id, Detail::Full)).collect::<Result<_, _>>()?;
        Ok(Reply::Tasks { tasks, timed_out, next: None, faults })
    }

    /// The task object, as it may be told now.
    pub(super) fn task(&mut self, id: TaskId, detail: Detail) -> Result<TaskObject, Fault> {
        // A live task's row here is what the store has, or a commit ahead of it while the disk is full.
        if let Some(row) = self.live_row(id) {
            return Ok(self.object(&row, detail));
        }
        match self.store.task(id).map_err(|error| store_fault(&error))? {
            Some(row) => Ok(self.object(&row, detail)),
            None => Err(Fault {
                code: "expired_id".into(),
                message: format!("task {id} has expired: it was removed"),
                hint: Some("`ringback ps -a` lists what is left".into()),
            }),
        }
    }

    fn object(&mut self, row: &Row, detail: Detail) -> TaskObject {
        let id = row.id;
        let dir = self.dir(id);
        let record = if row.live { self.record(row.id) } else { None };
        let mut row = std::borrow::Cow::Borrowed(row);
        // What a live task's record says since its end (a receipt, more output) is newer than the row.
        if let (Some(record), true) = (&record, row.facts.is_some())
            && let Some(facts) = &mut row.to_mut().facts
        {
            sight::refresh(facts, &dir, record);
            self.inherited.weigh(id, facts);
        }
        let mut object = view::task(&row, &dir, record.as_ref(), detail);
        if object.state == "running" {
            object.progress = self.progress(&row, object.duration_ms);
        }
        if row.packed {
            let bytes = if detail == Detail::Full { self.store.packed(row.id).ok().flatten() } else { None };
            view::pack(&mut object, bytes);
        }
        object
    }

    fn inbox(&mut self, session: &str, newer_than: Option<u64>, limit: u32) -> Result<Reply, Fault> {
        self.notices(session, newer_than, limit).map(|(notices, more)| Reply::Notices { notices, more })
    }

    /// What a session has not heard, and whether there is more of it.
    fn notices(&mut self, session: &str, newer_than: Option<u64>, limit: u32) -> Result<(Vec<Notice>, bool), Fault> {
        let limit = limit.clamp(1, PAGE_MAX);
        let after = newer_than.unwrap_or(0);
        let mut rows = self.store.notices(session, after, limit + 1).map_err(|error| store_fault(&error))?;
        if newer_than.is_none() {
            // They have no number yet, so they are newer than none.
            rows.extend(self.unwritten_notices(session));
        }
        let more = rows.len() > limit as usize;
        rows.truncate(limit as usize);
        Ok((rows.into_iter().map(|row| self.notice(session, row)).collect(), more))
    }

    pub(super) fn notice(&mut self, session: &str, row: NoticeRow) -> Notice {
        let task = self.task(row.task, Detail::Brief).unwrap_or_else(|_| TaskObject {
            // It was removed before anybody heard of it; the text still says how it ended.
            id: row.task.to_string(),
            session: session.to_owned(),
            ..TaskObject::default()
        });
        Notice { seq: row.seq, kind: row.kind, at: view::time(row.at_ms), text: row.text, task, sighting: row.sighting }
    }

    fn session_reply(&self, session: &str) -> Result<Reply, Fault> {
        let rows = self.store.sessions().map_err(|error| store_fault(&error))?;
        let found = rows.into_iter().map(session_object).find(|object| object.session == session);
        Ok(Reply::Session(
            found.unwrap_or_else(|| SessionObject { session: session.into(), ..SessionObject::default() }),
        ))
    }

    fn status(&self) -> Result<StatusObject, Fault> {
        Ok(StatusObject {
            pid: std::process::id().cast_signed(),
            version: VERSION.to_owned(),
            proto: PROTOCOL,
            started_at: view::time(self.started_ms),
            home: self.home.root().to_string_lossy().into_owned(),
            queued: self.board.waiting() as u64,
            running: self.board.busy() as u64,
            ended: self.prunes.kept.count,
            unheard: self.store.unheard(None).map_err(|error| store_fault(&error))?,
            adopted: self.adopted,
            kept_bytes: self.prunes.kept.bytes,
            quota_bytes: self.config.quota,
            freed_tasks: self.prunes.freed.count,
            freed_bytes: self.prunes.freed.bytes,
            rss_bytes: process::rss_bytes().unwrap_or(0),
            keeper: self.image.word().to_owned(),
            trees: if self.cgroups.is_ok() { "cgroup" } else { "subreaper" }.to_owned(),
            trees_note: match &self.cgroups {
                Ok(cgroups) => cgroups.parent().to_string_lossy().into_owned(),
                Err(why) => why.clone(),
            },
            cgroup_limits: hold_back::by_cgroup(self.cgroups.as_ref().ok()),
            rlimit_limits: crate::limits::held_by_rlimit(),
            durability: self.config.durability.word().to_owned(),
            troubles: self.all_troubles(),
        })
    }
}

fn session_object((mut session, lease_ms): (SessionObject, Option<i64>)) -> SessionObject {
    session.lease_until = lease_ms.map(view::time);
    session
}
