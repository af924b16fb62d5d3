//! Reads lines of output, and tells what test runners, compilers and crashing programs say in them.
//!
//! Everything found adds to what the exit status says and replaces none of it: that nothing is found means nothing.

mod compilers;
mod findings;
mod go;
mod java;
mod javascript;
mod json;
mod python;
mod rust;
mod suspects;

pub use findings::{Counts, Diagnostic, Findings, Mention, Note, Severity, Status, Suspect, Test};

use std::collections::HashMap;

use crate::text::Place;

/// How many lines after its first one a finding may still look at.
const FOLLOWING_MAX: u32 = 60;

/// What the last lines began, and the next ones may go on with.
#[derive(Debug, Default)]
enum Open {
    #[default]
    Nothing,
    /// A compiler's message that waits for `--> path:line:column`.
    Arrow { diagnostic: usize },
    /// A panic of Rust that waits for its message.
    Panic { diagnostic: usize, thread: String, lines: u32 },
    /// A traceback that waits for its exception.
    Traceback { from: u64, indent: usize, place: Option<Place> },
    /// A failed test of Go that waits for what it said.
    GoTest { case: usize },
    /// A panic of Go that waits for the place.
    GoPanic { diagnostic: usize },
    /// A failed test of a JavaScript runner that waits for its message and its place.
    JsTest { case: usize },
    /// A failed test of unittest that waits for its traceback.
    PyTest { case: usize },
    /// A message of ruff that waits for its next field.
    Ruff(json::RuffFields),
}

/// Takes line after line.
#[derive(Debug, Default)]
pub struct Recogniser {
    found: Findings,
    open: Open,
    left: u32,
    /// Whether tests that passed and warnings are kept too.
    is_thorough: bool,
    /// The last line that was not indented; some tools name the file there.
    heading: String,
    unittest_ran: Option<u64>,
    /// What running tests of Go said, by their name.
    go_said: HashMap<String, (String, Place)>,
}

impl Recogniser {
    /// Looks for failures only, or for everything.
    pub fn new(is_thorough: bool) -> Self {
        Self { is_thorough, ..Self::default() }
    }

    /// Takes a line of this number.
    pub fn line(&mut self, number: u64, text: &str) {
        if text.is_empty() && matches!(self.open, Open::Nothing) {
            // It begins nothing, and there may be a million of them.
            return;
        }
        if !self.go_on(text) {
            let _ = json::line(self, number, text)
                || rust::line(self, number, text)
                || go::line(self, number, text)
                || python::line(self, number, text)
                || javascript::line(self, number, text)
                || java::line(self, number, text)
                || compilers::line(self, number, text)
                || suspects::line(self, number, text);
        }
        if !text.starts_with([' ', '\t']) && !text.is_empty() {
            self.set_heading(text);
        }
    }

    /// Whether the next line matters, whatever is in it.
    pub fn wants_every_line(&self) -> bool {
        self.is_thorough || !matches!(self.open, Open::Nothing)
    }

    /// Whether it looks for everything.
    pub fn is_thorough(&self) -> bool {
        self.is_thorough
    }

    /// Says which line without indentation came before, where not every line was given.
    pub fn set_heading(&mut self, text: &str) {
        self.heading.clear();
        self.heading.push_str(crate::text::clip(text, 512));
    }

    /// Forgets what was begun, since the next lines come from elsewhere.
    pub fn jump(&mut self) {
        self.open = Open::Nothing;
    }

    /// What was found so far.
    pub fn found(&self) -> &Findings {
        &self.found
    }

    /// What was found.
    pub fn finish(mut self) -> Findings {
        self.found.count_what_was_not();
        self.found
    }

    fn begin(&mut self, open: Open) {
        (self.open, self.left) = (open, FOLLOWING_MAX);
    }

    fn go_on(&mut self, text: &str) -> bool {
        if self.left == 0 {
            self.open = Open::Nothing;
        }
        self.left = self.left.saturating_sub(1);
        let (open, is_taken) = match std::mem::take(&mut self.open) {
            Open::Nothing => return false,
            Open::Arrow { diagnostic } => compilers::arrow(self, diagnostic, text),
            Open::Panic { diagnostic, thread, lines } => rust::panic_message(self, diagnostic, thread, lines, text),
            Open::Traceback { from, indent, place } => python::traceback(self, from, indent, place, text),
            Open::GoTest { case } => go::said(self, case, text),
            Open::GoPanic { diagnostic } => go::stack(self, diagnostic, text),
            Open::JsTest { case } => javascript::said(self, case, text),
            Open::PyTest { case } => python::test_error(self, case, text),
            Open::Ruff(fields) => json::ruff_field(self, fields, text),
        };
        self.open = open;
        is_taken
    }
}

/// Counts in words: `40 passed, 1 failed`. Gives each number with its word.
fn numbered_words(text: &str) -> impl Iterator<Item = (u64, &str)> {
    text.split([',', '|', ';']).filter_map(|part| {
        let mut words = part.split_whitespace();
        Some((words.next()?.parse().ok()?, words.next()?))
    })
}

#[cfg(test)]
mod tests;
