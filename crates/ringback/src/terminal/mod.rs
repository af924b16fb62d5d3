//! The terminal of a task, as doors reach it: its size, and the keys that are pressed there.

mod keys;
mod raw;

use std::io;

use ringback_host::wire::{TaskObject, TerminalSize};
use ringback_sys::terminal;

use crate::explain::Failure;
use crate::output::cursor_keys_are_application;
pub(crate) use keys::{Key, parse};
pub(crate) use raw::Lent;

/// Columns and rows, written like `80x24`.
pub(crate) fn parse_size(text: &str) -> Result<TerminalSize, String> {
    let numbers = text.split_once(['x', 'X']).map(|(columns, rows)| (columns.parse(), rows.parse()));
    match numbers {
        Some((Ok(columns @ 1..), Ok(rows @ 1..))) => Ok(TerminalSize { columns, rows }),
        _ => Err("write columns and rows like 80x24, each 1 to 65535".to_owned()),
    }
}

/// How large the terminal is that we were started from, if any.
pub(crate) fn own_size() -> Option<TerminalSize> {
    let sizes = [terminal::size(io::stdout()), terminal::size(io::stderr()), terminal::size(io::stdin())];
    let size = sizes.into_iter().flatten().next()?;
    Some(TerminalSize { columns: size.columns, rows: size.rows })
}

/// The bytes that these keys are at a terminal of no particular mode.
pub(crate) fn bytes_of(keys: &[Key]) -> Vec<u8> {
    keys::encode(keys, false)
}

/// The bytes of keys for the terminal of this task.
pub(crate) fn encode(keys: &[Key], task: &TaskObject) -> Result<Vec<u8>, Failure> {
    if task.pty.is_none() {
        let hint =
            "start it with `ringback run --pty` to press keys; `ringback kill --signal INT` sends a signal to any task";
        return Err(Failure::new("no_terminal", format!("{} has no terminal", task.id), Some(hint.to_owned())));
    }
    let is_application = keys.iter().any(|key| matches!(key, Key::Cursor(_))) && cursor_keys_are_application(task)?;
    Ok(keys::encode(keys, is_application))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_two_numbers() {
        assert_eq!(parse_size("132x50"), Ok(TerminalSize { columns: 132, rows: 50 }));
        for wrong in ["80", "0x24", "80x", "80x24x1", "70000x24", "-1x2"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }
}
