//! How wide a terminal was that nobody told us of: what a program painted beyond its right side says so.
//!
//! Progress areas are painted without newlines: each row is filled up with blanks, and the terminal goes on in the next one.
//! As a single line without end that cannot be read, and where the program goes up over its own rows it would seem to go up over
//! what others wrote, and erase it.

use std::mem::take;

use super::Screen;
use crate::render::Line;

/// A narrower terminal is not guessed.
const COLUMNS_MIN: usize = 40;
/// How often a row was filled up to the same column before that is taken for its end.
const FILLED_MIN: u32 = 2;

/// What was seen of rows that were filled up with blanks.
#[derive(Debug, Default)]
pub(super) struct Filled {
    length: usize,
    times: u32,
}

impl Screen {
    /// The program goes up from here: over rows that it has painted since the last newline, if they are as long as one that
    /// it filled up before.
    pub(crate) fn guess_by_rows(&mut self, up: usize, out: &mut dyn FnMut(Line<'_>)) {
        let (columns, times) = (self.filled.length, self.filled.times);
        let area = columns.saturating_mul(up.saturating_add(1));
        if times > 0 && self.painted().is_some_and(|cells| cells.len() == area) {
            return self.take_columns(columns, out);
        }
        self.guess_by_length(out);
    }

    /// The whole row is erased or left: what was filled up to the same length again and again was one row, and a multiple of
    /// that is several.
    pub(crate) fn guess_by_length(&mut self, out: &mut dyn FnMut(Line<'_>)) {
        let Some(length) = self.painted().map(<[char]>::len).filter(|length| *length >= COLUMNS_MIN) else { return };
        let Filled { length: columns, times } = self.filled;
        if length == columns {
            self.filled.times += 1;
        } else if times >= FILLED_MIN && length.is_multiple_of(columns) {
            self.take_columns(columns, out);
        } else {
            self.filled = Filled { length, times: 1 };
        }
    }

    /// From here on the terminal has this many columns, and so it had where this row was painted.
    fn take_columns(&mut self, columns: usize, out: &mut dyn FnMut(Line<'_>)) {
        let is_at_end = self.column > 0;
        let whole = &mut self.rows[self.row];
        (columns..whole.cells.len()).step_by(columns).for_each(|border| whole.split(border));
        let (cells, marks, number) = (take(&mut whole.cells), take(&mut whole.marks), whole.number);
        for (from, part) in (0..).step_by(columns).zip(cells.chunks(columns)) {
            if from > 0 {
                self.rows[self.row].wrap();
                self.down_or_new(out);
            }
            let row = &mut self.rows[self.row];
            row.reset(number);
            row.cells.extend_from_slice(part);
            let here = marks.iter().filter(|(at, _)| (from..from + columns).contains(at));
            row.marks.extend(here.map(|(at, mark)| (at - from, *mark)));
            self.column = if is_at_end { part.len() } else { 0 };
        }
        self.columns = Some(columns);
    }

    /// The row of the cursor, if a program that fills up its rows has just painted it, or gone back to its begin.
    fn painted(&self) -> Option<&[char]> {
        let row = &self.rows[self.row];
        let is_painted = self.column == 0 || self.column == row.cells.len();
        (self.columns.is_none() && row.beyond == 0 && is_painted && row.cells.ends_with(&[' '])).then_some(&row.cells)
    }
}
