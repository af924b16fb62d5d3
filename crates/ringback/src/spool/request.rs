//! Reads the file of a request: what is asked in it, or what became of it.

use std::path::PathBuf;

use serde_json::{Map, Value};

use super::name::Name;

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
    pub(super) fields: Map<String, Value>,
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

#[cfg(test)]
mod tests {
    use super::super::name::Role;
    use super::*;

    fn read(text: &str) -> Result<Record, Bad> {
        match Role::of("a1.json".as_ref()) {
            Role::Record(name) => Record::read(&name, text.as_bytes()),
            other => panic!("{other:?}"),
        }
    }

    fn pending(text: &str) -> Request {
        match read(text) {
            Ok(Record::Pending(request)) => request,
            other => panic!("{other:?}"),
        }
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
}
