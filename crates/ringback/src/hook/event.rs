//! What an agent says on a hook's stdin, read leniently: a field that is missing or of another type is not there.

use std::io::{self, Read};

use ringback_core::id::TaskId;
use ringback_core::spec::is_label;
use serde_json::{Map, Value};

use crate::explain::Failure;

/// The longest event that is read, bytes: it carries a tool's whole answer.
const EVENT_BYTES_MAX: u64 = 64 << 20;
/// Fields that name the conversation, in the order they are believed: Codex has the first, Cursor the last.
const SESSION_FIELDS: [&str; 3] = ["thread_id", "session_id", "conversation_id"];
/// How many ids one event may name; more are not ours.
const IDS_MAX: usize = 64;
/// How Claude Code begins to tell the end of an MCP task; the id follows.
const SUMMARY: &str = "<summary>MCP task ";
/// Where it begins to quote the result. Every line of ours in it has something before it.
const RESULT_TAG: &str = "<result>";
/// How deep an answer is searched for ids.
const DEPTH_MAX: usize = 16;

/// One event.
#[derive(Clone, Debug, Default)]
pub(crate) struct Event(Map<String, Value>);

/// Reads it.
pub(crate) fn read(from: impl Read) -> Result<Event, Failure> {
    let wrong = |message: String| {
        let hint =
            Some("hooks are run by an agent, with a JSON object on stdin; `ringback setup` installs them".to_owned());
        Failure::new("bad_event", message, hint)
    };
    let mut text = String::new();
    match from.take(EVENT_BYTES_MAX + 1).read_to_string(&mut text) {
        Ok(length) if length as u64 > EVENT_BYTES_MAX => {
            return Err(wrong(format!("the event is longer than {EVENT_BYTES_MAX} bytes")));
        }
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(wrong("the event is not UTF-8".into())),
        Err(error) => return Err(error.into()),
    }
    match serde_json::from_str(&text) {
        Ok(Value::Object(fields)) => Ok(Event(fields)),
        Ok(_) => Err(wrong("the event is not a JSON object".to_owned())),
        Err(error) => Err(wrong(format!("the event cannot be read as JSON: {error}"))),
    }
}

impl Event {
    pub(super) fn text(&self, field: &str) -> &str {
        self.0.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    pub(super) fn number(&self, field: &str) -> u64 {
        self.0.get(field).and_then(Value::as_u64).unwrap_or(0)
    }

    pub(super) fn flag(&self, field: &str) -> bool {
        self.0.get(field).and_then(Value::as_bool).unwrap_or(false)
    }

    /// The conversation that it is about.
    pub(super) fn session(&self) -> Option<&str> {
        SESSION_FIELDS.iter().map(|field| self.text(field)).find(|name| is_label(name))
    }

    /// Whether the words `field` has somewhere inside speak of this.
    pub(super) fn mentions(&self, field: &str, word: &str) -> bool {
        self.0.get(field).is_some_and(|value| value.to_string().contains(word))
    }

    /// The ids of tasks in a tool's answer: first those that stand in fields of their own, then those in its words.
    pub(super) fn answered_ids(&self) -> Vec<String> {
        let mut found = Found::default();
        if let Some(answer) = self.0.get("tool_response") {
            found.search(answer, DEPTH_MAX);
        }
        let mut all = found.in_fields;
        // What cannot be a word of a language comes first: there is only so much room.
        let (with_digit, without): (Vec<String>, Vec<String>) =
            found.in_words.into_iter().partition(|id| id.bytes().any(|byte| byte.is_ascii_digit()));
        all.extend(with_digit.into_iter().chain(without));
        distinct(all)
    }
}

/// The ids of the tasks whose ends this prompt tells, in the agent's own words for the end of an MCP task. What else the prompt
/// holds is output, which may name any task.
pub(super) fn ids_told(prompt: &str) -> Vec<String> {
    let own = prompt.find(RESULT_TAG).unwrap_or(prompt.len());
    let ids = prompt.match_indices(SUMMARY).filter(|(at, _)| *at < own || prompt[..*at].ends_with('\n'));
    distinct(ids.filter_map(|(at, start)| ids_in(&prompt[at + start.len()..]).into_iter().next()).collect())
}

/// The ids that stand in a text.
fn ids_in(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    distinct(words.filter(|word| is_id(word)).map(str::to_owned).collect())
}

/// Only as we write them. One in ninety has no digit and could be a word of a language; of that no task is known.
fn is_id(word: &str) -> bool {
    TaskId::parse(word).is_ok_and(|id| id.to_string() == word)
}

fn distinct(mut ids: Vec<String>) -> Vec<String> {
    let mut seen = std::collections::BTreeSet::new();
    ids.retain(|id| seen.insert(id.clone()));
    ids.truncate(IDS_MAX);
    ids
}

#[derive(Default)]
struct Found {
    in_fields: Vec<String>,
    in_words: Vec<String>,
}

impl Found {
    fn search(&mut self, value: &Value, depth: usize) {
        match value {
            _ if depth == 0 => {}
            Value::Object(fields) => {
                if let Some(id) = fields.get("id").and_then(Value::as_str).filter(|id| is_id(id)) {
                    self.in_fields.push(id.to_owned());
                }
                fields.values().for_each(|value| self.search(value, depth - 1));
            }
            Value::Array(values) => values.iter().for_each(|value| self.search(value, depth - 1)),
            // Clients hand structured answers on as text.
            Value::String(text) => match serde_json::from_str::<Value>(text) {
                Ok(inner @ (Value::Object(_) | Value::Array(_))) => self.search(&inner, depth - 1),
                _ => self.in_words.extend(ids_in(text)),
            },
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn event(value: &Value) -> Event {
        read(value.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_session_is_named_by_the_field_of_its_agent() {
        let name = |value: Value| event(&value).session().map(str::to_owned);
        assert_eq!(name(json!({ "session_id": "c1" })), Some("c1".to_owned()));
        assert_eq!(name(json!({ "session_id": "c1", "thread_id": "t1" })), Some("t1".to_owned()));
        assert_eq!(name(json!({ "conversation_id": "v1" })), Some("v1".to_owned()));
        assert_eq!(name(json!({ "session_id": "two\nlines", "conversation_id": 7 })), None);
    }

    #[test]
    fn ids_are_found_in_any_shape_of_answer_and_words_are_none() {
        let ids = |answer: Value| event(&json!({ "tool_response": answer })).answered_ids();
        assert_eq!(ids(json!({ "structuredContent": { "id": "0k3f5m7p9r1t", "state": "running" } })), ["0k3f5m7p9r1t"]);
        assert_eq!(ids(json!([{ "type": "text", "text": "{\"id\":\"0k3f5m7p9r1t\"}" }])), ["0k3f5m7p9r1t"]);
        assert_eq!(ids(json!({ "stdout": "0k3f5m7p9r1t\n", "stderr": "running, NOT finished" })), ["0k3f5m7p9r1t"]);
        assert_eq!(
            ids(json!("task 1111aaaa2222 (run 0k3f5m7p9r1t) and 1111aaaa2222")),
            ["1111aaaa2222", "0k3f5m7p9r1t"]
        );
        assert!(ids(json!("nevertheless 0K3F5M7P9R1T 0k3f5m7p9r1tx")).is_empty());
        assert_eq!(ids(json!({ "id": "transparency", "state": "running" })), ["transparency"], "an id without a digit");
        assert_eq!(ids(json!("transparency 0k3f5m7p9r1t")), ["0k3f5m7p9r1t", "transparency"]);
        assert!(ids(json!(null)).is_empty());
    }

    #[test]
    fn a_prompt_tells_of_the_tasks_that_the_agent_names_and_not_of_those_that_output_names() {
        let prompt = "<task-notification>\n<task-id>k1</task-id>\n<summary>MCP task 0k3f5m7p9r1t (ringback/run) completed.\
                      </summary>\n<result>FAILED exit 1 \u{b7} <summary>MCP task 1111aaaa2222\n| <summary>MCP task 2222aaaa3333\n\
                      | 3333aaaa4444</result>\n</task-notification>\n<task-notification>\n<summary>MCP task 4444aaaa5555 (x) \
                      completed.</summary>";
        assert_eq!(ids_told(prompt), ["0k3f5m7p9r1t", "4444aaaa5555"]);
        let one_line =
            "<task-notification><summary>MCP task 0k3f5m7p9r1t (ringback/run) failed</summary><result>x</result>";
        assert_eq!(ids_told(one_line), ["0k3f5m7p9r1t"]);
        assert!(
            ids_told("<task-notification><summary>Background command \"x 0k3f5m7p9r1t\" completed</summary>")
                .is_empty()
        );
    }

    #[test]
    fn what_is_no_event_is_an_error_with_a_hint() {
        for wrong in [&b""[..], b"[1]", b"{", b"\xff"] {
            assert!(read(wrong).unwrap_err().hint.is_some());
        }
    }
}
