//! Text of strangers made harmless: no control byte of it reaches a terminal or an agent.

use ringback_core::character::is_hostile;

/// One line: every control character is shown, not obeyed.
pub(crate) fn line(text: &str) -> String {
    cleaned(text, |_| false)
}

/// Several lines: as [`line()`], with newlines and tabs kept.
pub(crate) fn block(text: &str) -> String {
    cleaned(text, |c| c == '\n' || c == '\t')
}

/// At most `width` characters of one line; what is cut off is marked.
pub(crate) fn short(text: &str, width: usize) -> String {
    let text = line(text);
    if text.chars().count() <= width {
        return text;
    }
    let mut cut: String = text.chars().take(width.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

fn cleaned(text: &str, keep: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if keep(c) => out.push(c),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if is_hostile(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_and_not_obeyed() {
        assert_eq!(line("a\x1b[31mb\nc\td"), "a\\u{1b}[31mb\\nc\\td");
        assert_eq!(line("x\u{202e}y\u{9b}z"), "x\\u{202e}y\\u{9b}z");
        assert_eq!(block("a\n\tb\x07"), "a\n\tb\\u{7}");
        assert_eq!(line("Grüße 日本"), "Grüße 日本");
    }

    #[test]
    fn long_text_is_cut_with_a_mark() {
        assert_eq!(short("abcdef", 6), "abcdef");
        assert_eq!(short("abcdefg", 6), "abcde…");
    }
}
