//! The tasks extension: an MCP task is one of our tasks, under the same id, kept after its end.

use std::time::Duration;

use ringback_core::id::TaskId;
use ringback_host::wire::{Reply, Request, TaskObject};
use rmcp::model::{CreateTaskResult, DetailedTask, ErrorData, JsonObject, MetaObject, Task, TaskPayload, TaskStatus};
use serde_json::{Value, json};

use super::answer::Answer;
use super::link::{Line, Shown};
use super::reach::{Reach, protocol_error};
use super::speaker::Speaker;
use super::tool;
use crate::caller;
use crate::explain::Failure;
use crate::render::task as render;

/// Where Claude Code looks for a note to the model in the answer that a task was made.
const NOTE_FIELD: &str = "com.anthropic/agent-task";
/// How much of that note it keeps, characters.
const NOTE_CHARS: usize = 1900;
/// How long a cancel is waited for; the stop goes on after that.
const CANCEL_WAIT: Duration = Duration::from_secs(3);

/// The answer to a `run` that goes on, for a client that takes tasks.
pub(super) fn created(task: &TaskObject, answer: &Answer) -> CreateTaskResult {
    let note: String = answer.text().chars().take(NOTE_CHARS).collect();
    let mut meta = MetaObject::new();
    meta.0.insert(NOTE_FIELD.to_owned(), json!({ "modelImmediateResponse": note }));
    CreateTaskResult::new(outline(task, TaskStatus::Working)).with_meta(meta)
}

/// A task as it stands, and what the reader will thereby have been shown.
pub(super) async fn look(reach: &Reach, speaker: &Speaker, id: String) -> Result<(DetailedTask, Shown), ErrorData> {
    check(&id)?;
    let session = speaker.session.clone();
    reach.link.asks_again(&session);
    let none = Shown { session: session.clone(), tasks: Vec::new() };
    let job = move |line: &mut Line| -> Result<(TaskObject, Option<Answer>), Failure> {
        let task = line.show(&id)?;
        tool::claim(line, &task);
        let answer = task.has_ended().then(|| tool::ended(&task).complete(line, std::slice::from_ref(&task)));
        Ok((task, answer))
    };
    let asked = reach.link.ask(caller::of(session), reach.patience(speaker.limit()), job).await;
    let (task, answer) = asked.map_err(|failure| protocol_error(&failure))?;
    Ok(match answer {
        None => (DetailedTask::new(outline(&task, TaskStatus::Working), TaskPayload::Working), none),
        // It needs no result.
        Some(answer) if is_taken_back(&task, &speaker.session) => {
            (DetailedTask::new(outline(&task, TaskStatus::Cancelled), TaskPayload::Cancelled), answer.shown())
        }
        Some(answer) => {
            let shown = answer.shown();
            let payload = TaskPayload::Completed { result: fields(serde_json::to_value(answer.result()).ok()) };
            (DetailedTask::new(outline(&task, TaskStatus::Completed), payload), shown)
        }
    })
}

/// Whether this session has stopped its own task.
fn is_taken_back(task: &TaskObject, session: &str) -> bool {
    task.state == "killed" && task.session == session && task.by.as_ref() == Some(&caller::of(session.to_owned()).by)
}

/// Stops a task. Asking twice is asking once, and one that has ended stays as it is.
pub(super) async fn cancel(reach: &Reach, speaker: &Speaker, id: String) -> Result<(), ErrorData> {
    check(&id)?;
    let job = move |line: &mut Line| {
        let kill = Request::Kill { ids: vec![id], session: None, grace_ms: None };
        let Some(Reply::Tasks { tasks, .. }) = line.call_until_stopped(kill)? else { return Ok(()) };
        // Nobody has to be told what he did himself. An end that came before the stop is another matter.
        let own = tasks.into_iter().filter(|task| is_taken_back(task, line.session())).map(|task| task.id).collect();
        line.call(Request::Ack { up_to: None, seqs: Vec::new(), tasks: Vec::new(), endings: own }).map(|_| ())
    };
    let asked = reach.link.ask(caller::of(speaker.session.clone()), reach.patience(CANCEL_WAIT), job).await;
    asked.map_err(|failure| protocol_error(&failure))
}

/// Only whole ids: a prefix that names one task today may name two tomorrow.
fn check(id: &str) -> Result<(), ErrorData> {
    TaskId::parse(id).map(|_| ()).map_err(|bad| ErrorData::invalid_params(format!("no such task: {bad}"), None))
}

fn outline(task: &TaskObject, status: TaskStatus) -> Task {
    let updated = task.ended_at.as_ref().or(task.started_at.as_ref()).unwrap_or(&task.created_at);
    let mut outline = Task::new(task.id.clone(), status, task.created_at.clone(), updated.clone())
        .with_status_message(render::verdict(task));
    if !task.has_ended() {
        outline.poll_interval_ms = Some(poll_interval_ms(task.duration_ms.unwrap_or(0)));
    }
    outline
}

/// How often to look: what has run for long is looked at less often.
fn poll_interval_ms(age_ms: u64) -> u64 {
    (age_ms / 60).clamp(500, 5000)
}

fn fields(value: Option<Value>) -> JsonObject {
    match value {
        Some(Value::Object(fields)) => fields,
        _ => JsonObject::new(),
    }
}
