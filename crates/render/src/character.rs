//! What a character does on the screen: how wide it is, or that it must not be shown at all.

use unicode_width::UnicodeWidthChar as _;

/// How many columns this character takes; nothing if it is never shown.
///
/// Not shown are controls, the marks that turn the direction of text (a line could read as another than it is), and
/// characters made to carry unseen text.
pub(crate) fn width(c: char) -> Option<usize> {
    match c {
        ' '..='~' => Some(1),
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => None,
        _ if is_unseen(c) => None,
        _ => c.width(),
    }
}

/// Whether nobody should be shown this character: bidi controls, tags, fillers and the like.
fn is_unseen(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}'
        | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}')
}

/// Whether these bytes show as themselves: printable ASCII and tabs.
pub(crate) fn is_plain(bytes: &[u8]) -> bool {
    // Without an early return the compiler makes vector code of each chunk.
    bytes
        .chunks(64)
        .all(|chunk| chunk.iter().fold(0, |odd, byte| odd | u8::from(!matches!(byte, b' '..=b'~' | b'\t'))) == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_deceive_is_not_shown() {
        for c in ['\u{202e}', '\u{2066}', '\u{feff}', '\u{e0041}', '\u{1b}', '\u{7f}', '\u{9b}', '\u{200b}'] {
            assert_eq!(width(c), None, "{:x}", u32::from(c));
        }
        assert_eq!(width('a'), Some(1));
        assert_eq!(width('你'), Some(2));
        assert_eq!(width('\u{301}'), Some(0));
        assert_eq!(width('\u{fffd}'), Some(1));
    }

    #[test]
    fn plain_is_ascii_without_controls() {
        assert!(is_plain(b"cc -o a\tb.c"));
        assert!(!is_plain(&[&[b'x'; 200][..], b"\x1b"].concat()));
        assert!(!is_plain("é".as_bytes()));
    }
}
