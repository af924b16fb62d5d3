//! Who calls: the one rule of every door.
//!
//! The session that the call names, else the first of the variables that names one, else the one of the agent whose shell
//! this is, else `default`.

use std::ffi::OsStr;

use ringback_core::spec::{LABEL_BYTES_MAX, is_label};
use ringback_host::client::{Client, ClientError, Launcher};
use ringback_host::home::Home;
use ringback_host::wire::Caller;

/// The variable that names a session on purpose.
pub(crate) const OWN_VARIABLE: &str = "RINGBACK_SESSION";
/// The variables that name a session, in the order they are believed. Ours comes first: it is set on purpose, by a person or
/// by `ringback setup`, or by a task, and then what the task starts belongs to the task's session.
const SESSION_VARIABLES: [&str; 4] = [OWN_VARIABLE, "CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID", "GEMINI_SESSION_ID"];
/// The variables by which agents mark their shells without naming the conversation, and the session that `ringback setup`
/// gives to all conversations of each.
const MARKS: [(&str, &str); 2] = [("GEMINI_CLI", "gemini"), ("OPENCODE", "opencode")];
/// The session of everybody who names none.
const DEFAULT_SESSION: &str = "default";
/// Who stops things in the default session.
const PERSON: &str = "person";

/// The session that holds where the call names none. What cannot be the name of a session names none.
pub(crate) fn session(var: impl Fn(&str) -> Option<String>) -> String {
    let named = SESSION_VARIABLES.iter().filter_map(|name| var(name)).find(|value| is_label(value));
    let marked = || MARKS.iter().find(|(mark, _)| var(mark).is_some_and(|value| !value.is_empty()));
    named.unwrap_or_else(|| marked().map_or(DEFAULT_SESSION, |(_, session)| session).to_owned())
}

/// Why the variable that names the session on purpose does not name one; nothing if it does, or is not there. Taken for
/// not set, it would put everything into another session.
pub(crate) fn bad_name(value: Option<&OsStr>) -> Option<String> {
    let value = value.filter(|value| !value.is_empty())?;
    match value.to_str() {
        Some(text) if is_label(text) => None,
        Some(text) if text.len() > LABEL_BYTES_MAX => Some(format!("it is longer than {LABEL_BYTES_MAX} bytes")),
        Some(_) => Some("it has a control character in it".to_owned()),
        None => Some("it is not UTF-8".to_owned()),
    }
}

/// A client for this caller, and if no daemon runs this very program as one, whatever it is called.
pub(crate) fn client(home: &Home, caller: Caller) -> Result<Client, ClientError> {
    Client::open_with(home, caller, Launcher::own())
}

/// The caller that speaks for this session.
pub(crate) fn of(session: String) -> Caller {
    let by = if session == DEFAULT_SESSION { PERSON.to_owned() } else { session.clone() };
    Caller { session, by }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_session_is_ours_then_the_agents_then_default() {
        let check = |vars: &[(&str, &str)]| {
            session(|name| vars.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned()))
        };
        assert_eq!(check(&[]), "default");
        assert_eq!(check(&[("CLAUDE_CODE_SESSION_ID", "c"), ("RINGBACK_SESSION", "r")]), "r");
        assert_eq!(check(&[("CLAUDE_CODE_SESSION_ID", "c"), ("RINGBACK_SESSION", "")]), "c");
        assert_eq!(check(&[("GEMINI_SESSION_ID", "g"), ("CODEX_THREAD_ID", "x")]), "x");
        assert_eq!(check(&[("RINGBACK_SESSION", "two\nlines")]), "default");
        assert_eq!(check(&[("GEMINI_CLI", "1")]), "gemini");
        assert_eq!(check(&[("OPENCODE", "1"), ("RINGBACK_SESSION", "r")]), "r");
        assert_eq!(check(&[("GEMINI_CLI", "")]), "default");
    }

    #[test]
    fn a_variable_that_cannot_be_a_session_is_explained() {
        let check = |value: &str| bad_name(Some(OsStr::new(value)));
        assert_eq!((bad_name(None), check(""), check("s 1")), (None, None, None));
        assert!(check("two\nlines").unwrap().contains("control"));
        assert!(check(&"x".repeat(257)).unwrap().contains("256 bytes"));
    }

    #[test]
    fn a_stop_is_by_the_session_and_in_default_by_a_person() {
        assert_eq!(of("default".to_owned()).by, "person");
        assert_eq!(of("s1".to_owned()), Caller { session: "s1".to_owned(), by: "s1".to_owned() });
    }
}
