//! A command line that the front handed to the daemon as it is (`crates/sys/src/front`): read there by the rules of every door, and
//! finished here if the front could not.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use ringback_host::client::{Client, variables};
use ringback_host::home::Home;
use ringback_host::spoken::Understood;
use ringback_host::wire::{Spoken, TaskObject};
use ringback_sys::{birth, entry};

use super::door;
use super::plain;
use super::run::{VISIBLE_ARGUMENTS, put_started, started};
use crate::explain::Failure;

/// What a command line means, for the daemon; nothing unless it is plain and right. Nothing is looked up: it is not our process
/// that is spoken of, and a folder of somebody else's may hang.
pub(super) fn read(spoken: &Spoken) -> Option<Understood> {
    let words: Vec<OsString> =
        spoken.words.split(|byte| *byte == 0).map(|word| OsStr::from_bytes(word).to_owned()).collect();
    let (door, run) = plain::read(&words)?;
    let run_request = run.request_of(spoken)?;
    let variable = |name: &str| variables(&spoken.env).find(|(other, _)| other == name).map(|(_, value)| value);
    let caller = door::caller_where(run.session.as_deref(), variable).ok()?;
    let named = run.session;
    let say = move |task: &TaskObject| started(door, task, named.as_deref(), false, false);
    Some(Understood { caller, run: run_request, is_quiet: door.quiet, say: Box::new(say) })
}

/// Waits for the answer to what the front has sent, if it has, and says it; nothing if the command is still to be asked for.
pub(super) fn finish() -> Result<Option<u8>, Failure> {
    let Some(sent) = entry::take_sent() else { return Ok(None) };
    door::check_stdout()?;
    birth::hide_arguments(VISIBLE_ARGUMENTS);
    let Some(said) = Client::hear_sent(&Home::find()?, sent.connection)? else { return Ok(None) };
    let rest = said.stdout.get(sent.written..).unwrap_or_default();
    put_started(&said.id, rest, &said.stderr)?;
    Ok(Some(0))
}
