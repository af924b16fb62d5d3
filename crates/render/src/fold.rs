//! Equal lines in a row become one line with a count.

use crate::render::Line;

/// Fewer equal lines than this are shown as they are.
const REPEATS_MIN: u64 = 3;

/// Holds back the last line until another one comes.
#[derive(Debug, Default)]
pub(crate) struct Fold {
    is_off: bool,
    text: String,
    number: u64,
    last_number: u64,
    repeats: u64,
}

impl Fold {
    /// Folds, or passes everything on.
    pub(crate) fn new(is_on: bool) -> Self {
        Self { is_off: !is_on, ..Self::default() }
    }

    /// Takes the next line.
    pub(crate) fn line(&mut self, number: u64, text: &str, out: &mut dyn FnMut(Line<'_>)) {
        if self.is_off {
            return out(Line { number, last_number: number, text, repeats: 1 });
        }
        if self.holds(text) {
            return self.again(number, 1);
        }
        self.flush(out);
        self.text.clear();
        self.text.push_str(text);
        (self.number, self.last_number, self.repeats) = (number, number, 1);
    }

    /// Whether this text is held back, so that another line of it is only counted.
    pub(crate) fn holds(&self, text: &str) -> bool {
        self.repeats > 0 && self.text == text
    }

    /// So many lines more of what is held back, up to the one of this number.
    pub(crate) fn again(&mut self, last_number: u64, count: u64) {
        self.repeats += count;
        self.last_number = last_number;
    }

    /// Gives out what was held back.
    pub(crate) fn flush(&mut self, out: &mut dyn FnMut(Line<'_>)) {
        let repeats = std::mem::take(&mut self.repeats);
        let text = self.text.as_str();
        if repeats >= REPEATS_MIN {
            return out(Line { number: self.number, last_number: self.last_number, text, repeats });
        }
        if repeats > 1 {
            out(Line { number: self.number, last_number: self.number, text, repeats: 1 });
        }
        if repeats > 0 {
            out(Line { number: self.last_number, last_number: self.last_number, text, repeats: 1 });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(lines: &[&str], is_on: bool) -> Vec<String> {
        let (mut fold, mut seen) = (Fold::new(is_on), Vec::new());
        let mut out = |line: Line<'_>| {
            seen.push(format!("{}-{} {} x{}", line.number, line.last_number, line.text, line.repeats));
        };
        for (number, line) in (1..).zip(lines) {
            fold.line(number, line, &mut out);
        }
        fold.flush(&mut out);
        seen
    }

    #[test]
    fn three_equal_lines_are_one_with_a_count() {
        assert_eq!(check(&["a", "a", "a", "b"], true), ["1-3 a x3", "4-4 b x1"]);
        assert_eq!(check(&["a", "a", "b", "", "", ""], true), ["1-1 a x1", "2-2 a x1", "3-3 b x1", "4-6  x3"]);
    }

    #[test]
    fn folding_can_be_turned_off() {
        assert_eq!(check(&["a", "a", "a"], false).len(), 3);
        assert!(check(&[], true).is_empty());
    }
}
