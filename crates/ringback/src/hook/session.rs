//! The beginning and the end of an agent's session.

use std::time::Duration;

use ringback_host::client::Client;
use ringback_host::quantity::millis;
use ringback_host::wire::{Reply, Request, TaskObject};

use super::Options;
use super::agent::Hook;
use super::event::Event;
use super::speech::cut;
use super::told::{client, say, sessions};
use crate::cli::door::{self, tasks};
use crate::explain::{Done, Failure};
use crate::render::tags::untag;
use crate::render::{clean, task as render};

/// How many running tasks a recap names.
const RECAP_MAX: u32 = 20;
/// The longest line of a recap, bytes.
const LINE_BYTES_MAX: usize = 200;
/// The shortest time after which a session ends: a lease of zero is none.
const LEASE_MIN: Duration = Duration::from_millis(1);

/// Tells a session that begins anew, and has forgotten, what runs and what it has not heard.
pub(super) fn recap(hook: Hook, event: &Event, options: &Options) -> Done {
    let source = event.text("source");
    for session in sessions(event, options) {
        let Some(mut client) = client(&session)? else { return Ok(0) };
        if source == "resume" {
            // It has come back before its lease was over.
            client.call(Request::SessionLease { session: session.clone(), for_ms: 0 })?;
        }
        // After a fresh start nothing was forgotten; what is unheard is said all the same.
        let running =
            if matches!(source, "resume" | "compact") { running(&mut client, &session)? } else { String::new() };
        if say(hook, &mut client, |_| true, &running)? {
            return Ok(0);
        }
    }
    Ok(0)
}

fn running(client: &mut Client, session: &str) -> Result<String, Failure> {
    let list = list(client, session, RECAP_MAX)?;
    if list.is_empty() {
        return Ok(String::new());
    }
    let mut text =
        "ringback: background tasks of this session that have not ended; their ends will be told:".to_owned();
    for task in &list {
        text.push('\n');
        text.push_str(&line(task));
    }
    if list.len() >= RECAP_MAX as usize {
        text.push_str("\nperhaps more: `ringback ps`");
    }
    Ok(text)
}

fn line(task: &TaskObject) -> String {
    let label = untag(&clean::line(&render::label(task, 100)));
    cut(&format!("- {} {} · {label}", task.id, render::verdict(task)), LINE_BYTES_MAX)
}

/// Hands the end of a session to the daemon, and does not wait for it: a session that is taken up again in time goes on.
pub(super) fn leave(event: &Event, options: &Options) -> Done {
    let Some(session) = event.session() else { return Ok(0) };
    let Some(mut client) = client(session)? else { return Ok(0) };
    if !list(&mut client, session, 1)?.is_empty() {
        let for_ms = millis(options.keep_for.max(LEASE_MIN));
        let Reply::Session(_) = client.call(Request::SessionLease { session: session.to_owned(), for_ms })? else {
            return Err(door::unexpected());
        };
    }
    Ok(0)
}

fn list(client: &mut Client, session: &str, limit: u32) -> Result<Vec<TaskObject>, Failure> {
    let list = Request::List { session: Some(session.to_owned()), ended: false, before: None, limit };
    Ok(tasks(client.call(list)?)?.list)
}
