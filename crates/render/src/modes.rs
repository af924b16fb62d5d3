//! Which modes a program has set at a terminal that is not its own, so that they can be taken back.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use vte::{Params, Perform};

/// Modes that are off unless a program turns them on, and what they would do to the next one: cursor keys, mouse reports,
/// focus reports, alternate screens, pasted text in brackets.
const OFF: [u16; 14] = [1, 9, 47, 1000, 1002, 1003, 1004, 1005, 1006, 1015, 1047, 1048, 1049, 2004];
/// Modes that are on: wrapping at the end of a line, the cursor.
const ON: [u16; 2] = [7, 25];
/// Keys of the number pad send numbers.
const KEYPAD: &str = "\u{1b}>";
/// The whole screen scrolls; the cursor stays.
const REGION: &str = "\u{1b}7\u{1b}[r\u{1b}8";
/// Letters are letters.
const CHARSET: &str = "\u{1b}(B\u{f}";
/// The cursor looks as usual.
const CURSOR_STYLE: &str = "\u{1b}[0 q";

/// Takes the bytes that go to a terminal, and knows what would have to be taken back.
#[derive(Default)]
pub struct Modes {
    parser: vte::Parser,
    changed: Changed,
    has_written: bool,
}

#[derive(Debug, Default)]
struct Changed {
    modes: BTreeSet<u16>,
    /// What takes back the rest.
    others: BTreeSet<&'static str>,
}

impl Changed {
    fn note(&mut self, other: &'static str, is_changed: bool) {
        if is_changed {
            self.others.insert(other);
        } else {
            self.others.remove(other);
        }
    }
}

impl Modes {
    /// Takes the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.has_written |= !bytes.is_empty();
        self.parser.advance(&mut self.changed, bytes);
    }

    /// What brings the terminal back to where it was, as far as programs change it; nothing if nothing was written.
    pub fn undo(&self) -> String {
        let Changed { modes, others } = &self.changed;
        // CAN ends a sequence that was cut (ECMA-48).
        let mut undo = if self.has_written { "\u{18}\u{1b}[0m".to_owned() } else { String::new() };
        let off = OFF.into_iter().rev().map(|mode| (mode, 'l'));
        for (mode, action) in off.chain(ON.map(|mode| (mode, 'h'))).filter(|(mode, _)| modes.contains(mode)) {
            // A String never refuses to grow.
            let _ = write!(undo, "\u{1b}[?{mode}{action}");
        }
        undo.extend(others.iter().copied());
        undo
    }

    /// What to write where nobody knows what was changed: it does no harm where nothing was.
    pub const UNDO_ALL: &'static str = "\u{18}\u{1b}[0m\u{1b}[?1l\u{1b}[?9l\u{1b}[?1000l\u{1b}[?1002l\u{1b}[?1003l\u{1b}[?1004l\u{1b}[?1005l\u{1b}[?1006l\
        \u{1b}[?1015l\u{1b}[?1047l\u{1b}[?2004l\u{1b}[?7h\u{1b}[?25h\u{1b}>\u{1b}(B\u{f}";
}

impl Perform for Changed {
    fn csi_dispatch(&mut self, params: &Params, intermediates: &[u8], _ignore: bool, action: char) {
        match (intermediates, action) {
            (b"?", 'h' | 'l') => {
                for mode in params.iter().filter_map(|param| param.first().copied()) {
                    let is_changed = (OFF.contains(&mode) && action == 'h') || (ON.contains(&mode) && action == 'l');
                    if is_changed {
                        self.modes.insert(mode);
                    } else {
                        self.modes.remove(&mode);
                    }
                }
            }
            (b"", 'r') => {
                self.note(REGION, params.iter().any(|param| param.first().is_some_and(|number| *number != 0)));
            }
            (b" ", 'q') => self.note(CURSOR_STYLE, true),
            (b"!", 'p') => *self = Self::default(),
            _ => {}
        }
    }

    fn esc_dispatch(&mut self, intermediates: &[u8], _ignore: bool, byte: u8) {
        match (intermediates, byte) {
            (b"", b'=') => self.note(KEYPAD, true),
            (b"", b'>') => self.note(KEYPAD, false),
            (b"", b'c') => *self = Self::default(),
            (b"(", byte) => self.note(CHARSET, byte != b'B'),
            _ => {}
        }
    }

    fn execute(&mut self, byte: u8) {
        // Shift out and shift in choose between two character sets.
        if matches!(byte, 0x0e | 0x0f) {
            self.note(CHARSET, byte == 0x0e);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn undo(bytes: &[u8]) -> String {
        let mut modes = Modes::default();
        for byte in bytes {
            modes.push(&[*byte]);
        }
        modes.undo()
    }

    #[test]
    fn only_what_was_changed_is_taken_back() {
        assert_eq!(undo(b""), "");
        assert_eq!(undo(b"text\r\n"), "\u{18}\u{1b}[0m");
        assert_eq!(undo(b"\x1b[?1049h\x1b[?25l paint"), "\u{18}\u{1b}[0m\u{1b}[?1049l\u{1b}[?25h");
        assert_eq!(undo(b"\x1b[?1049h\x1b[?1;25l\x1b[?1049l\x1b[?25h"), "\u{18}\u{1b}[0m");
        assert_eq!(
            undo(b"\x1b[?1000;1006;2004h\x1b="),
            "\u{18}\u{1b}[0m\u{1b}[?2004l\u{1b}[?1006l\u{1b}[?1000l\u{1b}>"
        );
        assert_eq!(undo(b"\x1b[2;10r\x1b(0"), "\u{18}\u{1b}[0m\u{1b}(B\u{f}\u{1b}7\u{1b}[r\u{1b}8");
        assert_eq!(undo(b"\x1b[?1049h\x1bc"), "\u{18}\u{1b}[0m");
    }
}
