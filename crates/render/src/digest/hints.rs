//! Hints, each from evidence that is there; without it nothing is guessed.

use std::collections::VecDeque;

use super::calls::Calls;
use super::edges::Edges;
use super::verdict::{Verdict, duration_text};
use crate::text::clip;

/// Silence after which it is worth a word.
const SILENCE_MS: u64 = 30_000;
/// The block in which the C library and others hold back output that goes to no terminal.
const STDIO_BLOCK: u64 = 4096;
/// How much of a script is looked at.
const SCRIPT_BYTES_MAX: usize = 16 << 10;

pub(super) fn hints(verdict: &Verdict<'_>, edges: &Edges, bytes: u64, calls: Calls) -> Vec<String> {
    let mut hints = Vec::new();
    if let (Some(0), Some(script)) = (verdict.exit_code, verdict.script) {
        hints.extend(script_hint(verdict.shell_options, script).map(str::to_owned));
    }
    hints.extend(verdict.exit_code.and_then(code_hint));
    if !verdict.has_ended {
        hints.extend(silence_hint(verdict, edges, bytes, calls));
    }
    hints
}

/// A shell gives the code of the last thing it ran.
fn script_hint(options: &str, script: &str) -> Option<&'static str> {
    let shape = shape(script);
    if shape.has_pipe && !options.contains("pipefail") && !script.contains("pipefail") {
        return Some("exit 0 is of the last command of the pipeline; `set -o pipefail` shows the others");
    }
    if shape.has_list && !stops(options.split_whitespace()) && !script.lines().any(stops_by_set) {
        return Some("exit 0 is of the last command; `set -e` or `&&` stops at the first that fails");
    }
    if shape.has_background {
        return Some("exit 0 says nothing of what `&` put into the background");
    }
    shape.has_else.then_some("exit 0 may be of what stands after `||`")
}

/// Whether a `set` in this line lets the shell stop at the first command that fails.
fn stops_by_set(line: &str) -> bool {
    let mut words = line.split(|c: char| c.is_whitespace() || c == ';');
    words.any(|word| word == "set") && stops(words)
}

/// Whether these options let a shell stop at the first command that fails: `-e`, `-eu`, `-xeo pipefail`, `-o errexit`.
fn stops<'a>(options: impl Iterator<Item = &'a str>) -> bool {
    let is_errexit = |word: &str| {
        word == "errexit" || word.strip_prefix('-').is_some_and(|flags| !flags.starts_with('-') && flags.contains('e'))
    };
    options.take_while(|word| word.starts_with('-') || ["pipefail", "errexit"].contains(word)).any(is_errexit)
}

#[expect(clippy::struct_excessive_bools, reason = "each is seen by itself")]
#[derive(Default)]
struct Shape {
    has_pipe: bool,
    has_list: bool,
    has_background: bool,
    has_else: bool,
}

/// Where a `|` separates patterns, and a `;` the cases: between `case` and `esac`, and between `[[` and `]]`.
#[derive(Default)]
struct Patterns {
    word: String,
    is_argument: bool,
    cases: u32,
    is_test: bool,
}

impl Patterns {
    fn take(&mut self, c: char) {
        if !c.is_whitespace() && !";|&()".contains(c) {
            return self.word.push(c);
        }
        match self.word.as_str() {
            "case" if !self.is_argument => self.cases += 1,
            "esac" => self.cases = self.cases.saturating_sub(1),
            "[[" if !self.is_argument => self.is_test = true,
            "]]" => self.is_test = false,
            _ => {}
        }
        if !self.word.is_empty() {
            // After these another command begins.
            let begins = ["then", "do", "else", "elif", "if", "while", "until", "!", "{"];
            self.is_argument = !begins.contains(&self.word.as_str());
            self.word.clear();
        }
        self.is_argument &= c != '\n' && c.is_whitespace();
    }

    fn are_here(&self) -> bool {
        self.cases > 0 || self.is_test
    }
}

/// Whether commands are piped, or follow each other whatever the first one does; quotes, comments, documents, expansions
/// (`${}`), arithmetic and patterns do not count.
fn shape(script: &str) -> Shape {
    let mut shape = Shape::default();
    let (mut quote, mut before, mut has_words) = (None, ' ', false);
    let mut patterns = Patterns::default();
    let script = without_documents(clip(script, SCRIPT_BYTES_MAX));
    let mut chars = script.trim().chars().peekable();
    while let Some(c) = chars.next() {
        if quote.is_none() {
            patterns.take(c);
        }
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some('"') | None, '\\') => {
                chars.next();
            }
            (Some(_), _) => {}
            (None, '\'' | '"') => (quote, has_words) = (Some(c), true),
            (None, '$') if chars.next_if_eq(&'{').is_some() => (quote, has_words) = (Some('}'), true),
            (None, '(') if chars.next_if_eq(&'(').is_some() => quote = Some(')'),
            (None, '#') if before.is_whitespace() => while chars.next_if(|c| *c != '\n').is_some() {},
            (None, '|') if chars.next_if_eq(&'|').is_some() => shape.has_else = true,
            (None, '|') if before != '>' => shape.has_pipe |= !patterns.are_here(),
            (None, '&') if chars.next_if_eq(&'&').is_some() => {}
            (None, '&') if !matches!(before, '>' | '<' | '|') && chars.peek() != Some(&'>') => {
                shape.has_background = true;
                shape.has_list |= chars.clone().any(|c| !c.is_whitespace());
            }
            (None, ';' | '\n') => {
                shape.has_list |= has_words && !patterns.are_here() && chars.clone().any(|c| !c.is_whitespace());
            }
            (None, _) => has_words |= !c.is_whitespace(),
        }
        before = c;
    }
    shape
}

/// The script without the lines that it only hands to a command (`<<END`).
fn without_documents(script: &str) -> String {
    let mut lines: VecDeque<&str> = script.lines().collect();
    let mut left = String::new();
    while let Some(line) = lines.pop_front() {
        left.push_str(line);
        left.push('\n');
        let Some((_, word)) = line.split_once("<<").filter(|(_, word)| !word.starts_with('<')) else { continue };
        let word = word.trim_start_matches(['-', '~', ' ']);
        let word = word.split(|c: char| c.is_whitespace() || ";|&)".contains(c)).next().unwrap_or_default();
        let end = word.trim_matches(['\'', '"', '\\']);
        if let Some(at) = lines.iter().position(|line| !end.is_empty() && line.trim_start_matches('\t') == end) {
            lines.drain(..=at);
        }
    }
    left
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
            assert!(script_hint("", script).is_some_and(|hint| hint.contains("pipeline")), "{script}");
        }
        for script in
            ["false; echo done", "make\necho done", "make & wait", "echo -e x; make; echo", "set -x; make; a -e"]
        {
            assert!(script_hint("", script).is_some_and(|hint| hint.contains("last command;")), "{script}");
        }
        for (script, word) in [("serve > log 2>&1 &", "background"), ("make || true", "`||`"), ("a && b || c", "`||`")]
        {
            assert!(script_hint("", script).is_some_and(|hint| hint.contains(word)), "{script}");
        }
        for (options, script) in [("-eu", "a; b"), ("-xeo pipefail", "a | b; c"), ("-o errexit", "a; b")] {
            assert_eq!(script_hint(options, script), None, "{options} {script}");
        }
        for script in [
            "make &>log",
            "make 2>&1 >/dev/null <&3",
            "cat <<'END' >notes\na | b; c &\nEND",
            "echo \"a \\\" | b\"",
            "set -xeuo pipefail\nmake | cat\nmake",
            "echo 'a | b; c'",
            "make;",
            "set -e; make; echo done",
            "set -o pipefail; a | b && true",
            "a # | b",
        ] {
            assert!(
                script_hint("", script).is_none_or(|hint| script.contains("pipefail") && !hint.contains("pipeline")),
                "{script}"
            );
        }
    }

    #[test]
    fn what_separates_patterns_is_no_pipeline() {
        for script in [
            "case $1 in a|b) make;; c | d) test;; esac",
            "if true; then\n case \"$1\" in\n  a|b)\n   make ;;\n esac\nfi",
            "echo ${x|y}",
            "echo ${x:-a | b} ${#x}",
            "[[ $x =~ a|b ]]",
            "echo $((1|2)) \"a | b\" 'c | d'",
        ] {
            assert!(script_hint("", script).is_none_or(|hint| !hint.contains("pipeline")), "{script}");
        }
        for script in [
            "case $1 in a|b) make;; esac; make | tail",
            "grep -i case log | tail",
            "echo ${x} | tail",
            "[[ $x =~ a|b ]] && make | tail",
            "(make) | tail",
        ] {
            assert!(script_hint("", script).is_some_and(|hint| hint.contains("pipeline")), "{script}");
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
