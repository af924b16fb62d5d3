//! Keys by name, as the bytes that a terminal sends for them (the sequences of xterm; names as tmux and docker have them).

/// A key, or what stands for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// Always the same bytes.
    Bytes(Vec<u8>),
    /// An arrow, Home or End by its last letter: what comes before it depends on the mode that the program has set.
    Cursor(u8),
}

/// Names of single bytes.
const BYTES: [(&str, u8); 14] = [
    ("enter", b'\r'),
    ("return", b'\r'),
    ("cr", b'\r'),
    ("tab", b'\t'),
    ("escape", 0x1b),
    ("esc", 0x1b),
    ("space", b' '),
    ("backspace", 0x7f),
    ("bspace", 0x7f),
    ("comma", b','),
    ("minus", b'-'),
    ("dash", b'-'),
    ("lf", b'\n'),
    ("nul", 0),
];

/// Keys with `ESC [` or `ESC O` and a letter.
const CURSOR: [(&str, u8); 6] =
    [("up", b'A'), ("down", b'B'), ("right", b'C'), ("left", b'D'), ("end", b'F'), ("home", b'H')];

/// Keys with `ESC [`, a number and `~`.
const NUMBERED: [(&str, u8); 21] = [
    ("insert", 2),
    ("ins", 2),
    ("ic", 2),
    ("delete", 3),
    ("del", 3),
    ("dc", 3),
    ("pageup", 5),
    ("pgup", 5),
    ("ppage", 5),
    ("pagedown", 6),
    ("pgdn", 6),
    ("pgdown", 6),
    ("npage", 6),
    ("f5", 15),
    ("f6", 17),
    ("f7", 18),
    ("f8", 19),
    ("f9", 20),
    ("f10", 21),
    ("f11", 23),
    ("f12", 24),
];

/// Keys with `ESC O` and a letter.
const FUNCTION: [(&str, u8); 4] = [("f1", b'P'), ("f2", b'Q'), ("f3", b'R'), ("f4", b'S')];

/// What is held down with a key.
#[derive(Clone, Copy, Default)]
struct Held {
    shift: bool,
    alt: bool,
    ctrl: bool,
}

impl Held {
    fn is_any(self) -> bool {
        self.shift || self.alt || self.ctrl
    }

    /// The number that xterm puts into the sequence of such a key.
    fn number(self) -> u8 {
        1 + u8::from(self.shift) + 2 * u8::from(self.alt) + 4 * u8::from(self.ctrl)
    }
}

/// Reads keys like `ctrl-c,up,enter`.
pub(crate) fn parse(text: &str) -> Result<Vec<Key>, String> {
    text.split(',').map(one).collect()
}

/// The bytes of these keys, for a program that has set the cursor keys to the mode of applications or has not.
pub(crate) fn encode(keys: &[Key], is_application: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    for key in keys {
        match key {
            Key::Bytes(own) => bytes.extend_from_slice(own),
            Key::Cursor(letter) => bytes.extend_from_slice(&[0x1b, if is_application { b'O' } else { b'[' }, *letter]),
        }
    }
    bytes
}

fn one(text: &str) -> Result<Key, String> {
    let (held, name) = held(text);
    let mut characters = name.chars();
    if let (Some(character), None) = (characters.next(), characters.next()) {
        return character_key(character, held).ok_or_else(|| unknown(text));
    }
    let lower = name.to_ascii_lowercase();
    let find = |table: &[(&str, u8)]| table.iter().find(|(known, _)| *known == lower).map(|(_, value)| *value);
    if lower == "btab" || lower == "backtab" || (lower == "tab" && held.shift) {
        return Ok(Key::Bytes(b"\x1b[Z".to_vec()));
    }
    if let Some(byte) = find(&BYTES) {
        return byte_key(byte, held).ok_or_else(|| unknown(text));
    }
    if let Some(letter) = find(&CURSOR) {
        return Ok(if held.is_any() { modified(1, held, letter) } else { Key::Cursor(letter) });
    }
    if let Some(number) = find(&NUMBERED) {
        return Ok(if held.is_any() {
            modified(number, held, b'~')
        } else {
            Key::Bytes(format!("\x1b[{number}~").into())
        });
    }
    match find(&FUNCTION) {
        Some(letter) if held.is_any() => Ok(modified(1, held, letter)),
        Some(letter) => Ok(Key::Bytes(vec![0x1b, b'O', letter])),
        None => Err(unknown(text)),
    }
}

/// Takes off what is held down: `ctrl-`, `alt-`, `shift-`, tmux's `C-`, `M-`, `S-`, and `^`.
fn held(text: &str) -> (Held, &str) {
    const PREFIXES: [(&str, char); 7] =
        [("ctrl-", 'c'), ("c-", 'c'), ("alt-", 'a'), ("meta-", 'a'), ("m-", 'a'), ("shift-", 's'), ("s-", 's')];
    let (mut held, mut rest) = (Held::default(), text);
    loop {
        let found = PREFIXES.iter().find_map(|(prefix, which)| {
            let start = rest.get(..prefix.len()).filter(|start| start.eq_ignore_ascii_case(prefix))?;
            rest.get(start.len()..).filter(|left| !left.is_empty()).map(|left| (*which, left))
        });
        let caret = rest.strip_prefix('^').filter(|left| !left.is_empty()).map(|left| ('c', left));
        let Some((which, left)) = found.or(caret) else { return (held, rest) };
        match which {
            'c' => held.ctrl = true,
            'a' => held.alt = true,
            _ => held.shift = true,
        }
        rest = left;
    }
}

fn character_key(character: char, held: Held) -> Option<Key> {
    let mut bytes = Vec::new();
    if held.alt {
        bytes.push(0x1b);
    }
    if held.ctrl {
        bytes.push(control(character)?);
    } else {
        let character = if held.shift { character.to_ascii_uppercase() } else { character };
        bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    }
    Some(Key::Bytes(bytes))
}

fn byte_key(byte: u8, held: Held) -> Option<Key> {
    let byte = match byte {
        b' ' if held.ctrl => 0,
        b'-' if held.ctrl => 0x1f,
        0x7f if held.ctrl => 8,
        _ if held.ctrl => return None,
        byte => byte,
    };
    Some(Key::Bytes(if held.alt { vec![0x1b, byte] } else { vec![byte] }))
}

/// What a terminal sends for a character with Ctrl.
fn control(character: char) -> Option<u8> {
    match character.to_ascii_lowercase() {
        letter @ 'a'..='z' => u8::try_from(letter).ok().map(|byte| byte - b'a' + 1),
        '@' | ' ' | '2' => Some(0),
        '[' | '3' => Some(0x1b),
        '\\' | '4' => Some(0x1c),
        ']' | '5' => Some(0x1d),
        '^' | '6' => Some(0x1e),
        '_' | '/' | '7' => Some(0x1f),
        '?' | '8' => Some(0x7f),
        _ => None,
    }
}

fn modified(number: u8, held: Held, last: u8) -> Key {
    Key::Bytes(format!("\x1b[{number};{}{}", held.number(), char::from(last)).into())
}

fn unknown(text: &str) -> String {
    let shown = crate::render::clean::short(text, 20);
    format!(
        "`{shown}` is no key; write keys like ctrl-c, enter, up, f5, alt-x, or one character, with commas between them"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Vec<u8> {
        encode(&parse(text).unwrap(), false)
    }

    #[test]
    fn names_are_those_of_terminals_tmux_and_docker() {
        for (text, expected) in [
            ("ctrl-c", &b"\x03"[..]),
            ("C-c", b"\x03"),
            ("^C", b"\x03"),
            ("ctrl-p,ctrl-q", b"\x10\x11"),
            ("ctrl-]", b"\x1d"),
            ("ctrl-space", b"\0"),
            ("ctrl-\\", b"\x1c"),
            ("enter", b"\r"),
            ("Escape", b"\x1b"),
            ("up", b"\x1b[A"),
            ("Home,End", b"\x1b[H\x1b[F"),
            ("ctrl-left", b"\x1b[1;5D"),
            ("shift-up", b"\x1b[1;2A"),
            ("PPage", b"\x1b[5~"),
            ("shift-delete", b"\x1b[3;2~"),
            ("f1,f5,F12", b"\x1bOP\x1b[15~\x1b[24~"),
            ("shift-tab,btab", b"\x1b[Z\x1b[Z"),
            ("alt-x,M-enter", b"\x1bx\x1b\r"),
            ("y,comma,-,^", b"y,-^"),
            ("\u{e9}", "\u{e9}".as_bytes()),
            ("backspace,ctrl-backspace", b"\x7f\x08"),
            ("C-M-a", b"\x1b\x01"),
        ] {
            assert_eq!(bytes(text), expected, "{text}");
        }
    }

    #[test]
    fn arrows_follow_the_mode_of_the_program() {
        let keys = parse("up,ctrl-up,left").unwrap();
        assert_eq!(encode(&keys, true), b"\x1bOA\x1b[1;5A\x1bOD");
    }

    #[test]
    fn what_is_no_key_is_named() {
        for wrong in ["", "hello", "ctrl-enter", "ctrl-\u{e9}", "f13", "up,,down", "ctrl-"] {
            let error = parse(wrong).unwrap_err();
            assert!(error.contains("is no key") && error.contains("ctrl-c"), "{wrong}: {error}");
        }
    }
}
