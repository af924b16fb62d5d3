//! A piece of an output as quoted lines within a budget, with where to read on and what is not shown.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io;
use std::ops::Range;
use std::time::Duration;

use regex::bytes::Regex;
use ringback_host::client::output::{Gap, Line, LineSink, Lines, Output, Stream};
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
/// How far before a page is looked for a match whose lines around go on in it: more than any page shows of whole lines.
const LOOK_BACK_BYTES: u64 = 4 << 20;
/// How far is mostly enough.
const NEAR_BYTES: u64 = 64 << 10;

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

/// When what is read came: so long ago at most, and so long ago at least.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ages {
    pub(super) since: Option<Duration>,
    pub(super) until: Option<Duration>,
}

/// Reads a piece of a task's output; lines from an offset, or that match, also of what came between two times.
pub(super) fn read(
    task: &TaskObject,
    want: &Want,
    ages: Ages,
    only: Option<Stream>,
    budget: usize,
) -> io::Result<Window> {
    let Some(mut output) = Output::open(task)? else { return Ok(Window::default()) };
    let length = output.len()?;
    let first = ages.since.map_or(Ok(0), |age| output::offset_ago(&mut output, age))?;
    let end = ages.until.map_or(Ok(length), |age| output::offset_ago(&mut output, age))?.min(length);
    let window = piece(task, &mut output, want, only, budget, first..end)?;
    Ok(Window { end: length.max(window.end), ..window })
}

fn piece(
    task: &TaskObject,
    output: &mut Output,
    want: &Want,
    only: Option<Stream>,
    budget: usize,
    range: Range<u64>,
) -> io::Result<Window> {
    let end = range.end;
    let begin = |offset: u64| offset.max(range.start).min(end);
    match want {
        Want::Digest => digest(task, budget),
        Want::From(offset) => collect(output, begin(*offset), end, only, Collect::new(Pick::Whole, budget)),
        Want::Lines(from, to) => {
            let mut found = Collect::new(Pick::Lines(*from, *to), budget);
            let mut start = 0;
            if only.is_none() {
                start = Marks::open(task, output)?.offset_of(output, *from)?.unwrap_or(end);
                found.number = *from - 1;
            }
            collect(output, start, end, only, found)
        }
        Want::Screen => {
            let picture = output::picture(task, output, end)?;
            let mut found = Collect::new(Pick::All, budget);
            let rows = picture.rows.iter().map(|row| quote_line(row.as_bytes()));
            let shown = rows.take_while(|row| found.add(row)).count();
            Ok(Window { text: found.text, cursor: end, end, more: shown < picture.rows.len() })
        }
        Want::Grep(pattern, offset, context) => {
            let (from, most) = (begin(*offset), (*context).min(CONTEXT_MAX));
            let mut found = Collect::new(Pick::Match(pattern.clone()), budget);
            found.around = Around { most, after: still_after(output, pattern, from, only, most)?, ..Around::default() };
            found.grows_at = (!task.has_ended()).then_some(end);
            collect(output, from, end, only, found)
        }
        Want::Tail(count) => {
            let start = output.tail_start(*count, end)?;
            if end - start <= budget as u64 || only.is_some() {
                return collect(output, start, end, only, Collect::new(Pick::All, budget));
            }
            let tail = excerpt::tail(task, budget);
            Ok(Window { text: tail.text, cursor: tail.cursor, end, more: false })
        }
    }
}

/// How many lines from this byte on stand beside a match before it: the end of what the page before this one began to show.
fn still_after(
    output: &mut Output,
    pattern: &Regex,
    from: u64,
    only: Option<Stream>,
    most: usize,
) -> io::Result<usize> {
    struct Before<'a>(&'a Regex, Around);
    impl LineSink for Before<'_> {
        fn line(&mut self, line: Line<'_>) -> io::Result<()> {
            self.1.take(self.0.is_match(without_newline(line.bytes)), line.offset, String::new());
            Ok(())
        }
        fn gap(&mut self, _gap: &Gap) -> io::Result<()> {
            self.1.after = 0;
            Ok(())
        }
    }
    if most == 0 || from == 0 {
        return Ok(0);
    }
    let near = from.saturating_sub(NEAR_BYTES);
    let lines = output.read(near..from)?.split(|byte| *byte == b'\n').count();
    let is_near = only.is_none() && lines > most + 1;
    let start = if is_near { near } else { from.saturating_sub(LOOK_BACK_BYTES) };
    let (mut lines, mut before) = (Lines::new(only), Before(pattern, Around { most, ..Around::default() }));
    output.scan(start..from, only.is_some(), &mut |piece| lines.push(piece, &mut before))?;
    lines.flush(&mut before)?;
    Ok(before.1.after)
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
    let cursor = match found.full {
        true => found.next,
        // What may yet turn out to match or to be longer, or to stand before a match, is looked at again.
        false if found.grows_at.is_some() => {
            found.around.before.front().map(|before| before.0).or(found.held).unwrap_or(end)
        }
        false => end,
    };
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
    /// Where the task may write on: a line that ends there may be no whole one.
    grows_at: Option<u64>,
    /// Where such a line begins. One that matches so far is shown, and shown again when there is more of it.
    held: Option<u64>,
}

impl Collect {
    fn new(pick: Pick, budget: usize) -> Self {
        let (text, around) = (String::new(), Around::default());
        Self { pick, around, budget, text, number: 0, next: 0, full: false, grows_at: None, held: None }
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
        self.before.push_back((offset, shown));
        if self.before.len() > self.most {
            self.before.pop_front();
        }
        None
    }
}

impl LineSink for Collect {
    fn line(&mut self, line: Line<'_>) -> io::Result<()> {
        self.number += 1;
        let bytes = without_newline(line.bytes);
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
                let is_held = self.grows_at == Some(after) && !line.bytes.ends_with(b"\n");
                if is_held {
                    self.held = Some(line.offset);
                }
                if !is_match && (is_held || self.around.most == 0) {
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
        let _infallible = write!(shown, "[bytes {}-{} were not kept: {}]", gap.from, gap.last(), gap.why);
        // Lines before and after it do not stand beside each other.
        self.around = Around { most: self.around.most, ..Around::default() };
        self.next = gap.from;
        if !self.add(&shown) {
            return self.stop();
        }
        self.next = gap.to;
        Ok(())
    }
}

fn without_newline(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\n").unwrap_or(line)
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
        let mut task = TaskObject { state: "exited".to_owned(), ..TaskObject::default() };
        task.output.path = path.to_str().unwrap().to_owned();
        task.output.index_path = dir.path().join("output.idx").to_str().unwrap().to_owned();
        Sample { _dir: dir, task }
    }

    fn check(bytes: &[u8], want: &Want, budget: usize) -> (String, u64, bool) {
        let window = read(&sample(bytes).task, want, Ages::default(), None, budget).unwrap();
        (window.text, window.cursor, window.more)
    }

    #[test]
    fn pages_by_offset_lose_no_byte_even_of_an_endless_line() {
        let text = "αβγδ".repeat(50);
        let sample = sample(text.as_bytes());
        let (mut at, mut seen) = (0, String::new());
        loop {
            let page = read(&sample.task, &Want::From(at), Ages::default(), None, 33).unwrap();
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
    fn pages_around_matches_are_what_one_page_is() {
        let text: String = (0..200).fold(String::new(), |all, n| all + &format!("line {n}\n"));
        let sample = sample(text.as_bytes());
        for (pattern, context) in [("7$", 3), ("1[05]$", 2), ("line 19[0-9]", 1), ("9", 0), ("0", 40)] {
            let want = |from| Want::Grep(Regex::new(pattern).unwrap(), from, context);
            let page = |from, budget| read(&sample.task, &want(from), Ages::default(), None, budget).unwrap();
            let whole = page(0, 100_000);
            for budget in [1, 20, 50, 333] {
                let (mut at, mut seen) = (0, Vec::new());
                loop {
                    let part = page(at, budget);
                    seen.extend(part.text.lines().map(str::to_owned));
                    at = part.cursor;
                    if !part.more {
                        break;
                    }
                }
                assert_eq!(seen.join("\n"), whole.text, "{pattern} {context} {budget}");
            }
        }
    }

    #[test]
    fn what_may_yet_match_or_stand_before_a_match_is_looked_at_again() {
        let mut sample = sample(b"a\nb\nc\nerr");
        sample.task.state = "running".to_owned();
        let grep = |sample: &Sample, from, context| {
            let want = Want::Grep(Regex::new("error|^a").unwrap(), from, context);
            let window = read(&sample.task, &want, Ages::default(), None, 100).unwrap();
            (window.text, window.cursor)
        };
        assert_eq!(grep(&sample, 0, 0), ("0| a".into(), 6));
        assert_eq!(grep(&sample, 0, 1), ("0| a\n2| b".into(), 4));
        std::fs::write(&sample.task.output.path, b"a\nb\nc\nerror\nd\n").unwrap();
        assert_eq!(grep(&sample, 6, 0), ("6| error".into(), 14));
        assert_eq!(grep(&sample, 4, 1), ("4| c\n6| error\n12| d".into(), 14));
        sample.task.state = "exited".to_owned();
        assert_eq!(grep(&sample, 4, 1), ("4| c\n6| error\n12| d".into(), 14));
    }

    #[test]
    fn a_line_that_matches_before_it_is_whole_is_shown_whole_later() {
        let mut sample = sample(b"a\nerror: ");
        sample.task.state = "running".to_owned();
        let grep = |sample: &Sample, from| {
            let want = Want::Grep(Regex::new("error").unwrap(), from, 1);
            let window = read(&sample.task, &want, Ages::default(), None, 100).unwrap();
            (window.text, window.cursor, window.more)
        };
        assert_eq!(grep(&sample, 0), ("0| a\n2| error: ".into(), 2, false));
        std::fs::write(&sample.task.output.path, b"a\nerror: no\nb\nc\n").unwrap();
        assert_eq!(grep(&sample, 2), ("2| error: no\n12| b".into(), 14, false));
    }

    #[test]
    fn what_stands_after_a_gap_does_not_stand_beside_a_match_before_it() {
        let mut sample = sample(b"error\n\0\0\0\0a\nb\n");
        sample.task.output.gaps = vec![(6, 10, "output_limit".to_owned())];
        let page = |from, budget| {
            let want = Want::Grep(Regex::new("error").unwrap(), from, 2);
            read(&sample.task, &want, Ages::default(), None, budget).unwrap()
        };
        assert_eq!(page(0, 100).text, "0| error\n[bytes 6-9 were not kept: output_limit]");
        let first = page(0, 10);
        let second = page(first.cursor, 10);
        assert_eq!((first.text.as_str(), first.cursor, first.more), ("0| error", 6, true));
        assert_eq!((second.text.as_str(), second.more), ("[bytes 6-9 were not kept: output_limit]", false));
        assert_eq!(page(10, 100).text, "");
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
