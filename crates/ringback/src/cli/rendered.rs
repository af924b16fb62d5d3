//! Prints an output as a person would have seen it: rendered lines, chosen by number, pattern, stream and time.

use std::collections::VecDeque;
use std::io::{self, Write};

use regex::bytes::Regex;
use ringback_host::client::output::{Gap, Output, Piece, Stream};
use ringback_host::wire::TaskObject;
use ringback_render::{Line, Options, Renderer};

use super::value::LineRange;
use crate::output::{Marks, Sizes};
use crate::render::clean;

/// With -n, how many raw lines more than asked for are rendered at first: some are redraws of others.
const REDRAWN_LINES: u64 = 256;
/// How much is rendered before we look whether enough was printed.
const STRIDE_BYTES: u64 = 1 << 20;

/// What of an output is printed.
#[derive(Debug, Default)]
pub(super) struct Selection {
    /// Only this stream.
    pub(super) only: Option<Stream>,
    /// Only lines that match.
    pub(super) grep: Option<Regex>,
    /// How many lines around a match.
    pub(super) context: usize,
    /// Only these raw lines.
    pub(super) lines: Option<LineRange>,
    /// Only the last ones.
    pub(super) tail: Option<u64>,
    /// From this byte.
    pub(super) from: u64,
    /// At most this many bytes of the output.
    pub(super) limit: Option<u64>,
    /// Whether the number of each line is shown.
    pub(super) numbers: bool,
}

/// A line that is printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Printed {
    /// The raw line that wrote its last character.
    pub(super) number: u64,
    /// The same of the last of equal lines.
    pub(super) last_number: u64,
    /// How many equal lines it stands for.
    pub(super) repeats: u64,
    /// Its text.
    pub(super) text: String,
    /// Whether it is printed for itself, and not beside a match.
    pub(super) is_match: bool,
}

impl Selection {
    /// Prints what is selected.
    pub(super) fn print(&self, task: &TaskObject, output: &mut Output, out: &mut dyn Write) -> io::Result<()> {
        let mut last = None;
        self.each(task, output, &mut |line| {
            // Between groups of a match and its neighbours, as grep does.
            let is_apart = last.is_some_and(|last| line.number > last + 1) && self.context > 0 && self.grep.is_some();
            if is_apart {
                writeln!(out, "--")?;
            }
            last = Some(line.last_number);
            if self.numbers && line.number > 0 {
                write!(out, "{}{}", line.number, if line.is_match { ':' } else { '-' })?;
            }
            let Printed { number, last_number, repeats, text, .. } = &line;
            writeln!(out, "{}", Line { number: *number, last_number: *last_number, repeats: *repeats, text })
        })?;
        out.flush()
    }

    /// Gives every selected line to `sink`.
    pub(super) fn each(
        &self,
        task: &TaskObject,
        output: &mut Output,
        sink: &mut dyn FnMut(Printed) -> io::Result<()>,
    ) -> io::Result<()> {
        let Some(count) = self.tail else {
            let Some((range, first_line)) = self.range(task, output)? else { return Ok(()) };
            return self.run(&Sizes::of(task), output, range, first_line, sink);
        };
        for line in self.last(task, output, usize::try_from(count).unwrap_or(usize::MAX))? {
            sink(line)?;
        }
        Ok(())
    }

    /// The bytes to render, and the number of their first line.
    fn range(&self, task: &TaskObject, output: &mut Output) -> io::Result<Option<(std::ops::Range<u64>, u64)>> {
        let length = output.len()?;
        let mut marks = Marks::open(task, output)?;
        // Lines of one stream have numbers of their own, for which there are no marks.
        if let (Some(LineRange { from, to }), None) = (self.lines, self.only) {
            let Some(start) = marks.offset_of(output, from)? else { return Ok(None) };
            let end = match to.checked_add(1) {
                Some(next) => marks.offset_of(output, next)?.unwrap_or(length),
                None => length,
            };
            return Ok(Some((start..end, from)));
        }
        let from = self.from.min(length);
        let end = from.saturating_add(self.limit.unwrap_or(u64::MAX)).min(length);
        let first_line = if from == 0 || self.only.is_some() { 1 } else { marks.line_at(output, from)? };
        Ok(Some((from..end, first_line)))
    }

    /// The last `count` lines: from further back until there are enough.
    fn last(&self, task: &TaskObject, output: &mut Output, count: usize) -> io::Result<VecDeque<Printed>> {
        let length = output.len()?;
        let mut raw_lines = (count as u64).saturating_add(REDRAWN_LINES);
        loop {
            let is_filtered = self.only.is_some() || self.grep.is_some();
            let start = if is_filtered { self.from } else { output.tail_start(raw_lines, length)?.max(self.from) };
            let is_numbered = self.numbers && self.only.is_none() && start > 0;
            let first_line = if is_numbered { Marks::open(task, output)?.line_at(output, start)? } else { 1 };
            let mut last = VecDeque::new();
            self.run(&Sizes::of(task), output, start..length, first_line, &mut |line| {
                last.push_back(line);
                if last.len() > count {
                    last.pop_front();
                }
                Ok(())
            })?;
            if last.len() == count || start <= self.from {
                return Ok(last);
            }
            raw_lines = raw_lines.saturating_mul(8);
        }
    }

    fn run(
        &self,
        sizes: &Sizes,
        output: &mut Output,
        range: std::ops::Range<u64>,
        first_line: u64,
        sink: &mut dyn FnMut(Printed) -> io::Result<()>,
    ) -> io::Result<()> {
        let options = |first_line, at| {
            let (columns, rows) = sizes.at(at).map_or((None, Options::ROWS), |size| (Some(size.columns), size.rows));
            Options { first_line, columns, rows, ..Options::default() }
        };
        let mut filter = Filter { selection: self, before: VecDeque::new(), after: 0, sink, failed: None };
        let mut renderer = Renderer::new(&options(first_line, range.start));
        let mut at = range.start;
        while at < range.end && !filter.is_past(renderer.line()) {
            let next = range.end.min(at + STRIDE_BYTES);
            let done = output.scan(at..next, self.only.is_some(), &mut |piece| {
                match piece {
                    Piece::Bytes { stream, .. } if self.only.is_some_and(|only| only != stream) => {}
                    Piece::Bytes { offset, bytes, .. } => {
                        let mut done = 0;
                        for (place, _, size) in sizes.changes(offset, offset + bytes.len() as u64) {
                            let until = usize::try_from(place - offset).unwrap_or(bytes.len());
                            renderer.push(&bytes[done..until], &mut |line| filter.line(line));
                            renderer.resize(size.columns, size.rows, &mut |line| filter.line(line));
                            done = until;
                        }
                        renderer.push(&bytes[done..], &mut |line| filter.line(line));
                    }
                    Piece::Gap(gap) => {
                        let fresh = Renderer::new(&options(renderer.line(), gap.to));
                        std::mem::replace(&mut renderer, fresh).finish(&mut |line| filter.line(line));
                        filter.gap(gap);
                    }
                }
                filter.failed.take().map_or(Ok(()), Err)
            })?;
            if done == at {
                break;
            }
            at = done;
        }
        renderer.finish(&mut |line| filter.line(line));
        filter.failed.take().map_or(Ok(()), Err)
    }
}

/// Lets through what is selected.
struct Filter<'a> {
    selection: &'a Selection,
    before: VecDeque<Printed>,
    after: usize,
    sink: &'a mut dyn FnMut(Printed) -> io::Result<()>,
    failed: Option<io::Error>,
}

impl Filter<'_> {
    fn is_past(&self, line: u64) -> bool {
        // Rows that can still be painted over come later than the line that is read.
        self.selection.lines.is_some_and(|range| line > range.to.saturating_add(u64::from(Options::ROWS)))
    }

    fn line(&mut self, line: Line<'_>) {
        let Selection { grep, context, lines, .. } = self.selection;
        if lines.is_some_and(|range| line.last_number < range.from || line.number > range.to) {
            return;
        }
        let is_match = grep.as_ref().is_none_or(|grep| grep.is_match(line.text.as_bytes()));
        let Line { number, last_number, text, repeats } = line;
        let printed = Printed { number, last_number, repeats, text: text.to_owned(), is_match };
        if is_match {
            self.after = *context;
            for line in std::mem::take(&mut self.before) {
                self.give(line);
            }
            self.give(printed);
        } else if self.after > 0 {
            self.after -= 1;
            self.give(printed);
        } else if *context > 0 {
            self.before.push_back(printed);
            if self.before.len() > *context {
                self.before.pop_front();
            }
        }
    }

    fn gap(&mut self, gap: &Gap) {
        // Lines before and after it do not stand beside each other.
        (self.after, self.before) = (0, VecDeque::new());
        let text = format!("[ringback: bytes {}-{} are missing: {}]", gap.from, gap.last(), clean::line(&gap.why));
        self.give(Printed { number: 0, last_number: 0, repeats: 1, text, is_match: false });
    }

    fn give(&mut self, line: Printed) {
        if self.failed.is_none() {
            self.failed = (self.sink)(line).err();
        }
    }
}
