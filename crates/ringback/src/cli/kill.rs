//! `ringback kill`: stops tasks with everything they started, and says what it did.

use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use ringback_host::client::Client;
use ringback_host::quantity::millis;
use ringback_host::wire::{Request, TaskObject};

use super::door::{self, Door, Tasks, heard, tasks};
use super::value;
use crate::explain::{Done, EXIT_FAILED};
use crate::render::{json, receipt, task as render};

/// A stop after which nobody can say that all are gone.
const EXIT_NOT_SEEN_GONE: u8 = 1;

/// Stop tasks with everything they started
///
/// Sends TERM to the whole tree, waits for the grace, then kills and looks until nothing is left.
///
/// Exits 0 when somebody looked and the tree is seen to be gone, 1 when a process survived (it is named) or nobody looked what is
/// left, 125 when an id is none or the stop failed; what can be done of the others is done.
#[derive(Debug, Args)]
pub(crate) struct Kill {
    /// Ids or unique prefixes
    #[arg(required_unless_present = "session", value_name = "ID")]
    ids: Vec<String>,
    /// Stop all live tasks of this session
    #[arg(short, long, conflicts_with = "ids")]
    session: Option<String>,
    /// Let TERM take this long before KILL [default: the task's own]
    #[arg(long, value_name = "DURATION", value_parser = value::duration)]
    grace: Option<Duration>,
    /// Do not wait for the grace
    #[arg(long, conflicts_with = "grace")]
    now: bool,
    /// Only send this signal to the main process group, and return
    #[arg(long, value_name = "SIGNAL", value_parser = value::signal, conflicts_with_all = ["grace", "now", "session"])]
    signal: Option<i32>,
}

impl Kill {
    /// Stops them.
    pub(crate) fn perform(self, door: Door) -> Done {
        if let Some(session) = &self.session {
            door::check_session(session)?;
        }
        let mut client = door::client(None)?;
        if let Some(signal) = self.signal {
            let found = tasks(client.call(Request::Signal { ids: self.ids, signal })?)?;
            return say_signaled(door, &found, signal);
        }
        let grace_ms = if self.now { Some(0) } else { self.grace.map(millis) };
        let since = door::now();
        let found = tasks(client.call(Request::Kill { ids: self.ids, session: self.session, grace_ms })?)?;
        say_stopped(door, &mut client, &found, since)
    }
}

/// Says what a stop that was asked for at `since` did. Also for the end of a session.
pub(super) fn say_stopped(door: Door, client: &mut Client, found: &Tasks, since: Timestamp) -> Done {
    if door.json {
        door::document(&json::tasks(&found.list, None, &found.faults))?;
    } else if door.quiet {
        door::out_lines(found.list.iter().map(|task| task.id.clone()))?;
    } else {
        door::out_lines(found.list.iter().flat_map(|task| stopped_lines(task, since)))?;
        if found.list.is_empty() && found.faults.is_empty() {
            door.note("nothing to stop");
        }
    }
    door::faults(&found.faults);
    for task in found.list.iter().filter(|task| !task.has_ended()) {
        let message = format!("{} could not be reached; it is stopped as soon as it can be", task.id);
        door.warn(&message, "`ringback doctor` says what the daemon has trouble with");
    }
    heard(client, &found.list);
    Ok(exit_code(found))
}

fn stopped_lines(task: &TaskObject, since: Timestamp) -> Vec<String> {
    let mut lines = vec![render::line(task, door::style())];
    if task.has_unseen_end() {
        lines.push(format!("  {}", receipt::NONE));
    } else if ended_before(task, since) {
        lines.push("  had ended before; nothing of its main process was left to stop".to_owned());
    }
    if let Some(cleanup) = &task.cleanup {
        lines.push(format!("  {}", receipt::summary(cleanup)));
        lines.extend(cleanup.survivors.iter().map(|survivor| format!("  {}", receipt::survivor(survivor))));
    } else if task.has_ended() {
        lines.extend(task.leftovers.iter().map(|left| format!("  {}", receipt::leftover(left))));
    }
    lines
}

/// Whether its end was in an earlier millisecond: a task object counts no less.
fn ended_before(task: &TaskObject, since: Timestamp) -> bool {
    let ended = task.ended_at.as_deref().and_then(|at| at.parse::<Timestamp>().ok());
    ended.is_some_and(|at| at.as_millisecond() < since.as_millisecond())
}

fn exit_code(found: &Tasks) -> u8 {
    match () {
        () if !found.faults.is_empty() => EXIT_FAILED,
        () if found.list.iter().all(TaskObject::is_seen_gone) => 0,
        () => EXIT_NOT_SEEN_GONE,
    }
}

fn say_signaled(door: Door, found: &Tasks, signal: i32) -> Done {
    if door.json {
        door::document(&json::tasks(&found.list, None, &found.faults))?;
    } else {
        let name = ringback_sys::signals::name(signal);
        let sent = |task: &TaskObject| format!("{}  {name} sent", task.id);
        // What had ended got none; the faults say so.
        let live = found.list.iter().filter(|task| !task.has_ended());
        door::out_lines(live.map(|task| if door.quiet { task.id.clone() } else { sent(task) }))?;
    }
    door::faults(&found.faults);
    Ok(door::exit_code(&found.faults))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ended_in_the_millisecond_of_the_stop_had_not_ended_before() {
        let task = TaskObject { ended_at: Some("2026-01-01T00:00:00.005Z".to_owned()), ..TaskObject::default() };
        let since = |nanos: i128| Timestamp::from_nanosecond(1_767_225_600_000_000_000 + nanos).unwrap();
        assert!(!ended_before(&task, since(5_900_000)), "it may have come after");
        assert!(ended_before(&task, since(6_000_000)));
        assert!(!ended_before(&TaskObject::default(), since(0)));
    }
}
