//! An output that cannot be read: why, and what can be done.

use std::io;
use std::path::Path;

use crate::wire::TaskObject;

/// Why an output cannot be read, with what can be done: what an [`io::Error`] of [`super::Output::open`] has in it.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub struct Unreadable {
    why: String,
    hint: String,
}

impl Unreadable {
    pub(super) fn error(kind: io::ErrorKind, why: String, hint: String) -> io::Error {
        io::Error::new(kind, Self { why, hint })
    }

    /// For what lies in the place of an output.
    pub(super) fn look(task: &TaskObject, path: &Path) -> String {
        let path = path.to_string_lossy();
        let word = shlex::try_quote(&path).unwrap_or_else(|_| path.clone());
        format!(
            "`ls -ld {word}` shows what lies there; `ringback show {}` says how the task stands, whatever it is",
            task.id
        )
    }

    /// What can be done next, if that is what is wrong.
    pub fn hint_of(error: &io::Error) -> Option<&str> {
        error.get_ref()?.downcast_ref::<Self>().map(|unreadable| unreadable.hint.as_str())
    }
}
