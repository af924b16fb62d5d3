//! Python: tracebacks, pytest's and unittest's words.

use super::{Diagnostic, Open, Recogniser, Severity, Status, Test, numbered_words};
use crate::text::{Place, has_extension};

pub(super) fn line(to: &mut Recogniser, number: u64, text: &str) -> bool {
    if let Some(indent) = text.find("Traceback (most recent call last)") {
        to.begin(Open::Traceback { from: number, indent, place: None });
        return true;
    }
    short_summary(to, number, text)
        || verbose(to, number, text)
        || counts(to, text)
        || unittest(to, number, text)
        || report(to, number, text)
}

/// The lines of a traceback, up to the exception at the depth at which it began.
pub(super) fn traceback(
    to: &mut Recogniser,
    from: u64,
    indent: usize,
    place: Option<Place>,
    text: &str,
) -> (Open, bool) {
    // Something may stand before each line (a log's time, pytest's `E`): it is as wide as before the first.
    let Some(rest) = text.get(indent.min(text.len())..) else {
        return (Open::Traceback { from, indent, place }, true);
    };
    if rest.starts_with([' ', '\t']) || rest.trim().is_empty() {
        let frame = rest.trim_start().strip_prefix("File \"").and_then(|rest| rest.split_once("\", line "));
        let here = frame.and_then(|(path, rest)| {
            let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
            Some(Place { path: path.to_owned(), line: digits.parse().ok(), column: None })
        });
        return (Open::Traceback { from, indent, place: here.or(place) }, true);
    }
    to.found.diagnostic(Diagnostic::new("traceback", from, Severity::Error, rest).at(place));
    (Open::Nothing, true)
}

/// pytest's short summary: `FAILED tests/a.py::test_b - AssertionError: …`.
fn short_summary(to: &mut Recogniser, number: u64, text: &str) -> bool {
    let (status, rest) = match text.split_once(' ') {
        Some(("FAILED", rest)) => (Status::Failed, rest),
        Some(("ERROR", rest)) => (Status::Errored, rest),
        _ => return false,
    };
    let (name, message) = rest.split_once(" - ").unwrap_or((rest, ""));
    if !name.contains(".py") || name.contains(": ") {
        return false;
    }
    let mut case = Test::new("pytest", Some(number), name, status);
    case.explain(message, None);
    to.found.test(case);
    true
}

/// pytest -v: `tests/a.py::test_b PASSED [ 50%]`.
fn verbose(to: &mut Recogniser, number: u64, text: &str) -> bool {
    let Some((name, rest)) = text.split_once(' ').filter(|(name, _)| name.contains(".py::")) else { return false };
    let status = match rest.split_whitespace().next() {
        Some("PASSED" | "XPASS" | "XFAIL") => Status::Passed,
        Some("FAILED") => Status::Failed,
        Some("ERROR") => Status::Errored,
        Some("SKIPPED") => Status::Skipped,
        _ => return false,
    };
    if to.is_thorough || !matches!(status, Status::Passed | Status::Skipped) {
        to.found.test(Test::new("pytest", Some(number), name, status));
    }
    true
}

/// pytest's last line: `==== 1 failed, 40 passed in 1.42s ====`.
fn counts(to: &mut Recogniser, text: &str) -> bool {
    let line = text.trim_matches(|c| c == '=' || c == ' ');
    let Some((counted, time)) = line.rsplit_once(" in ") else { return false };
    let time = time.split(' ').next().unwrap_or_default();
    let is_time = time.strip_suffix('s').is_some_and(|seconds| seconds.parse::<f64>().is_ok());
    let words = counted.split(',').count();
    if !is_time || numbered_words(counted).count() != words {
        return false;
    }
    let mut fresh = super::Counts { source: "pytest", ..Default::default() };
    if !numbered_words(counted).all(|(count, word)| fresh.add(count, word)) {
        return false;
    }
    *to.found.counts_of("pytest") = fresh;
    true
}

fn unittest(to: &mut Recogniser, number: u64, text: &str) -> bool {
    if let Some(rest) = text.strip_prefix("Ran ").and_then(|rest| rest.split_once(" test")) {
        to.unittest_ran = rest.0.parse().ok();
        return to.unittest_ran.is_some();
    }
    let failed = text.strip_prefix("FAILED (").and_then(|rest| rest.strip_suffix(')'));
    let passed = text.strip_prefix("OK").filter(|_| to.unittest_ran.is_some());
    if let Some(list) = failed.or(passed) {
        let ran = to.unittest_ran.take();
        let counts = to.found.counts_of("unittest");
        for (word, count) in list.trim_matches([' ', '(', ')']).split(", ").filter_map(|pair| pair.split_once('=')) {
            counts.add(count.parse().unwrap_or(0), word);
        }
        let bad = counts.bad() + counts.skipped;
        counts.passed = ran.map(|ran| ran.saturating_sub(bad));
        return true;
    }
    for (begin, status) in [("FAIL: ", Status::Failed), ("ERROR: ", Status::Errored)] {
        // `FAIL: test_x (module.Class.test_x)`, under a rule of `=`.
        let name = text.strip_prefix(begin).filter(|name| name.ends_with(')') && name.contains(" ("));
        if let Some(name) = name.filter(|_| to.heading.starts_with("=====")) {
            if let Some(case) = to.found.test(Test::new("unittest", Some(number), name, status)) {
                // What it says stands here, not where -v has named it.
                to.found.tests[case].output_line = Some(number);
                to.begin(Open::PyTest { case });
            }
            return true;
        }
    }
    unittest_verbose(to, number, text)
}

/// unittest -v: `test_x (module.Class.test_x) ... ok`; where the test has a docstring, its first line stands before the
/// dots, and the name in the line above.
fn unittest_verbose(to: &mut Recogniser, number: u64, text: &str) -> bool {
    let Some((name, how)) = text.rsplit_once(" ... ").filter(|_| to.is_thorough) else { return false };
    let status = match how {
        "ok" | "expected failure" => Status::Passed,
        "FAIL" | "unexpected success" => Status::Failed,
        "ERROR" => Status::Errored,
        _ if how.starts_with("skipped") => Status::Skipped,
        _ => return false,
    };
    let is_name =
        |name: &&str| name.ends_with(')') && name.split_once(" (").is_some_and(|(name, _)| !name.contains(' '));
    let Some(name) = Some(name).filter(is_name).or(Some(to.heading.as_str()).filter(is_name)) else { return false };
    let case = Test::new("unittest", Some(number), name, status);
    to.found.test(case);
    true
}

/// The traceback of a failed test of unittest.
pub(super) fn test_error(to: &mut Recogniser, case: usize, text: &str) -> (Open, bool) {
    let is_inside = text.is_empty() || text.starts_with([' ', '-']) || text.starts_with("Traceback ");
    if is_inside {
        return (Open::PyTest { case }, true);
    }
    to.found.tests[case].explain(text, None);
    (Open::Nothing, true)
}

/// `generated xml file: /tmp/junit.xml`, `JUNIT report written to …`.
fn report(to: &mut Recogniser, number: u64, text: &str) -> bool {
    let words = ["generated xml file: ", "JUNIT report written to ", "Wrote JUnit report to "];
    let path = words.iter().find_map(|words| text.split_once(words)).map(|(_, rest)| rest);
    let path = path.map(|path| path.trim_matches(['-', ' ', '"', '\''])).filter(|path| has_extension(path, "xml"));
    if let Some(path) = path {
        to.found.mention(number, path);
    }
    path.is_some()
}
