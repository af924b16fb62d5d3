//! An output as a recording of a terminal, for asciinema and its players: asciicast v3, one JSON text a line.
//!
//! A header with the size, then events `[interval, code, data]`: `o` is output, `r` a new size, `m` a mark where bytes are
//! missing, `x` the exit code (docs.asciinema.org/manual/asciicast/v3). The raw bytes stay the truth: what is not UTF-8 is
//! shown as such.

use std::io::{self, Write};

use jiff::Timestamp;
use ringback_host::client::output::{Output, Piece};
use ringback_host::wire::{TaskObject, TerminalSize};
use serde_json::{Value, json};

use crate::output::Sizes;
use crate::render::task as render;

/// Writes the whole recording.
pub(super) fn write(task: &TaskObject, output: Option<&mut Output>, out: &mut dyn Write) -> io::Result<()> {
    let sizes = Sizes::of(task);
    let TerminalSize { columns, rows } = sizes.at(0).unwrap_or(TerminalSize::USUAL);
    let start_ms = millis(task.started_at.as_deref()).or_else(|| millis(Some(&task.created_at))).unwrap_or(0);
    let header = json!({
        "version": 3, "term": { "cols": columns, "rows": rows }, "timestamp": start_ms / 1000,
        "command": task.command.display, "title": task.name.as_deref().unwrap_or(&task.command.display),
    });
    writeln!(out, "{header}")?;
    let mut tape = Tape { out, at_ms: start_ms, cut: Vec::new(), is_pty: task.pty.is_some(), last: 0 };
    if let Some(output) = output {
        let length = output.len()?;
        output.scan(0..length, true, &mut |piece| match piece {
            Piece::Gap(gap) => {
                tape.flush()?;
                tape.event(None, "m", &format!("bytes {}-{} are missing: {}", gap.from, gap.last(), gap.why))
            }
            Piece::Bytes { offset, bytes, wall_ms, .. } => {
                let mut done = 0;
                for (place, at_ms, size) in sizes.changes(offset, offset + bytes.len() as u64) {
                    let until = usize::try_from(place - offset).unwrap_or(bytes.len());
                    tape.output(wall_ms, &bytes[done..until])?;
                    tape.resize(at_ms, size)?;
                    done = until;
                }
                tape.output(wall_ms, &bytes[done..])
            }
        })?;
        for (_, at_ms, size) in sizes.changes(length, u64::MAX) {
            tape.resize(at_ms, size)?;
        }
    }
    tape.flush()?;
    let is_known = task.has_ended() && !matches!(task.state.as_str(), "lost" | "start_failed");
    if is_known {
        let ended_ms = millis(task.ended_at.as_deref());
        tape.event(ended_ms, "x", &render::exit_code(task).to_string())?;
    }
    out.flush()
}

fn millis(time: Option<&str>) -> Option<u64> {
    let time: Timestamp = time?.parse().ok()?;
    u64::try_from(time.as_millisecond()).ok()
}

/// Where events are written.
struct Tape<'a> {
    out: &'a mut dyn Write,
    /// When the last event was, milliseconds after 1970.
    at_ms: u64,
    /// The begin of a character whose rest has not come yet.
    cut: Vec<u8>,
    /// Without a terminal there was nobody to make `\r\n` of a newline.
    is_pty: bool,
    last: u8,
}

impl Tape<'_> {
    fn output(&mut self, at_ms: Option<u64>, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let mut all = std::mem::take(&mut self.cut);
        if self.is_pty {
            all.extend_from_slice(bytes);
        } else {
            for byte in bytes {
                if *byte == b'\n' && self.last != b'\r' {
                    all.push(b'\r');
                }
                all.push(*byte);
                self.last = *byte;
            }
        }
        // A character that lies over the end of a piece belongs to the next one.
        let whole = all.utf8_chunks().last().map_or(0, |last| {
            let invalid = last.invalid();
            let is_cut = !invalid.is_empty()
                && invalid.len() < 4
                && std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
            all.len() - if is_cut { invalid.len() } else { 0 }
        });
        self.cut = all.split_off(whole);
        if all.is_empty() { Ok(()) } else { self.event(at_ms, "o", &String::from_utf8_lossy(&all)) }
    }

    /// What was cut and never completed.
    fn flush(&mut self) -> io::Result<()> {
        let rest = std::mem::take(&mut self.cut);
        if rest.is_empty() { Ok(()) } else { self.event(None, "o", &String::from_utf8_lossy(&rest)) }
    }

    fn resize(&mut self, at_ms: u64, size: TerminalSize) -> io::Result<()> {
        self.flush()?;
        self.event(Some(at_ms), "r", &format!("{}x{}", size.columns, size.rows))
    }

    /// An event at this time; without one, or at an earlier one (a clock that was set back), at that of the last.
    fn event(&mut self, at_ms: Option<u64>, code: &str, data: &str) -> io::Result<()> {
        let at_ms = at_ms.unwrap_or(self.at_ms).max(self.at_ms);
        let passed_ms = at_ms - self.at_ms;
        self.at_ms = at_ms;
        let data = Value::from(data);
        writeln!(self.out, "[{}.{:03}, \"{code}\", {data}]", passed_ms / 1000, passed_ms % 1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tape(is_pty: bool, pieces: &[(u64, &[u8])]) -> String {
        let mut out = Vec::new();
        let mut tape = Tape { out: &mut out, at_ms: 1000, cut: Vec::new(), is_pty, last: 0 };
        for (at_ms, bytes) in pieces {
            tape.output(Some(*at_ms), bytes).unwrap();
        }
        tape.flush().unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn events_have_the_time_since_the_last_and_text_that_is_valid() {
        assert_eq!(
            tape(true, &[(1000, b"a"), (2250, b"b\r\n"), (2000, b"c")]),
            "[0.000, \"o\", \"a\"]\n[1.250, \"o\", \"b\\r\\n\"]\n[0.000, \"o\", \"c\"]\n"
        );
        assert_eq!(
            tape(true, &[(1000, b"a\xc3"), (1001, b"\xa4b")]),
            "[0.000, \"o\", \"a\"]\n[0.001, \"o\", \"\u{e4}b\"]\n"
        );
        assert_eq!(
            tape(true, &[(1000, b"a\xff\xe2\x82")]),
            "[0.000, \"o\", \"a\u{fffd}\"]\n[0.000, \"o\", \"\u{fffd}\"]\n"
        );
        assert_eq!(tape(true, &[(1000, b"\x1b[1m")]), "[0.000, \"o\", \"\\u001b[1m\"]\n");
    }

    #[test]
    fn without_a_terminal_lines_end_as_one_would_end_them() {
        assert_eq!(
            tape(false, &[(1000, b"a\nb\r"), (1000, b"\nc")]),
            "[0.000, \"o\", \"a\\r\\nb\\r\"]\n[0.000, \"o\", \"\\nc\"]\n"
        );
    }
}
