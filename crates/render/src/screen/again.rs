//! Lines that come again and again: where each would only push the same row through the screen, many are one step.

use super::{Row, Screen};

impl Screen {
    /// Whether another line like the last one changes nothing but numbers: the cursor is at the begin of a fresh row at the
    /// bottom, all rows above read alike and are of lines in a row, and so does what left the top before.
    pub(crate) fn is_one_line_all_over(&self) -> bool {
        let bottom = self.height - 1;
        if bottom == 0 || self.rows.len() != self.height || (self.row, self.column) != (bottom, 0) {
            return false;
        }
        if self.region.is_some() || !self.joined.is_empty() || self.joined_beyond > 0 {
            return false;
        }
        let last = &self.rows[bottom - 1];
        let is_fresh = self.rows[bottom].cells.is_empty() && self.rows[bottom].number == self.line;
        let is_alike = |row: &Row, number: u64| {
            let is_bare = row.marks.is_empty() && row.beyond == 0 && !row.is_wrapped;
            is_bare && row.number == number && row.cells == last.cells
        };
        let numbers = (0..self.line).rev();
        if !is_fresh || !self.rows.iter().rev().skip(1).zip(numbers).all(|(row, number)| is_alike(row, number)) {
            return false;
        }
        let mut text = String::new();
        last.append_to(&mut text);
        self.fold.holds(&text)
    }

    /// So many lines more like the last one, where [`Self::is_one_line_all_over`].
    pub(crate) fn again(&mut self, count: u64) {
        // The last of them that leaves the top.
        let last_number = self.rows[0].number + count - 1;
        self.fold.again(last_number, count);
        self.line += count;
        self.rows.iter_mut().for_each(|row| row.number += count);
    }
}
