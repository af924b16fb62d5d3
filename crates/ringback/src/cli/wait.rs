//! `ringback wait`: blocks until tasks have ended, and mirrors their exit code.

use std::io::IsTerminal as _;
use std::os::fd::AsFd as _;
use std::time::Duration;

use clap::Args;
use ringback_core::spec::Lease;
use ringback_host::client::Client;
use ringback_host::quantity::millis;
use ringback_host::wire::{Reply, Request, TaskObject, Until};
use ringback_sys::signals::SignalFd;

use super::bar::{self, Bar};
use super::door::{self, Door, Tasks, heard, tasks};
use super::{follow, value};
use crate::explain::{Done, EXIT_FAILED, EXIT_TIMED_OUT, Failure};
use crate::output::enrich;
use crate::render::{json, task as render};

/// How many live tasks of a session are waited for at once.
const LIVE_LIMIT: u32 = 1000;

#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
/// Wait until tasks have ended, and mirror their exit code
///
/// Of several, the exit code is the first that is not 0, in the order asked. 124 means that the wait timed out; the
/// tasks run on. Ctrl-C stops the waiting, never the tasks.
///
/// With --ready or --match the exit code is 0 once a running task has come that far. A task that ended without is a
/// failure, whatever it returned.
///
/// Without ids, services are not among the tasks whose end is waited for: they run until the session ends.
#[derive(Debug, Args)]
pub(crate) struct Wait {
    /// Ids or unique prefixes; with --any or --all and none, the live tasks of the session
    #[arg(required_unless_present_any = ["any", "all"], value_name = "ID")]
    ids: Vec<String>,
    /// Return when the first of them has ended
    #[arg(long, conflicts_with = "all")]
    any: bool,
    /// Return when all have ended (the default)
    #[arg(long)]
    all: bool,
    /// Return when they are ready, as `run --ready` says, or have ended
    #[arg(long, conflicts_with = "matched")]
    ready: bool,
    /// Return when a line of `run --watch` has come, or they have ended
    #[arg(long = "match")]
    matched: bool,
    /// Wait at most this long
    #[arg(long, value_name = "DURATION", value_parser = value::duration)]
    timeout: Option<Duration>,
    /// Speak for this session
    #[arg(short, long)]
    session: Option<String>,
}

impl Wait {
    /// Waits.
    pub(crate) fn perform(self, door: Door) -> Done {
        let interrupt = follow::catch_interrupt()?;
        let mut client = door::client(self.session.as_deref())?;
        let until = match (self.ready, self.matched) {
            (true, _) => Until::Ready,
            (_, true) => Until::Match,
            (false, false) => Until::End,
        };
        let timeout_ms = self.timeout.map(millis);
        let ids = if self.ids.is_empty() { live(&mut client, until)? } else { self.ids.clone() };
        let request = Request::Wait { ids: ids.clone(), any: self.any, timeout_ms, until };
        let bar = one_bar(door, &mut client, &ids);
        let mut found = match ids.as_slice() {
            [] => Tasks { list: Vec::new(), timed_out: false, next: None, faults: Vec::new() },
            _ => match bar::call_until(bar, &mut client, request, interrupt.as_fd())? {
                Some(reply) => tasks(reply)?,
                None => return Ok(door.say_still_running(&ids)),
            },
        };
        if door.json {
            // A line needs nothing of what a whole output has to be read for.
            found.list.iter_mut().for_each(enrich);
            door::document(&json::tasks(&found.list, Some(found.timed_out), &found.faults))?;
        } else if door.quiet {
            let ended = found.list.iter().filter(|task| task.has_ended() || has_come(task, until));
            door::out_lines(ended.map(|task| task.id.clone()))?;
        } else {
            door::out_lines(found.list.iter().map(|task| render::line(task, door::style())))?;
            if ids.is_empty() {
                door.note("nothing to wait for: the session has no live task, or services alone");
            }
            if found.timed_out {
                door.note("the wait timed out; what is running runs on");
            }
        }
        for task in found.list.iter().filter(|task| task.has_ended() && !has_come(task, until)) {
            if let Some(why) = short_of(task, until) {
                door.note(&format!("{} {why}", task.id));
            }
        }
        door::faults(&found.faults);
        heard(&mut client, &found.list);
        Ok(if until == Until::End { exit_code(&found) } else { exit_code_until(&found, until) })
    }
}

/// Waits for a task that was just started, and mirrors it.
pub(super) fn until_end(door: Door, mut client: Client, task: &TaskObject, interrupt: &SignalFd) -> Done {
    if !door.json {
        door::out(&format!("{}\n", task.id))?;
    }
    let ids = vec![task.id.clone()];
    let request = Request::Wait { ids: ids.clone(), any: false, timeout_ms: None, until: Until::End };
    let bar = Bar::start(door, task, &client.caller().session);
    let Some(reply) = bar::call_until(bar, &mut client, request, interrupt.as_fd())? else {
        return Ok(door.say_still_running(&ids));
    };
    let mut found = tasks(reply)?;
    match found.list.first_mut() {
        Some(task) if door.json => {
            enrich(task);
            door::document(task)?;
        }
        Some(task) => door.note(&render::verdict(task)),
        None => {}
    }
    door::faults(&found.faults);
    heard(&mut client, &found.list);
    Ok(exit_code(&found))
}

/// The live tasks of the caller's session. A service has no end to wait for, but it may become ready.
fn live(client: &mut Client, until: Until) -> Result<Vec<String>, Failure> {
    let session = Some(client.caller().session.clone());
    let list = Request::List { session, ended: false, before: None, limit: LIVE_LIMIT };
    let counts = |task: &TaskObject| until != Until::End || task.lease != Lease::Service.word();
    Ok(tasks(client.call(list)?)?.list.into_iter().filter(counts).map(|task| task.id).collect())
}

/// A line on the terminal for one task; several have no common measure.
fn one_bar(door: Door, client: &mut Client, ids: &[String]) -> Option<Bar> {
    let [id] = ids else { return None };
    if !std::io::stderr().is_terminal() {
        return None;
    }
    let Ok(Reply::Task { task, .. }) = client.call(Request::Show { id: id.clone() }) else { return None };
    Bar::start(door, &task, &client.caller().session)
}

/// The first that is not 0, in the order asked; tasks that run on count only if the wait was for them.
fn exit_code(found: &Tasks) -> u8 {
    if !found.faults.is_empty() {
        return EXIT_FAILED;
    }
    if found.timed_out {
        return EXIT_TIMED_OUT;
    }
    found.list.iter().filter(|task| task.has_ended()).map(render::exit_code).find(|code| *code != 0).unwrap_or(0)
}

/// Whether a task that runs has come that far. One that waits for a match says so only by running on.
fn has_come(task: &TaskObject, until: Until) -> bool {
    match until {
        Until::End => false,
        Until::Ready => task.ready == Some(true) && !task.has_ended(),
        Until::Match => task.matches.is_some_and(|matches| matches > 0),
    }
}

/// Why it is a failure that a task has ended, whatever it returned.
fn short_of(task: &TaskObject, until: Until) -> Option<&'static str> {
    match until {
        Until::End => None,
        Until::Ready if task.ready == Some(true) => Some("was ready, and has ended since"),
        Until::Ready => Some("ended before it was ready"),
        Until::Match => Some("ended before a line matched"),
    }
}

/// 0 for what has come that far; what ended without is a failure, also if it returned 0.
fn exit_code_until(found: &Tasks, until: Until) -> u8 {
    if !found.faults.is_empty() {
        return EXIT_FAILED;
    }
    let code = |task: &TaskObject| match (has_come(task, until), task.has_ended()) {
        (false, true) => render::exit_code(task).max(1),
        // Of several with --any, those that run may still come.
        (true, _) | (false, false) => 0,
    };
    let first = found.list.iter().map(code).find(|code| *code != 0);
    first.unwrap_or(if found.timed_out { EXIT_TIMED_OUT } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_tasks_exit_with_the_first_that_failed() {
        let exited = |code| TaskObject { state: "exited".to_owned(), exit_code: Some(code), ..TaskObject::default() };
        let running = || TaskObject { state: "running".to_owned(), ..TaskObject::default() };
        let check = |tasks, timed_out| exit_code(&Tasks { list: tasks, timed_out, next: None, faults: Vec::new() });
        assert_eq!(check(vec![exited(0), exited(7), exited(3)], false), 7);
        assert_eq!(check(vec![exited(0), running()], false), 0, "--any");
        assert_eq!(check(vec![exited(0), running()], true), 124);
    }

    #[test]
    fn what_ended_without_being_ready_is_a_failure() {
        let task = |state: &str, code, ready| TaskObject {
            state: state.to_owned(),
            exit_code: code,
            ready: Some(ready),
            ..TaskObject::default()
        };
        let check =
            |list, timed_out| exit_code_until(&Tasks { list, timed_out, next: None, faults: Vec::new() }, Until::Ready);
        assert_eq!(check(vec![task("running", None, true)], false), 0);
        assert_eq!(check(vec![task("exited", Some(0), false)], false), 1);
        assert_eq!(check(vec![task("exited", Some(98), false)], false), 98);
        assert_eq!(check(vec![task("exited", Some(0), true)], false), 1, "it was ready, and is no more");
        assert_eq!(check(vec![task("running", None, false)], true), 124);
        assert_eq!(check(vec![task("running", None, true), task("running", None, false)], false), 0, "--any");
    }
}
