//! The JSON documents, one per verb, each with `"schema"` first.

use ringback_host::wire::task::SCHEMA;
use ringback_host::wire::{Fault, Notice, TaskObject};
use serde_json::{Map, Value, json};

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

/// A list of tasks.
pub(crate) fn tasks(tasks: &[TaskObject], timed_out: Option<bool>, faults: &[Fault]) -> Value {
    let tasks: Vec<Value> = tasks.iter().map(task).collect();
    let mut all = json!({ "tasks": tasks });
    if let Some(timed_out) = timed_out {
        all["timed_out"] = timed_out.into();
    }
    all["faults"] = json!(faults);
    document(all)
}

/// A notice, flat: the task's fields, then the notice's; `task` is the id.
pub(crate) fn notice(notice: &Notice, session: &str) -> Value {
    notice.flat(session)
}

/// A session's unheard notices.
pub(crate) fn notices(notices: &[Notice], session: &str, more: bool) -> Value {
    let notices: Vec<Value> = notices.iter().map(|one| notice(one, session)).collect();
    document(json!({ "session": session, "notices": notices, "more": more }))
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
        let value = notices(&[one], "s1", false);
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
