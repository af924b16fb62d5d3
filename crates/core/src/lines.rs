//! Cutting a growing output into lines, whatever the pieces it was read in.

use alloc::vec::Vec;

/// How much of one unfinished line is kept: what is longer is no line for people, and is looked at in pieces.
pub const LINE_BYTES_MAX: usize = 64 << 10;

/// How much of a long line's last piece is looked at again with the next one, so that nothing falls between them.
const OVERLAP_BYTES: usize = 4 << 10;

/// An output that is read from somewhere on. A line ends with a newline or a carriage return: each redraw of a progress
/// bar is a line.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    from: u64,
    unfinished: Vec<u8>,
    /// How much of the unfinished line was looked at before its end.
    looked: usize,
    /// The line has been told; its rest is of no interest.
    told: bool,
}

/// Looks at a line, given its offset. True if there is something to tell: the rest of that line is not looked at again.
pub type Look<'a> = dyn FnMut(u64, &[u8]) -> bool + 'a;

impl Lines {
    /// Begins at this offset, at the beginning of a line, or (`told`) within one that has been told.
    pub fn at(offset: u64, told: bool) -> Self {
        Self { from: offset, told, ..Self::default() }
    }

    /// Where the next piece begins.
    pub fn next(&self) -> u64 {
        self.from + self.unfinished.len() as u64
    }

    /// What [`Lines::at`] takes to go on from here without looking at anything twice.
    pub fn mark(&self) -> (u64, bool) {
        if self.told { (self.next(), true) } else { (self.from, false) }
    }

    /// Whether there is an unfinished line that nobody has looked at yet.
    pub fn is_waiting(&self) -> bool {
        !self.told && self.unfinished.len() > self.looked
    }

    /// Looks at every line that this piece finishes.
    pub fn push(&mut self, piece: &[u8], look: &mut Look<'_>) {
        for part in piece.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            let Some((_, line)) = part.split_last().filter(|(last, _)| matches!(last, b'\n' | b'\r')) else {
                self.keep(part, look);
                return;
            };
            if self.unfinished.is_empty() {
                self.finish(line, line.len(), look);
            } else {
                let mut whole = core::mem::take(&mut self.unfinished);
                whole.extend_from_slice(line);
                self.finish(&whole, whole.len(), look);
                whole.clear();
                self.unfinished = whole;
            }
        }
        self.unfinished.shrink_to(LINE_BYTES_MAX);
    }

    /// Looks at the unfinished line as it is.
    pub fn flush(&mut self, look: &mut Look<'_>) {
        if self.is_waiting() {
            self.told = look(self.from, &self.unfinished);
            self.looked = self.unfinished.len();
        }
    }

    /// Goes on at a later offset; what lies between is not there.
    pub fn skip_to(&mut self, offset: u64) {
        if offset > self.next() {
            *self = Self::at(offset, false);
        }
    }

    fn finish(&mut self, line: &[u8], length: usize, look: &mut Look<'_>) {
        if !self.told && !line.is_empty() {
            look(self.from, line);
        }
        self.from += length as u64 + 1;
        (self.looked, self.told) = (0, false);
    }

    fn keep(&mut self, part: &[u8], look: &mut Look<'_>) {
        self.unfinished.extend_from_slice(part);
        if self.unfinished.len() <= LINE_BYTES_MAX {
            return;
        }
        self.flush(look);
        let done = self.unfinished.len() - OVERLAP_BYTES;
        self.unfinished.drain(..done);
        self.from += done as u64;
        self.looked = 0;
    }
}
