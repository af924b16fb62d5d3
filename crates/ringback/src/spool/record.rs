//! The file of a request: what is asked in it, and what it says while the task runs and after.

use std::path::PathBuf;

use jiff::Timestamp;
use ringback_host::wire::TaskObject;
use serde_json::{Map, Value, json};

use super::name::Name;
use crate::render::task::verdict;

/// Fields that are ours to write; a request that has them already does not keep them.
const OURS: [&str; 7] = ["started_at", "completed_at", "exit_code", "stdout_tail", "stderr_tail", "error", "ringback"];

/// What a file says.
#[derive(Debug, PartialEq)]
pub(super) enum Record {
    /// Something is asked.
    Pending(Request),
    /// It runs, or ran when its server died.
    Running(Request, Claimed),
    /// It has come to its end, or is not ours.
    Settled,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Request {
    pub(super) cmd: String,
    pub(super) timeout_secs: Option<u64>,
    pub(super) cwd: Option<PathBuf>,
    /// The whole object, for the fields that are not ours.
    fields: Map<String, Value>,
}

/// What a running record says of its task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Claimed {
    pub(super) task: Option<String>,
    pub(super) home: Option<String>,
}

/// Why a file is no request.
#[derive(Debug, PartialEq)]
pub(super) enum Bad {
    /// Not JSON; perhaps not yet.
    Unreadable(String),
    /// JSON, but not a request. With its fields, if it waits for an answer.
    Wrong(String, Option<Map<String, Value>>),
}

impl Record {
    /// Reads a file of this name.
    pub(super) fn read(name: &Name, bytes: &[u8]) -> Result<Self, Bad> {
        let value: Value = serde_json::from_slice(bytes).map_err(|error| Bad::Unreadable(error.to_string()))?;
        let Value::Object(fields) = value else {
            return Err(Bad::Wrong("a request is a JSON object".to_owned(), None));
        };
        let status = fields.get("status").map_or(Some("pending"), Value::as_str).unwrap_or_default().to_owned();
        match status.as_str() {
            "pending" => match Request::read(name, &fields) {
                Ok(request) => Ok(Self::Pending(request)),
                Err(why) => Err(Bad::Wrong(why, Some(fields))),
            },
            "running" => {
                let text = |key: &str| fields.get("ringback")?.get(key)?.as_str().map(str::to_owned);
                let claimed = Claimed { task: text("task"), home: text("home") };
                Ok(Self::Running(Request::of_running(fields), claimed))
            }
            "done" | "timed_out" | "interrupted" => Ok(Self::Settled),
            _ => Err(Bad::Wrong("`status` of a request is \"pending\"".to_owned(), None)),
        }
    }
}

impl Request {
    fn read(name: &Name, fields: &Map<String, Value>) -> Result<Self, String> {
        match fields.get("id") {
            None => {}
            Some(Value::String(id)) if id == name.as_str() => {}
            Some(_) => return Err("`id` is not the name of the file without .json".to_owned()),
        }
        let cmd = match fields.get("cmd") {
            Some(Value::String(cmd)) if cmd.contains('\0') => return Err("`cmd` contains a NUL".to_owned()),
            Some(Value::String(cmd)) if !cmd.trim().is_empty() => cmd.clone(),
            _ => return Err("`cmd` has to be a text that a shell runs".to_owned()),
        };
        let timeout_secs = match fields.get("timeout_secs") {
            None | Some(Value::Null) => None,
            Some(value) => match value.as_u64() {
                None | Some(0) => return Err("`timeout_secs` has to be a whole number above 0".to_owned()),
                some => some,
            },
        };
        let cwd = match fields.get("cwd") {
            None | Some(Value::Null) => None,
            Some(Value::String(cwd)) if cwd.starts_with('/') && !cwd.contains('\0') => Some(PathBuf::from(cwd)),
            Some(_) => return Err("`cwd` has to be an absolute path".to_owned()),
        };
        Ok(Self { cmd, timeout_secs, cwd, fields: fields.clone() })
    }

    /// What a running record still says of its request.
    fn of_running(fields: Map<String, Value>) -> Self {
        let cmd = fields.get("cmd").and_then(Value::as_str).unwrap_or_default().to_owned();
        Self { cmd, timeout_secs: None, cwd: None, fields }
    }
}

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
    fn a_request_is_read_whole_or_refused_with_its_reason() {
        let request = pending(r#"{"id":"a1","cmd":"true","timeout_secs":5,"status":"pending","extra":[1]}"#);
        assert_eq!((request.cmd.as_str(), request.timeout_secs), ("true", Some(5)));
        assert_eq!(pending(r#"{"cmd":"true"}"#).timeout_secs, None);
        for wrong in [
            r#"{"id":"../a1","cmd":"true","status":"pending"}"#,
            r#"{"id":7,"cmd":"true"}"#,
            r#"{"cmd":" "}"#,
            r#"{"cmd":"a\u0000b"}"#,
            r#"{"id":"a1"}"#,
            r#"{"cmd":"true","timeout_secs":0}"#,
            r#"{"cmd":"true","timeout_secs":-1}"#,
            r#"{"cmd":"true","timeout_secs":"5"}"#,
            r#"{"cmd":"true","cwd":"relative"}"#,
        ] {
            assert!(matches!(read(wrong), Err(Bad::Wrong(_, Some(_)))), "{wrong}");
        }
        assert!(matches!(read(r#"{"cmd":"true","status":"paused"}"#), Err(Bad::Wrong(_, None))));
        assert!(matches!(read("[1]"), Err(Bad::Wrong(_, None))));
        assert!(matches!(read(r#"{"cmd":"tru"#), Err(Bad::Unreadable(_))));
        assert_eq!(read(r#"{"cmd":"true","status":"done"}"#), Ok(Record::Settled));
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
