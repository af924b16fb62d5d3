//! Modes of a terminal that a program has set in its output, looked for from the end.

use std::io;

use ringback_host::client::output::Output;
use ringback_host::wire::TaskObject;

/// How far back it is looked; who set a mode before that is taken not to have.
const LOOK_BACK_BYTES: u64 = 16 << 20;
/// How much is read at once.
const BLOCK_BYTES: u64 = 256 << 10;
/// How long a sequence is at most; one that lies over two blocks is found in the second look.
const SEQUENCE_BYTES: u64 = 64;
/// Cursor keys send what applications expect (DECCKM).
const CURSOR_KEYS: [&[u8]; 1] = [b"1"];
/// The second screen, under its three names.
const ALTERNATE: [&[u8]; 3] = [b"47", b"1047", b"1049"];

/// Whether the program wants cursor keys as applications do.
pub(crate) fn cursor_keys_are_application(task: &TaskObject) -> io::Result<bool> {
    let Some(mut output) = Output::open(task)? else { return Ok(false) };
    let length = output.len()?;
    is_set(&mut output, length, &CURSOR_KEYS)
}

/// Whether a full-screen program has the second screen, after the first `end` bytes.
pub(super) fn is_alternate(output: &mut Output, end: u64) -> io::Result<bool> {
    is_set(output, end, &ALTERNATE)
}

fn is_set(output: &mut Output, end: u64, modes: &[&[u8]]) -> io::Result<bool> {
    let (mut high, floor) = (end, end.saturating_sub(LOOK_BACK_BYTES));
    while high > floor {
        let low = high.saturating_sub(BLOCK_BYTES).max(floor);
        let bytes = output.read(low..high.saturating_add(SEQUENCE_BYTES).min(end))?;
        if let Some(is_set) = last_set(&bytes, modes) {
            return Ok(is_set);
        }
        high = low;
    }
    Ok(false)
}

/// Whether the last `ESC [ ? … h` or `l` with one of these modes sets it; nothing if there is none.
fn last_set(bytes: &[u8], modes: &[&[u8]]) -> Option<bool> {
    let starts = bytes.windows(3).enumerate().rev().filter(|(_, window)| *window == b"\x1b[?");
    starts.map(|(at, _)| &bytes[at + 3..]).find_map(|rest| {
        let end = rest.iter().take(64).position(|byte| !matches!(byte, b'0'..=b'9' | b';'))?;
        let is_meant = rest[..end].split(|byte| *byte == b';').any(|number| modes.contains(&number));
        match rest[end] {
            b'h' if is_meant => Some(true),
            b'l' if is_meant => Some(false),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_on_a_mode_counts() {
        let check = |text: &[u8]| last_set(text, &CURSOR_KEYS);
        assert_eq!(check(b"no"), None);
        assert_eq!(check(b"\x1b[?1049h\x1b[?25l"), None);
        assert_eq!(check(b"\x1b[?1h\x1b=text\x1b[?25l"), Some(true));
        assert_eq!(check(b"\x1b[?25;1h text \x1b[?1l\x1b[?12h"), Some(false));
        assert_eq!(check(b"\x1b[?1"), None);
    }
}
