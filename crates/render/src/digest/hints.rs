//! Hints, each from evidence that is there; without it nothing is guessed.

use super::calls::Calls;
use super::edges::Edges;
use super::verdict::{Verdict, duration_text};

/// Silence after which it is worth a word.
const SILENCE_MS: u64 = 30_000;
/// The block in which the C library and others hold back output that goes to no terminal.
const STDIO_BLOCK: u64 = 4096;

pub(super) fn hints(verdict: &Verdict<'_>, edges: &Edges, bytes: u64, calls: Calls) -> Vec<String> {
    let mut hints = Vec::new();
    if let (Some(0), Some(script)) = (verdict.exit_code, verdict.script) {
        hints.extend(script_hint(script).map(str::to_owned));
    }
    hints.extend(verdict.exit_code.and_then(code_hint));
    if !verdict.has_ended {
        hints.extend(silence_hint(verdict, edges, bytes, calls));
    }
    hints
}

/// A shell gives the code of the last thing it ran.
fn script_hint(script: &str) -> Option<&'static str> {
    let shape = shape(script);
    if shape.has_pipe && !script.contains("pipefail") {
        return Some("exit 0 is of the last command of the pipeline; `set -o pipefail` shows the others");
    }
    let stops = script.split_whitespace().any(|word| word.starts_with("-e") || word == "errexit");
    (shape.has_list && !stops)
        .then_some("exit 0 is of the last command; `set -e` or `&&` stops at the first that fails")
}

#[derive(Default)]
struct Shape {
    has_pipe: bool,
    has_list: bool,
}

/// Whether commands are piped, or follow each other whatever the first one does; quotes and comments do not count.
fn shape(script: &str) -> Shape {
    let mut shape = Shape::default();
    let (mut quote, mut before, mut has_words) = (None, ' ', false);
    let mut chars = script.trim().chars().peekable();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\\') => {
                chars.next();
            }
            (None, '\'' | '"') => (quote, has_words) = (Some(c), true),
            (None, '#') if before.is_whitespace() => while chars.next_if(|c| *c != '\n').is_some() {},
            (None, '|') if chars.next_if_eq(&'|').is_none() && before != '>' => shape.has_pipe = true,
            (None, ';' | '\n') => shape.has_list |= has_words && chars.clone().any(|c| !c.is_whitespace()),
            (None, _) => has_words |= !c.is_whitespace(),
        }
        before = c;
    }
    shape
}

/// What shells mean by some codes.
fn code_hint(code: i32) -> Option<String> {
    match code {
        126 => Some("shells exit 126 when a command cannot be executed".to_owned()),
        127 => Some("shells exit 127 when a command is not found".to_owned()),
        130 => Some("shells exit 130 when a command was interrupted (SIGINT)".to_owned()),
        134 => Some("shells exit 134 when a command was aborted (SIGABRT)".to_owned()),
        137 => Some("shells exit 137 when a command was killed (SIGKILL); often for lack of memory".to_owned()),
        139 => Some("shells exit 139 when a command crashed (SIGSEGV)".to_owned()),
        143 => Some("shells exit 143 when a command was terminated (SIGTERM)".to_owned()),
        _ => None,
    }
}

fn silence_hint(verdict: &Verdict<'_>, edges: &Edges, bytes: u64, calls: Calls) -> Option<String> {
    let silence = verdict.silence_ms.filter(|silence| *silence >= SILENCE_MS)?;
    let time = duration_text(silence);
    if edges.ends_open && is_question(&edges.current) {
        return Some(format!(
            "silent for {time} after what looks like a question; answer: {}",
            calls.answer(verdict.id)
        ));
    }
    let is_block = bytes > 0 && bytes.is_multiple_of(STDIO_BLOCK) && !verdict.is_pty;
    is_block.then(|| {
        format!("silent for {time}, and the output is a whole number of {STDIO_BLOCK}-byte blocks: it may be held back in the program")
    })
}

fn is_question(line: &str) -> bool {
    let line = line.trim_end();
    let end = line.to_lowercase();
    line.ends_with('?')
        || ["[y/n]", "(y/n)", "[y/n]:", "(yes/no)", "(y/n):", "(yes/no)?", "[y/n]?"]
            .iter()
            .any(|tail| end.ends_with(tail))
        || (line.ends_with(':')
            && ["password", "passphrase", "username", "login", "enter", "otp"].iter().any(|word| end.contains(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipeline_or_a_list_is_told_from_words() {
        for script in ["make | tail", "false |& cat", "sh -c 'exit 7' | tail -1"] {
            assert!(script_hint(script).is_some_and(|hint| hint.contains("pipeline")), "{script}");
        }
        for script in ["false; echo done", "make\necho done"] {
            assert!(script_hint(script).is_some_and(|hint| hint.contains("last command;")), "{script}");
        }
        for script in [
            "a || b",
            "echo 'a | b; c'",
            "make;",
            "set -e; make; echo done",
            "set -o pipefail; a | b && true",
            "a # | b",
        ] {
            assert!(
                script_hint(script).is_none_or(|hint| script.contains("pipefail") && !hint.contains("pipeline")),
                "{script}"
            );
        }
    }

    #[test]
    fn silence_is_explained_only_with_evidence() {
        let verdict = Verdict { silence_ms: Some(60_000), id: "abc", ..Verdict::default() };
        let open = |text: &str| Edges { ends_open: true, current: text.to_owned(), ..Edges::default() };
        let hint = |text: &str, bytes| hints(&verdict, &open(text), bytes, Calls::CommandLine).join(" ");
        assert!(hint("Overwrite? [y/N]", 10).contains("ringback send abc"));
        assert!(hint("Password:", 10).contains("question"));
        assert!(hint("compiling", 8192).contains("blocks"));
        assert_eq!(hint("compiling", 8193), "");
        assert_eq!(hint("", 0), "");
    }
}
