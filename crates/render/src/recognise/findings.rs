//! What was found in an output: tests, messages of compilers, lines that look like errors.

use std::collections::HashMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::junit::Report;
use crate::text::{Place, shorten};

/// Most tests that are kept by name; the rest is only counted.
const TESTS_MAX: usize = 20_000;
/// How many more are kept if they are a reason to fail.
const BAD_TESTS_MAX: usize = 1000;
/// Most messages that are kept; the rest is only counted.
const DIAGNOSTICS_MAX: usize = 1000;
/// Most suspicious lines, notes and named files that are kept.
const FEW_MAX: usize = 8;
/// The longest message that is kept.
const MESSAGE_BYTES_MAX: usize = 600;

/// How one test ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It passed.
    Passed,
    /// It failed.
    Failed,
    /// It was not run.
    Skipped,
    /// It could not be run.
    Errored,
}

/// One test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Test {
    /// Its name, as its runner writes it.
    pub name: String,
    /// How it ended.
    pub status: Status,
    /// How long it took, where that was said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Why it failed, where that was said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The file, where that was said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The line in the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The line of the output that says so; nothing if it comes from a report file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_line: Option<u64>,
    /// Which format says so.
    pub source: &'static str,
}

impl Test {
    /// A test with a name, and nothing more known.
    pub(crate) fn new(source: &'static str, output_line: Option<u64>, name: &str, status: Status) -> Self {
        let name = shorten(name.trim(), MESSAGE_BYTES_MAX);
        Self { name, status, duration_ms: None, message: None, path: None, line: None, output_line, source }
    }

    /// Adds why it failed; what was said first stays.
    pub(crate) fn explain(&mut self, message: &str, place: Option<&Place>) {
        if self.message.is_none() && !message.is_empty() {
            self.message = Some(shorten(message, MESSAGE_BYTES_MAX));
        }
        if let (None, Some(place)) = (&self.path, place) {
            (self.path, self.line) = (Some(place.path.clone()), place.line);
        }
    }

    /// Whether it is a reason to fail.
    pub fn is_bad(&self) -> bool {
        matches!(self.status, Status::Failed | Status::Errored)
    }
}

/// How bad a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It stops the build, or ended a program.
    Error,
    /// It does not.
    Warning,
}

/// A message of a compiler or a linter, or the last words of a program that crashed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// What it says.
    pub message: String,
    /// Its code, like `E0308`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The line in the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The column.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
    /// The line of the output that says so.
    pub output_line: u64,
    /// Which format says so.
    pub source: &'static str,
}

impl Diagnostic {
    /// A message without a place.
    pub(crate) fn new(source: &'static str, output_line: u64, severity: Severity, message: &str) -> Self {
        let message = shorten(message.trim(), MESSAGE_BYTES_MAX);
        Self { severity, message, code: None, path: None, line: None, column: None, output_line, source }
    }

    /// The same, at this place.
    pub(crate) fn at(mut self, place: Option<Place>) -> Self {
        self.set_place(place);
        self
    }

    pub(crate) fn set_place(&mut self, place: Option<Place>) {
        if let Some(Place { path, line, column }) = place {
            (self.path, self.line, self.column) = (Some(path), line, column);
        }
    }

    /// The place as text.
    pub fn place(&self) -> Option<Place> {
        Some(Place { path: self.path.clone()?, line: self.line, column: self.column })
    }
}

/// How many tests ended how, as one source says it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Which format says so.
    pub source: &'static str,
    /// Passed, where that was said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passed: Option<u64>,
    /// Failed.
    pub failed: u64,
    /// Could not be run.
    pub errored: u64,
    /// Were not run.
    pub skipped: u64,
    /// Whether the runner's own summary was not seen, so that these are the tests seen so far.
    pub is_partial: bool,
}

impl Counts {
    /// Adds one number with the word that runners use for it. Says whether it knows the word.
    pub(crate) fn add(&mut self, count: u64, word: &str) -> bool {
        match word.trim_end_matches([':', ')', '.']) {
            "passed" | "passing" | "xfailed" | "xpassed" => *self.passed.get_or_insert(0) += count,
            "failed" | "failing" | "failure" | "failures" | "timed" => self.failed += count,
            "error" | "errors" | "exec" => self.errored += count,
            "skipped" | "ignored" | "pending" | "todo" => self.skipped += count,
            "warning" | "warnings" | "deselected" | "rerun" | "measured" | "filtered" | "total" | "subtests" => {}
            _ => return false,
        }
        true
    }

    /// How many are a reason to fail.
    pub fn bad(&self) -> u64 {
        self.failed + self.errored
    }
}

impl fmt::Display for Counts {
    /// `212 passed, 2 failed (JUnit)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rest = [(self.failed, "failed"), (self.errored, "could not run"), (self.skipped, "skipped")];
        let rest = rest.into_iter().filter(|(count, _)| *count > 0);
        let parts = self.passed.map(|passed| (passed, "passed")).into_iter().chain(rest);
        let parts: Vec<String> = parts.map(|(count, word)| format!("{count} {word}")).collect();
        let counted = if parts.is_empty() { "none".to_owned() } else { parts.join(", ") };
        let basis = if self.is_partial { ", no summary seen" } else { "" };
        write!(f, "{counted} ({}{basis})", self.source)
    }
}

/// A line that looks like an error, without a known format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Suspect {
    /// The line of the output.
    pub output_line: u64,
    /// What it says.
    pub text: String,
}

/// A file that the output names as a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mention {
    /// The line of the output.
    pub output_line: u64,
    /// The path as written.
    pub path: String,
}

/// Something that could not be read as what it looks like.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// The line of the output, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_line: Option<u64>,
    /// What could not be read.
    pub text: String,
}

/// All of it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Findings {
    /// Tests by name, in the order in which they were reported.
    pub tests: Vec<Test>,
    /// Tests that are not in the list.
    pub tests_left_out: u64,
    /// How many, for each source.
    pub counts: Vec<Counts>,
    /// Messages, in order.
    pub diagnostics: Vec<Diagnostic>,
    /// Messages that are not in the list.
    pub diagnostics_left_out: u64,
    /// The first lines that look like errors.
    pub suspects: Vec<Suspect>,
    /// Report files that were named.
    pub mentions: Vec<Mention>,
    /// What could not be read.
    pub notes: Vec<Note>,
    #[serde(skip)]
    by_name: HashMap<(&'static str, String), usize>,
}

impl Findings {
    /// Keeps a test; one that was already reported keeps its first place and what was said of it. Gives its position.
    pub(crate) fn test(&mut self, test: Test) -> Option<usize> {
        let key = (test.source, test.name.clone());
        if let Some(at) = self.by_name.get(&key) {
            let known = &mut self.tests[*at];
            known.status = test.status;
            known.duration_ms = known.duration_ms.or(test.duration_ms);
            let place = test.path.map(|path| Place { path, line: test.line, column: None });
            known.explain(test.message.as_deref().unwrap_or_default(), place.as_ref());
            return Some(*at);
        }
        // Whatever else there is, what failed is named.
        let most = if test.is_bad() { TESTS_MAX + BAD_TESTS_MAX } else { TESTS_MAX };
        if self.tests.len() >= most {
            self.tests_left_out += 1;
            return None;
        }
        self.by_name.insert(key, self.tests.len());
        self.tests.push(test);
        Some(self.tests.len() - 1)
    }

    /// How many tests were counted by their runners, and not named: that is how many are missing from the list.
    pub fn unnamed(&self) -> u64 {
        let of = |counts: &Counts| {
            let named = self.tests.iter().filter(|test| test.source == counts.source).count() as u64;
            (counts.passed.unwrap_or(0) + counts.bad() + counts.skipped).saturating_sub(named)
        };
        self.counts.iter().map(of).sum()
    }

    /// Keeps a message, and gives its position.
    pub(crate) fn diagnostic(&mut self, diagnostic: Diagnostic) -> Option<usize> {
        if self.diagnostics.len() >= DIAGNOSTICS_MAX {
            self.diagnostics_left_out += 1;
            return None;
        }
        self.diagnostics.push(diagnostic);
        Some(self.diagnostics.len() - 1)
    }

    /// Adds to the counts of a source.
    pub(crate) fn counts_of(&mut self, source: &'static str) -> &mut Counts {
        let at = self.counts.iter().position(|counts| counts.source == source).unwrap_or_else(|| {
            self.counts.push(Counts { source, ..Counts::default() });
            self.counts.len() - 1
        });
        &mut self.counts[at]
    }

    pub(crate) fn suspect(&mut self, output_line: u64, text: &str) {
        if self.suspects.len() < FEW_MAX {
            self.suspects.push(Suspect { output_line, text: shorten(text.trim(), MESSAGE_BYTES_MAX) });
        }
    }

    pub(crate) fn mention(&mut self, output_line: u64, path: &str) {
        if self.mentions.len() < FEW_MAX && self.mentions.iter().all(|known| known.path != path) {
            self.mentions.push(Mention { output_line, path: path.to_owned() });
        }
    }

    pub(crate) fn note(&mut self, output_line: Option<u64>, text: &str) {
        if self.notes.len() < FEW_MAX && self.notes.iter().all(|known| known.text != text) {
            self.notes.push(Note { output_line, text: text.to_owned() });
        }
    }

    /// Says where sources contradict each other or the exit status. The status stays what it is.
    pub fn note_contradictions(&mut self, has_failed: bool, exit_code: Option<i32>) {
        let Some(first) = self.counts.first() else { return };
        let others = self.counts.iter().skip(1).filter(|other| first.source == "JUnit" && other.bad() != first.bad());
        let mut notes: Vec<String> = others
            .filter(|other| !other.is_partial)
            .map(|other| format!("{} says {} failed, {} says {}", first.source, first.bad(), other.source, other.bad()))
            .collect();
        let all_passed = self.counts.iter().all(|counts| counts.bad() == 0);
        if has_failed && all_passed && !self.counts.iter().any(|counts| counts.is_partial) {
            notes.push(format!("no test failed by {}, and yet the command did", first.source));
        }
        if exit_code == Some(0) && !all_passed {
            notes.push("tests failed, and yet the exit status is 0".to_owned());
        }
        for text in &notes {
            self.note(None, text);
        }
    }

    /// Adds what report files say, by their names. They say exactly what the text says loosely, so they come first.
    pub fn add_reports(&mut self, files: Vec<(String, Report)>) {
        let mut reports = Self::default();
        for (name, (found, error)) in files {
            if let Some(error) = error {
                reports.note(None, &format!("the report {name} {error}"));
            }
            reports.merge(found);
        }
        if !reports.tests.is_empty() {
            let has_bad = reports.tests.iter().any(Test::is_bad);
            self.tests.retain(|test| test.is_bad() && !has_bad);
        }
        let tests = std::mem::take(&mut self.tests);
        reports.merge(Self { tests, tests_left_out: self.tests_left_out, ..Self::default() });
        reports.counts.append(&mut self.counts);
        reports.notes.append(&mut self.notes);
        (self.tests, self.by_name, self.tests_left_out) = (reports.tests, reports.by_name, reports.tests_left_out);
        (self.counts, self.notes) = (reports.counts, reports.notes);
    }

    fn merge(&mut self, other: Self) {
        self.tests_left_out += other.tests_left_out;
        for test in other.tests {
            self.test(test);
        }
        for counts in other.counts {
            let mine = self.counts_of(counts.source);
            mine.passed = mine.passed.map_or(counts.passed, |passed| Some(passed + counts.passed.unwrap_or(0)));
            mine.failed += counts.failed;
            mine.errored += counts.errored;
            mine.skipped += counts.skipped;
            mine.is_partial |= counts.is_partial;
        }
        for note in other.notes {
            self.note(note.output_line, &note.text);
        }
    }

    /// Counts the tests of sources that gave no counts themselves.
    pub(crate) fn count_what_was_not(&mut self) {
        let mut fresh: Vec<Counts> = Vec::new();
        for test in self.tests.iter().filter(|test| self.counts.iter().all(|counts| counts.source != test.source)) {
            let at = fresh.iter().position(|counts| counts.source == test.source).unwrap_or_else(|| {
                fresh.push(Counts { source: test.source, is_partial: true, ..Counts::default() });
                fresh.len() - 1
            });
            match test.status {
                Status::Passed => *fresh[at].passed.get_or_insert(0) += 1,
                Status::Failed => fresh[at].failed += 1,
                Status::Errored => fresh[at].errored += 1,
                Status::Skipped => fresh[at].skipped += 1,
            }
        }
        self.counts.append(&mut fresh);
    }
}
