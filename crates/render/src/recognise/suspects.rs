//! Lines that look like errors although no known tool wrote them.

use super::Recogniser;

/// What systems and shells say when something goes wrong.
const PHRASES: [&str; 13] = [
    "No such file or directory",
    "Permission denied",
    "permission denied",
    "No space left on device",
    "command not found",
    "Segmentation fault",
    "core dumped",
    "Out of memory",
    "out of memory",
    "Connection refused",
    "Address already in use",
    "npm ERR!",
    ": not found",
];

pub(super) fn line(to: &mut Recogniser, number: u64, text: &str) -> bool {
    // A word alone is a heading.
    let has_words = text.split_whitespace().nth(1).is_some();
    let is_suspect = has_words
        && !is_calm(text)
        && (PHRASES.iter().any(|phrase| text.contains(phrase))
            || ["error", "fatal", "failed", "failure"].iter().any(|word| says(text, word))
            || text.contains("FAILED")
            || has_exception(text));
    if is_suspect {
        to.found.suspect(number, text);
    }
    is_suspect
}

/// Whether a log says itself that the line is nothing bad.
fn is_calm(text: &str) -> bool {
    let head = crate::text::clip(text, 80);
    ["INFO", "DEBUG", "TRACE", "level=info", "level=debug", "\"level\":\"info\""]
        .iter()
        .any(|level| head.contains(level))
}

/// `ValueError: …`, `java.io.IOException: …`.
fn has_exception(text: &str) -> bool {
    text.split_once(": ").is_some_and(|(name, _)| {
        (name.ends_with("Error") || name.ends_with("Exception")) && name.len() <= 120 && !name.contains(' ')
    })
}

/// Whether the word stands here for itself (not in `thiserror`, `error.rs`, `0 errors`), small, capital, or all capitals.
fn says(text: &str, word: &str) -> bool {
    let first = &word[..1];
    let forms = [word.to_owned(), first.to_uppercase() + &word[1..], word.to_uppercase()];
    forms.iter().any(|form| {
        text.match_indices(form.as_str()).any(|(at, _)| {
            let before = &text[..at];
            let after = text[at + form.len()..].strip_prefix(['s', 'S']).unwrap_or(&text[at + form.len()..]);
            let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '/' | '.' | '=');
            let is_word = !before.ends_with(is_part) && !after.starts_with(|c| is_part(c) && c != '.' && c != '=');
            let is_file = after.starts_with('.') && after[1..].starts_with(char::is_alphanumeric);
            let last = before.trim_end().rsplit([' ', '(', '[', ',']).next().unwrap_or_default();
            let is_none = matches!(last, "0" | "no" | "No" | "without" | "on" | "if" | "any")
                || after.trim_start_matches([':', '=', ' ']).starts_with('0');
            is_word && !is_file && !is_none
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_told_from_its_word() {
        for text in
            ["Error: cannot find module", "fatal: not a git repository", "ERROR: 3 tests failed", "3 errors found"]
        {
            assert!(says(text, "error") || says(text, "fatal"), "{text}");
        }
        for text in [
            "   Compiling thiserror v2",
            "0 errors, 0 warnings",
            "no errors",
            "src/error.rs",
            "errors: 0",
            "--error-limit",
        ] {
            assert!(!says(text, "error"), "{text}");
        }
        assert!(has_exception("ValueError: bad"));
        assert!(is_calm("2026-01-01 INFO retry after error"));
    }
}
