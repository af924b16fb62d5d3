//! Who calls: the session, the kind of client, how long its calls may take, and how it will hear of an end.

use std::env;
use std::time::Duration;

use ringback_core::spec::is_label;
use rmcp::RoleServer;
use rmcp::model::{ProtocolVersion, RequestMetaObject};
use rmcp::service::RequestContext;

use super::bell;
use crate::caller;

/// Fields of a call's `_meta` that name its session: Codex sends the first, goose the second.
const SESSION_FIELDS: [&str; 2] = ["threadId", "agent-session-id"];

/// How the fields of a call's `_meta` begin by which the newer generation says with each call who calls.
const NEWER_FIELDS: &str = "io.modelcontextprotocol/";

/// The kinds of clients that differ for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Moves a long call to the background by itself and wakes on its end.
    Claude,
    /// Gives a call five minutes, whatever progress it shows (Codex; goose has the same limit).
    FiveMinutes,
    /// Gives a call ten minutes.
    Gemini,
    /// Gives a call a minute, whatever progress it shows.
    OneMinute,
    /// Waits for ever, or as long as there is progress.
    Patient,
    /// Not known.
    Other,
}

/// Who makes one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Speaker {
    /// The session that is told, unless the call names one.
    pub(super) session: String,
    /// Whether it speaks the newer generation of the protocol.
    pub(super) is_modern: bool,
    /// Whether the client can take an MCP task for an answer, which wakes it at the end.
    pub(super) takes_tasks: bool,
    /// Whether the client asked for progress.
    shows_progress: bool,
    /// The Codex thread that can be told of an end by `codex queue`.
    pub(super) codex_thread: Option<String>,
    kind: Kind,
}

impl Speaker {
    /// The speaker of this call.
    pub(super) fn of(context: &RequestContext<RoleServer>) -> Self {
        let name = context.client_info().map(|info| info.name).unwrap_or_default();
        let is_modern = is_modern(context);
        let takes_tasks =
            is_modern && context.client_capabilities().is_some_and(|capabilities| capabilities.supports_tasks());
        let older = Self::of_older(&name, &context.meta, is_own_process(context));
        Self { is_modern, takes_tasks, ..older }
    }

    /// The same for a call that has come over stdin from a client that gave this name in the older handshake; nothing where the
    /// call says of itself what only the newer generation says.
    pub(super) fn of_process(name: &str, meta: &RequestMetaObject) -> Option<Self> {
        let is_newer = meta.0.0.keys().any(|key| key.starts_with(NEWER_FIELDS));
        (!is_newer).then(|| Self::of_older(name, meta, true))
    }

    fn of_older(name: &str, meta: &RequestMetaObject, is_own_process: bool) -> Self {
        let field = |name: &str| meta.0.0.get(name).and_then(|value| value.as_str()).map(str::to_owned);
        Self {
            is_modern: false,
            session: session(field, |name| env::var(name).ok().filter(|_| is_own_process)),
            takes_tasks: false,
            shows_progress: meta.get_progress_token().is_some(),
            codex_thread: field("threadId").filter(|_| name.starts_with("codex") && bell::is_possible()),
            kind: kind(name),
        }
    }

    /// How long a call of this client may block, with room for the answer to arrive.
    pub(super) fn limit(&self) -> Duration {
        match (self.kind, self.shows_progress) {
            (Kind::Claude | Kind::Patient, true) => Duration::from_hours(12),
            // Its limit for a call without a word is 30 minutes.
            (Kind::Claude, false) => Duration::from_mins(25),
            (Kind::FiveMinutes, _) | (Kind::Other, true) => Duration::from_mins(4),
            (Kind::Gemini, _) => Duration::from_mins(9),
            (Kind::OneMinute | Kind::Other | Kind::Patient, _) => Duration::from_secs(50),
        }
    }

    /// How this client will hear of the end of a task that it was just given the id of.
    pub(super) fn ear(&self, id: &str) -> String {
        if self.takes_tasks {
            return "this session is woken with the result when it ends; no need to wait or poll".to_owned();
        }
        if self.codex_thread.is_some() {
            return format!("this thread gets a message when it ends; wait {{\"ids\":[\"{id}\"]}} blocks instead");
        }
        let wait = format!("wait {{\"ids\":[\"{id}\"]}} blocks until it ends");
        match self.kind {
            Kind::Claude => {
                format!("{wait} (a long wait moves to the background); every later result also lists its end")
            }
            _ => format!("{wait}; every later result also lists its end"),
        }
    }
}

/// The request as it came over HTTP, if it did.
#[cfg(feature = "mcp-http")]
pub(super) fn over_http(context: &RequestContext<RoleServer>) -> Option<&hyper::http::request::Parts> {
    context.extensions.get()
}

/// Older generations know no tasks of this form, whatever they declare.
fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}

/// Whether this process serves one client alone, so that its environment is the client's.
#[cfg(feature = "mcp-http")]
fn is_own_process(context: &RequestContext<RoleServer>) -> bool {
    over_http(context).is_none()
}

#[cfg(not(feature = "mcp-http"))]
fn is_own_process(_: &RequestContext<RoleServer>) -> bool {
    true
}

fn session(field: impl Fn(&str) -> Option<String>, var: impl Fn(&str) -> Option<String>) -> String {
    let named = SESSION_FIELDS.iter().filter_map(|name| field(name)).find(|name| is_label(name));
    named.unwrap_or_else(|| caller::session(var))
}

/// The names are those that the programs give themselves in `clientInfo`.
fn kind(name: &str) -> Kind {
    let name = name.to_lowercase();
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    if starts(&["claude-code"]) {
        Kind::Claude
    } else if starts(&["codex", "goose"]) {
        Kind::FiveMinutes
    } else if starts(&["gemini"]) {
        Kind::Gemini
    } else if starts(&["cursor", "zed"]) {
        Kind::OneMinute
    } else if starts(&["opencode", "visual studio code"]) {
        Kind::Patient
    } else {
        Kind::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_names_its_session_before_the_process_does() {
        let check = |fields: &[(&str, &str)], vars: &[(&str, &str)]| {
            let find = |all: &[(&str, &str)], name: &str| {
                all.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned())
            };
            session(|name| find(fields, name), |name| find(vars, name))
        };
        assert_eq!(check(&[], &[]), "default");
        assert_eq!(check(&[], &[("RINGBACK_SESSION", "r")]), "r");
        assert_eq!(check(&[], &[("RINGBACK_SESSION", "r"), ("CLAUDE_CODE_SESSION_ID", "c")]), "r");
        assert_eq!(check(&[("threadId", "x")], &[("CLAUDE_CODE_SESSION_ID", "c")]), "x");
        assert_eq!(check(&[("threadId", "")], &[("RINGBACK_SESSION", "two\nlines")]), "default");
    }

    #[test]
    fn a_wait_is_over_before_the_clients_patience_is() {
        let limit = |name: &str, shows_progress| {
            let kind = kind(name);
            let session = String::new();
            Speaker { session, is_modern: false, takes_tasks: false, shows_progress, codex_thread: None, kind }
                .limit()
                .as_secs()
        };
        assert!(limit("codex-mcp-client", true) <= 240);
        assert!(limit("Zed", true) < 60 && limit("somebody", false) < 60);
        assert!(limit("gemini-cli-mcp-client", true) < 600);
        assert!(limit("claude-code", false) < 30 * 60 && limit("claude-code", true) > 3600);
    }
}
