//! Writes the file of a request: what it says while the task runs and after.

use jiff::Timestamp;
use ringback_host::wire::TaskObject;
use serde_json::{Map, Value, json};

use super::name::Name;
use super::request::Request;
use crate::render::task::verdict;

/// Fields that are ours to write; a request that has them already does not keep them.
const OURS: [&str; 7] = ["started_at", "completed_at", "exit_code", "stdout_tail", "stderr_tail", "error", "ringback"];

/// The outputs of a task, as far as its record speaks of them.
#[derive(Debug, Default)]
pub(super) struct Outputs {
    pub(super) stdout_tail: String,
    pub(super) stderr_tail: String,
    pub(super) stdout_bytes: u64,
    pub(super) stderr_bytes: u64,
    /// Whether less than that is in the files beside the record.
    pub(super) cut: bool,
}

/// The record of a request that runs as this task.
pub(super) fn running(request: &Request, name: &Name, task: &TaskObject, home: &str) -> Vec<u8> {
    let mut fields = begun(request, name, "running", task);
    fields.insert("ringback".to_owned(), json!({ "task": task.id, "home": home }));
    text(&fields)
}

/// The record of a request whose task has ended.
pub(super) fn ended(request: &Request, name: &Name, task: &TaskObject, home: &str, outputs: &Outputs) -> Vec<u8> {
    let status = match task.state.as_str() {
        "exited" | "signaled" | "start_failed" => "done",
        "timed_out" => "timed_out",
        _ => "interrupted",
    };
    let mut fields = begun(request, name, status, task);
    let ended = task.ended_at.as_deref().and_then(seconds).unwrap_or_else(now);
    fields.insert("completed_at".to_owned(), ended.into());
    if let Some(code) = task.exit_code {
        fields.insert("exit_code".to_owned(), code.into());
    }
    fields.insert("stdout_tail".to_owned(), outputs.stdout_tail.clone().into());
    fields.insert("stderr_tail".to_owned(), outputs.stderr_tail.clone().into());
    let more = json!({
        "task": task.id, "home": home, "verdict": verdict(task), "state": task.state, "reason": task.reason,
        "signal": task.signal, "final_exit_code": task.final_exit_code,
        "stdout_bytes": outputs.stdout_bytes, "stderr_bytes": outputs.stderr_bytes, "files_cut": outputs.cut,
    });
    fields.insert("ringback".to_owned(), more);
    text(&fields)
}

/// The record of a request that never became a task, or whose task is not to be found.
pub(super) fn interrupted(fields: &Map<String, Value>, name: &Name, why: &str) -> Vec<u8> {
    let mut fields = fields.clone();
    for ours in OURS.iter().filter(|ours| **ours != "started_at") {
        fields.shift_remove(*ours);
    }
    fields.insert("id".to_owned(), name.as_str().into());
    fields.insert("status".to_owned(), "interrupted".into());
    fields.insert("completed_at".to_owned(), now().into());
    fields.insert("error".to_owned(), why.into());
    text(&fields)
}

impl Request {
    /// See [`interrupted`].
    pub(super) fn interrupted(&self, name: &Name, why: &str) -> Vec<u8> {
        interrupted(&self.fields, name, why)
    }
}

/// Why a file was refused, beside it.
pub(super) fn refusal(file: &str, why: &str, hint: &str) -> Vec<u8> {
    let Value::Object(fields) = json!({ "schema": 1, "file": file, "error": why, "hint": hint }) else {
        return Vec::new();
    };
    text(&fields)
}

fn begun(request: &Request, name: &Name, status: &str, task: &TaskObject) -> Map<String, Value> {
    let mut fields = request.fields.clone();
    for ours in OURS {
        fields.shift_remove(ours);
    }
    fields.insert("id".to_owned(), name.as_str().into());
    fields.insert("status".to_owned(), status.into());
    if !fields.contains_key("created_at") {
        fields.insert("created_at".to_owned(), seconds(&task.created_at).unwrap_or_else(now).into());
    }
    if let Some(at) = task.started_at.as_deref().and_then(seconds) {
        fields.insert("started_at".to_owned(), at.into());
    }
    fields
}

fn text(fields: &Map<String, Value>) -> Vec<u8> {
    // A map of JSON values can always be written.
    let mut bytes = serde_json::to_vec_pretty(fields).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

fn seconds(time: &str) -> Option<i64> {
    time.parse::<Timestamp>().ok().map(Timestamp::as_second)
}

fn now() -> i64 {
    Timestamp::now().as_second()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spool::name::Role;
    use crate::spool::request::{Bad, Claimed, Record};

    fn name() -> Name {
        match Role::of("a1.json".as_ref()) {
            Role::Record(name) => name,
            other => panic!("{other:?}"),
        }
    }

    fn read(text: &str) -> Result<Record, Bad> {
        Record::read(&name(), text.as_bytes())
    }

    fn pending(text: &str) -> Request {
        match read(text) {
            Ok(Record::Pending(request)) => request,
            other => panic!("{other:?}"),
        }
    }

    fn json_of(bytes: &[u8]) -> Value {
        serde_json::from_slice(bytes).unwrap()
    }

    #[test]
    fn a_record_keeps_foreign_fields_and_says_what_is_known() {
        let request = pending(r#"{"cmd":"x","note":"mine","exit_code":0,"status":"pending","created_at":5}"#);
        let task = TaskObject {
            id: "k3".to_owned(),
            state: "running".to_owned(),
            started_at: Some("2026-11-30T10:00:00.000Z".to_owned()),
            ..TaskObject::default()
        };
        let record = json_of(&running(&request, &name(), &task, "/h"));
        assert_eq!(record["status"], "running");
        assert_eq!((&record["note"], &record["created_at"]), (&json!("mine"), &json!(5)));
        assert_eq!((record.get("exit_code"), &record["started_at"]), (None, &json!(1_796_032_800)));
        let again = Record::read(&name(), &running(&request, &name(), &task, "/h")).unwrap();
        let Record::Running(_, claimed) = again else { panic!("{again:?}") };
        assert_eq!(claimed, Claimed { task: Some("k3".to_owned()), home: Some("/h".to_owned()) });
    }

    #[test]
    fn an_ending_without_an_exit_code_has_none() {
        let request = pending(r#"{"cmd":"x"}"#);
        let task = |state: &str, exit_code| TaskObject { state: state.to_owned(), exit_code, ..TaskObject::default() };
        for (state, code, status) in [
            ("exited", Some(3), "done"),
            ("signaled", None, "done"),
            ("start_failed", None, "done"),
            ("timed_out", None, "timed_out"),
            ("killed", None, "interrupted"),
            ("lost", None, "interrupted"),
        ] {
            let record = json_of(&ended(&request, &name(), &task(state, code), "/h", &Outputs::default()));
            assert_eq!(
                (record["status"].as_str(), record.get("exit_code")),
                (Some(status), code.map(Value::from).as_ref())
            );
            assert_eq!(record["ringback"]["state"], state);
        }
        let record = json_of(&request.interrupted(&name(), "why"));
        assert_eq!((&record["status"], &record["error"]), (&json!("interrupted"), &json!("why")));
    }
}
