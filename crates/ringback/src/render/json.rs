//! The JSON documents, one per verb, each with `"schema"` first.

use ringback_host::wire::task::SCHEMA;
use ringback_host::wire::{Fault, Notice, TaskObject};
use serde::Serialize;
use serde_json::{Map, Value};

/// A document with these fields after the schema number.
pub(crate) fn document(fields: Value) -> Value {
    let mut all = Map::new();
    all.insert("schema".to_owned(), SCHEMA.into());
    if let Value::Object(fields) = fields {
        all.extend(fields);
    }
    Value::Object(all)
}

/// The bare task object.
pub(crate) fn task(task: &TaskObject) -> Value {
    serde_json::to_value(task).unwrap_or_default()
}

/// A list of tasks. It is written from where the tasks are: a tree of values of each took four times as long as all the rest.
#[derive(Serialize)]
pub(crate) struct TaskList<'a> {
    schema: u32,
    tasks: &'a [TaskObject],
    #[serde(skip_serializing_if = "Option::is_none")]
    timed_out: Option<bool>,
    faults: &'a [Fault],
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<Value>,
}

impl TaskList<'_> {
    /// One page of a list, and where the next one begins.
    pub(crate) fn page(self, next: Option<u64>) -> Self {
        Self { next: Some(next.into()), ..self }
    }
}

/// These tasks, and what could not be said of others.
pub(crate) fn tasks<'a>(tasks: &'a [TaskObject], timed_out: Option<bool>, faults: &'a [Fault]) -> TaskList<'a> {
    TaskList { schema: SCHEMA, tasks, timed_out, faults, next: None }
}

/// What a session has to see to.
#[derive(Serialize)]
pub(crate) struct LooseEnds<'a> {
    schema: u32,
    session: Option<&'a str>,
    tasks: &'a [TaskObject],
    notices: Vec<Value>,
    faults: &'a [Fault],
}

/// Live tasks, unheard notices, and what could not be said; of one session, or of all.
pub(crate) fn loose_ends<'a>(
    session: Option<&'a str>,
    tasks: &'a [TaskObject],
    notices: &[Notice],
    faults: &'a [Fault],
) -> LooseEnds<'a> {
    let notices = notices.iter().map(|one| notice(one, session.unwrap_or_default())).collect();
    LooseEnds { schema: SCHEMA, session, tasks, notices, faults }
}

/// A notice, flat: the task's fields, then the notice's; `task` is the id.
pub(crate) fn notice(notice: &Notice, session: &str) -> Value {
    notice.flat(session)
}

/// A session's unheard notices, and whether there are more.
#[derive(Serialize)]
pub(crate) struct Inbox<'a> {
    schema: u32,
    session: &'a str,
    notices: Vec<Value>,
    more: bool,
}

/// These notices of a session.
pub(crate) fn notices<'a>(notices: &[Notice], session: &'a str, more: bool) -> Inbox<'a> {
    let notices = notices.iter().map(|one| notice(one, session)).collect();
    Inbox { schema: SCHEMA, session, notices, more }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringback_host::wire::{Sighting, Span};

    #[test]
    fn a_notice_is_flat() {
        let task = TaskObject { id: "abc".to_owned(), session: "s1".to_owned(), ..TaskObject::default() };
        let sighting = Sighting { delta: Some(Span { from: 3, to: 9 }), silence_ms: Some(7), ..Sighting::default() };
        let kind = "tool_progress".to_owned();
        let one = Notice { seq: 4, kind, text: "goes on".to_owned(), task, sighting, ..Notice::default() };
        let value = serde_json::to_value(notices(&[one], "s1", false)).unwrap();
        assert_eq!(value["schema"], SCHEMA);
        let flat = &value["notices"][0];
        assert_eq!(
            (&flat["seq"], &flat["task"], &flat["id"], &flat["session"]),
            (&4.into(), &"abc".into(), &"abc".into(), &"s1".into())
        );
        assert_eq!((&flat["delta"]["to"], &flat["silence_ms"]), (&9.into(), &7.into()));
        assert!(flat.get("offset").is_none(), "{flat}");
    }
}
