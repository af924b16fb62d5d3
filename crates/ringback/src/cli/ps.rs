//! `ringback ps`: the loose ends of a session, or all tasks.

use std::collections::BTreeSet;

use clap::Args;
use ringback_host::client::Client;
use ringback_host::wire::{Notice, Reply, Request, TaskObject};
use serde_json::json;

use super::door::{self, Door, Tasks, tasks};
use crate::explain::{Done, Failure};
use crate::output::progress;
use crate::render::{age, clean, json as documents, task as render};

/// How many tasks are listed where nobody says.
const LIMIT: u32 = 50;
/// How many live tasks and notices one list fetches; a session with more loose ends has other worries.
const LOOSE_ENDS_LIMIT: u32 = 1000;
/// How much of a notice of a running task stands in its line.
const NOTICE_CHARS: usize = 100;

/// List what this session has to see to: live tasks and unheard endings
///
/// With -a ended tasks too, newest first.
#[derive(Debug, Args)]
pub(crate) struct Ps {
    /// List ended tasks too, newest first
    #[arg(short, long)]
    all: bool,
    /// List the tasks of this session
    #[arg(short, long, conflicts_with = "all_sessions")]
    session: Option<String>,
    /// List the tasks of every session
    #[arg(long)]
    all_sessions: bool,
    /// List at most this many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Go on where an earlier list stopped
    #[arg(long, value_name = "N", requires = "all")]
    before: Option<u64>,
}

impl Ps {
    /// Lists them.
    pub(crate) fn perform(self, door: Door) -> Done {
        let mut client = door::client(self.session.as_deref())?;
        let session = (!self.all_sessions).then(|| client.caller().session.clone());
        let limit = self.limit.unwrap_or(if self.all { LIMIT } else { LOOSE_ENDS_LIMIT });
        let request = Request::List { session: session.clone(), ended: self.all, before: self.before, limit };
        let mut found = tasks(client.call(request)?)?;
        progress::look_all(&mut found.list);
        if self.all || self.all_sessions {
            return say_list(door, &found, self.all_sessions);
        }
        let mut notices = unheard(&mut client)?;
        progress::look_all(notices.iter_mut().map(|notice| &mut notice.task));
        // One that ended between the two questions is an ending, not a live task.
        let ends = |notice: &Notice, task: &TaskObject| notice.kind == "tool_result" && notice.task.id == task.id;
        let told = |task: &TaskObject| notices.iter().any(|notice| ends(notice, task));
        let found = Tasks { list: found.list.iter().filter(|task| !told(task)).cloned().collect(), ..found };
        say_loose_ends(door, &found, &notices, &session.unwrap_or_default())
    }
}

fn unheard(client: &mut Client) -> Result<Vec<Notice>, Failure> {
    match client.call(Request::Inbox { after: None, wait_ms: None, limit: LOOSE_ENDS_LIMIT })? {
        Reply::Notices { notices, .. } => Ok(notices),
        _ => Err(door::unexpected()),
    }
}

fn ids(tasks: &[TaskObject]) -> impl Iterator<Item = String> {
    tasks.iter().map(|task| task.id.clone())
}

fn say_list(door: Door, found: &Tasks, sessions: bool) -> Done {
    if door.json {
        let mut all = documents::tasks(&found.list, None, &found.faults);
        all["next"] = found.next.into();
        door::document(&all)?;
    } else if door.quiet {
        door::out_lines(ids(&found.list))?;
    } else if found.list.is_empty() {
        door.note("no tasks");
    } else {
        door::out(&render::tasks_table(&found.list, sessions, door::now(), door::style()))?;
        if let Some(next) = found.next {
            door.note(&format!("there are more: --before {next}"));
        }
    }
    Ok(0)
}

fn say_loose_ends(door: Door, found: &Tasks, notices: &[Notice], session: &str) -> Done {
    if door.json {
        let tasks: Vec<_> = found.list.iter().map(documents::task).collect();
        let unheard: Vec<_> = notices.iter().map(|notice| documents::notice(notice, session)).collect();
        let all = json!({ "session": session, "tasks": tasks, "notices": unheard, "faults": found.faults });
        door::document(&documents::document(all))?;
    } else if door.quiet {
        let mut said = BTreeSet::new();
        let all = ids(&found.list).chain(notices.iter().map(|notice| notice.task.id.clone()));
        door::out_lines(all.filter(|id| said.insert(id.clone())))?;
    } else {
        if !found.list.is_empty() {
            door::out(&render::tasks_table(&found.list, false, door::now(), door::style()))?;
        }
        if !notices.is_empty() {
            let gap = if found.list.is_empty() { "" } else { "\n" };
            door::out(&format!("{gap}Not heard yet (read with: ringback inbox):\n"))?;
            door::out_lines(notices.iter().map(notice_line))?;
        }
        if found.list.is_empty() && notices.is_empty() {
            door.note(&format!("no loose ends in session {}; ended tasks: ringback ps -a", clean::short(session, 60)));
        }
    }
    Ok(0)
}

fn notice_line(notice: &Notice) -> String {
    let line = if notice.kind == "tool_result" {
        render::line(&notice.task, door::style())
    } else {
        let first = notice.text.lines().next().unwrap_or_default();
        format!("{}  {}", notice.task.id, clean::short(first, NOTICE_CHARS))
    };
    format!("  #{}  {line}  {}", notice.seq, age::ago(&notice.at, door::now()))
}
