//! A piece of an output as quoted lines within a budget, with where to read on and what is not shown.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io;
use std::time::Duration;

use jiff::Timestamp;
use regex::bytes::Regex;
use ringback_host::client::output::{Gap, Line, LineSink, Lines, Output, Stream};
use ringback_host::quantity::millis;
use ringback_host::wire::TaskObject;
use ringback_render::digest::Calls;

use super::excerpt::{self, quote_line, quote_within};
use crate::output::{self, Marks};

/// What an answer shows when nobody says otherwise, bytes: about 2000 tokens.
pub(super) const BYTES: usize = 8000;
/// What an answer shows at most: clients cut off or warn somewhere above 10 000 tokens.
pub(super) const BYTES_MAX: usize = 32_000;

/// Most lines that are shown around one.
const CONTEXT_MAX: usize = 1000;

/// Which piece.
#[derive(Debug)]
pub(super) enum Want {
    /// What matters of all.
    Digest,
    /// From this byte on.
    From(u64),
    /// Lines by number, both ends included.
    Lines(u64, u64),
    /// The last lines.
    Tail(u64),
    /// Lines that match, from this byte on, with so many lines around each.
    Grep(Regex, u64, usize),
    /// What its terminal shows now.
    Screen,
}

/// A piece.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Window {
    /// Quoted lines, and in brackets what is not shown.
    pub(super) text: String,
    /// The offset to read on from.
    pub(super) cursor: u64,
    /// How long the output is.
    pub(super) end: u64,
    /// Whether there is more than was shown after `cursor`.
    pub(super) more: bool,
}

/// Reads a piece of a task's output.
pub(super) fn read(task: &TaskObject, want: &Want, only: Option<Stream>, budget: usize) -> io::Result<Window> {
    let Some(mut output) = Output::open(task)? else { return Ok(Window::default()) };
    let end = output.len()?;
    match want {
        Want::Digest => digest(task, budget),
        Want::From(offset) => collect(&mut output, (*offset).min(end), end, only, Collect::new(Pick::Whole, budget)),
        Want::Lines(from, to) => {
            let mut found = Collect::new(Pick::Lines(*from, *to), budget);
            let mut start = 0;
            if only.is_none() {
                start = Marks::open(task, &output)?.offset_of(&mut output, *from)?.unwrap_or(end);
                found.number = *from - 1;
            }
            collect(&mut output, start, end, only, found)
        }
        Want::Screen => {
            let picture = output::picture(task, &mut output, end)?;
            let mut found = Collect::new(Pick::All, budget);
            let rows = picture.rows.iter().map(|row| quote_line(row.as_bytes()));
            let shown = rows.take_while(|row| found.add(row)).count();
            Ok(Window { text: found.text, cursor: end, end, more: shown < picture.rows.len() })
        }
        Want::Grep(pattern, offset, context) => {
            let mut found = Collect::new(Pick::Match(pattern.clone()), budget);
            found.around.most = (*context).min(CONTEXT_MAX);
            collect(&mut output, (*offset).min(end), end, only, found)
        }
        Want::Tail(count) => {
            let start = output.tail_start(*count, end)?;
            if end - start <= budget as u64 || only.is_some() {
                return collect(&mut output, start, end, only, Collect::new(Pick::All, budget));
            }
            let tail = excerpt::tail(task, budget);
            Ok(Window { text: tail.text, cursor: tail.cursor, end, more: false })
        }
    }
}

/// The same of what came since so long ago.
pub(super) fn since(task: &TaskObject, want: &Want, age: Duration) -> io::Result<Want> {
    let then = u64::try_from(Timestamp::now().as_millisecond()).unwrap_or(0).saturating_sub(millis(age));
    let offset = Output::open(task)?.map_or(Ok(0), |mut output| output.offset_at(then))?;
    Ok(match want {
        Want::Grep(pattern, _, context) => Want::Grep(pattern.clone(), offset, *context),
        _ => Want::From(offset),
    })
}

/// What a digest shows. The verdict stands in the answer already.
fn digest(task: &TaskObject, budget: usize) -> io::Result<Window> {
    let digest = output::digest(task, budget, Calls::Tools)?;
    let bytes = digest.summary.bytes;
    Ok(Window { text: digest.body().to_owned(), cursor: bytes, end: bytes, more: false })
}

fn collect(output: &mut Output, from: u64, end: u64, only: Option<Stream>, mut found: Collect) -> io::Result<Window> {
    let mut lines = Lines::new(only);
    found.next = from;
    let scanned = output.scan(from..end, only.is_some(), &mut |piece| lines.push(piece, &mut found));
    match scanned.and_then(|_| lines.flush(&mut found)) {
        Ok(()) => {}
        Err(_) if found.full => {}
        Err(error) => return Err(error),
    }
    let cursor = if found.full { found.next } else { end };
    Ok(Window { text: found.text, cursor, end, more: found.full && cursor < end })
}

enum Pick {
    /// Lines, cut where they are endless.
    All,
    /// Lines, whole.
    Whole,
    Lines(u64, u64),
    Match(Regex),
}

/// Lines around those that match.
#[derive(Default)]
struct Around {
    most: usize,
    /// Where the last lines that did not match begin, and how they are shown.
    before: VecDeque<(u64, String)>,
    /// How many lines are still shown after the last that did.
    after: usize,
}

/// Takes lines until the budget is used up.
struct Collect {
    pick: Pick,
    around: Around,
    budget: usize,
    text: String,
    number: u64,
    next: u64,
    full: bool,
}

impl Collect {
    fn new(pick: Pick, budget: usize) -> Self {
        Self { pick, around: Around::default(), budget, text: String::new(), number: 0, next: 0, full: false }
    }

    /// Ends the scan; the caller sees that it is `full` and takes it for no error.
    fn stop(&mut self) -> io::Result<()> {
        self.full = true;
        Err(io::Error::other("enough"))
    }

    fn add(&mut self, shown: &str) -> bool {
        if !self.text.is_empty() && self.text.len() + shown.len() + 1 > self.budget {
            return false;
        }
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(shown);
        true
    }
}

impl Around {
    /// Takes the next line; gives it back if it is shown.
    fn take(&mut self, is_match: bool, offset: u64, shown: String) -> Option<String> {
        if is_match {
            self.after = self.most;
            return Some(shown);
        }
        if self.after > 0 {
            self.after -= 1;
            return Some(shown);
        }
        if self.before.len() == self.most {
            self.before.pop_front();
        }
        self.before.push_back((offset, shown));
        None
    }
}

impl LineSink for Collect {
    fn line(&mut self, line: Line<'_>) -> io::Result<()> {
        self.number += 1;
        let bytes = line.bytes.strip_suffix(b"\n").unwrap_or(line.bytes);
        let after = line.offset + line.bytes.len() as u64;
        let shown = match &self.pick {
            Pick::All => quote_line(bytes),
            Pick::Whole => {
                // The piece of an endless line that fits; the next call goes on in the middle of it.
                let room = self.budget.saturating_sub(self.text.len()).max(1);
                if bytes.len() > room && self.text.is_empty() {
                    let cut = char_boundary(bytes, room);
                    self.add(&quote_within(&bytes[..cut], usize::MAX));
                    self.next = line.offset + cut as u64;
                    return self.stop();
                }
                quote_within(bytes, usize::MAX)
            }
            Pick::Lines(from, to) => {
                if self.number > *to {
                    self.next = line.offset;
                    return self.stop();
                }
                if self.number < *from {
                    return Ok(());
                }
                quote_line(bytes)
            }
            Pick::Match(pattern) => {
                let is_match = pattern.is_match(bytes);
                if !is_match && self.around.most == 0 {
                    return Ok(());
                }
                let shown = format!("{}{}", line.offset, quote_line(bytes));
                match self.around.take(is_match, line.offset, shown) {
                    Some(shown) => shown,
                    None => return Ok(()),
                }
            }
        };
        for (offset, before) in std::mem::take(&mut self.around.before) {
            if !self.add(&before) {
                self.next = offset;
                return self.stop();
            }
        }
        if !self.add(&shown) {
            self.next = line.offset;
            return self.stop();
        }
        self.next = after;
        Ok(())
    }

    fn gap(&mut self, gap: &Gap) -> io::Result<()> {
        let mut shown = String::new();
        // Writing to a string does not fail.
        let _infallible = write!(shown, "[bytes {}-{} were not kept: {}]", gap.from, gap.to - 1, gap.why);
        self.add(&shown);
        self.next = gap.to;
        Ok(())
    }
}

/// The last place at or before `at` that does not cut a UTF-8 character.
fn char_boundary(bytes: &[u8], at: usize) -> usize {
    let mut cut = at.min(bytes.len());
    for _ in 0..3 {
        if cut == 0 || bytes.get(cut).is_none_or(|byte| byte & 0xc0 != 0x80) {
            return cut;
        }
        cut -= 1;
    }
    at.min(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Sample {
        _dir: tempfile::TempDir,
        task: TaskObject,
    }

    fn sample(bytes: &[u8]) -> Sample {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("output");
        std::fs::write(&path, bytes).unwrap();
        let mut task = TaskObject::default();
        task.output.path = path.to_str().unwrap().to_owned();
        task.output.index_path = dir.path().join("output.idx").to_str().unwrap().to_owned();
        Sample { _dir: dir, task }
    }

    fn check(bytes: &[u8], want: &Want, budget: usize) -> (String, u64, bool) {
        let window = read(&sample(bytes).task, want, None, budget).unwrap();
        (window.text, window.cursor, window.more)
    }

    #[test]
    fn pages_by_offset_lose_no_byte_even_of_an_endless_line() {
        let text = "αβγδ".repeat(50);
        let sample = sample(text.as_bytes());
        let (mut at, mut seen) = (0, String::new());
        loop {
            let page = read(&sample.task, &Want::From(at), None, 33).unwrap();
            assert!(page.text.len() < 40);
            seen.push_str(page.text.trim_start_matches("| "));
            at = page.cursor;
            if !page.more {
                break;
            }
        }
        assert_eq!(seen, text);
        assert_eq!(check(b"a\nb\nc\n", &Want::From(2), 100), ("| b\n| c".into(), 6, false));
        assert_eq!(check(b"a\nb\nc\n", &Want::From(99), 100), (String::new(), 6, false));
    }

    #[test]
    fn lines_tail_and_grep_pick_what_was_asked() {
        let text = b"one\ntwo\nthree\nfour\n";
        assert_eq!(check(text, &Want::Lines(2, 3), 100).0, "| two\n| three");
        assert_eq!(check(text, &Want::Tail(2), 100).0, "| three\n| four");
        let grep = |budget| check(text, &Want::Grep(Regex::new("o").unwrap(), 0, 0), budget);
        assert_eq!(grep(100), ("0| one\n4| two\n14| four".into(), 19, false));
        assert_eq!(grep(14), ("0| one\n4| two".into(), 14, true));
        let around = |budget| check(text, &Want::Grep(Regex::new("three").unwrap(), 0, 1), budget);
        assert_eq!(around(100), ("4| two\n8| three\n14| four".into(), 19, false));
        assert_eq!(around(16), ("4| two\n8| three".into(), 14, true));
    }

    #[test]
    fn a_digest_has_both_ends_and_names_what_is_between() {
        let text: String = (0..1000).fold(String::new(), |all, n| all + &format!("line {n}\n"));
        let (digest, cursor, _) = check(text.as_bytes(), &Want::Digest, 1000);
        assert!(digest.starts_with("| line 0\n") && digest.ends_with("| line 999"), "{digest}");
        assert!(digest.contains("\n[L") && digest.contains("output {") && digest.len() <= 1000, "{digest}");
        assert_eq!(cursor, text.len() as u64);
        assert_eq!(check(b"a\n", &Want::Digest, 400).0, "| a");
    }
}
