//! The last rows of a terminal, where a program can still paint over what it wrote; rows that leave the top are final.

mod again;
mod region;
mod width;

use std::collections::VecDeque;
use std::fmt::Write as _;

use crate::fold::Fold;
use crate::render::{Line, Options};
use width::Filled;

/// Most combining marks that one row keeps; a text in a human language has a few for each word.
const MARKS_MAX: usize = 512;
/// Tabs stop at every eighth column.
const TAB: usize = 8;
/// Stands in the cells that a wide character or a tab covers beside its first.
const COVERED: char = '\0';

/// One row.
#[derive(Debug, Default)]
struct Row {
    cells: Vec<char>,
    /// Combining marks and joiners: the column they belong to, and the character.
    marks: Vec<(usize, char)>,
    /// Characters after the longest line that is kept.
    beyond: u64,
    beyond_from: usize,
    /// The raw line that wrote here last.
    number: u64,
    /// Whether the text goes on in the next row, because the terminal was not wide enough.
    is_wrapped: bool,
}

impl Row {
    fn reset(&mut self, number: u64) {
        self.cells.clear();
        self.marks.clear();
        (self.beyond, self.number, self.is_wrapped) = (0, number, false);
    }

    fn is_empty(&self) -> bool {
        self.beyond == 0 && self.cells.iter().all(|cell| *cell == ' ')
    }

    /// Takes apart the wide character or tab that covers this column.
    fn split(&mut self, column: usize) {
        if self.cells.get(column).is_none_or(|cell| *cell != COVERED) {
            return;
        }
        let lead = self.cells[..column].iter().rposition(|cell| *cell != COVERED).unwrap_or(0);
        let end =
            self.cells[column..].iter().position(|cell| *cell != COVERED).map_or(self.cells.len(), |n| column + n);
        self.cells[lead..end].fill(' ');
    }

    fn blank(&mut self, from: usize, to: usize) {
        let to = to.min(self.cells.len());
        if from >= to {
            return;
        }
        self.split(from);
        self.split(to);
        self.cells[from..to].fill(' ');
        self.marks.retain(|(column, _)| !(from..to).contains(column));
    }

    fn truncate(&mut self, column: usize) {
        if column < self.cells.len() {
            self.split(column);
            self.cells.truncate(column);
        }
        if column <= self.beyond_from {
            self.beyond = 0;
        }
        self.is_wrapped = false;
        self.marks.retain(|(at, _)| *at < column);
    }

    /// The text goes on in the next row, unless this one was filled up with blanks: so are rows painted without newlines.
    fn wrap(&mut self) {
        self.is_wrapped = !self.cells.ends_with(&[' ', ' ']);
    }

    /// Appends the row as text, without the spaces at its end, unless the text goes on after them.
    fn append_to(&self, text: &mut String) {
        let length = self.cells.iter().rposition(|cell| !matches!(*cell, ' ' | COVERED | '\t')).map_or(0, |at| at + 1);
        let length = if self.beyond > 0 || self.is_wrapped { self.cells.len() } else { length };
        let cells = &self.cells[..length];
        if self.marks.is_empty() && cells.iter().all(|cell| matches!(cell, ' '..='~')) {
            // Most rows are ASCII, and bytes are copied faster than characters.
            let mut bytes = [0; 128];
            for cells in cells.chunks(bytes.len()) {
                let bytes = &mut bytes[..cells.len()];
                bytes.iter_mut().zip(cells).for_each(|(byte, cell)| *byte = u8::try_from(*cell).unwrap_or(b'?'));
                text.push_str(std::str::from_utf8(bytes).unwrap_or_default());
            }
            return;
        }
        if self.marks.is_empty() {
            return text.extend(cells.iter().filter(|cell| **cell != COVERED));
        }
        for (column, cell) in cells.iter().enumerate() {
            if *cell != COVERED {
                text.push(*cell);
            }
            text.extend(self.marks.iter().filter(|(at, _)| *at == column).map(|(_, mark)| *mark));
        }
    }
}

/// What a terminal shows at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Picture {
    /// The rows from the top, without the spaces at their ends; rows below the last that was written to are left out.
    pub rows: Vec<String>,
    /// The row of the cursor, from 0.
    pub row: usize,
    /// The column of the cursor, from 0.
    pub column: usize,
    /// Whether it is the second screen, of a full-screen program.
    pub is_alternate: bool,
}

/// Rows, a cursor, and what is done to them.
#[derive(Debug)]
pub(crate) struct Screen {
    rows: VecDeque<Row>,
    height: usize,
    /// Where a row ends; nothing as long as that is not known.
    columns: Option<usize>,
    filled: Filled,
    line_chars: usize,
    row: usize,
    column: usize,
    saved: (usize, usize),
    line: u64,
    is_alternate: bool,
    /// First and last row of what scrolls, if that is not the whole screen.
    region: Option<(usize, usize)>,
    fold: Fold,
    /// Whether we were told how large the terminal is, or a program addressed its rows by their numbers.
    has_rows: bool,
    /// Whether the cursor was addressed home, and neither went up nor was addressed since.
    is_home: bool,
    /// A final line that goes on in the next row.
    joined: String,
    joined_beyond: u64,
}

impl Screen {
    pub(crate) fn new(options: &Options) -> Self {
        let first = Row { number: options.first_line, ..Row::default() };
        Self {
            rows: VecDeque::from([first]),
            height: usize::from(options.rows).max(1),
            columns: options.columns.map(|columns| usize::from(columns).max(2)),
            filled: Filled::default(),
            line_chars: options.line_chars.max(1),
            row: 0,
            column: 0,
            saved: (0, 0),
            line: options.first_line,
            is_alternate: false,
            region: None,
            fold: Fold::new(options.fold),
            has_rows: options.columns.is_some(),
            is_home: false,
            joined: String::new(),
            joined_beyond: 0,
        }
    }

    /// The number of the raw line that is being read.
    pub(crate) fn line(&self) -> u64 {
        self.line
    }

    /// The text of the row in which the cursor is.
    pub(crate) fn current(&self) -> String {
        let mut text = String::new();
        self.rows[self.row].append_to(&mut text);
        text
    }

    /// Puts a whole line of plain ASCII, if the cursor is where that is all there is to do.
    pub(crate) fn put_plain(&mut self, bytes: &[u8]) -> bool {
        let room = self.columns.unwrap_or(self.line_chars).min(self.line_chars);
        let row = &mut self.rows[self.row];
        if self.column != 0 || !row.cells.is_empty() || row.beyond > 0 || bytes.len() > room / TAB {
            return false;
        }
        if bytes.is_empty() {
            return true;
        }
        row.number = self.line;
        if bytes.contains(&b'\t') {
            for byte in bytes {
                row.cells.push(char::from(*byte));
                while *byte == b'\t' && !row.cells.len().is_multiple_of(TAB) {
                    row.cells.push(COVERED);
                }
            }
        } else {
            row.cells.extend(bytes.iter().map(|byte| char::from(*byte)));
        }
        self.column = row.cells.len();
        true
    }

    /// Puts a character of this width at the cursor.
    pub(crate) fn put(&mut self, c: char, width: usize, out: &mut dyn FnMut(Line<'_>)) {
        if width == 0 {
            return self.mark(c);
        }
        if self.columns.is_some_and(|columns| self.column + width > columns) {
            self.rows[self.row].wrap();
            self.down_or_new(out);
            self.column = 0;
        }
        let (column, line_chars) = (self.column, self.line_chars);
        self.column += width;
        let row = &mut self.rows[self.row];
        row.number = self.line;
        if column + width > line_chars {
            if row.beyond == 0 || column <= row.beyond_from {
                (row.beyond, row.beyond_from) = (0, column);
            }
            row.beyond += 1;
            return;
        }
        if column == row.cells.len() && width == 1 {
            row.cells.push(c);
            return;
        }
        if column < row.cells.len() {
            row.blank(column, column + width);
        }
        if row.cells.len() < column + width {
            row.cells.resize(column + width, ' ');
        }
        row.cells[column] = c;
        row.cells[column + 1..column + width].fill(COVERED);
    }

    fn mark(&mut self, c: char) {
        let (column, row) = (self.column, &mut self.rows[self.row]);
        if column == 0 || column > row.cells.len() || row.marks.len() >= MARKS_MAX {
            return;
        }
        let lead = row.cells[..column].iter().rposition(|cell| *cell != COVERED).unwrap_or(0);
        row.marks.push((lead, c));
    }

    /// Moves to the next tab stop; at the end of a row the tab is kept as one.
    pub(crate) fn tab(&mut self) {
        let (column, next) = (self.column, self.column / TAB * TAB + TAB);
        self.column = self.columns.map_or(next, |columns| next.min(columns - 1));
        let row = &mut self.rows[self.row];
        if column == row.cells.len() && self.column > column && self.column <= self.line_chars {
            row.number = self.line;
            row.cells.push('\t');
            row.cells.resize(self.column, COVERED);
        }
    }

    pub(crate) fn carriage_return(&mut self) {
        self.column = 0;
    }

    pub(crate) fn backspace(&mut self) {
        self.column = self.column.saturating_sub(1);
    }

    /// A newline byte: the raw line ends here.
    pub(crate) fn newline(&mut self, out: &mut dyn FnMut(Line<'_>)) {
        self.line += 1;
        self.next_row(out);
    }

    /// Down to the begin of the next row, without a newline byte.
    pub(crate) fn next_row(&mut self, out: &mut dyn FnMut(Line<'_>)) {
        self.down_or_new(out);
        self.column = 0;
    }

    /// Down one row; at the bottom everything moves up.
    pub(crate) fn down_or_new(&mut self, out: &mut dyn FnMut(Line<'_>)) {
        if self.scrolls_region(out) {
            return;
        }
        if self.row + 1 < self.rows.len() {
            self.row += 1;
            return;
        }
        let mut fresh = if self.rows.len() == self.height { self.take_top(out) } else { Row::default() };
        fresh.reset(self.line);
        self.rows.push_back(fresh);
        self.row = self.rows.len() - 1;
    }

    fn take_top(&mut self, out: &mut dyn FnMut(Line<'_>)) -> Row {
        let row = self.rows.pop_front().unwrap_or_default();
        self.finish_row(&row, out);
        row
    }

    /// Gives out a row that nobody can change any more.
    fn finish_row(&mut self, row: &Row, out: &mut dyn FnMut(Line<'_>)) {
        if self.joined.is_empty() || self.joined.chars().count() < self.line_chars {
            row.append_to(&mut self.joined);
            self.joined_beyond += row.beyond;
        } else {
            self.joined_beyond += row.cells.iter().filter(|cell| **cell != COVERED).count() as u64;
        }
        if !row.is_wrapped {
            self.finish_line(row.number, out);
        }
    }

    fn finish_line(&mut self, number: u64, out: &mut dyn FnMut(Line<'_>)) {
        self.joined.truncate(self.joined.trim_end_matches(' ').len());
        if self.joined_beyond > 0 {
            // A String never refuses to grow.
            let _ = write!(self.joined, "…[{} more characters]", self.joined_beyond);
        }
        self.fold.line(number, &self.joined, out);
        self.joined.clear();
        self.joined_beyond = 0;
    }

    pub(crate) fn up(&mut self, count: usize) {
        self.is_home = false;
        self.row = self.row.saturating_sub(count);
    }

    pub(crate) fn down(&mut self, count: usize) {
        self.go_to_row(self.row.saturating_add(count));
    }

    pub(crate) fn right(&mut self, count: usize) {
        self.go_to_column(self.column.saturating_add(count));
    }

    pub(crate) fn left(&mut self, count: usize) {
        self.column = self.column.saturating_sub(count);
    }

    pub(crate) fn go_to_column(&mut self, column: usize) {
        self.column = column.min(self.columns.unwrap_or(usize::from(u16::MAX)) - 1);
    }

    /// Goes to a row of the screen, which is never lower than its bottom.
    pub(crate) fn go_to_row(&mut self, row: usize) {
        self.row = row.min(self.height - 1);
        while self.rows.len() <= self.row {
            self.rows.push_back(Row { number: self.line, ..Row::default() });
        }
    }

    pub(crate) fn save_cursor(&mut self) {
        self.saved = (self.row, self.column);
    }

    pub(crate) fn restore_cursor(&mut self) {
        let (row, column) = self.saved;
        self.go_to_row(row);
        self.column = column;
    }

    /// Erases in the row: 0 to its end, 1 to the cursor, 2 all.
    pub(crate) fn erase_in_row(&mut self, which: u16) {
        let (column, row) = (self.column, &mut self.rows[self.row]);
        match which {
            0 => row.truncate(column),
            1 => row.blank(0, column + 1),
            2 => row.truncate(0),
            _ => {}
        }
    }

    /// Erases on the screen: 0 to its end, 1 to the cursor, 2 all.
    ///
    /// A whole screen that is erased is not lost: it goes where a person could still scroll to.
    pub(crate) fn erase_on_screen(&mut self, which: u16, out: &mut dyn FnMut(Line<'_>)) {
        match which {
            0 if std::mem::take(&mut self.is_home) && (self.row, self.column) == (0, 0) => {
                self.erase_on_screen(2, out);
            }
            0 => {
                self.erase_in_row(0);
                self.rows.truncate(self.row + 1);
            }
            1 => {
                self.rows.iter_mut().take(self.row).for_each(|row| row.truncate(0));
                self.erase_in_row(1);
            }
            2 if self.is_alternate => self.start_over(),
            2 => self.finish_screen(out),
            _ => {}
        }
    }

    /// Enters or leaves the second screen of a full-screen program; both are kept as text.
    pub(crate) fn switch_screen(&mut self, to_alternate: bool, out: &mut dyn FnMut(Line<'_>)) {
        if to_alternate != self.is_alternate {
            self.finish_screen(out);
            self.is_alternate = to_alternate;
            self.region = None;
        }
    }

    pub(crate) fn insert_cells(&mut self, count: usize) {
        let (column, line_chars) = (self.column, self.line_chars);
        let row = &mut self.rows[self.row];
        if column < row.cells.len() {
            row.split(column);
            row.marks.clear();
            let count = count.min(line_chars);
            row.cells.splice(column..column, std::iter::repeat_n(' ', count));
            row.truncate(line_chars);
        }
    }

    pub(crate) fn delete_cells(&mut self, count: usize) {
        let (column, row) = (self.column, &mut self.rows[self.row]);
        let end = column.saturating_add(count).min(row.cells.len());
        if column < end {
            row.split(column);
            row.split(end);
            row.marks.clear();
            row.cells.drain(column..end);
        }
    }

    pub(crate) fn erase_cells(&mut self, count: usize) {
        let column = self.column;
        self.rows[self.row].blank(column, column.saturating_add(count));
    }

    /// The rows as they stand, and where the cursor is.
    pub(crate) fn picture(&self) -> Picture {
        let text = |row: &Row| {
            let mut text = String::new();
            row.append_to(&mut text);
            text
        };
        let rows = self.rows.iter().map(text).collect();
        Picture { rows, row: self.row, column: self.column, is_alternate: self.is_alternate }
    }

    fn start_over(&mut self) {
        self.rows.truncate(1);
        self.rows[0].reset(self.line);
        (self.row, self.column) = (0, 0);
    }

    /// Gives out everything on the screen, and begins an empty one.
    pub(crate) fn finish_screen(&mut self, out: &mut dyn FnMut(Line<'_>)) {
        // Below the cursor a program may have left erased rows; and the cursor waits in an empty one.
        while self.rows.len() > 1 && self.rows.len() > self.row && self.rows.back().is_some_and(Row::is_empty) {
            self.rows.pop_back();
        }
        let only_empty = self.rows.len() == 1 && self.rows[0].is_empty() && self.row == 0;
        let rows = std::mem::take(&mut self.rows);
        for row in rows.iter().filter(|_| !only_empty) {
            self.finish_row(row, out);
        }
        if !self.joined.is_empty() {
            self.finish_line(self.line, out);
        }
        self.rows.push_back(Row { number: self.line, ..Row::default() });
        (self.row, self.column) = (0, 0);
    }

    /// Gives out everything.
    pub(crate) fn finish(&mut self, out: &mut dyn FnMut(Line<'_>)) {
        self.finish_screen(out);
        self.fold.flush(out);
    }
}
