//! What a session has to see to: looked at once by `ps`, and again at every change by `top`.

use std::collections::BTreeSet;

use ringback_core::notice::Kind;
use ringback_host::client::Client;
use ringback_host::wire::{Notice, Reply, Request, TaskObject};

use super::door::{self, Tasks, tasks};
use crate::explain::Failure;
use crate::output::progress;
use crate::render::{age, clean, json as documents, task as render};

/// How many live tasks and notices one look fetches; a session with more loose ends has other worries.
const LIMIT: u32 = 1000;
/// How much of a notice of a running task stands in its line.
const NOTICE_CHARS: usize = 100;

/// Live tasks and unheard notices.
pub(super) struct Look {
    /// Live tasks, newest first.
    pub(super) tasks: Tasks,
    notices: Vec<Notice>,
    /// Of this session; nothing for the live tasks of every session.
    session: Option<String>,
}

impl Look {
    /// What the caller's session has to see to, at most so many tasks.
    pub(super) fn at_session(client: &mut Client, limit: Option<u32>) -> Result<Self, Failure> {
        let session = client.caller().session.clone();
        let found = list(client, Some(session.clone()), limit)?;
        let request = Request::Inbox { after: None, wait_ms: None, limit: LIMIT };
        let Reply::Notices { mut notices, .. } = client.call(request)? else { return Err(door::unexpected()) };
        progress::look_all(notices.iter_mut().map(|notice| &mut notice.task));
        // One that ended between the two questions is an ending, not a live task.
        let ends =
            |notice: &Notice, task: &TaskObject| notice.about() == Some(Kind::ToolResult) && notice.task.id == task.id;
        let told = |task: &TaskObject| notices.iter().any(|notice| ends(notice, task));
        let tasks = Tasks { list: found.list.iter().filter(|task| !told(task)).cloned().collect(), ..found };
        Ok(Self { tasks, notices, session: Some(session) })
    }

    /// All that lives, whoever's it is.
    pub(super) fn at_all(client: &mut Client) -> Result<Self, Failure> {
        Ok(Self { tasks: list(client, None, None)?, notices: Vec::new(), session: None })
    }

    /// As one document.
    pub(super) fn document(&self) -> documents::LooseEnds<'_> {
        documents::loose_ends(self.session.as_deref(), &self.tasks.list, &self.notices, &self.tasks.faults)
    }

    /// Each id once.
    pub(super) fn ids(&self) -> Vec<String> {
        let mut said = BTreeSet::new();
        let live = self.tasks.list.iter().map(|task| &task.id);
        let all = live.chain(self.notices.iter().map(|notice| &notice.task.id));
        all.filter(|id| said.insert((*id).clone())).cloned().collect()
    }

    /// For people; empty if there is nothing to see to.
    pub(super) fn page(&self) -> String {
        let mut page = String::new();
        if !self.tasks.list.is_empty() {
            let everywhere = self.session.is_none();
            page += &render::tasks_table(&self.tasks.list, everywhere, door::now(), door::style());
        }
        if !self.notices.is_empty() {
            let gap = if page.is_empty() { "" } else { "\n" };
            page.extend([gap, "Not heard yet (read with: ringback inbox):\n"]);
            for notice in &self.notices {
                page += &(notice_line(notice) + "\n");
            }
        }
        page
    }

    /// What is to be said where there is nothing to see to.
    pub(super) fn nothing(&self) -> String {
        match &self.session {
            Some(session) => {
                // Where that is nobody else's, it need not be named.
                let is_own = door::caller(None).is_ok_and(|caller| caller.session == *session);
                let named = shlex::try_quote(session).unwrap_or_default();
                let of = if is_own { String::new() } else { format!(" -s {named}") };
                format!("no loose ends in session {}; ended tasks: ringback ps -a{of}", clean::short(session, 60))
            }
            None => "no live tasks".to_owned(),
        }
    }
}

fn list(client: &mut Client, session: Option<String>, limit: Option<u32>) -> Result<Tasks, Failure> {
    let request = Request::List { session, ended: false, before: None, limit: limit.unwrap_or(LIMIT) };
    let mut found = tasks(client.call(request)?)?;
    progress::look_all(&mut found.list);
    Ok(found)
}

fn notice_line(notice: &Notice) -> String {
    let line = if notice.about() == Some(Kind::ToolResult) {
        render::line(&notice.task, door::style())
    } else {
        let first = notice.text.lines().next().unwrap_or_default();
        format!("{}  {}", notice.task.id, clean::short(first, NOTICE_CHARS))
    };
    format!("  #{}  {line}  {}", notice.seq, age::ago(&notice.at, door::now()))
}
