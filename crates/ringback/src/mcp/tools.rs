//! What the model is told of each tool: names, descriptions, schemas and annotations, in one fixed order.

use std::sync::{Arc, LazyLock};

use ringback_core::spec::{IfRunning, Lease, Leftovers, OutputPolicy, Sandbox};
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

/// A tool as it is declared.
pub(super) struct Declared {
    /// Its name.
    pub(super) name: &'static str,
    title: &'static str,
    text: &'static str,
    input: fn() -> Value,
    hints: Hints,
}

/// Annotations; clients base approvals on them, and an unset one counts as the worst case.
#[derive(Clone, Copy)]
enum Hints {
    /// Looks.
    Reads,
    /// Changes what can be changed back, or what is ours.
    Writes,
    /// May do anything: it runs commands, or ends them.
    Destroys {
        /// Whether doing it twice is doing it once.
        idempotent: bool,
        /// Whether it reaches beyond ringback.
        open: bool,
    },
}

/// All tools, in the order they are listed.
pub(super) const TOOLS: [Declared; 7] = [
    Declared {
        name: "run",
        title: "Run a command",
        text: "Runs a command in the background: a shell `command`, or `argv` without a shell. Returns the result if it \
               ends within wait_ms, else its id at once; it then runs on whatever happens to this client, and its end is \
               reported. `lease`: awaited, service (a server; runs until the session ends) or detached. A task with a \
               `key` is not started twice.",
        input: run_input,
        hints: Hints::Destroys { idempotent: false, open: true },
    },
    Declared {
        name: "wait",
        title: "Wait for tasks",
        text: "Blocks until tasks end (`ids`, or whatever of this session ends next), or until a `pattern` appears in the \
               output of one. Says \"still running\" before this client's own limit; then call it again.",
        input: wait_input,
        hints: Hints::Reads,
    },
    Declared {
        name: "output",
        title: "Read output",
        text: "Shows a task's output, running or ended: by default a digest (test results, first errors, beginning and end); or from a byte `offset`, \
               a range of `lines`, the last `tail` lines, or lines that match `grep`. `cursor` of the answer is the next \
               offset.",
        input: output_input,
        hints: Hints::Reads,
    },
    Declared {
        name: "list",
        title: "List tasks",
        text: "Lists this session's running tasks and unheard endings; with `ended` also old ones.",
        input: list_input,
        hints: Hints::Reads,
    },
    Declared {
        name: "stop",
        title: "Stop tasks",
        text: "Stops tasks with every process they started: TERM, after `grace` KILL; returns when all are gone, with a \
               receipt. With `signal` it only sends that signal; with `release` an awaited task only becomes a service.",
        input: stop_input,
        hints: Hints::Destroys { idempotent: true, open: false },
    },
    Declared {
        name: "send",
        title: "Write to stdin",
        text: "Writes `text` to the stdin of a task that was run with stdin: true; a line needs its \\n. Into one with pty: true it \
               types `text` (Enter is \\r), then `keys`.",
        input: send_input,
        hints: Hints::Writes,
    },
    Declared {
        name: "inbox",
        title: "Read notices",
        text: "Returns endings that this session has not heard, in full. `after` first acknowledges everything up to that \
               number.",
        input: inbox_input,
        hints: Hints::Writes,
    },
];

fn run_input() -> Value {
    object(&json!({
        "command": {"type": "string", "description": "shell text"},
        "argv": strings(),
        "cwd": string(),
        "env": {"type": "object", "additionalProperties": string()},
        "env_remove": strings(),
        "env_mode": {"enum": ["inherit", "clean", "replace"], "description": "clean: without secrets"},
        "shell": {"type": "string", "description": "default sh; e.g. bash -e"},
        "name": string(),
        "timeout": {"type": "string", "description": "e.g. 10m; default none"},
        "idle_timeout": {"type": "string", "description": "of silence"},
        "grace": string(),
        "wait_ms": {"type": "integer", "minimum": 0, "default": 2000},
        "key": string(),
        "if_running": {"enum": IfRunning::WORDS, "description": "of the same key"},
        "lease": {"enum": Lease::WORDS},
        "leftovers": {"enum": Leftovers::WORDS, "description": "processes that outlive it"},
        "stdin": {"type": "boolean", "description": "open for send"},
        "pty": {"type": ["boolean", "string"], "description": "a terminal; or its size, e.g. 120x40"},
        "split": {"type": "boolean", "description": "label stdout and stderr"},
        "limit": {"type": "string", "description": "e.g. mem=2G,pids=200,cpu=50%"},
        "sandbox": {"enum": Sandbox::WORDS, "description": "where it may write"},
        "max_output": {"type": "string", "description": "disk cap, e.g. 1GiB"},
        "output_policy": {"enum": OutputPolicy::WORDS, "description": "at the cap"},
        "ready": {"type": "string", "description": "regex of a line, or tcp:PORT"},
        "watch": {"type": ["array", "string"], "items": {"type": "string"}, "description": "regexes of lines to notice"},
        "progress": {"type": "string", "description": "e.g. 30s, then doubling; or 30s..5m"},
        "binding": {"description": "JSON, echoed in results"},
        "session": string(),
    }))
}

fn wait_input() -> Value {
    object(&json!({
        "ids": strings(),
        "id": string(),
        "mode": {"enum": ["any", "all"]},
        "any": boolean(),
        "all": boolean(),
        "until": {"enum": ["end", "ready", "match"], "description": "as run's ready and watch say"},
        "timeout_ms": {"type": "integer", "minimum": 0},
        "pattern": {"type": "string", "description": "regex"},
        "offset": {"type": "integer", "minimum": 0, "description": "where pattern starts"},
        "session": string(),
    }))
}

fn output_input() -> Value {
    let mut input = object(&json!({
        "id": string(),
        "digest": boolean(),
        "offset": {"type": "integer", "minimum": 0},
        "max_bytes": {"type": "integer", "minimum": 1, "maximum": super::window::BYTES_MAX},
        "lines": {"type": "string", "description": "A:B, from 1"},
        "tail": {"type": "integer", "minimum": 1},
        "grep": {"type": "string", "description": "regex"},
        "context": {"type": "integer"},
        "since": {"type": "string", "description": "e.g. 5m"},
        "until": string(),
        "stream": {"enum": ["stdout", "stderr"]},
        "screen": {"type": "boolean", "description": "its terminal now"},
        "session": string(),
    }));
    input["required"] = json!(["id"]);
    input
}

fn list_input() -> Value {
    object(&json!({
        "ended": boolean(),
        "all_sessions": boolean(),
        "limit": {"type": "integer", "minimum": 1, "maximum": 200, "default": 50},
        "before": {"type": "integer", "description": "cursor of the last page"},
        "session": string(),
    }))
}

fn stop_input() -> Value {
    object(&json!({
        "ids": strings(),
        "id": string(),
        "all": {"type": "boolean", "description": "all of this session"},
        "grace": {"type": "string", "description": "default 10s"},
        "signal": {"type": "string", "description": "e.g. INT"},
        "release": boolean(),
        "session": string(),
    }))
}

fn send_input() -> Value {
    let mut input = object(&json!({
        "id": string(),
        "text": string(),
        "keys": {"type": "array", "items": {"type": "string"}, "description": "ctrl-c, enter, up, f5, alt-x, …; with pty"},
        "eof": {"type": "boolean", "description": "close stdin afterwards"},
        "session": string(),
    }));
    input["required"] = json!(["id"]);
    input
}

fn inbox_input() -> Value {
    object(&json!({
        "after": {"type": "integer", "minimum": 0},
        "wait_ms": {"type": "integer", "minimum": 0},
        "limit": {"type": "integer", "minimum": 1, "maximum": 100},
        "session": string(),
    }))
}

/// The summary that every tool answers with; what does not apply is left out.
fn output_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "id": string(),
            "state": string(),
            "exit": {"type": ["integer", "null"]},
            "verdict": string(),
            "tail": string(),
            "cursor": {"type": "integer"},
            "next": string(),
            "unheard": strings(),
            "tasks": {"type": "array", "items": {"type": "object"}},
        },
        "required": ["verdict", "next", "unheard"],
    })
}

fn object(properties: &Value) -> Value {
    json!({"type": "object", "properties": properties, "additionalProperties": false})
}

fn string() -> Value {
    json!({"type": "string"})
}

fn strings() -> Value {
    json!({"type": "array", "items": {"type": "string"}})
}

fn boolean() -> Value {
    json!({"type": "boolean"})
}

impl Declared {
    /// The tool of this name.
    pub(super) fn find(name: &str) -> Option<&'static Self> {
        TOOLS.iter().find(|tool| tool.name == name)
    }

    /// The names of its arguments.
    pub(super) fn arguments(&self) -> Vec<&'static str> {
        let listed = LISTED.iter().find(|tool| tool.name == self.name);
        let properties = listed.and_then(|tool| tool.input_schema.get("properties")).and_then(Value::as_object);
        properties.map(|known| known.keys().map(String::as_str).collect()).unwrap_or_default()
    }

    fn listed(&self) -> Tool {
        let mut hints = ToolAnnotations::new();
        hints = match self.hints {
            Hints::Reads => hints.read_only(true).destructive(false).idempotent(true).open_world(false),
            Hints::Writes => hints.read_only(false).destructive(false).idempotent(false).open_world(false),
            Hints::Destroys { idempotent, open } => {
                hints.read_only(false).destructive(true).idempotent(idempotent).open_world(open)
            }
        };
        Tool::new(self.name, self.text, fields((self.input)()))
            .with_title(self.title)
            .with_annotations(hints)
            .with_raw_output_schema(fields(output_schema()))
    }
}

/// All tools as they are listed: made once, since every call looks up what it may be given.
static LISTED: LazyLock<Vec<Tool>> = LazyLock::new(|| TOOLS.iter().map(Declared::listed).collect());

/// All tools as they are listed.
pub(super) fn listed() -> Vec<Tool> {
    LISTED.clone()
}

fn fields(value: Value) -> Arc<JsonObject> {
    Arc::new(match value {
        Value::Object(fields) => fields,
        _ => JsonObject::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_has_all_annotations_and_both_schemas() {
        for tool in serde_json::to_value(listed()).unwrap().as_array().unwrap() {
            let hints = &tool["annotations"];
            for hint in ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] {
                assert!(hints[hint].is_boolean(), "{} {hint}", tool["name"]);
            }
            assert_eq!(tool["inputSchema"]["additionalProperties"], false);
            assert_eq!(tool["outputSchema"]["type"], "object");
        }
    }

    #[test]
    fn the_choices_of_the_schema_are_those_of_the_core() {
        let properties = run_input()["properties"].clone();
        for (name, words) in [
            ("sandbox", Sandbox::WORDS),
            ("lease", Lease::WORDS),
            ("leftovers", Leftovers::WORDS),
            ("if_running", IfRunning::WORDS),
            ("output_policy", OutputPolicy::WORDS),
        ] {
            assert_eq!(properties[name]["enum"], json!(words), "{name}");
        }
    }

    #[test]
    fn what_the_model_reads_of_all_tools_is_cheap() {
        let tools = serde_json::to_value(listed()).unwrap();
        let mut bytes = 0;
        for tool in tools.as_array().unwrap() {
            let description = tool["description"].as_str().unwrap();
            assert!(description.len() < 600, "{}", tool["name"]);
            bytes += tool["name"].as_str().unwrap().len() + description.len() + tool["inputSchema"].to_string().len();
        }
        assert!(bytes / 4 < 1500, "{} tokens", bytes / 4);
    }
}
