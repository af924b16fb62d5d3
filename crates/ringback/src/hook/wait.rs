//! Waits in the background for the end of the task that one tool call has started, and wakes the agent if it has not heard.

use std::io::{self, Write as _};
use std::time::Duration;

use ringback_core::notice::Kind;
use ringback_host::client::{Client, ClientError};
use ringback_host::wire::{Notice, Reply, Request, TaskObject, Until};
use ringback_sys::watch::poll;

use super::agent::Hook;
use super::event::Event;
use super::speech::{SPOKEN_MAX, Speech, speech};
use super::told::{Wish, acknowledge, claim, client};
use crate::cli::door::{caller, tasks};
use crate::explain::{Done, Failure};

/// Wakes the agent: what stands on stderr is read to the model (Claude Code's `asyncRewake`, our plugin of opencode).
pub(super) const EXIT_WAKE: u8 = 2;
/// How long endings are gathered, so that many at once are one turn.
pub(super) const GATHER: Duration = Duration::from_millis(250);
/// The variable in which Claude Code says how it was started, and its value for `claude -p`. That waits for its hooks
/// before it leaves: a hook that waits would make it hang as long as the task runs.
const PRINT_MODE: (&str, &str) = ("CLAUDE_CODE_ENTRYPOINT", "sdk-cli");

/// Waits, and wakes or not.
pub(super) fn await_end(hook: Hook, event: &Event) -> Done {
    let ids = event.answered_ids();
    if ids.is_empty() || is_other_command(event) || is_told_by_agent(event) || is_print_mode() {
        return Ok(0);
    }
    let Some(session) = event.session() else { return Ok(0) };
    let Some(mut asker) = client(session)? else { return Ok(0) };
    let started = started(&mut asker, &ids, session, event)?;
    let Some(first) = started.first() else { return Ok(0) };
    // The task says who is told: a tool server keeps the session that it was started in (`/clear` makes a new one).
    let owner = first.session.clone();
    let mut waiter = crate::caller::client(asker.home(), caller(Some(&owner))?)?;
    drop(asker);
    let mut left: Vec<String> = started.into_iter().filter(|task| task.session == owner).map(|task| task.id).collect();
    while !left.is_empty() {
        let ended = wait_for_one(&mut waiter, &left)?;
        left.retain(|id| !ended.contains(id));
        pause(GATHER)?;
        if let Some(notices) = take(hook, &mut waiter, &ended)? {
            let told = say(&notices, &left)?;
            acknowledge(&mut waiter, told)?;
            return Ok(EXIT_WAKE);
        }
    }
    Ok(0)
}

/// A shell's answer is only searched where the command speaks of us.
fn is_other_command(event: &Event) -> bool {
    let starts = ["ringback run", "ringback retry"].iter().any(|words| event.mentions("tool_input", words));
    event.text("tool_name") == "Bash" && !starts
}

/// Whether nobody is there who could be woken.
pub(super) fn is_print_mode() -> bool {
    std::env::var(PRINT_MODE.0).is_ok_and(|how| how == PRINT_MODE.1)
}

/// Whether the agent has made the call a task of its own, whose end it tells its model itself: then the answer is in its
/// own words, without the state that ours has.
fn is_told_by_agent(event: &Event) -> bool {
    let has_state = event.mentions("tool_response", "\"state\":\"running\"")
        || event.mentions("tool_response", "\\\"state\\\":\\\"running\\\"")
        || event.mentions("tool_response", "\"state\":\"queued\"")
        || event.mentions("tool_response", "\\\"state\\\":\\\"queued\\\"");
    event.text("tool_name").starts_with("mcp__") && !has_state
}

/// Those of the tasks that are this session's, or were started by this very call. One that has ended already is among
/// them: its end may have been too quick for the answer.
fn started(client: &mut Client, ids: &[String], session: &str, event: &Event) -> Result<Vec<TaskObject>, Failure> {
    let by_call = event.text("tool_name") != "Bash";
    let mut found = Vec::new();
    for (at, id) in ids.iter().enumerate() {
        match client.call(Request::Show { id: id.clone() }) {
            Ok(Reply::Task { task, .. }) if task.session == session || (by_call && at == 0) => found.push(*task),
            // A word that looks like an id, or a task that was only spoken of.
            Ok(_) | Err(ClientError::Fault(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(found)
}

/// The tasks that have ended, once one has.
fn wait_for_one(client: &mut Client, ids: &[String]) -> Result<Vec<String>, Failure> {
    let request = Request::Wait { ids: ids.to_vec(), any: true, timeout_ms: None, until: Until::End };
    let found = tasks(client.call(request)?)?;
    Ok(found.list.into_iter().filter(TaskObject::has_ended).map(|task| task.id).collect())
}

fn endings() -> Wish {
    Wish { tasks: Vec::new(), kinds: vec![Kind::ToolResult.word().to_owned()] }
}

/// Claims the endings of these tasks, and with them all others of the session, so that many at once are one turn; nothing
/// if the session has heard of them. While somebody else is about to speak of one, it is waited for whether he does.
fn take(hook: Hook, client: &mut Client, ended: &[String]) -> Result<Option<Vec<Notice>>, Failure> {
    loop {
        let wish = Wish { tasks: ended.to_vec(), ..endings() };
        let (mut claimed, held_ms) = claim(client, hook.name, wish, SPOKEN_MAX)?;
        if !claimed.is_empty() {
            // No more than are spoken of: what is claimed and not said is said late.
            let room = SPOKEN_MAX.saturating_sub(u32::try_from(claimed.len()).unwrap_or(SPOKEN_MAX));
            if room > 0 {
                claimed.extend(claim(client, hook.name, endings(), room)?.0);
            }
            return Ok(Some(claimed));
        }
        let Some(held_ms) = held_ms else { return Ok(None) };
        pause(Duration::from_millis(held_ms + 1))?;
    }
}

/// Waits until a moment that is known.
pub(super) fn pause(length: Duration) -> Result<(), Failure> {
    poll(&[], Some(length))?;
    Ok(())
}

/// Says it; which notices were in it.
pub(super) fn say(notices: &[Notice], left: &[String]) -> Result<Vec<u64>, Failure> {
    let Speech { text, told } = speech(notices, notices.len() >= SPOKEN_MAX as usize);
    let mut stderr = io::stderr().lock();
    writeln!(stderr, "{text}")?;
    if !left.is_empty() {
        writeln!(stderr, "Of the same call, not ended: {}", left.join(", "))?;
    }
    stderr.flush()?;
    Ok(told)
}
