//! What each agent's settings have to say, in its own words.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::place::Places;

/// An agent that can be set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Agent {
    Claude,
    Codex,
    Gemini,
    Opencode,
    Cursor,
    Vscode,
}

/// All of them.
pub(crate) const AGENTS: [Agent; 6] =
    [Agent::Claude, Agent::Codex, Agent::Gemini, Agent::Opencode, Agent::Cursor, Agent::Vscode];

/// The name under which agents know our server.
pub(super) const SERVER: &str = "ringback";
/// The plugin of opencode.
const OPENCODE: &str = include_str!("assets/opencode.js");
/// How its first line begins: by this we know a file of ours.
pub(super) const MARK: &str = "// Tells an opencode session of the ends of what it started with ringback.";
/// The tools of Claude Code after which a task may have to be waited for: ours, also as a plugin's, and the shell.
const STARTERS: &str = "mcp__.*ringback.*__run|Bash";

/// One file, and what has to be in it.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) path: PathBuf,
    pub(super) content: Content,
}

/// What has to be in a file.
#[derive(Clone, Debug)]
pub(super) enum Content {
    /// JSON, perhaps with comments.
    Json(Vec<Entry>),
    /// Tables of TOML: the path of one, and its values.
    Toml(Vec<&'static str>, Value),
    /// Exactly this.
    Whole(String),
}

/// One entry of a JSON file.
#[derive(Clone, Debug)]
pub(super) enum Entry {
    /// A field of an object, which is ours if its command is.
    Server {
        /// Where the object is.
        path: Vec<&'static str>,
        /// What is called [`SERVER`] in it.
        value: Value,
    },
    /// A field that has to have some value.
    Field {
        /// Its name.
        name: &'static str,
        /// The value if there is none.
        value: Value,
    },
    /// An element of a list, which is ours if it runs this hook of ours.
    Hook {
        /// Where the list is.
        path: Vec<&'static str>,
        /// The name of the hook.
        hook: &'static str,
        /// The element.
        value: Value,
    },
}

impl Agent {
    /// Its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
            Self::Cursor => "cursor",
            Self::Vscode => "vscode",
        }
    }

    /// What is left to the person.
    pub(super) fn next(self) -> &'static str {
        match self {
            Self::Claude => "Claude Code reads it at its next start; `/mcp` and `/hooks` show it",
            Self::Codex => "Codex reads it at its next start, and asks once whether it may run the hooks (`/hooks`)",
            Self::Gemini => "Gemini CLI reads it at its next start; `/mcp` and `/hooks` show it",
            Self::Opencode => "opencode reads it at its next start",
            Self::Cursor => "Cursor shows the server under Settings, MCP; it has to be switched on there once",
            Self::Vscode => "VS Code asks once whether it may start the server",
        }
    }

    /// Its files. `program` is how ringback is called from there.
    pub(super) fn plans(self, places: &Places, program: &str) -> Vec<Plan> {
        let mut plans = vec![Plan { path: places.servers(self), content: self.server(program) }];
        if let Some(path) = places.hooks(self) {
            let content = match self {
                Self::Opencode => {
                    let name = Value::from(program).to_string();
                    Content::Whole(OPENCODE.replacen("\"ringback\"", &name, 1))
                }
                _ => Content::Json(self.hooks(&shell_word(program))),
            };
            match plans.first_mut() {
                // Gemini has both in one file.
                Some(Plan { path: same, content: Content::Json(entries) }) if *same == path => {
                    if let Content::Json(more) = content {
                        entries.extend(more);
                    }
                }
                _ => plans.push(Plan { path, content }),
            }
        }
        plans
    }

    fn server(self, program: &str) -> Content {
        let server =
            |place: &'static str, value: Value| Content::Json(vec![Entry::Server { path: vec![place], value }]);
        // Where a tool call does not say of which conversation it is, all conversations share one session.
        let shared = json!({ "RINGBACK_SESSION": self.name() });
        let args = json!(["mcp"]);
        match self {
            Self::Claude => server("mcpServers", json!({ "type": "stdio", "command": program, "args": args })),
            // Its calls may take as long as `tool_timeout_sec`; ours say "still running" before.
            Self::Codex => Content::Toml(
                vec!["mcp_servers", SERVER],
                json!({ "command": program, "args": args, "startup_timeout_sec": 30, "tool_timeout_sec": 3600 }),
            ),
            Self::Gemini => {
                server("mcpServers", json!({ "command": program, "args": args, "env": shared, "timeout": 600_000 }))
            }
            Self::Opencode => server(
                "mcp",
                json!({ "type": "local", "command": [program, "mcp"], "enabled": true, "environment": shared, "timeout": 600_000 }),
            ),
            Self::Cursor => server("mcpServers", json!({ "command": program, "args": args, "env": shared })),
            Self::Vscode => {
                server("servers", json!({ "type": "stdio", "command": program, "args": args, "env": shared }))
            }
        }
    }

    /// Hooks; `program` is a word of a shell.
    fn hooks(self, program: &str) -> Vec<Entry> {
        let group = |event: &'static str, hook: &'static str, more: Value, matcher: Option<&str>| {
            let mut inner = json!({ "type": "command", "command": format!("{program} hook {hook}") });
            merge(&mut inner, more);
            let mut value = json!({});
            if let Some(matcher) = matcher {
                value["matcher"] = matcher.into();
            }
            value["hooks"] = json!([inner]);
            Entry::Hook { path: vec!["hooks", event], hook, value }
        };
        let soon = || json!({ "timeout": 20 });
        match self {
            Self::Claude => vec![
                group("PostToolUse", "claude-wait", json!({ "asyncRewake": true, "timeout": 86_400 }), Some(STARTERS)),
                group("Stop", "claude-stop", soon(), None),
                group("Stop", "claude-watch", json!({ "asyncRewake": true, "timeout": 86_400 }), None),
                group("UserPromptSubmit", "claude-prompt", soon(), None),
                group("SessionStart", "claude-start", soon(), None),
                group("SessionEnd", "claude-end", json!({}), None),
            ],
            Self::Codex => vec![
                group("Stop", "codex-stop", soon(), None),
                group("UserPromptSubmit", "codex-prompt", soon(), None),
                group("SessionStart", "codex-start", soon(), None),
                group("SessionEnd", "codex-end", json!({}), None),
            ],
            Self::Gemini => {
                // Its limits are milliseconds.
                let more = |hook: &str| {
                    let command = format!("{program} hook {hook} --session gemini");
                    json!({ "name": hook, "command": command, "timeout": 20_000 })
                };
                vec![
                    group("AfterAgent", "gemini-after", more("gemini-after"), None),
                    group("BeforeAgent", "gemini-before", more("gemini-before"), None),
                ]
            }
            Self::Cursor => {
                let command = format!("{program} hook cursor-stop --session cursor");
                let value = json!({ "command": command, "loop_limit": 5 });
                vec![
                    Entry::Field { name: "version", value: json!(1) },
                    Entry::Hook { path: vec!["hooks", "stop"], hook: "cursor-stop", value },
                ]
            }
            Self::Opencode | Self::Vscode => Vec::new(),
        }
    }
}

fn merge(into: &mut Value, more: Value) {
    if let (Some(into), Value::Object(more)) = (into.as_object_mut(), more) {
        into.extend(more);
    }
}

/// The program as a word of a shell.
fn shell_word(program: &str) -> String {
    shlex::try_quote(program).map_or_else(|_| program.to_owned(), std::borrow::Cow::into_owned)
}

/// What a person would write by hand, per file.
pub(crate) fn snippets(agent: Agent, places: &Places, program: &str) -> Vec<(PathBuf, String)> {
    let text = |content: &Content| match content {
        Content::Json(_) | Content::Toml(..) => super::work::new_text(content).unwrap_or_default(),
        Content::Whole(text) => text.clone(),
    };
    agent.plans(places, program).iter().map(|plan| (plan.path.clone(), text(&plan.content))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hook::Hook;

    #[test]
    fn every_hook_that_is_installed_is_one_of_ours() {
        for agent in AGENTS {
            for entry in agent.hooks("ringback") {
                let Entry::Hook { hook, value, .. } = entry else { continue };
                assert!(Hook::find(hook).is_some(), "{hook}");
                assert!(value.to_string().contains(&format!("ringback hook {hook}")), "{value}");
            }
        }
        assert!(OPENCODE.starts_with(MARK) && OPENCODE.contains("\"opencode-wait\""));
        assert!(Hook::find("opencode-wait").is_some());
    }

    #[test]
    fn the_plugin_folder_says_the_same_as_setup() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../plugin");
        let read = |name: &str| -> Value {
            serde_json::from_slice(&std::fs::read(format!("{root}/{name}")).unwrap()).unwrap()
        };
        let text = super::super::work::new_text(&Content::Json(Agent::Claude.hooks("ringback"))).unwrap();
        let mut hooks = read("hooks/hooks.json");
        hooks.as_object_mut().unwrap().shift_remove("description");
        assert_eq!(hooks, serde_json::from_str::<Value>(&text).unwrap());
        assert_eq!(read(".mcp.json")["mcpServers"]["ringback"]["args"], json!(["mcp"]));
        assert_eq!(read(".claude-plugin/plugin.json")["version"], env!("CARGO_PKG_VERSION"));
    }
}
