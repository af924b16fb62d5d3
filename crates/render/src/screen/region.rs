//! What scrolls: the whole screen or a part of it, up, down, and by rows that are inserted or deleted.

use super::{Row, Screen};
use crate::render::Line;

impl Screen {
    /// Goes to a row of this number, from 0.
    ///
    /// Where nobody told us how high the terminal is, what stands here need not be on its screen, and must not be painted over:
    /// it is final, and the screen of this program begins empty.
    pub(crate) fn address_row(&mut self, row: usize, out: &mut dyn FnMut(Line<'_>)) {
        // Far too low a row is asked for to learn the size.
        if !self.has_rows && row < self.height {
            let column = self.column;
            self.finish_screen(out);
            (self.has_rows, self.column) = (true, column);
        }
        self.go_to_row(row);
    }

    /// Goes to a cell, both numbers from 0.
    pub(crate) fn address(&mut self, row: usize, column: usize, out: &mut dyn FnMut(Line<'_>)) {
        self.address_row(row, out);
        self.go_to_column(column);
        self.is_home = (row, column) == (0, 0);
    }

    /// Lets only the rows from `top` to `bottom` (from 0, both included) scroll; the cursor goes home (DECSTBM).
    pub(crate) fn set_region(&mut self, top: usize, bottom: usize, out: &mut dyn FnMut(Line<'_>)) {
        if !self.has_rows && top < bottom && bottom + 2 <= self.height {
            // Rows below a region are for what stays: a terminal that we know nothing else of has one.
            self.has_rows = true;
            self.set_height(bottom + 2, out);
        }
        let bottom = bottom.min(self.height - 1);
        if top < bottom {
            self.region = (top > 0 || bottom < self.height - 1).then_some((top, bottom));
            (self.row, self.column) = (0, 0);
        }
    }

    /// What happens instead of a step down at the end of a region, or below it; whether it has happened.
    pub(super) fn scrolls_region(&mut self, out: &mut dyn FnMut(Line<'_>)) -> bool {
        let Some((top, bottom)) = self.region else { return false };
        if self.row == bottom {
            self.move_up(top, bottom, out);
            return true;
        }
        // Below the region nothing scrolls.
        self.row == self.height - 1
    }

    /// Up one row; at the top everything moves down.
    pub(crate) fn up_or_new(&mut self) {
        let (top, bottom) = self.region.unwrap_or((0, self.height - 1));
        if self.row == top {
            self.move_down(top, bottom);
        } else {
            self.up(1);
        }
    }

    /// Moves everything up, as at the bottom of the screen or of the region.
    pub(crate) fn scroll_up(&mut self, count: usize, out: &mut dyn FnMut(Line<'_>)) {
        if let Some((top, bottom)) = self.region {
            for _ in 0..count.min(bottom - top + 1) {
                self.move_up(top, bottom, out);
            }
            return;
        }
        for _ in 0..count.min(self.rows.len()) {
            self.take_top(out);
        }
        self.go_to_row(self.row);
    }

    /// Moves everything down, as at the top of the screen or of the region.
    pub(crate) fn scroll_down(&mut self, count: usize) {
        let (top, bottom) = self.region.unwrap_or((0, self.height - 1));
        for _ in 0..count.min(bottom - top + 1) {
            self.move_down(top, bottom);
        }
        self.go_to_row(self.row);
    }

    /// Inserts empty rows at the cursor; what goes over the end is gone.
    pub(crate) fn insert_rows(&mut self, count: usize) {
        let Some(bottom) = self.end_of_rows() else { return };
        for _ in 0..count.min(bottom + 1 - self.row) {
            self.move_down(self.row, bottom);
        }
    }

    /// Deletes rows at the cursor; what is below comes up.
    pub(crate) fn delete_rows(&mut self, count: usize) {
        let Some(bottom) = self.end_of_rows() else { return };
        let end = self.row.saturating_add(count).min(bottom + 1).min(self.rows.len());
        let deleted = end.saturating_sub(self.row);
        self.rows.drain(self.row..end);
        // What is below a region stays where it is.
        let from = (bottom + 1).saturating_sub(deleted);
        if from < self.rows.len() {
            for _ in 0..deleted {
                self.rows.insert(from, Row { number: self.line, ..Row::default() });
            }
        }
        self.go_to_row(self.row);
    }

    /// The last row that moves when rows are inserted or deleted at the cursor; nothing if it is outside the region.
    fn end_of_rows(&self) -> Option<usize> {
        let (top, bottom) = self.region.unwrap_or((0, self.height - 1));
        (top..=bottom).contains(&self.row).then_some(bottom)
    }

    /// What leaves the top of the screen goes where a person could still scroll to; what leaves a lower region is gone.
    fn move_up(&mut self, top: usize, bottom: usize, out: &mut dyn FnMut(Line<'_>)) {
        self.fill_to(bottom);
        if let Some(row) = self.rows.remove(top).filter(|_| top == 0) {
            self.finish_row(&row, out);
        }
        self.rows.insert(bottom, Row { number: self.line, ..Row::default() });
    }

    fn move_down(&mut self, top: usize, bottom: usize) {
        if bottom < self.rows.len() {
            self.rows.remove(bottom);
        }
        self.rows.insert(top.min(self.rows.len()), Row { number: self.line, ..Row::default() });
    }

    fn fill_to(&mut self, row: usize) {
        while self.rows.len() <= row {
            self.rows.push_back(Row { number: self.line, ..Row::default() });
        }
    }

    /// Gives the screen another size; rows that no longer fit above the cursor are final.
    pub(crate) fn resize(&mut self, columns: usize, rows: usize, out: &mut dyn FnMut(Line<'_>)) {
        self.columns = self.columns.map(|_| columns.max(2));
        self.set_height(rows.max(1), out);
        self.go_to_column(self.column);
    }

    fn set_height(&mut self, height: usize, out: &mut dyn FnMut(Line<'_>)) {
        self.height = height;
        self.region = None;
        while self.rows.len() > self.height {
            if self.row + 1 < self.rows.len() && self.rows.back().is_some_and(Row::is_empty) {
                self.rows.pop_back();
            } else {
                self.take_top(out);
                self.row = self.row.saturating_sub(1);
            }
        }
        self.row = self.row.min(self.height - 1);
    }
}
