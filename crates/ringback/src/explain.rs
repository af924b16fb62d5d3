//! From an error to what the reader gets: message, hint, exit code, JSON.

use std::error::Error;
use std::io;

use ringback_host::client::ClientError;
use ringback_host::client::output::Unreadable;
use ringback_host::config::ConfigError;
use ringback_host::home::HomeError;
use ringback_host::wire::Fault;
use serde_json::{Value, json};

use crate::render::json::document;

/// ringback itself failed.
pub(crate) const EXIT_FAILED: u8 = 125;
/// The command line is wrong.
pub(crate) const EXIT_USAGE: u8 = 2;
/// A pipe of ours was closed by its reader: what the shell shows for a program that SIGPIPE ended.
pub(crate) const EXIT_PIPE: u8 = 141;
/// The wait was over before the task.
pub(crate) const EXIT_TIMED_OUT: u8 = 124;
/// The person pressed Ctrl-C.
pub(crate) const EXIT_INTERRUPTED: u8 = 130;

/// Faults of the daemon that are about the words of the command line, which only it can judge.
const USAGE_FAULTS: [&str; 11] = [
    "bad_command",
    "bad_cwd",
    "bad_label",
    "bad_pattern",
    "bad_progress",
    "bad_pty",
    "bad_session",
    "bad_signal",
    "bad_timeout",
    "bad_word",
    "empty_command",
];

/// What a verb ends with: an exit code, or a failure to explain.
pub(crate) type Done = Result<u8, Failure>;

/// Why a verb could not do its work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// A word that programs can compare.
    pub(crate) code: String,
    /// What failed, to what.
    pub(crate) message: String,
    /// What can be run or changed next.
    pub(crate) hint: Option<String>,
    /// What the process exits with.
    pub(crate) exit: u8,
}

impl Failure {
    /// A failure of the command line.
    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { code: "usage".to_owned(), message: message.into(), hint: Some(hint.into()), exit: EXIT_USAGE }
    }

    /// A failure of ringback.
    pub(crate) fn new(code: &str, message: impl Into<String>, hint: Option<String>) -> Self {
        Self { code: code.to_owned(), message: plain(&message.into()), hint, exit: EXIT_FAILED }
    }

    /// A failure of ringback with the causes of this error.
    pub(crate) fn of(code: &str, error: &dyn Error, hint: Option<String>) -> Self {
        Self::new(code, chain(error), hint)
    }

    /// Whether the reader of our output went away, which nobody needs to be told.
    pub(crate) fn is_quiet(&self) -> bool {
        self.exit == EXIT_PIPE
    }

    /// The same as one JSON document.
    pub(crate) fn json(&self) -> Value {
        document(json!({ "code": self.code, "message": self.message, "hint": self.hint }))
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let (code, hint) = (error.code().to_owned(), error.hint());
        let exit = if USAGE_FAULTS.contains(&code.as_str()) { EXIT_USAGE } else { EXIT_FAILED };
        Self { code, message: chain(&error), hint, exit }
    }
}

impl From<HomeError> for Failure {
    fn from(error: HomeError) -> Self {
        ClientError::from(error).into()
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        ClientError::from(error).into()
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        ClientError::Fault(fault).into()
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        let exit = if error.kind() == io::ErrorKind::BrokenPipe { EXIT_PIPE } else { EXIT_FAILED };
        let hint = Unreadable::hint_of(&error).map(str::to_owned);
        Self { code: "io".to_owned(), message: chain(&error), hint, exit }
    }
}

/// The error and its causes in one line, without what the system's numbers repeat.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    plain(&text)
}

/// The text without the system's numbers: `(os error 2)`.
fn plain(text: &str) -> String {
    let mut left = text;
    let mut all = String::with_capacity(text.len());
    while let Some((before, after)) = left.split_once(" (os error ") {
        let digits = after.trim_start_matches(|c: char| c.is_ascii_digit());
        let Some(rest) = digits.strip_prefix(')') else { break };
        all.push_str(before);
        left = rest;
    }
    all + left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_act_the_thing_and_the_cause() {
        let source = io::Error::from_raw_os_error(13);
        let failure = Failure::from(HomeError::Io { path: "/h".into(), source });
        assert_eq!(failure.message, "cannot prepare home /h: Permission denied");
        assert_eq!((failure.code.as_str(), failure.exit), ("home", 125));
        assert!(failure.hint.is_some());
        let inside = Failure::new("io", "cannot read a: gone (os error 2): or so", None);
        assert_eq!(inside.message, "cannot read a: gone: or so");
        let fault = Fault { code: "unknown_id".to_owned(), message: "no task `x`".to_owned(), hint: None };
        assert_eq!(
            Failure::from(fault).json(),
            json!({"schema": 1, "code": "unknown_id", "message": "no task `x`", "hint": null})
        );
    }

    #[test]
    fn what_the_daemon_says_of_the_words_is_wrong_usage() {
        let exit = |code: &str| Failure::from(Fault { code: code.to_owned(), message: String::new(), hint: None }).exit;
        for code in ["bad_pattern", "bad_label", "bad_session", "empty_command", "bad_cwd", "bad_timeout", "bad_word"] {
            assert_eq!(exit(code), EXIT_USAGE, "{code}");
        }
        assert!(exit("store_full") == EXIT_FAILED && exit("unknown_id") == EXIT_FAILED);
    }

    #[test]
    fn a_reader_that_left_is_no_news() {
        assert!(Failure::from(io::Error::from(io::ErrorKind::BrokenPipe)).is_quiet());
    }
}
