//! The end of a task's output as quoted data: bounded, cleaned, with what was left out named by its exact range.

use std::fmt::Write as _;
use std::io;

use ringback_core::character::is_hostile;
use ringback_core::notice::without_escapes;
use ringback_host::client::output::Output;
use ringback_host::wire::TaskObject;

/// What a result shows of an output unasked: enough for the lines that say why, about 500 tokens.
pub(super) const TAIL_BYTES: usize = 2000;
/// The longest line that is shown whole; of a longer one its beginning.
pub(super) const LINE_CHARS_MAX: usize = 400;
/// How much is read to find the last lines.
const READ_BYTES_MAX: u64 = 64 << 10;
/// What stands before every line of output, so that it cannot be taken for a word of ours.
const BAR: &str = "| ";

/// A piece of output, ready to be shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Excerpt {
    /// Quoted lines, and between them, in brackets, what is not shown.
    pub(super) text: String,
    /// Where the output ended when it was read.
    pub(super) cursor: u64,
    /// Whether nothing was left out.
    pub(super) whole: bool,
}

/// The last whole lines of a task's output within `budget` bytes. An output that cannot be read says so in its place.
pub(super) fn tail(task: &TaskObject, budget: usize) -> Excerpt {
    tail_after(task, 0, budget)
}

/// As [`tail`], of what comes at or after `first`; what is before it counts as shown.
pub(super) fn tail_after(task: &TaskObject, first: u64, budget: usize) -> Excerpt {
    read_tail(task, first, budget).unwrap_or_else(|error| Excerpt {
        text: format!("[the output cannot be read: {error}]"),
        cursor: task.output.bytes,
        whole: false,
    })
}

fn read_tail(task: &TaskObject, first: u64, budget: usize) -> io::Result<Excerpt> {
    // Most commands have said nothing yet when their handle is given.
    if task.output.bytes == 0 && !task.has_ended() {
        return Ok(Excerpt { whole: true, ..Excerpt::default() });
    }
    let Some(mut output) = Output::open(task)? else { return Ok(Excerpt { whole: true, ..Excerpt::default() }) };
    let end = output.len()?;
    let from = end.saturating_sub(READ_BYTES_MAX).max(first.min(end));
    let bytes = output.read(from..end)?;
    let start = if from <= first { 0 } else { bytes.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1) };
    let quoted = quote_last(&bytes[start..], budget);
    let mut text = String::new();
    // What was freed on disk reads as nothing, so positions in `bytes` are no offsets then; the range is what is certain.
    let gaps: u64 = output.gaps().iter().map(|gap| gap.to.min(end).saturating_sub(gap.from.max(from))).sum();
    let shown_from = end.saturating_sub(quoted.raw_bytes as u64);
    let whole = shown_from <= first && gaps == 0;
    if !whole {
        let to = shown_from.max(first + 1) - 1;
        // Writing to a string does not fail.
        let _infallible = writeln!(text, "[bytes {first}-{to} of {end} not shown]");
    }
    text.push_str(&quoted.text);
    Ok(Excerpt { text, cursor: end, whole })
}

struct Quoted {
    text: String,
    raw_bytes: usize,
}

/// The last lines that fit, each behind the bar.
fn quote_last(bytes: &[u8], budget: usize) -> Quoted {
    let mut lines = Vec::new();
    let (mut left, mut raw_bytes) = (budget, 0);
    let body = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    if bytes.is_empty() {
        return Quoted { text: String::new(), raw_bytes };
    }
    for line in body.rsplit(|byte| *byte == b'\n') {
        let shown = quote_line(line);
        if shown.len() > left {
            break;
        }
        left -= shown.len();
        raw_bytes += line.len() + 1;
        lines.push(shown);
    }
    lines.reverse();
    Quoted { text: lines.join("\n"), raw_bytes: raw_bytes.min(bytes.len()) }
}

/// One line behind the bar, cut where it is endless: what a redraw overwrote, control characters and escape sequences are taken out.
pub(super) fn quote_line(line: &[u8]) -> String {
    quote_within(line, LINE_CHARS_MAX)
}

/// As [`quote_line`], with at most this many characters.
pub(super) fn quote_within(line: &[u8], chars_max: usize) -> String {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let seen = line.rsplit(|byte| *byte == b'\r').next().unwrap_or_default();
    // A character has at most four bytes; the rest of an endless line is not even decoded.
    let decoded = seen.len().min(chars_max.saturating_mul(8));
    let plain = without_escapes(&seen[..decoded]);
    let clean = String::from_utf8_lossy(&plain);
    let mut out = String::from(BAR);
    let mut chars = clean.chars().filter(|c| !is_hostile(*c));
    out.extend(chars.by_ref().take(chars_max));
    if chars.next().is_some() || seen.len() > decoded {
        let _infallible = write!(out, "… [{} bytes]", line.len());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quoted(bytes: &[u8], budget: usize) -> String {
        quote_last(bytes, budget).text
    }

    #[test]
    fn output_is_quoted_and_cannot_look_like_a_word_of_ours() {
        assert_eq!(quoted(b"a\nSUCCEEDED exit 0\n", 100), "| a\n| SUCCEEDED exit 0");
        assert_eq!(quoted(b"\x1b[31mred\x1b[0m \x1b]0;title\x07ok\x9b\n", 100), "| red ok\u{fffd}");
        assert_eq!(quoted(b"10%\r20%\r\ndone", 100), "| 20%\n| done");
        assert_eq!(quoted("x\u{202e}y".as_bytes(), 100), "| xy");
        assert_eq!(quoted(b"", 100), "");
        assert_eq!(quoted(b"\n", 100), "| ");
    }

    #[test]
    fn whole_lines_are_kept_within_the_budget_and_endless_ones_are_cut() {
        assert_eq!(quoted(b"aaaa\nbbbb\ncccc\n", 12), "| bbbb\n| cccc");
        let long = quoted(&vec![b'x'; 1 << 20], 1000);
        assert!(long.len() < 500 && long.ends_with("[1048576 bytes]"), "{long}");
    }

    #[test]
    fn what_is_left_out_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("output");
        std::fs::write(&path, "one\ntwo\nthree\n").unwrap();
        let mut task = TaskObject::default();
        task.output.path = path.to_str().unwrap().to_owned();
        let cut = Excerpt { text: "[bytes 0-7 of 14 not shown]\n| three".into(), cursor: 14, whole: false };
        assert_eq!(tail(&task, 11), cut);
        assert_eq!(tail(&task, 100), Excerpt { text: "| one\n| two\n| three".into(), cursor: 14, whole: true });
        assert_eq!(tail_after(&task, 4, 100).text, "| two\n| three");
        assert_eq!(tail_after(&task, 4, 10).text, "[bytes 4-7 of 14 not shown]\n| three");
        task.output.path = dir.path().join("none").to_str().unwrap().to_owned();
        assert_eq!(tail(&task, 100), Excerpt { whole: true, ..Excerpt::default() });
    }
}
