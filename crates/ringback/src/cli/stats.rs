//! `ringback stats`: counts of the daemon, or what tasks used.

use clap::Args;
use ringback_host::client::Client;
use ringback_host::quantity::{duration_text, size_text};
use ringback_host::wire::{Reply, Request, StatusObject, TaskObject};
use serde_json::json;

use super::door::{self, Door};
use crate::explain::{Done, Failure};
use crate::render::json::document;
use crate::render::table::{Cell, table};
use crate::render::task as render;

/// Show counts of the daemon, or what tasks used
#[derive(Debug, Args)]
pub(crate) struct Stats {
    /// Ids or unique prefixes
    #[arg(value_name = "ID")]
    ids: Vec<String>,
}

impl Stats {
    /// Shows them.
    pub(crate) fn perform(self, door: Door) -> Done {
        let mut client = door::client(None)?;
        if self.ids.is_empty() {
            let Reply::Status(status) = client.call(Request::Status)? else { return Err(door::unexpected()) };
            return say_counts(door, &status);
        }
        let tasks = self.ids.iter().map(|id| look(&mut client, id)).collect::<Result<Vec<_>, _>>()?;
        say_usage(door, &tasks)
    }
}

fn look(client: &mut Client, id: &str) -> Result<TaskObject, Failure> {
    match client.call(Request::Show { id: id.to_owned() })? {
        Reply::Task { task, .. } => Ok(*task),
        _ => Err(door::unexpected()),
    }
}

fn say_counts(door: Door, status: &StatusObject) -> Done {
    let counts = [
        ("queued", status.queued),
        ("running", status.running),
        ("ended", status.ended),
        ("unheard", status.unheard),
        ("adopted", status.adopted),
        ("freed", status.freed_tasks),
    ];
    if door.json {
        let mut all = json!({
            "rss_bytes": status.rss_bytes,
            "started_at": status.started_at,
            "kept_bytes": status.kept_bytes,
            "quota_bytes": status.quota_bytes,
            "freed_bytes": status.freed_bytes,
        });
        for (name, count) in counts {
            all[name] = count.into();
        }
        door::document(&document(all))?;
    } else if !door.quiet {
        door::out_lines(counts.iter().map(|(name, count)| format!("{name:<8}  {count}")))?;
        let quota = match status.quota_bytes {
            0 => String::new(),
            quota => format!(" of {}", size_text(quota)),
        };
        let freed = size_text(status.freed_bytes);
        door::out(&format!("on disk   {}{quota} (ended tasks; {freed} freed)\n", size_text(status.kept_bytes)))?;
        door::out(&format!("memory    {}\n", size_text(status.rss_bytes)))?;
    }
    Ok(0)
}

fn say_usage(door: Door, tasks: &[TaskObject]) -> Done {
    if door.json {
        let row = |task: &TaskObject| {
            json!({ "id": task.id, "state": task.state, "duration_ms": task.duration_ms, "usage": task.usage,
                    "output_bytes": task.output.bytes, "silence_ms": task.silence_ms })
        };
        door::document(&document(json!({ "tasks": tasks.iter().map(row).collect::<Vec<_>>() })))?;
        return Ok(0);
    }
    if door.quiet {
        door::out_lines(tasks.iter().map(|task| task.id.clone()))?;
        return Ok(0);
    }
    let row = |task: &TaskObject| {
        let usage = task.usage.as_ref();
        let time = |ms: Option<u64>| Cell::plain(ms.map_or_else(|| "-".to_owned(), duration_text));
        vec![
            Cell::plain(task.id.clone()),
            Cell::toned(render::tone(task), task.state.clone()),
            time(task.duration_ms),
            time(usage.map(|usage| usage.user_ms)),
            time(usage.map(|usage| usage.system_ms)),
            Cell::plain(usage.map_or_else(|| "-".to_owned(), |usage| size_text(usage.max_rss_bytes))),
            Cell::plain(size_text(task.output.bytes)),
        ]
    };
    let rows: Vec<_> = tasks.iter().map(row).collect();
    door::out(&table(&["ID", "STATE", "TIME", "USER", "SYSTEM", "MEMORY", "OUTPUT"], &rows, door::style()))?;
    Ok(0)
}
