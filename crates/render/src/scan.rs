//! Looks through output of any size in one pass, and shows the recogniser only the lines that may matter.

mod glance;
mod veil;

use std::sync::LazyLock;

use aho_corasick::Span;
use aho_corasick::packed::{Config, MatchKind, Searcher};

use crate::character::is_plain;
use crate::recognise::{Findings, Recogniser};
use crate::render::{Line, Options, Renderer};
pub use glance::{GLANCE_BACK_BYTES, Glance};
pub use veil::Veil;
use veil::Veiled;

/// How much is held: the end that is kept is moved to the front for every three times as much that comes.
const BUFFER_BYTES: usize = 4 * TAIL_BYTES;
/// After how much more, of an output that is not held as a whole, complete lines are looked at: soon, while a processor still
/// has them in its cache.
const STEP_BYTES: usize = 128 << 10;
/// How much of the end is kept.
pub(crate) const TAIL_BYTES: usize = 256 << 10;
/// A longer line is looked at in parts.
const LINE_BYTES_MAX: usize = 128 << 10;
/// How many lines are looked at closely; in a log where each line cries, the first ones and the end say enough.
pub(crate) const CLOSE_LOOKS_MAX: u32 = 20_000;
/// How much of the end is looked at in any case.
const END_BYTES: usize = 64 << 10;
/// How much of a line is looked at around the word that drew the look.
const LOOK_BYTES: usize = 4 << 10;
/// How far back the line that names a file may be.
const LOOK_BACK_BYTES: usize = 8 << 10;

/// A line without one of these says nothing that the recogniser knows.
///
/// More than 32: then text is compared with 16 groups of words at once instead of 8 (Teddy's fat form), and three times as
/// fast, because fewer places look like a word at first. For the same reason none has fewer than four bytes, as many as are
/// compared; and their order, which says what is in a group with what, is one in which few do (longest first).
const WORDS: [&str; 36] = [
    "Connection refused",
    "ermission denied",
    "Address already",
    "\"reason\":\"comp",
    "No space left",
    "No such file",
    "Segmentation",
    "ut of memory",
    "panicked at",
    "Traceback (",
    "core dumped",
    "undefined ",
    "\"Action\":\"",
    "Exception",
    "not found",
    "Tests run",
    "TIMEOUT [",
    "npm ERR!",
    "\"cell\": ",
    "passing",
    "failing",
    "not ok ",
    "ABORT [",
    "ailure",
    "passed",
    "panic:",
    "ERROR",
    "ailed",
    "FATAL",
    "rror",
    "FAIL",
    "atal",
    ".xml",
    ".go:",
    " SIG",
    "● ",
];

/// Finds the first of the words by comparing many bytes at once.
static SEARCHER: LazyLock<Option<Searcher>> = LazyLock::new(|| {
    let mut config = Config::new();
    // The limits are of processors without the fat form, which are better off with the slim one than with none.
    config.match_kind(MatchKind::LeftmostFirst).heuristic_pattern_limits(false);
    config.builder().extend(WORDS).build()
});

/// Takes bytes in pieces of any size; what it finds does not depend on how they were cut.
pub struct Scanner {
    buffer: Vec<u8>,
    /// How much of the buffer was looked at.
    done: usize,
    /// Up to where newlines were counted, and the number of the line there. It is far behind where nobody asks.
    counted: usize,
    line: u64,
    /// Bytes and lines that are no longer in the buffer.
    dropped_bytes: u64,
    dropped_lines: u64,
    recogniser: Recogniser,
    looks_left: u32,
    /// The first line that was not looked at, because too many were.
    tired_at: Option<u64>,
    /// Where the output was painted, every line is read as a person saw it.
    model: Option<Renderer>,
    veiled: Veiled,
}

/// What is known at the end.
pub(crate) struct Scanned {
    pub(crate) recogniser: Recogniser,
    /// All bytes, or their end.
    pub(crate) tail: Vec<u8>,
    /// The number of the line at the begin of `tail`.
    pub(crate) tail_line: u64,
    /// Whether `tail` is everything.
    pub(crate) is_whole: bool,
    pub(crate) lines: u64,
    /// Lines in which nothing was looked for.
    pub(crate) unseen: Option<(u64, u64)>,
}

impl Scanner {
    /// Begins before the first byte. With a terminal's size, its model is used for every byte.
    pub fn new(recogniser: Recogniser, columns: Option<u16>, rows: u16) -> Self {
        let model = columns.map(|_| {
            Renderer::new(&Options { columns, rows, line_chars: LINE_BYTES_MAX / 4, fold: false, first_line: 1 })
        });
        let looks_left = if recogniser.is_thorough() { u32::MAX } else { CLOSE_LOOKS_MAX };
        Self {
            buffer: Vec::new(),
            done: 0,
            counted: 0,
            line: 1,
            dropped_bytes: 0,
            dropped_lines: 0,
            recogniser,
            looks_left,
            tired_at: None,
            model,
            veiled: Veiled::default(),
        }
    }

    /// With what hides secrets in what is looked at. A terminal's model has to be given bytes in which they are hidden already.
    #[must_use]
    pub fn veiled(self, veil: Veil) -> Self {
        Self { veiled: Veiled::new(Some(veil)), ..self }
    }

    /// How much before and after what is looked at has to be there.
    pub(crate) fn margin(&self) -> usize {
        self.veiled.margin()
    }

    /// Hides in the begin of the output.
    pub(crate) fn hide(&self, begin: &mut [u8]) {
        self.veiled.hide(begin);
    }

    /// Whether no more lines are looked at before the end.
    pub(crate) fn is_tired(&self) -> bool {
        self.tired_at.is_some()
    }

    /// Whether what says nothing need not be given.
    pub(crate) fn can_skip(&self) -> bool {
        self.dropped_bytes > 0 && self.model.is_none() && !self.recogniser.wants_every_line()
    }

    /// The next bytes say nothing, nor does what was given last; so many lines end in them.
    pub(crate) fn skip(&mut self, bytes: u64, lines: u64) {
        self.dropped_lines += newlines(&self.buffer) + lines;
        self.dropped_bytes += self.buffer.len() as u64 + bytes;
        self.buffer.clear();
        (self.done, self.counted, self.line) = (0, 0, self.dropped_lines + 1);
    }

    /// Takes the next bytes.
    pub fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            // What may yet be the whole is not looked at before that is known.
            let step = if self.dropped_bytes == 0 { BUFFER_BYTES } else { STEP_BYTES };
            let (now, later) = bytes.split_at(bytes.len().min(step - self.buffer.len() % step));
            self.buffer.extend_from_slice(now);
            bytes = later;
            if self.buffer.len().is_multiple_of(step) {
                self.advance();
            }
            if self.buffer.len() == BUFFER_BYTES {
                self.drop_front();
            }
        }
    }

    /// Everything was given; what was found.
    pub fn findings(self) -> Findings {
        self.finish().recogniser.finish()
    }

    /// Everything was given.
    pub(crate) fn finish(mut self) -> Scanned {
        let is_whole = self.dropped_bytes == 0;
        if is_whole && self.model.is_none() {
            self.model =
                Some(Renderer::new(&Options { line_chars: LINE_BYTES_MAX / 4, fold: false, ..Options::default() }));
        }
        self.veiled.lift(&mut self.buffer);
        self.look_at(self.buffer.len());
        if let Some(model) = self.model.take() {
            model.finish(&mut |line| self.recogniser.line(line.number, line.text));
        }
        let unseen = self.look_at_end_again();
        let newlines = newlines(&self.buffer);
        let open = u64::from(self.buffer.last().is_some_and(|byte| *byte != b'\n'));
        Scanned {
            recogniser: self.recogniser,
            tail_line: self.dropped_lines + 1,
            is_whole,
            lines: self.dropped_lines + newlines + open,
            tail: self.buffer,
            unseen,
        }
    }

    /// Looks at all lines that are complete, and at the begin of one that is endless.
    fn advance(&mut self) {
        // What is secret may be known by what follows it.
        let known = self.buffer.len().saturating_sub(self.margin()).max(self.done);
        let end = memchr::memrchr(b'\n', &self.buffer[self.done..known]).map(|at| self.done + at + 1);
        let open = end.unwrap_or(self.done);
        let end = if known - open > LINE_BYTES_MAX { known } else { open };
        self.look_at(end);
    }

    fn drop_front(&mut self) {
        let count = (self.buffer.len() - TAIL_BYTES - self.margin()).min(self.done);
        if self.counted <= count {
            self.dropped_lines = self.line_at(count) - 1;
        } else {
            self.dropped_lines += newlines(&self.buffer[..count]);
        }
        self.counted -= count;
        self.dropped_bytes += count as u64;
        self.buffer.copy_within(count.., 0);
        self.buffer.truncate(self.buffer.len() - count);
        self.done -= count;
    }

    fn look_at(&mut self, end: usize) {
        if let Some(model) = &mut self.model {
            let recogniser = &mut self.recogniser;
            model.push(&self.buffer[self.done..end], &mut |line| recogniser.line(line.number, line.text));
            self.done = end;
            return;
        }
        let Some(searcher) = &*SEARCHER else { return };
        while self.done < end {
            let word = if self.recogniser.wants_every_line() {
                self.done..self.done
            } else if self.tired_at.is_some() {
                return self.skip_to(end);
            } else {
                let Some(word) = searcher.find_in(&self.buffer, Span { start: self.done, end }) else {
                    return self.skip_to(end);
                };
                word.start()..word.end()
            };
            let line_start = memchr::memrchr(b'\n', &self.buffer[self.done..word.start]).map_or(0, |at| at + 1);
            self.skip_to(self.done + line_start);
            if self.looks_left == 0 {
                self.tired_at = Some(self.line_at(self.done));
                self.recogniser.jump();
                continue;
            }
            self.looks_left -= 1;
            let look_end = self.look_at_line(word, end);
            self.skip_to(look_end);
        }
    }

    fn skip_to(&mut self, at: usize) {
        self.done = at;
    }

    /// The number of the line at this place, which is not before the last one that was asked for.
    fn line_at(&mut self, at: usize) -> u64 {
        self.line += newlines(&self.buffer[self.counted..at]);
        self.counted = at;
        self.line
    }

    /// Shows the recogniser the line at `done`, or what is around the word of a long or redrawn one. Gives where it ends.
    fn look_at_line(&mut self, word: std::ops::Range<usize>, end: usize) -> usize {
        let line = self.line_at(self.done);
        let buffer = &self.buffer[..end];
        let line_end = memchr::memchr(b'\n', &buffer[word.end..]).map_or(end, |at| word.end + at);
        let mut look = self.done..line_end;
        if !matches!(buffer.get(look.start), Some(b'{' | b'[')) {
            if buffer[..look.end].ends_with(b"\r") && look.end > word.end {
                look.end -= 1;
            }
            if let Some(at) = memchr::memchr(b'\r', &buffer[word.end..look.end]) {
                look.end = word.end + at;
            }
            let start =
                memchr::memrchr(b'\r', &buffer[look.start..word.start]).map_or(look.start, |at| look.start + at + 1);
            look.start = start.max(word.start.saturating_sub(LOOK_BYTES / 2));
            look.end = look.end.min(word.end + LOOK_BYTES);
        }
        let text = clean(self.veiled.show(&self.buffer, self.dropped_bytes, look.clone()));
        if needs_heading(&text) {
            let before = self.done.saturating_sub(LOOK_BACK_BYTES)..self.done;
            if let Some(heading) = heading(self.veiled.show(&self.buffer, self.dropped_bytes, before)) {
                self.recogniser.set_heading(&heading);
            }
        }
        self.recogniser.line(line, &text);
        // What follows in the same raw line is looked at too; else the newline is part of the line.
        if look.end < line_end && !buffer[look.end..line_end].iter().all(|byte| *byte == b'\r') {
            look.end.max(self.done + 1)
        } else {
            (line_end + 1).min(end)
        }
    }

    /// After too many lines, at least the end is looked at: there a summary is. Gives the lines that were not.
    fn look_at_end_again(&mut self) -> Option<(u64, u64)> {
        let tired_at = self.tired_at.take()?;
        let from = self.buffer.len().saturating_sub(END_BYTES);
        let start = memchr::memchr(b'\n', &self.buffer[from..]).map_or(self.buffer.len(), |at| from + at + 1);
        (self.counted, self.line) = (0, self.dropped_lines + 1);
        self.skip_to(start);
        while self.line_at(self.done) < tired_at && self.done < self.buffer.len() {
            let next = memchr::memchr(b'\n', &self.buffer[self.done..]);
            self.skip_to(next.map_or(self.buffer.len(), |at| self.done + at + 1));
        }
        let unseen = (tired_at, self.line - 1);
        self.looks_left = u32::MAX;
        self.look_at(self.buffer.len());
        (unseen.0 <= unseen.1).then_some(unseen)
    }
}

fn newlines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

/// The visible text of a part of a line.
fn clean(bytes: &[u8]) -> String {
    let plain = bytes.strip_suffix(b"\r").unwrap_or(bytes);
    if let (true, Ok(text)) = (is_plain(plain), std::str::from_utf8(plain)) {
        return text.to_owned();
    }
    let mut text = String::new();
    let mut out = |line: Line<'_>| text.push_str(line.text);
    let options = Options { rows: 1, line_chars: LINE_BYTES_MAX, fold: false, ..Options::default() };
    let mut renderer = Renderer::new(&options);
    renderer.push(bytes, &mut out);
    renderer.finish(&mut out);
    text
}

/// Whether the meaning of this line hangs on one before it.
fn needs_heading(text: &str) -> bool {
    let is_position = text.starts_with(' ') && text.trim_start().starts_with(|c: char| c.is_ascii_digit());
    is_position || text.starts_with("FAIL: ") || text.starts_with("ERROR: ")
}

/// The last line of these, the ones before it, that is not indented.
fn heading(before: &[u8]) -> Option<String> {
    let mut lines = before.rsplit(|byte| *byte == b'\n').map(|line| clean(&line[..line.len().min(LOOK_BYTES)]));
    lines.find(|line| !line.is_empty() && !line.starts_with([' ', '\t']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], piece: usize) -> (String, u64, Option<(u64, u64)>) {
        let mut scanner = Scanner::new(Recogniser::new(false), None, Options::ROWS);
        bytes.chunks(piece).for_each(|piece| scanner.push(piece));
        let end = scanner.finish();
        let found = end.recogniser.finish();
        (serde_json::to_string(&found).unwrap(), end.lines, end.unseen)
    }

    /// So many lines that what follows is found in a look at parts only; under miri that would take hours.
    const FILLER: usize = if cfg!(miri) { 10 } else { 100_000 };

    fn filler() -> Vec<u8> {
        (0..FILLER).flat_map(|n| format!("compiling unit {n}\n").into_bytes()).collect()
    }

    #[test]
    fn a_needle_is_found_with_its_line() {
        let needle = b"\x1b[31merror[E0308]\x1b[0m: mismatched\x1b[1m types\r\n \x1b[34m-->\x1b[0m src/lib.rs:9:26\r\n";
        let bytes = [filler(), needle.to_vec(), filler()].concat();
        let (found, lines, unseen) = check(&bytes, bytes.len());
        assert!(
            found.contains(r#""message":"mismatched types","code":"E0308","path":"src/lib.rs","line":9"#),
            "{found}"
        );
        assert!(found.contains(&format!(r#""output_line":{}"#, FILLER + 1)), "{found}");
        assert_eq!((lines, unseen), (2 * FILLER as u64 + 2, None));
        for piece in [1000, 4096, 65_537] {
            assert_eq!(check(&bytes, piece).0, found, "{piece}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "writes more than the most, which takes miri hours")]
    fn an_endless_redrawn_line_is_looked_at_in_parts() {
        let redraws = (0..200_000).flat_map(|n| format!("{n}/227 KB   \r").into_bytes());
        let bytes: Vec<u8> = redraws.chain(*b"fatal: remote hung up\rmore\nlast\n").collect();
        let (found, lines, _) = check(&bytes, 100_000);
        assert!(found.contains(r#"{"output_line":1,"text":"fatal: remote hung up"}"#), "{found}");
        assert_eq!(lines, 2);
    }

    #[test]
    #[cfg_attr(miri, ignore = "writes more than the most, which takes miri hours")]
    fn where_every_line_cries_the_first_and_the_end_are_looked_at() {
        let mut bytes: Vec<u8> = b"error: no\n".repeat(200_000);
        bytes.extend_from_slice(b"test result: FAILED. 1 passed; 2 failed; 0 ignored\n");
        let (found, lines, unseen) = check(&bytes, 1 << 16);
        assert!(found.contains(r#""source":"libtest","passed":1,"failed":2"#), "{found}");
        let (from, to) = unseen.unwrap();
        assert!(from > 10_000 && to < lines, "{from} {to} {lines}");
    }

    #[test]
    fn a_test_that_took_too_long_or_was_ended_by_a_signal_is_found() {
        let ended =
            b" TIMEOUT [  60.001s] (1/3) a slow\n     ABORT [   0.1s] (2/3) a b\n   SIGSEGV [   0.1s] (3/3) a c\n";
        let (found, ..) = check(&[filler(), ended.to_vec()].concat(), 1 << 20);
        for name in ["a slow", "a b", "a c"] {
            assert!(found.contains(&format!(r#""name":"{name}","status":"failed""#)), "{found}");
        }
    }

    #[test]
    fn a_thorough_look_sees_every_line() {
        let line = |n: usize| format!("test unit{n} ... ok\n");
        let (lines, at) = if cfg!(miri) { (30, 19) } else { (30_000, 19_999) };
        let bytes = (0..lines).map(line).collect::<Vec<_>>().concat();
        let mut scanner = Scanner::new(Recogniser::new(true), None, Options::ROWS);
        scanner.push(bytes.as_bytes());
        let found = scanner.findings();
        assert_eq!(found.tests.len() as u64 + found.tests_left_out, lines as u64);
        assert_eq!(found.tests[at].output_line, Some(at as u64 + 1));
    }

    #[test]
    fn the_file_of_a_linter_stands_above() {
        let eslint = b"\n/src/b.js\n  1:1  warning  a  b\n  12:5  error  'x' is not defined  no-undef\n";
        let (found, ..) = check(&[filler(), eslint.to_vec()].concat(), 1 << 20);
        assert!(found.contains(r#""path":"/src/b.js","line":12"#), "{found}");
    }
}
