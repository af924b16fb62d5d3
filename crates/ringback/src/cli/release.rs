//! `ringback release`: an awaited task becomes a service of its session.

use clap::Args;
use ringback_host::wire::{Request, TaskObject};

use super::door::{self, Door, tasks};
use crate::explain::Done;
use crate::render::{json, task as render};

/// Turn awaited tasks into services of the session
///
/// They run until the session ends, and nobody waits for their end: their silence is not told. `ps` still lists them, with their
/// lease.
#[derive(Debug, Args)]
pub(crate) struct Release {
    /// Ids or unique prefixes
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    /// Speak for this session
    #[arg(short, long)]
    session: Option<String>,
}

impl Release {
    /// Releases them.
    pub(crate) fn perform(self, door: Door) -> Done {
        let mut client = door::client(self.session.as_deref())?;
        let found = tasks(client.call(Request::Release { ids: self.ids })?)?;
        if door.json {
            door::document(&json::tasks(&found.list, None, &found.faults))?;
        } else {
            let line = |task: &TaskObject| {
                // Who is detached outlives the session, and stays so.
                let kept = if task.lease == "detached" { ", as before" } else { "" };
                format!("{}  {}{kept}  {}", task.id, task.lease, render::label(task, 60))
            };
            door::out_lines(found.list.iter().map(|task| if door.quiet { task.id.clone() } else { line(task) }))?;
        }
        door::faults(&found.faults);
        Ok(door::exit_code(&found.faults))
    }
}
