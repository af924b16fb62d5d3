//! Go: failed tests, packages that do not build, panics.

use super::rust::milliseconds;
use super::{Diagnostic, Open, Recogniser, Severity, Status, Test};
use crate::text::Place;

pub(super) fn line(to: &mut Recogniser, number: u64, text: &str) -> bool {
    test(to, number, text) || package(to, number, text) || panic(to, number, text) || compiler(to, number, text)
}

/// `--- FAIL: TestX (0.00s)`; of a subtest, further to the right.
fn test(to: &mut Recogniser, number: u64, text: &str) -> bool {
    let Some((word, rest)) = text.trim_start().strip_prefix("--- ").and_then(|rest| rest.split_once(": ")) else {
        return false;
    };
    let status = match word {
        "PASS" => Status::Passed,
        "FAIL" => Status::Failed,
        "SKIP" => Status::Skipped,
        _ => return false,
    };
    if !to.is_thorough && status != Status::Failed {
        return true;
    }
    let (name, time) = rest.rsplit_once(" (").unwrap_or((rest, ""));
    let mut case = Test::new("go test", Some(number), name, status);
    case.duration_ms = time.strip_suffix("s)").and_then(milliseconds);
    if let Some(case) = to.found.test(case).filter(|_| status == Status::Failed) {
        to.begin(Open::GoTest { case });
    }
    true
}

/// What a failed test said: `    x_test.go:12: message`.
pub(super) fn said(to: &mut Recogniser, case: usize, text: &str) -> (Open, bool) {
    let inside = text.trim_start();
    if inside.len() == text.len() || inside.starts_with("--- ") {
        return (Open::Nothing, false);
    }
    if let Some((place, message)) = place_and_message(inside) {
        to.found.tests[case].explain(message, Some(&place));
        return (Open::Nothing, true);
    }
    (Open::GoTest { case }, true)
}

/// `x_test.go:12: message`.
pub(super) fn place_and_message(text: &str) -> Option<(Place, &str)> {
    let (place, message) = text.split_once(": ")?;
    let place = Place::parse(place).filter(|place| place.is_of("go"))?;
    Some((place, message))
}

/// `FAIL`, a tab, `example.com/pkg [build failed]`.
fn package(to: &mut Recogniser, number: u64, text: &str) -> bool {
    let Some(rest) = text.strip_prefix("FAIL\t") else { return false };
    let Some((name, why)) = rest.split_once(" [") else { return true };
    let mut case = Test::new("go test", Some(number), name, Status::Errored);
    case.explain(why.trim_end_matches(']'), None);
    to.found.test(case);
    true
}

fn panic(to: &mut Recogniser, number: u64, text: &str) -> bool {
    let is_it = text.starts_with("panic: ") || text.starts_with("fatal error: ");
    if !is_it {
        return false;
    }
    if let Some(diagnostic) = to.found.diagnostic(Diagnostic::new("go", number, Severity::Error, text)) {
        to.begin(Open::GoPanic { diagnostic });
    }
    true
}

/// The stack below a panic: the first place that is not of the language itself.
pub(super) fn stack(to: &mut Recogniser, diagnostic: usize, text: &str) -> (Open, bool) {
    let place = text.strip_prefix('\t').and_then(|rest| Place::parse(rest.split(' ').next()?));
    if let Some(place) = place.filter(|place| !place.path.contains("/src/runtime/")) {
        to.found.diagnostics[diagnostic].set_place(Some(place));
        return (Open::Nothing, true);
    }
    let is_inside = ["\t", "goroutine ", "created by ", "[", "panic("].iter().any(|begin| text.starts_with(begin));
    let is_call = text.ends_with(')') && text.contains('(');
    if is_inside || is_call || text.is_empty() {
        return (Open::GoPanic { diagnostic }, true);
    }
    (Open::Nothing, false)
}

/// `./main.go:12:3: undefined: x`.
fn compiler(to: &mut Recogniser, number: u64, text: &str) -> bool {
    let rest = text.strip_prefix("vet: ").unwrap_or(text);
    let Some((place, message)) = place_and_message(rest).filter(|(place, _)| place.column.is_some()) else {
        return false;
    };
    to.found.diagnostic(Diagnostic::new("go", number, Severity::Error, message).at(Some(place)));
    true
}
