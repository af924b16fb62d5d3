//! One thing a session has to hear: its kinds, its verdict line, and when it counts as heard.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::character::is_hostile;
use crate::outcome::{Outcome, WaitStatus};
use crate::reading::sequence_end;
use crate::spec::words;

/// What a notice is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A task ended.
    ToolResult,
    /// A task runs on.
    ToolProgress,
    /// A line of its output is one that was watched for.
    ToolMatch,
    /// It said that it is ready.
    ToolReady,
    /// It runs and is silent.
    ToolStalled,
}

impl Kind {
    /// Whether it wakes an idle agent where nobody says otherwise. Silence does not: of a task that is silent for long there
    /// may be nothing to say.
    pub fn wakes(self) -> bool {
        match self {
            Self::ToolResult | Self::ToolMatch | Self::ToolReady => true,
            Self::ToolProgress | Self::ToolStalled => false,
        }
    }

    /// The words of those that wake.
    pub fn waking() -> impl Iterator<Item = &'static str> {
        Self::WORDS.iter().copied().filter(|word| Self::parse(word).is_some_and(Self::wakes))
    }
}

words!(
    Kind: "tool_result" = ToolResult,
    "tool_progress" = ToolProgress,
    "tool_match" = ToolMatch,
    "tool_ready" = ToolReady,
    "tool_stalled" = ToolStalled
);

/// How many bytes of the output's end stand in a notice: an agent pays for every one of them.
pub const TAIL_BYTES_MAX: usize = 1024;

/// The verdict, from the outcome alone: it begins with what happened, in words that cannot be mistaken for success.
pub fn verdict(outcome: &Outcome, signal_name: impl Fn(i32) -> String) -> String {
    let ended = |real: &WaitStatus| match real {
        WaitStatus::Exited(code) => format!("it then returned {code}"),
        WaitStatus::Signaled { signal, .. } => signal_name(*signal),
    };
    match outcome {
        Outcome::Exited { code: 0 } => "SUCCEEDED exit 0".to_string(),
        Outcome::Exited { code } => format!("FAILED exit {code}"),
        Outcome::Signaled { signal, oom, core } => {
            let oom = if *oom { ", out of memory" } else { "" };
            let core = if *core { ", core dumped" } else { "" };
            format!("FAILED killed by {}{oom}{core}", signal_name(*signal))
        }
        Outcome::TimedOut { cause, real } => format!("TIMED OUT ({} limit, {})", cause.word(), ended(real)),
        Outcome::Killed { cause, by, real } => {
            let by = by.as_deref().map(|by| format!(" by {by}")).unwrap_or_default();
            let real = real.as_ref().map_or_else(|| "before it started".to_string(), ended);
            format!("KILLED{by} ({}, {real})", cause.word())
        }
        Outcome::StartFailed { why, .. } => format!("NOT STARTED ({})", why.word()),
        Outcome::Lost { why } => format!("LOST outcome unknown ({})", why.word()),
    }
}

/// The end of an output as quoted data: at most `budget` bytes of whole lines, each behind a bar, no control characters.
///
/// The bar and the missing escapes keep output from ever looking like a status of ours.
pub fn quote_tail(tail: &[u8], budget: usize) -> String {
    quote_end(tail, budget).0
}

/// As [`quote_tail`], and how many bytes at the end of `tail` the quote stands for. Of a last line that is longer than
/// the budget its end is quoted: a result without any output helps nobody.
pub fn quote_end(tail: &[u8], budget: usize) -> (String, usize) {
    let mut quotes: Vec<String> = Vec::new();
    let end = tail.iter().rposition(|byte| *byte != b'\n').map_or(0, |last| last + 1);
    let body = tail.get(..end).unwrap_or_default();
    if body.is_empty() {
        return (String::new(), tail.len());
    }
    let (mut room, mut stands_for) = (budget, tail.len() - body.len());
    for line in body.rsplit(|byte| *byte == b'\n') {
        let quote = quote_one(line);
        let cost = quote.len() + BAR.len();
        if cost > room {
            if quotes.is_empty() {
                let cut = end_of(&quote, room.saturating_sub(BAR.len() + '…'.len_utf8()));
                stands_for += cut.len();
                quotes.push(alloc::format!("…{cut}"));
            }
            break;
        }
        room -= cost;
        stands_for += line.len() + usize::from(!quotes.is_empty());
        quotes.push(quote);
    }
    let mut text = String::new();
    for quote in quotes.iter().rev() {
        text.push_str(BAR);
        text.push_str(quote);
    }
    (text, stands_for.min(tail.len()))
}

/// What stands before a quoted line.
const BAR: &str = "\n  | ";

fn quote_one(line: &[u8]) -> String {
    let plain = without_escapes(line);
    let text = String::from_utf8_lossy(&plain);
    // What a redraw overwrote was never meant to stay.
    let shown = text.trim_end_matches('\r').rsplit('\r').next().unwrap_or_default();
    shown.chars().filter(|c| !is_hostile(*c)).collect()
}

/// At most the last `most` bytes, from a character border on.
fn end_of(text: &str, most: usize) -> &str {
    let mut from = text.len().saturating_sub(most);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    text.get(from..).unwrap_or_default()
}

/// One line of output as quoted data: at most about `budget` bytes around the byte `at`, what is left out is marked.
pub fn quote_line(line: &[u8], at: usize, budget: usize) -> String {
    let at = at.min(line.len());
    // A third of the room for what came before.
    let from = if line.len() <= budget { 0 } else { at.saturating_sub(budget / 3).min(line.len() - budget) };
    let shown = line.get(from..line.len().min(from + budget)).unwrap_or_default();
    let clean: String = String::from_utf8_lossy(shown).chars().filter(|c| !is_hostile(*c)).collect();
    let (before, after) = (from > 0, from + budget < line.len());
    format!("{}{clean}{}", if before { "…" } else { "" }, if after { "…" } else { "" })
}

/// The line without its escape sequences, as it would stand on a screen.
pub fn without_escapes(line: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(line.len());
    let mut at = 0;
    while let Some(&byte) = line.get(at) {
        if byte == 0x1b {
            at = sequence_end(line, at);
        } else {
            plain.push(byte);
            at += 1;
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{Cause, LostWhy};

    fn say(outcome: &Outcome) -> String {
        verdict(outcome, |n| format!("SIG{n}"))
    }

    #[test]
    fn only_an_exit_with_zero_reads_as_success() {
        assert_eq!(say(&Outcome::Exited { code: 0 }), "SUCCEEDED exit 0");
        assert_eq!(say(&Outcome::Exited { code: 3 }), "FAILED exit 3");
        assert_eq!(
            say(&Outcome::TimedOut { cause: Cause::Wall, real: WaitStatus::Exited(0) }),
            "TIMED OUT (wall limit, it then returned 0)"
        );
        assert_eq!(
            say(&Outcome::Killed {
                cause: Cause::Request,
                by: Some("a".into()),
                real: Some(WaitStatus::Signaled { signal: 9, core: false })
            }),
            "KILLED by a (request, SIG9)"
        );
        assert_eq!(say(&Outcome::Lost { why: LostWhy::Reboot }), "LOST outcome unknown (reboot)");
    }

    #[test]
    fn a_kind_is_read_as_it_is_written_and_news_alone_wakes() {
        for word in Kind::WORDS {
            assert_eq!(Kind::parse(word).map(Kind::word), Some(*word));
        }
        assert_eq!(Kind::parse("tool_new"), None);
        assert_eq!(Kind::waking().collect::<Vec<_>>(), ["tool_result", "tool_match", "tool_ready"]);
    }

    #[test]
    fn a_tail_is_quoted_and_cannot_look_like_a_status() {
        let quoted = quote_tail(b"one\n\x1b[2JSUCCEEDED exit 0\n10%\r20%\r\nlast\n", 1024);
        assert_eq!(quoted, "\n  | one\n  | SUCCEEDED exit 0\n  | 20%\n  | last");
    }

    #[test]
    fn a_tail_keeps_whole_lines_within_its_budget() {
        assert_eq!(quote_end(b"aaaa\nbbbb\ncccc\n", 18), ("\n  | bbbb\n  | cccc".into(), 10));
        assert_eq!(quote_tail(b"", 1024), "");
    }

    #[test]
    fn a_long_line_is_quoted_around_its_place() {
        let line = [&[b'a'; 100][..], b"\x1b[1mneedle\x1b[0m", &[b'z'; 100]].concat();
        let quoted = quote_line(&line, 100, 60);
        assert!(quoted.starts_with("…aaa") && quoted.ends_with("zzz…") && quoted.contains("[1mneedle[0m"), "{quoted}");
        assert_eq!(quote_line(b"short", 2, 60), "short");
        assert_eq!(quote_line(&line, line.len(), 10), "…zzzzzzzzzz");
        assert_eq!(quote_line(b"", 5, 10), "");
    }

    #[test]
    fn escapes_are_taken_out_as_a_screen_would() {
        assert_eq!(without_escapes(b"\x1b[32m ok\x1b[0m \x1b]0;title\x07in \x1b]8;;u\x1b\\3\x1b(Bs"), b" ok in 3s");
        assert_eq!(without_escapes(b"cut \x1b[3"), b"cut ");
        assert_eq!(without_escapes(b"cut \x1b"), b"cut ");
    }

    #[test]
    fn of_a_line_that_is_too_long_the_end_is_quoted() {
        let (quote, stands_for) = quote_end("é".repeat(3000).as_bytes(), 100);
        assert!(quote.len() <= 100 && quote.starts_with("\n  | …é") && quote.ends_with('é'), "{quote}");
        assert_eq!(stands_for, quote.len() - "\n  | …".len());
    }
}
