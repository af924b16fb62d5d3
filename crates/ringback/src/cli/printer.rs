//! Prints output as it is, by lines, or as JSON lines, with every gap marked.

use std::io::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use regex::bytes::Regex;
use ringback_host::client::output::{Gap, Line, LineSink, Lines, Piece, Stream};
use ringback_render::{Options, render_all};
use serde_json::{Value, json};

use super::value::LineRange;
use crate::render::clean;
use crate::render::json::document;

/// What of an output is printed, and how.
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
#[derive(Debug, Default)]
pub(super) struct Choice {
    /// Only this stream.
    pub(super) only: Option<Stream>,
    /// Only lines that match.
    pub(super) grep: Option<Regex>,
    /// Only these lines.
    pub(super) lines: Option<LineRange>,
    /// The time before each line.
    pub(super) timestamps: bool,
    /// Exactly the bytes: gaps are told on stderr.
    pub(super) raw: bool,
    /// Secrets are starred.
    pub(super) masked: bool,
    /// One JSON document per line, for the task of this id.
    pub(super) events: Option<String>,
    /// Each line as a person would have seen it, for a terminal that must come to no harm.
    pub(super) rendered: bool,
    /// stderr of the task goes to our stderr.
    pub(super) apart: bool,
}

impl Choice {
    /// Whether lines must be put together.
    pub(super) fn by_line(&self) -> bool {
        self.grep.is_some() || self.lines.is_some() || self.timestamps || self.events.is_some() || self.rendered
    }

    /// Whether streams or times matter.
    pub(super) fn needs_index(&self) -> bool {
        self.only.is_some() || self.timestamps || self.events.is_some() || self.apart
    }
}

/// Takes pieces and prints what was chosen.
pub(super) struct Printer<'a> {
    lines: Lines,
    page: Page<'a>,
}

/// Where lines and bytes are printed.
struct Page<'a> {
    choice: Choice,
    out: &'a mut dyn Write,
    number: u64,
    /// Whether the last thing printed ended its line, so that a mark begins one.
    at_line_start: bool,
    past_end: bool,
    /// Whether the last part ended its line: parts of one line have one number.
    line_ended: bool,
    /// Where the last byte that was looked at is.
    seen: u64,
    written: u64,
}

impl<'a> Printer<'a> {
    /// A printer of these choices.
    pub(super) fn new(choice: Choice, out: &'a mut dyn Write) -> Self {
        Self::starting_at(1, choice, out)
    }

    /// The same, where the first byte begins this line.
    pub(super) fn starting_at(line: u64, choice: Choice, out: &'a mut dyn Write) -> Self {
        let lines = Lines::new(choice.only);
        Self {
            lines,
            page: Page {
                choice,
                out,
                number: line - 1,
                at_line_start: true,
                past_end: false,
                line_ended: true,
                seen: 0,
                written: 0,
            },
        }
    }

    /// What was chosen.
    pub(super) fn choice(&self) -> &Choice {
        &self.page.choice
    }

    /// Whether nothing more can be chosen.
    pub(super) fn is_done(&self) -> bool {
        self.page.past_end
    }

    /// Where the last line that was looked at ends.
    pub(super) fn seen(&self) -> u64 {
        self.page.seen
    }

    /// How many bytes of the output were printed.
    pub(super) fn written(&self) -> u64 {
        self.page.written
    }

    /// Prints what is chosen of this piece.
    pub(super) fn piece(&mut self, piece: Piece<'_>) -> io::Result<()> {
        if self.page.choice.by_line() {
            return self.lines.push(piece, &mut self.page);
        }
        match piece {
            Piece::Gap(gap) => self.page.gap(gap),
            Piece::Bytes { stream, .. } if self.page.choice.only.is_some_and(|only| only != stream) => Ok(()),
            Piece::Bytes { offset, bytes, stream, .. } => {
                self.page.seen = offset + bytes.len() as u64;
                self.page.write(bytes, stream)
            }
        }
    }

    /// Prints a last line that has no newline.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.lines.flush(&mut self.page)?;
        self.flush()
    }

    /// Hands everything on.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.page.out.flush()
    }

    /// Whether what was printed last has ended its line, as far as that is known.
    pub(super) fn is_at_line_start(&self) -> bool {
        self.page.at_line_start
    }

    /// Prints an event of the stream, if this is one.
    pub(super) fn event(&mut self, fields: Value) -> io::Result<()> {
        if self.page.choice.events.is_some() { writeln!(self.page.out, "{}", document(fields)) } else { Ok(()) }
    }
}

impl Page<'_> {
    fn write(&mut self, bytes: &[u8], stream: Stream) -> io::Result<()> {
        if self.choice.apart && stream == Stream::Stderr {
            return io::stderr().write_all(bytes);
        }
        self.at_line_start = bytes.last() == Some(&b'\n');
        self.written += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    fn is_chosen(&mut self, line: &Line<'_>) -> bool {
        self.number += u64::from(self.line_ended);
        self.line_ended = line.bytes.ends_with(b"\n");
        if let Some(range) = self.choice.lines {
            self.past_end = self.number > range.to || (self.number == range.to && self.line_ended);
            if self.number < range.from || self.number > range.to {
                return false;
            }
        }
        let text = line.bytes.strip_suffix(b"\n").unwrap_or(line.bytes);
        self.choice.grep.as_ref().is_none_or(|grep| grep.is_match(text))
    }
}

impl LineSink for Page<'_> {
    fn line(&mut self, line: Line<'_>) -> io::Result<()> {
        self.seen = line.offset + line.bytes.len() as u64;
        let rendered = self.choice.rendered.then(|| render_all(line.bytes, &Options { rows: 1, ..Options::default() }));
        let line = Line { bytes: rendered.as_deref().map_or(line.bytes, str::as_bytes), ..line };
        if !self.is_chosen(&line) {
            return Ok(());
        }
        if let Some(task) = &self.choice.events {
            let mut event = json!({
                "event": "output", "task": task, "offset": line.offset, "at": line.wall_ms.map(time),
                "stream": word(line.stream), "text": String::from_utf8_lossy(line.bytes),
            });
            if std::str::from_utf8(line.bytes).is_err() {
                event["base64"] = STANDARD.encode(line.bytes).into();
            }
            return writeln!(self.out, "{}", document(event));
        }
        if self.choice.timestamps {
            let stamp = line.wall_ms.map_or_else(|| "-".to_owned(), time);
            let start = if self.at_line_start { "" } else { "\n" };
            self.write(format!("{start}{stamp} ").as_bytes(), line.stream)?;
        }
        self.write(line.bytes, line.stream)
    }

    fn gap(&mut self, gap: &Gap) -> io::Result<()> {
        self.seen = gap.to;
        if let Some(task) = &self.choice.events {
            let event = json!({ "event": "gap", "task": task, "from": gap.from, "to": gap.to, "why": gap.why });
            return writeln!(self.out, "{}", document(event));
        }
        let mark = format!("[ringback: bytes {}-{} are missing: {}]\n", gap.from, gap.last(), clean::line(&gap.why));
        if self.choice.raw {
            return io::stderr().write_all(mark.as_bytes());
        }
        let start = if self.at_line_start { "" } else { "\n" };
        self.at_line_start = true;
        self.out.write_all(format!("{start}{mark}").as_bytes())
    }
}

/// The stream as the JSON names it.
pub(super) fn word(stream: Stream) -> &'static str {
    match stream {
        Stream::Merged => "merged",
        Stream::Stdout => "stdout",
        Stream::Stderr => "stderr",
    }
}

/// RFC 3339 with milliseconds.
fn time(wall_ms: u64) -> String {
    let stamp = i64::try_from(wall_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    stamp.map_or_else(|| "-".to_owned(), |stamp| format!("{stamp:.3}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(choice: Choice, pieces: &[Piece<'_>]) -> String {
        let mut out = Vec::new();
        let mut printer = Printer::new(choice, &mut out);
        for piece in pieces {
            printer.piece(*piece).unwrap();
        }
        printer.finish().unwrap();
        String::from_utf8(out).unwrap()
    }

    fn bytes(offset: u64, text: &str, stream: Stream) -> Piece<'_> {
        Piece::Bytes { offset, bytes: text.as_bytes(), stream, wall_ms: Some(1_764_496_800_123) }
    }

    #[test]
    fn bytes_are_printed_as_they_are_and_gaps_marked_on_a_line_of_their_own() {
        let gap = Gap { from: 2, to: 9, why: "output_limit".to_owned() };
        let pieces = [bytes(0, "ab", Stream::Merged), Piece::Gap(&gap), bytes(9, "c\n", Stream::Merged)];
        assert_eq!(check(Choice::default(), &pieces), "ab\n[ringback: bytes 2-8 are missing: output_limit]\nc\n");
        assert_eq!(check(Choice { raw: true, ..Choice::default() }, &pieces), "abc\n");
    }

    #[test]
    fn lines_are_chosen_by_number_pattern_and_stream() {
        let pieces = [
            bytes(0, "one\ntw", Stream::Stdout),
            bytes(6, "err\n", Stream::Stderr),
            bytes(10, "o\nthree", Stream::Stdout),
        ];
        let only = Some(Stream::Stdout);
        assert_eq!(check(Choice { only, ..Choice::default() }, &pieces), "one\ntwo\nthree");
        let lines = Some(LineRange { from: 2, to: 2 });
        assert_eq!(check(Choice { only, lines, ..Choice::default() }, &pieces), "two\n");
        let grep = Some(Regex::new("^t.*e$").unwrap());
        assert_eq!(check(Choice { only, grep, ..Choice::default() }, &pieces), "three");
    }

    #[test]
    fn an_event_whose_bytes_are_no_text_has_them_exactly_as_well() {
        let piece = |bytes| Piece::Bytes { offset: 0, bytes, stream: Stream::Merged, wall_ms: None };
        let events =
            check(Choice { events: Some("k3".to_owned()), ..Choice::default() }, &[piece(b"ok\na\xff\xfeb\n")]);
        let said: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(said[0].get("base64").is_none(), "{events}");
        assert_eq!((&said[1]["text"], &said[1]["base64"]), (&"a\u{fffd}\u{fffd}b\n".into(), &"Yf/+Ygo=".into()));
    }

    #[test]
    fn times_and_events_name_what_they_know() {
        let pieces = [bytes(0, "a\nb", Stream::Merged)];
        let stamped = check(Choice { timestamps: true, ..Choice::default() }, &pieces);
        assert_eq!(stamped, "2025-11-30T10:00:00.123Z a\n2025-11-30T10:00:00.123Z b");
        let events = check(Choice { events: Some("k3".to_owned()), ..Choice::default() }, &pieces);
        let first: Value = serde_json::from_str(events.lines().next().unwrap()).unwrap();
        assert_eq!((&first["schema"], &first["task"], &first["text"]), (&1.into(), &"k3".into(), &"a\n".into()));
    }
}
