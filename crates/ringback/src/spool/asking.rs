//! Asks the daemon for the task of a request, and tells what is wrong with the request from what will pass.

use ringback_host::client::{Capture, Client, ClientError};
use ringback_host::quantity::millis;
use ringback_host::wire::{ByteBuf, Command, Reply, Request as Ask, RunRequest, TaskObject};
use serde_json::json;

use super::Options;
use super::name::Name;
use super::request::Request;
use crate::cli::door;
use crate::explain::Failure;

/// How many tasks one page of a search has.
const PAGE: u32 = 1000;
/// How often one request is asked for while its daemon dies under it, before it is put off.
const RUN_TRIES_MAX: u32 = 5;

/// What came of asking for a task.
pub(super) enum Asked {
    /// It is this one.
    Task(Box<TaskObject>),
    /// The daemon will not start such a task.
    Refused(String),
    /// The daemon cannot start any for now.
    Later(String),
}

/// Asks for the task of a request.
pub(super) fn run(
    client: &mut Client,
    options: &Options,
    name: &Name,
    request: &Request,
    word: &str,
) -> Result<Asked, Failure> {
    let capture = Capture { cwd: request.cwd.clone().or_else(|| options.cwd.clone()), ..Capture::default() };
    let command = Command::Script { text: ByteBuf::from(request.cmd.clone().into_bytes()), shell: Vec::new() };
    let limit = request.timeout_secs.map(|secs| secs.saturating_mul(1000));
    let run = RunRequest {
        name: Some(name.as_str().to_owned()),
        split: true,
        timeout_ms: limit.or(options.timeout.map(millis)),
        output_max: Some(options.max_output),
        binding: Some(json!({ "spool": word })),
        key: Some(name.as_str().to_owned()),
        if_running: "reject".to_owned(),
        ..capture.request(command)?
    };
    for _ in 0..RUN_TRIES_MAX {
        match client.call(Ask::Run(Box::new(run.clone()))) {
            Ok(Reply::Task { task, .. }) => return Ok(Asked::Task(task)),
            Ok(_) => return Err(door::unexpected()),
            Err(ClientError::Fault(fault)) if is_of_request(&fault.code) => return Ok(Asked::Refused(fault.message)),
            // No request of ours will be served, whichever it is.
            Err(ClientError::Fault(fault)) if fault.is_of_caller() => return Err(fault.into()),
            Err(ClientError::Fault(fault)) => return Ok(Asked::Later(fault.message)),
            // The daemon went away in the middle. If it recorded the task, the next one has it.
            Err(ClientError::Gone { .. }) => {
                if let Some(task) = find(client, &options.session, word)? {
                    return Ok(Asked::Task(Box::new(task)));
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Asked::Later("the daemon died each time it was asked".to_owned()))
}

/// The task with this word in its binding.
pub(super) fn find(client: &mut Client, session: &str, word: &str) -> Result<Option<TaskObject>, Failure> {
    let mut before = None;
    loop {
        let session = Some(session.to_owned());
        let found = door::tasks(client.call(Ask::List { session, ended: true, before, limit: PAGE })?)?;
        let ours = |task: &TaskObject| task.binding.as_ref().is_some_and(|binding| binding["spool"] == word);
        if let Some(task) = found.list.into_iter().find(ours) {
            return Ok(Some(task));
        }
        before = found.next;
        if before.is_none() {
            return Ok(None);
        }
    }
}

/// Whether a fault is about the request itself: asked again, it would be the same.
fn is_of_request(code: &str) -> bool {
    code.starts_with("bad_") || matches!(code, "empty_command" | "key_taken" | "answer_too_long")
}
