//! Speaks of what a session has not heard: looks, claims, says, acknowledges.

use std::collections::BTreeSet;

use ringback_core::notice::Kind;
use ringback_host::client::Client;
use ringback_host::home::Home;
use ringback_host::wire::{Notice, Reply, Request};
use ringback_sys::process;
use serde_json::Value;

use super::Options;
use super::agent::Hook;
use super::event::{Event, ids_told};
use super::speech::{SPOKEN_MAX, Speech, speech};
use crate::cli::door::{self, caller};
use crate::explain::{Done, Failure};

/// How long a claim holds: a hook speaks at once, or its agent has ended it.
const LEASE_MS: u64 = 10_000;
/// How many notices are looked at to find some to speak of.
const LOOKED_AT_MAX: u32 = 1000;
/// How a prompt begins that the agent wrote itself, to tell its model of an ending.
const OWN_WORDS: &str = "<task-notification>";
/// How often in a row Cursor is sent on; it stops at about five by itself.
const LOOPS_MAX: u64 = 4;

/// Holds the end of a turn while there is something to hear that the agent does not hear otherwise.
pub(super) fn hold(hook: Hook, event: &Event, options: &Options) -> Done {
    // It goes on because of a hook already: held again and again, a turn never ends.
    let again = event.flag("stop_hook_active") || event.number("loop_count") >= LOOPS_MAX;
    let given_up = !matches!(event.text("status"), "" | "completed");
    if again || given_up {
        return Ok(0);
    }
    for session in sessions(event, options) {
        let Some(mut client) = client(&session)? else { return Ok(0) };
        // Progress is no reason to go on. What the agent itself waits for as an MCP task is claimed by the door that gave it.
        if say(hook, &mut client, |notice| notice.about() != Some(Kind::ToolProgress), "")? {
            return Ok(0);
        }
    }
    Ok(0)
}

/// Adds what is unheard to a prompt.
pub(super) fn add(hook: Hook, event: &Event, options: &Options) -> Done {
    let prompt = event.text("prompt");
    for session in sessions(event, options) {
        let Some(mut client) = client(&session)? else { return Ok(0) };
        if prompt.trim_start().starts_with(OWN_WORDS) {
            // The model is about to read of these.
            let endings = ids_told(prompt);
            // Unsaid, they are offered again, which is the safe side.
            let _unheard = client.call(Request::Ack { up_to: None, seqs: Vec::new(), tasks: Vec::new(), endings });
        }
        if say(hook, &mut client, |_| true, "")? {
            return Ok(0);
        }
    }
    Ok(0)
}

/// The sessions that a hook speaks for: the conversation of its event, and those that its setup names.
pub(super) fn sessions(event: &Event, options: &Options) -> Vec<String> {
    let mut all: Vec<String> = event.session().map(str::to_owned).into_iter().collect();
    all.extend(options.sessions.iter().cloned());
    if all.is_empty() {
        all.push(crate::caller::session(|name| std::env::var(name).ok()));
    }
    all.dedup();
    all
}

/// A client for this session; nothing where this home was never used, so that no daemon is started for nothing.
pub(super) fn client(session: &str) -> Result<Option<Client>, Failure> {
    let home = Home::find()?;
    if !home.db().exists() {
        return Ok(None);
    }
    Ok(Some(crate::caller::client(&home, caller(Some(session))?)?))
}

/// Says, in the agent's words, what is unheard and wanted, after `before`; whether anything was said.
pub(super) fn say(
    hook: Hook,
    client: &mut Client,
    wanted: impl Fn(&Notice) -> bool,
    before: &str,
) -> Result<bool, Failure> {
    let wanted: Vec<Notice> = unheard(client)?.into_iter().filter(|notice| wanted(notice)).collect();
    let spoken =
        if wanted.is_empty() { Vec::new() } else { claim(client, hook.name, Wish::of(&wanted), SPOKEN_MAX)?.0 };
    if spoken.is_empty() && before.is_empty() {
        return Ok(false);
    }
    let news = if spoken.is_empty() { None } else { Some(speech(&spoken, wanted.len() > spoken.len())) };
    let Speech { text: news, told } = news.unwrap_or_else(|| Speech { text: String::new(), told: Vec::new() });
    let text = [before, &news].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n");
    match hook.answer(&text) {
        Value::Null => {}
        answer => door::out(&format!("{answer}\n"))?,
    }
    acknowledge(client, told)?;
    Ok(true)
}

/// What the session has not heard, whoever is about to speak of it.
fn unheard(client: &mut Client) -> Result<Vec<Notice>, Failure> {
    match client.call(Request::Inbox { after: None, wait_ms: None, limit: LOOKED_AT_MAX })? {
        Reply::Notices { notices, .. } => Ok(notices),
        _ => Err(door::unexpected()),
    }
}

/// Which notices are to be claimed.
#[derive(Default)]
pub(super) struct Wish {
    pub(super) tasks: Vec<String>,
    pub(super) kinds: Vec<String>,
}

impl Wish {
    fn of(notices: &[Notice]) -> Self {
        let distinct = |words: BTreeSet<&String>| words.into_iter().cloned().collect();
        Self {
            tasks: distinct(notices.iter().map(|notice| &notice.task.id).collect()),
            kinds: distinct(notices.iter().map(|notice| &notice.kind).collect()),
        }
    }
}

/// Takes at most `limit` of what nobody else speaks of; and how long others hold the rest.
pub(super) fn claim(
    client: &mut Client,
    rung: &str,
    wish: Wish,
    limit: u32,
) -> Result<(Vec<Notice>, Option<u64>), Failure> {
    let Wish { tasks, kinds } = wish;
    let word = process::random_u64()?;
    let request = Request::Claim { rung: rung.to_owned(), word, lease_ms: LEASE_MS, tasks, kinds, limit, ahead: false };
    match client.call(request)? {
        Reply::Claimed { notices, held_ms } => Ok((notices, held_ms)),
        _ => Err(door::unexpected()),
    }
}

/// Only to be called after it was written out: what was not must be offered again.
pub(super) fn acknowledge(client: &mut Client, seqs: Vec<u64>) -> Result<(), Failure> {
    if !seqs.is_empty() {
        client.call(Request::Ack { up_to: None, seqs, tasks: Vec::new(), endings: Vec::new() })?;
    }
    Ok(())
}
