//! Resources: a task's output and its state, to list and to read page by page.
//!
//! They are for the client and the person beside it: that one was read tells nothing about the model, so it is no hearing.

use std::fmt::Write as _;

use ringback_core::id::TaskId;
use ringback_host::wire::{Reply, Request, TaskObject};
use rmcp::model::{
    ErrorData, ListResourceTemplatesResult, ListResourcesResult, MetaObject, PaginatedRequestParams,
    ReadResourceResult, Resource, ResourceContents, ResourceTemplate,
};
use serde_json::{Value, json};

use super::answer::Answer;
use super::link::{Line, unexpected};
use super::reach::{Reach, protocol_error};
use super::speaker::Speaker;
use super::window::{self, Want};
use crate::caller;
use crate::explain::Failure;
use crate::render::{clean, task as render};

/// What every address of ours begins with.
const BASE: &str = "ringback://task/";
/// How many tasks one page of the list has.
const PAGE_ROWS: u32 = 50;
/// The longest title of a task.
const TITLE_CHARS: usize = 60;
/// How much of an address that is none is quoted back.
const QUOTED_CHARS: usize = 80;
/// Where a reader finds how to read on.
const META: &str = "ringback/output";

/// One resource of ours.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Address {
    /// The whole id of its task.
    pub(super) id: String,
    /// What of the task.
    pub(super) part: Part,
}

/// What of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// How it stands.
    State,
    /// Its output: the whole of a short one, what matters of a long one.
    Output,
    /// Its output from this byte on.
    Page(u64),
}

impl Address {
    /// The address as it was written; nothing if it is none of ours. Only whole ids: a prefix may name two tasks tomorrow.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix(BASE)?;
        let (id, part) = match rest.split_once('/') {
            None => (rest, Part::State),
            Some((id, "output")) => (id, Part::Output),
            Some((id, page)) => (id, Part::Page(page.strip_prefix("output?offset=")?.parse().ok()?)),
        };
        let whole = TaskId::parse(id).is_ok_and(|parsed| parsed.to_string() == id);
        whole.then(|| Self { id: id.to_owned(), part })
    }

    /// As it is written.
    pub(super) fn text(&self) -> String {
        let Self { id, part } = self;
        match part {
            Part::State => format!("{BASE}{id}"),
            Part::Output => format!("{BASE}{id}/output"),
            Part::Page(offset) => format!("{BASE}{id}/output?offset={offset}"),
        }
    }
}

/// One page of the session's tasks, newest first.
pub(super) async fn list(
    reach: &Reach,
    speaker: &Speaker,
    page: Option<PaginatedRequestParams>,
) -> Result<ListResourcesResult, ErrorData> {
    let before = match page.and_then(|page| page.cursor) {
        None => None,
        Some(cursor) => {
            Some(cursor.parse().map_err(|_| ErrorData::invalid_params("this cursor is none of ours", None))?)
        }
    };
    let job = move |line: &mut Line| -> Result<ListResourcesResult, Failure> {
        let list = Request::List { session: Some(line.session().to_owned()), ended: true, before, limit: PAGE_ROWS };
        let Reply::Tasks { tasks, next, .. } = line.call(list)? else { return Err(unexpected()) };
        let mut result = ListResourcesResult::with_all_items(tasks.iter().map(row).collect());
        result.next_cursor = next.map(|next| next.to_string());
        Ok(result)
    };
    ask(reach, speaker, job).await.map_err(|failure| protocol_error(&failure))
}

fn row(task: &TaskObject) -> Resource {
    let address = Address { id: task.id.clone(), part: Part::Output };
    Resource::new(address.text(), task.id.clone())
        .with_title(render::label(task, TITLE_CHARS))
        .with_description(render::verdict(task))
        .with_mime_type("text/plain")
        .with_size(task.output.bytes)
}

/// The forms that addresses have.
pub(super) fn templates() -> ListResourceTemplatesResult {
    ListResourceTemplatesResult::with_all_items(vec![
        ResourceTemplate::new(format!("{BASE}{{id}}/output{{?offset}}"), "output")
            .with_title("Output of a task")
            .with_description("quoted lines; what matters of a long output, or a page of it from a byte offset on")
            .with_mime_type("text/plain"),
        ResourceTemplate::new(format!("{BASE}{{id}}"), "task")
            .with_title("State of a task")
            .with_description("state, exit, verdict and the end of the output")
            .with_mime_type("application/json"),
    ])
}

/// One resource as it stands.
pub(super) async fn read(reach: &Reach, speaker: &Speaker, uri: String) -> Result<ReadResourceResult, ErrorData> {
    let Some(address) = Address::parse(&uri) else { return Err(not_found(&uri, "it is no address of ours")) };
    let job =
        move |line: &mut Line| -> Result<ResourceContents, Failure> { contents(&line.show(&address.id)?, &address) };
    match ask(reach, speaker, job).await {
        Ok(contents) => Ok(ReadResourceResult::new(vec![contents])),
        Err(failure) if is_not_there(&failure) => Err(not_found(&uri, &failure.message)),
        Err(failure) => Err(protocol_error(&failure)),
    }
}

/// Whether nothing is at an address, and not something amiss with us.
pub(super) fn is_not_there(failure: &Failure) -> bool {
    matches!(failure.code.as_str(), "unknown_id" | "expired_id" | "bad_id")
}

/// The error for an address at which nothing is.
pub(super) fn not_found(uri: &str, why: &str) -> ErrorData {
    let uri = clean::short(uri, QUOTED_CHARS);
    ErrorData::resource_not_found(format!("no resource {uri}: {}", clean::line(why)), Some(json!({ "uri": uri })))
}

fn contents(task: &TaskObject, address: &Address) -> Result<ResourceContents, Failure> {
    let want = match address.part {
        Part::State => {
            let text = Value::Object(Answer::of_task(task, "").told_fields()).to_string();
            return Ok(ResourceContents::text(text, address.text()).with_mime_type("application/json"));
        }
        Part::Output => Want::Digest,
        Part::Page(offset) => Want::From(offset),
    };
    let window = window::read(task, &want, window::Ages::default(), None, window::BYTES)?;
    let next = Address { id: task.id.clone(), part: Part::Page(window.cursor) }.text();
    let mut text = window.text;
    if window.more {
        // Writing to a string does not fail.
        let _infallible = write!(text, "\n[{next} reads on]");
    }
    let mut meta = MetaObject::new();
    let eof = !window.more && task.has_ended();
    meta.0.insert(META.to_owned(), json!({ "cursor": window.cursor, "bytes": window.end, "eof": eof, "next": next }));
    Ok(ResourceContents::text(text, address.text()).with_meta(meta))
}

async fn ask<T: Send + 'static>(
    reach: &Reach,
    speaker: &Speaker,
    job: impl FnOnce(&mut Line) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let session = speaker.session.clone();
    reach.link.ask(caller::of(session), reach.patience(speaker.limit()), job).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_strictly_and_written_the_same() {
        for text in [
            "ringback://task/0k3f5m7p9r1t",
            "ringback://task/0k3f5m7p9r1t/output",
            "ringback://task/0k3f5m7p9r1t/output?offset=17",
        ] {
            assert_eq!(Address::parse(text).unwrap().text(), text);
        }
        for bad in [
            "",
            "file:///etc/passwd",
            "ringback://task/",
            "ringback://task/0k3f5m",
            "ringback://task/0K3F5M7P9R1T/output",
            "ringback://task/../../etc/passwd",
            "ringback://task/0k3f5m7p9r1t/",
            "ringback://task/0k3f5m7p9r1t/output?offset=-1",
            "ringback://task/0k3f5m7p9r1t/output?offset=",
            "ringback://task/0k3f5m7p9r1t/output/../spec",
        ] {
            assert_eq!(Address::parse(bad), None, "{bad}");
        }
    }
}
