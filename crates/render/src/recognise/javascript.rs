//! JavaScript: vitest and jest as text, mocha's counts, and TAP.

use super::{Open, Recogniser, Status, Test, numbered_words};
use crate::text::Place;

pub(super) fn line(to: &mut Recogniser, number: u64, text: &str) -> bool {
    counts(to, text) || failed(to, number, text) || passed(to, number, text) || tap(to, number, text)
}

/// `      Tests  1 failed | 40 passed (41)` of vitest, `Tests:       1 failed, 40 passed, 41 total` of jest.
fn counts(to: &mut Recogniser, text: &str) -> bool {
    let rest = text.trim_start();
    let (source, counted) = match (rest.strip_prefix("Tests  "), rest.strip_prefix("Tests: ")) {
        (Some(counted), _) => ("vitest", counted),
        (_, Some(counted)) => ("jest", counted),
        _ => return mocha(to, rest),
    };
    // A redrawn screen says it again and again; the last one counts.
    let mut fresh = super::Counts { source, ..Default::default() };
    let is_known = numbered_words(counted).fold(false, |known, (count, word)| fresh.add(count, word) || known);
    if is_known {
        *to.found.counts_of(source) = fresh;
    }
    is_known
}

/// `  12 passing (30ms)`, `  1 failing`.
fn mocha(to: &mut Recogniser, rest: &str) -> bool {
    let mut words = rest.split_whitespace();
    let (Some(count), Some(word)) = (words.next().and_then(|count| count.parse().ok()), words.next()) else {
        return false;
    };
    let is_it = matches!(word, "passing" | "failing") && words.next().is_none_or(|rest| rest.starts_with('('));
    is_it && to.found.counts_of("mocha").add(count, word)
}

/// ` FAIL  a.test.js > name` of vitest, `  ● suite › name` of jest.
fn failed(to: &mut Recogniser, number: u64, text: &str) -> bool {
    let rest = text.trim_start();
    let vitest = rest.strip_prefix("FAIL ").filter(|name| name.contains(" > "));
    let jest = rest.strip_prefix("● ").filter(|name| !name.starts_with("Console"));
    let (source, name) = match (vitest, jest) {
        (Some(name), _) => ("vitest", name),
        (_, Some(name)) => ("jest", name),
        _ => return false,
    };
    if let Some(case) = to.found.test(Test::new(source, Some(number), name, Status::Failed)) {
        to.begin(Open::JsTest { case });
    }
    true
}

/// `   ✓ name 1ms` of vitest and jest, `   × name 5ms`.
fn passed(to: &mut Recogniser, number: u64, text: &str) -> bool {
    let rest = text.trim_start();
    let Some(name) = rest.strip_prefix("✓ ").filter(|_| to.is_thorough) else { return false };
    let (name, time) = name.rsplit_once(' ').unwrap_or((name, ""));
    let Some(time) = time.trim_matches(['(', ')']).strip_suffix("ms").and_then(|time| time.parse().ok()) else {
        return false;
    };
    let mut case = Test::new("vitest", Some(number), name, Status::Passed);
    case.duration_ms = Some(time);
    to.found.test(case);
    true
}

/// The lines after a failed test: why, and where.
pub(super) fn said(to: &mut Recogniser, case: usize, text: &str) -> (Open, bool) {
    let rest = text.trim();
    let is_next = rest.starts_with("FAIL ") || rest.starts_with("● ") || rest.starts_with("Tests");
    if is_next {
        return (Open::Nothing, false);
    }
    let found = &mut to.found.tests[case];
    let place = rest.strip_prefix("❯ ").or_else(|| rest.strip_prefix("at "));
    if let Some(place) = place.and_then(|place| Place::parse(place.rsplit(['(', ' ']).next()?.trim_end_matches(')'))) {
        found.explain("", Some(&place));
        return (Open::Nothing, true);
    }
    if found.message.is_none() {
        found.explain(rest, None);
    } else if let (Some(message), true) =
        (&mut found.message, rest.starts_with("Expected:") || rest.starts_with("Received:"))
    {
        message.push_str("; ");
        message.push_str(crate::text::clip(rest, 200));
    }
    (Open::JsTest { case }, true)
}

/// `not ok 3 - name`.
fn tap(to: &mut Recogniser, number: u64, text: &str) -> bool {
    let rest = text.trim_start();
    let (status, rest) = match (rest.strip_prefix("not ok "), rest.strip_prefix("ok ")) {
        (Some(rest), _) => (Status::Failed, rest),
        (_, Some(rest)) => (Status::Passed, rest),
        _ => return false,
    };
    let Some((count, name)) = rest.split_once(" - ") else { return false };
    if count.parse::<u64>().is_err() {
        return false;
    }
    let status = if name.contains("# SKIP") || name.contains("# TODO") { Status::Skipped } else { status };
    if to.is_thorough || status == Status::Failed {
        to.found.test(Test::new("TAP", Some(number), name, status));
    }
    true
}
