//! Compilers and linters that write `path:line:column: error: …` and its relatives.

use super::{Diagnostic, Open, Recogniser, Severity};
use crate::text::Place;

pub(super) fn line(to: &mut Recogniser, number: u64, text: &str) -> bool {
    let found = annotation(number, text)
        .or_else(|| colon(number, text))
        .or_else(|| typescript(number, text))
        .or_else(|| linker(number, text))
        .or_else(|| coded(number, text))
        .or_else(|| eslint(to, number, text))
        .or_else(|| maven(number, text));
    let Some(diagnostic) = found else { return ruff_full(to, number, text) };
    if to.is_thorough || diagnostic.severity == Severity::Error {
        to.found.diagnostic(diagnostic);
    }
    true
}

/// The line after a message: `--> src/lib.rs:9:26`.
pub(super) fn arrow(to: &mut Recogniser, diagnostic: usize, text: &str) -> (Open, bool) {
    let Some(place) = text.trim_start().strip_prefix("--> ").and_then(Place::parse) else {
        return (Open::Nothing, false);
    };
    let found = &mut to.found.diagnostics[diagnostic];
    if found.source == "text" {
        found.source = "rustc";
    }
    found.set_place(Some(place));
    (Open::Nothing, true)
}

/// GitHub's `::error file=a.js,line=1,col=5::message`.
fn annotation(number: u64, text: &str) -> Option<Diagnostic> {
    let rest = text.trim_start().strip_prefix("::")?;
    let (head, message) = rest.split_once("::")?;
    let (kind, properties) = head.split_once(' ').unwrap_or((head, ""));
    let severity = match kind {
        "error" => Severity::Error,
        "warning" => Severity::Warning,
        _ => return None,
    };
    let property = |name: &str| {
        let mut pairs = properties.split(',').filter_map(|pair| pair.split_once('='));
        pairs.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
    };
    let number_of = |name| property(name).and_then(|value| value.parse().ok());
    let place = property("file").map(|path| Place { path, line: number_of("line"), column: number_of("col") });
    Some(Diagnostic::new("GitHub annotation", number, severity, message).at(place))
}

/// gcc, clang, javac, swiftc, mypy, and many others.
fn colon(number: u64, text: &str) -> Option<Diagnostic> {
    const WORDS: [(&str, Severity); 4] = [
        (": error: ", Severity::Error),
        (": fatal error: ", Severity::Error),
        (": error[", Severity::Error),
        (": warning: ", Severity::Warning),
    ];
    let (place, word, message, severity) = WORDS.iter().find_map(|(word, severity)| {
        let (place, message) = text.split_once(word)?;
        Some((place, *word, message, *severity))
    })?;
    let place = Place::parse(place).or_else(|| Place::parse_bracketed(place))?;
    let message =
        if word.ends_with('[') { message.split_once("]: ").map_or(message, |(_, rest)| rest) } else { message };
    Some(Diagnostic::new("compiler", number, severity, message).at(Some(place)))
}

/// tsc: `a.ts(12,5): error TS2345: …`, or for people `a.ts:12:5 - error TS2345: …`. The Microsoft compilers write the first.
fn typescript(number: u64, text: &str) -> Option<Diagnostic> {
    let (place, rest) = if let Some((place, rest)) = text.split_once(" - error ") {
        (Place::parse(place)?, rest)
    } else {
        let (place, rest) = text.split_once("): error ")?;
        (Place::parse_bracketed(&format!("{place})"))?, rest)
    };
    let (code, message) = rest.split_once(": ")?;
    let source = if code.starts_with("TS") { "tsc" } else { "compiler" };
    let diagnostic = Diagnostic::new(source, number, Severity::Error, message).at(Some(place));
    Some(Diagnostic { code: Some(code.to_owned()), ..diagnostic })
}

fn linker(number: u64, text: &str) -> Option<Diagnostic> {
    let at = text.find("undefined reference to ").or_else(|| text.find("undefined symbol: "))?;
    Some(Diagnostic::new("linker", number, Severity::Error, &text[at..]))
}

/// ruff, flake8 and pylint: `a.py:1:8: F401 …`.
fn coded(number: u64, text: &str) -> Option<Diagnostic> {
    let (place, rest) = text.split_once(": ")?;
    let place = Place::parse(place).filter(|place| place.is_of("py") && place.column.is_some())?;
    let (code, message) = rest.split_once([' ', ':'])?;
    if !is_code(code) {
        return None;
    }
    let diagnostic = Diagnostic::new("linter", number, Severity::Error, message).at(Some(place));
    Some(Diagnostic { code: Some(code.to_owned()), ..diagnostic })
}

/// `F401`, `PLR0913`: letters, then digits.
fn is_code(word: &str) -> bool {
    let digits = word.trim_start_matches(|c: char| c.is_ascii_uppercase());
    (1..=4).contains(&(word.len() - digits.len()))
        && (2..=5).contains(&digits.len())
        && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// ruff's long form: `F401 [*] …`, and on the next line where.
fn ruff_full(to: &mut Recogniser, number: u64, text: &str) -> bool {
    let Some((code, message)) = text.split_once(' ') else { return false };
    if !is_code(code) || !to.is_thorough {
        return false;
    }
    let diagnostic = Diagnostic::new("linter", number, Severity::Error, message.trim_start_matches("[*] "));
    let diagnostic = to.found.diagnostic(Diagnostic { code: Some(code.to_owned()), ..diagnostic });
    if let Some(diagnostic) = diagnostic {
        to.begin(Open::Arrow { diagnostic });
    }
    true
}

/// eslint: `  12:5  error  message  rule`, under a line with the path.
fn eslint(to: &Recogniser, number: u64, text: &str) -> Option<Diagnostic> {
    if !text.starts_with(' ') {
        return None;
    }
    let (at, rest) = text.trim_start().split_once(' ')?;
    let (line, column) = at.split_once(':')?;
    let (line, column) = (line.parse().ok()?, column.parse().ok()?);
    let (kind, message) = rest.trim_start().split_once("  ")?;
    let severity = match kind.trim() {
        "error" => Severity::Error,
        "warning" => Severity::Warning,
        _ => return None,
    };
    let path = to.heading.trim();
    let place = path.contains('.').then(|| Place { path: path.to_owned(), line: Some(line), column: Some(column) });
    let words: Vec<&str> = message.trim().rsplitn(2, "  ").collect();
    let (message, code) = match words[..] {
        [rule, message] => (message, Some(rule.trim().to_owned())),
        _ => (message, None),
    };
    Some(Diagnostic { code, ..Diagnostic::new("eslint", number, severity, message).at(place) })
}

/// Maven: `[ERROR] /src/Foo.java:[12,5] cannot find symbol`.
fn maven(number: u64, text: &str) -> Option<Diagnostic> {
    let (path, rest) = text.strip_prefix("[ERROR] ")?.split_once(":[")?;
    let (at, message) = rest.split_once("] ")?;
    let (line, column) = at.split_once(',').unwrap_or((at, ""));
    let place = Place { path: path.to_owned(), line: Some(line.parse().ok()?), column: column.parse().ok() };
    Some(Diagnostic::new("maven", number, Severity::Error, message).at(Some(place)))
}
