//! What a terminal shows of text, with the place of each byte in it: colours, cursor moves and characters that are never
//! shown stand between letters that are read as one word.
//!
//! Not a terminal: it knows one line at a time, and what tools do in one. Whole screens are in `ringback-render`.

use alloc::vec::Vec;
use core::ops::Range;

use crate::character::is_hostile;

const ESC: u8 = 0x1b;
/// How ESC is spelled in JSON, XML and strings of programs.
const SPELLED: &[&str] = &["\\u001b", "\\u001B", "\\x1b", "\\x1B", "\\033", "&#27;", "&#x1b;", "&#x1B;"];

/// How many bytes are told from odd ones at once: those of a word of the processor.
const WORD_BYTES: usize = 8;
/// A one in each byte of a word, and the highest bit of each.
const ONES: u64 = u64::from_ne_bytes([1; WORD_BYTES]);
const HIGH: u64 = ONES << 7;

/// Text as it would be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Its bytes.
    pub text: Vec<u8>,
    /// Where they stand in what was read, in the order of `text`.
    runs: Vec<Run>,
}

/// Bytes that stand beside each other both in what was read and in the reading.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Run {
    /// Where the first of them is in the reading.
    at: usize,
    /// Where they are in what was read.
    place: Range<usize>,
}

impl Reading {
    /// Where a part of its text stands in what was read.
    pub fn places(&self, part: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let first = self.runs.partition_point(|run| run.at + run.place.len() <= part.start);
        let runs = self.runs.get(first..).unwrap_or_default().iter();
        let end = part.end;
        runs.take_while(move |run| run.at < end).map(move |Run { at, place }| {
            place.start + part.start.saturating_sub(*at)..place.start + place.len().min(part.end - at)
        })
    }

    fn take(&mut self, text: &[u8], from: usize, to: usize) {
        match self.runs.last_mut() {
            Some(run) if run.place.end == from => run.place.end = to,
            _ => self.runs.push(Run { at: self.text.len(), place: from..to }),
        }
        self.text.extend_from_slice(text.get(from..to).unwrap_or_default());
    }
}

/// The ways in which this text reads otherwise than byte by byte; none for plain text.
///
/// First without its escape sequences, then, if the cursor moves in it, also with what was written over taken out. Takes
/// time and memory in proportion to the text.
pub fn readings(text: &[u8]) -> Vec<Reading> {
    if !is_odd(text) {
        return Vec::new();
    }
    let (stripped, has_moves) = read(text, false);
    let mut all = Vec::new();
    if stripped.text.len() < text.len() {
        all.push(stripped);
    }
    if has_moves {
        all.push(read(text, true).0);
    }
    all
}

/// Whether something in this text may be read otherwise than byte by byte. Most text is plain, and this is all that is done
/// with it.
fn is_odd(text: &[u8]) -> bool {
    let (words, rest) = text.as_chunks::<WORD_BYTES>();
    let mut last = [b' '; WORD_BYTES];
    last.iter_mut().zip(rest).for_each(|(to, byte)| *to = *byte);
    words.iter().chain([&last]).enumerate().any(|(number, word)| {
        let (odd, spells) = oddness(u64::from_ne_bytes(*word));
        let at = number * WORD_BYTES;
        odd || (spells && (at..at + WORD_BYTES).any(|at| escape_at(text, at) > 0))
    })
}

/// Whether one of eight bytes is a control character other than a tab and a newline, or not ASCII; and whether one may
/// begin an ESC that is spelled.
///
/// Written in words, since a compiler that is told to make a small program makes no vector code of a loop over bytes.
fn oddness(word: u64) -> (bool, bool) {
    let low = word & !HIGH;
    // The highest bit of each byte: no sum of two numbers below 128 goes over into the next byte.
    let at_least = |least: u8| low + ONES * u64::from(0x80 - least);
    let differs = |byte: u8| (low ^ (ONES * u64::from(byte))) + !HIGH;
    let is_plain = at_least(b' ') & differs(0x7f) | !differs(b'\t') | !differs(b'\n');
    let is_no_spelling = differs(b'&') & differs(b'\\');
    ((word | !is_plain) & HIGH != 0, !is_no_spelling & HIGH != 0)
}

/// Whether this byte is a character that begins nothing else: printable, and neither `&` nor a backslash.
fn is_plain(byte: u8) -> bool {
    matches!(byte, b'\t' | b' '..=b'%' | b'\''..=b'[' | b']'..=b'~')
}

/// The line that is written: characters as ranges of the text, and the one that is written next.
#[derive(Default)]
struct Line {
    cells: Vec<(usize, usize)>,
    cursor: usize,
}

impl Line {
    fn put(&mut self, from: usize, to: usize) {
        match self.cells.get_mut(self.cursor) {
            Some(cell) => *cell = (from, to),
            None => self.cells.push((from, to)),
        }
        self.cursor += 1;
    }

    fn end(&mut self, text: &[u8], reading: &mut Reading) {
        for (from, to) in self.cells.drain(..) {
            reading.take(text, from, to);
        }
        self.cursor = 0;
    }

    fn go(&mut self, to: Move) {
        self.cursor = match to {
            Move::Back(count) => self.cursor.saturating_sub(count),
            // What was never written reads as nothing.
            Move::On(count) => self.cursor.saturating_add(count).min(self.cells.len()),
            Move::To(column) => column.min(self.cells.len()),
        };
    }
}

/// Where the cursor goes within its line.
#[derive(Clone, Copy)]
enum Move {
    Back(usize),
    On(usize),
    To(usize),
}

/// Reads with the cursor's moves, or with a control character left in the place of each; whether there are any.
fn read(text: &[u8], moves: bool) -> (Reading, bool) {
    let (mut reading, mut line, mut has_moves, mut at) = (Reading::default(), Line::default(), false, 0);
    while let Some(&byte) = text.get(at) {
        let rest = text.get(at..).unwrap_or_default();
        let plain = rest.iter().position(|byte| !is_plain(*byte)).unwrap_or(rest.len());
        if plain > 0 {
            if moves {
                (at..at + plain).for_each(|place| line.put(place, place + 1));
            } else {
                reading.take(text, at, at + plain);
            }
            at += plain;
            continue;
        }
        let escape = escape_at(text, at);
        let (end, movement) = match byte {
            _ if escape > 0 => {
                let end = sequence_end(text, at + escape - 1);
                (end, move_of(text.get(at + escape..end).unwrap_or_default()))
            }
            // Alone before a newline it moves nothing that matters, and is no part of a line either.
            b'\r' if text.get(at + 1) == Some(&b'\n') => (at + 1, None),
            b'\r' => (at + 1, Some(Move::To(0))),
            0x08 => (at + 1, Some(Move::Back(1))),
            b'\n' | b'\\' | b'&' => {
                // Wherever the cursor is, the line stays whole.
                if byte == b'\n' {
                    line.go(Move::To(usize::MAX));
                }
                line.put(at, at + 1);
                (at + 1, None)
            }
            0..=0x7f => (at + 1, None),
            0x80.. => {
                let (length, shown) = character(rest);
                if shown {
                    line.put(at, at + length);
                }
                (at + length, None)
            }
        };
        if let Some(to) = movement {
            has_moves = true;
            if moves {
                line.go(to);
            } else if escape == 0 {
                line.put(at, end);
            }
        }
        if byte == b'\n' || !moves {
            line.end(text, &mut reading);
        }
        at = end;
    }
    line.end(text, &mut reading);
    (reading, has_moves)
}

/// How many bytes at this place are an ESC; a spelled one counts where a control sequence follows.
fn escape_at(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    match rest.first() {
        Some(&ESC) => 1,
        Some(b'\\' | b'&') => {
            let spelled = SPELLED.iter().find(|spelled| rest.starts_with(spelled.as_bytes())).map_or(0, |s| s.len());
            if rest.get(spelled) == Some(&b'[') { spelled } else { 0 }
        }
        _ => 0,
    }
}

/// What a sequence, without its ESC, does to the cursor within its line.
fn move_of(sequence: &[u8]) -> Option<Move> {
    let [b'[', digits @ .., action] = sequence else { return None };
    let count = match core::str::from_utf8(digits) {
        Ok("") => 1,
        Ok(digits) => digits.parse::<u16>().ok()?.max(1).into(),
        Err(_) => return None,
    };
    match action {
        b'C' | b'a' => Some(Move::On(count)),
        b'D' => Some(Move::Back(count)),
        b'G' | b'`' => Some(Move::To(count - 1)),
        _ => None,
    }
}

/// How long the character is with which this begins, and whether it is ever shown. A byte of no character is one.
fn character(text: &[u8]) -> (usize, bool) {
    let length = match text.first() {
        Some(0xc2..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf4) => 4,
        _ => return (1, true),
    };
    let decoded = text.get(..length).and_then(|bytes| core::str::from_utf8(bytes).ok());
    decoded.and_then(|text| text.chars().next()).map_or((1, true), |c| (length, !is_hostile(c)))
}

/// Where the escape sequence ends whose ESC is at `at` (ECMA-48 and ECMA-35): control sequences, strings as of OSC and DCS,
/// and short ones. None goes over a newline, and another ESC ends it.
pub fn sequence_end(text: &[u8], at: usize) -> usize {
    let find = |from: usize, ends: &dyn Fn(u8) -> bool| {
        let rest = text.get(from..).unwrap_or_default();
        let stop = |byte: &u8| matches!(*byte, ESC | b'\n' | 0x18 | 0x1a) || ends(*byte);
        match rest.iter().position(stop) {
            // These two begin something else.
            Some(length) if matches!(rest.get(length), Some(&(ESC | b'\n'))) => from + length,
            Some(length) => from + length + 1,
            None => text.len(),
        }
    };
    match text.get(at + 1) {
        Some(b'[') => find(at + 2, &|byte| matches!(byte, 0x40..=0x7e)),
        Some(b']') => find(at + 2, &|byte| byte == 0x07),
        Some(b'P' | b'X' | b'^' | b'_') => find(at + 2, &|_| false),
        Some(0x20..=0x2f) => find(at + 2, &|byte| matches!(byte, 0x30..=0x7e)),
        Some(0x30..=0x7e) => at + 2,
        _ => at + 1,
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::prelude::rust_2024::*;
    use std::string::String;
    use std::{format, vec};

    use super::*;

    fn texts(text: &str) -> Vec<String> {
        readings(text.as_bytes()).into_iter().map(|reading| String::from_utf8(reading.text).unwrap()).collect()
    }

    /// That each byte, and each part, is the same where it stands.
    fn all_have_places(text: &[u8], reading: &Reading) {
        let length = reading.text.len();
        for part in
            (0..length).map(|at| at..at + 1).chain([0..0, 0..length, length / 3..length / 2 + 1, length..length])
        {
            let part = part.start..part.end.min(length);
            let there: Vec<u8> = reading.places(part.clone()).flat_map(|place| text[place].to_vec()).collect();
            assert_eq!(there, reading.text[part]);
        }
    }

    #[test]
    fn sequences_and_what_is_never_shown_are_read_over() {
        for text in [
            "ab\x1b[31mcd\x1b[0m",
            "\x1b]0;title\x07ab\x1b]8;;http://x\x1b\\cd",
            "ab\x1b(B\x1b[mcd",
            "ab\x1bPdata\x1b\\cd",
            "a\0b\x07\u{200b}c\u{ad}d",
            "ab\\u001b[1mcd&#27;[0m",
            "abcd\x1b[3",
            "abcd\x1b",
        ] {
            assert_eq!(texts(text), ["abcd"], "{text:?}");
        }
        assert_eq!(texts("a\x1b[1\nb\x1b]2\nc"), ["a\nb\nc"], "a cut sequence ends with its line");
        assert_eq!(texts("a\\b & \\x1b é\tc"), Vec::<String>::new());
    }

    #[test]
    fn each_byte_in_each_place_is_odd_or_not() {
        // Under miri this would take many minutes.
        for byte in (0..=u8::MAX).step_by(if cfg!(miri) { 37 } else { 1 }) {
            let is_control = (byte < b' ' && !b"\t\n".contains(&byte)) || byte >= 0x7f;
            for place in 0..=2 * WORD_BYTES {
                for filler in [b' ', b'~', b'\n', b'&', b'x'] {
                    let mut text = [filler; 2 * WORD_BYTES + 1];
                    text[place] = byte;
                    assert_eq!(is_odd(&text), is_control, "{byte} at {place} in {filler}");
                }
            }
        }
        assert!(is_odd(b"1234567\\x1b[1m") && is_odd(b"&#27;[1m") && !is_odd(b"&#27; [1m\\") && !is_odd(b""));
    }

    #[test]
    fn what_is_written_over_is_read_both_ways() {
        assert_eq!(texts("abXX\x08\x08cd"), ["abcd"]);
        assert_eq!(texts("10%\r20%\r\nx\r\n"), ["10%\r20%\nx\n", "20%\nx\n"]);
        assert_eq!(texts("ad\x1b[Db\x1b[Cc\x1b[1Gx\x1b[99D\x1b[99Cy"), ["adbcxy", "xbcy"]);
        assert_eq!(texts("cdef\rab\nx"), ["cdef\rab\nx", "abef\nx"][1..], "the line stays whole");
        assert_eq!(texts("é\x08e\x1b[0m"), ["é\x08e", "e"]);
    }

    #[test]
    fn each_byte_has_its_place() {
        let text = "a\x1b[1mé\x08b\u{200b}c\r\nd\re".as_bytes();
        for reading in readings(text) {
            all_have_places(text, &reading);
        }
        assert_eq!(readings(text).len(), 2);
    }

    #[test]
    fn whatever_the_bytes_nothing_is_lost_but_controls() {
        let bits =
            |number: usize| [0x1b, b'[', b'\\', b'u', 0xc2, 0x9b, b'\r', 0x08, b'\n', b'D', 0xff, b'P'][number % 12];
        let mut state = 1_usize;
        for length in 0..if cfg!(miri) { 40 } else { 400 } {
            let text: Vec<u8> = (0..length)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    bits(state >> 33)
                })
                .collect();
            for reading in readings(&text) {
                all_have_places(&text, &reading);
                assert!(reading.text.len() <= text.len());
            }
        }
        assert_eq!(sequence_end(b"\x1b", 0), 1);
        assert_eq!(vec![format!("{:?}", readings(b""))], ["[]"]);
    }
}
