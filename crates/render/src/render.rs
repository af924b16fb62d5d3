//! Renders output in pieces of any size: what a person would have seen, line by line, in constant memory.

use std::fmt;

use crate::character::is_plain;
use crate::progress::Progress;
use crate::screen::{Picture, Screen};
use crate::terminal::Terminal;

/// After how many equal lines in a row it is looked again whether the screen shows nothing else: a look goes over all rows.
const LOOKS_APART: u64 = 64;
/// How much is compared at once with what is a line further on.
const COMPARED_BYTES: usize = 4096;

/// How output is rendered.
#[derive(Clone, Debug)]
pub struct Options {
    /// The width of the terminal that the command wrote to; nothing if it wrote to none, then lines have no end.
    pub columns: Option<u16>,
    /// How many rows a program can go up. Tools that paint without a known size stay within a small window.
    pub rows: u16,
    /// The longest line that is kept; a longer one ends with how many characters more it had.
    pub line_chars: usize,
    /// Whether equal lines in a row become one.
    pub fold: bool,
    /// The number of the first line of the bytes.
    pub first_line: u64,
}

impl Options {
    /// The longest rendered line: what an agent can bear, and more than a person reads.
    pub const LINE_CHARS: usize = 2000;
    /// How far a program can go up where no size is known.
    pub const ROWS: u16 = 64;
}

impl Default for Options {
    fn default() -> Self {
        Self { columns: None, rows: Self::ROWS, line_chars: Self::LINE_CHARS, fold: true, first_line: 1 }
    }
}

/// A rendered line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The raw line that wrote its last character.
    pub number: u64,
    /// The same of the last of equal lines.
    pub last_number: u64,
    /// The text: no control characters, no newline, no spaces at the end.
    pub text: &'a str,
    /// How many equal lines in a row this stands for.
    pub repeats: u64,
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.repeats, self.text) {
            (1, text) => f.write_str(text),
            (count, "") => write!(f, "(empty line ×{count})"),
            (count, text) => write!(f, "{text} (×{count})"),
        }
    }
}

/// Takes bytes, gives lines.
pub struct Renderer {
    parser: vte::Parser,
    screen: Screen,
    progress: Option<Progress>,
    last: char,
    /// Whether the parser was given something of the line that is being read.
    is_parsing: bool,
    /// Whether the last byte that it was given may be in the middle of a character.
    may_be_cut: bool,
}

impl Renderer {
    /// Begins before the first byte.
    pub fn new(options: &Options) -> Self {
        Self {
            parser: vte::Parser::new(),
            screen: Screen::new(options),
            progress: None,
            last: ' ',
            is_parsing: false,
            may_be_cut: false,
        }
    }

    /// Takes the next bytes, and gives out the lines that can no longer change.
    pub fn push(&mut self, bytes: &[u8], out: &mut dyn FnMut(Line<'_>)) {
        let (mut rest, mut equal) = (bytes, 0_u64);
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let is_put = self.part(&rest[..end], true, out);
            self.newline(out);
            let (line, after) = rest.split_at(end + 1);
            rest = after;
            if !is_put || !rest.starts_with(line) {
                equal = 0;
                continue;
            }
            if equal.is_multiple_of(LOOKS_APART) && self.screen.is_one_line_all_over() {
                let count = copies(line, rest);
                self.screen.again(count as u64);
                rest = &rest[count * line.len()..];
            }
            equal += 1;
        }
        self.part(rest, false, out);
    }

    /// Gives out everything that is left.
    pub fn finish(mut self, out: &mut dyn FnMut(Line<'_>)) {
        self.end_sequence(out);
        self.screen.finish(out);
    }

    /// The text of the row in which the cursor is: of a program that redraws, its last picture.
    pub fn current(&self) -> String {
        self.screen.current()
    }

    /// What the terminal shows now.
    pub fn picture(&self) -> Picture {
        self.screen.picture()
    }

    /// The terminal has another size from here on, if it had one at all.
    pub fn resize(&mut self, columns: u16, rows: u16, out: &mut dyn FnMut(Line<'_>)) {
        self.screen.resize(usize::from(columns), usize::from(rows), out);
    }

    /// What the command last said about its progress by a terminal sequence.
    pub fn progress(&self) -> Option<Progress> {
        self.progress
    }

    /// The number of the raw line that is being read.
    pub fn line(&self) -> u64 {
        self.screen.line()
    }

    /// A part of a line, or a whole one; whether that was plain text in a row of its own.
    fn part(&mut self, bytes: &[u8], is_whole: bool, out: &mut dyn FnMut(Line<'_>)) -> bool {
        if is_whole && !self.is_parsing {
            let plain = bytes.strip_suffix(b"\r").unwrap_or(bytes);
            if is_plain(plain) && self.screen.put_plain(plain) {
                let last = plain.iter().rfind(|byte| **byte != b'\t');
                self.last = last.map_or(self.last, |byte| char::from(*byte));
                return true;
            }
        }
        if bytes.is_empty() {
            return false;
        }
        // vte 0.15 drops bytes when a character that was cut is given together with more than its rest.
        let rest = if self.may_be_cut { bytes.iter().position(u8::is_ascii).unwrap_or(bytes.len()) } else { 0 };
        bytes[..rest].iter().for_each(|byte| self.parse(&[*byte], out));
        self.parse(&bytes[rest..], out);
        self.is_parsing = true;
        self.may_be_cut = bytes.last().is_some_and(|byte| !byte.is_ascii());
        false
    }

    fn newline(&mut self, out: &mut dyn FnMut(Line<'_>)) {
        self.end_sequence(out);
        self.screen.newline(out);
    }

    /// No sequence goes over the end of a line: a stray `ESC ]` must not swallow the rest of the output.
    fn end_sequence(&mut self, out: &mut dyn FnMut(Line<'_>)) {
        if std::mem::take(&mut self.is_parsing) {
            // CAN ends every sequence (ECMA-48), and shows a character that was cut.
            self.parse(b"\x18", out);
            self.may_be_cut = false;
        }
    }

    fn parse(&mut self, bytes: &[u8], out: &mut dyn FnMut(Line<'_>)) {
        let Self { parser, screen, progress, last, .. } = self;
        parser.advance(&mut Terminal { screen, progress, last, out }, bytes);
    }
}

/// How many copies of this line there are at the begin of `rest`, which begins with one.
fn copies(line: &[u8], rest: &[u8]) -> usize {
    // As far as `rest` is equal to itself a line further on, it goes on with copies.
    let (ahead, mut same) = (&rest[line.len()..], 0);
    while same + COMPARED_BYTES <= ahead.len()
        && ahead[same..same + COMPARED_BYTES] == rest[same..same + COMPARED_BYTES]
    {
        same += COMPARED_BYTES;
    }
    same += ahead[same..].iter().zip(&rest[same..]).take_while(|(one, other)| one == other).count();
    (line.len() + same) / line.len()
}

/// Renders bytes that are all there, as one text with a newline after each line.
pub fn render_all(bytes: &[u8], options: &Options) -> String {
    let mut text = String::new();
    let mut out = |line: Line<'_>| {
        text.push_str(&line.to_string());
        text.push('\n');
    };
    let mut renderer = Renderer::new(options);
    renderer.push(bytes, &mut out);
    renderer.finish(&mut out);
    text
}
