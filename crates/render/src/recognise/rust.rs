//! Rust: libtest and nextest as text, panics, and what rustc and cargo print for people.

use super::{Diagnostic, Open, Recogniser, Severity, Status, Test, numbered_words};
use crate::text::Place;

/// How many lines of a panic's message are kept.
const PANIC_LINES_MAX: u32 = 4;

pub(super) fn line(to: &mut Recogniser, number: u64, text: &str) -> bool {
    libtest(to, number, text) || nextest(to, number, text) || panic(to, number, text) || rustc(to, number, text)
}

fn libtest(to: &mut Recogniser, number: u64, text: &str) -> bool {
    let Some(rest) = text.strip_prefix("test ") else { return false };
    if let Some(summary) = rest.strip_prefix("result: ") {
        let counts = to.found.counts_of("libtest");
        for (count, word) in numbered_words(summary.split_once(". ").map_or("", |(_, counts)| counts)) {
            counts.add(count, word);
        }
        return true;
    }
    let Some((name, status)) = rest.rsplit_once(" ... ") else { return false };
    let status = match status.split([' ', ',']).next() {
        Some("ok") => Status::Passed,
        Some("FAILED") => Status::Failed,
        Some("ignored") => Status::Skipped,
        _ => return false,
    };
    if to.is_thorough || status == Status::Failed {
        to.found.test(Test::new("libtest", Some(number), name, status));
    }
    true
}

fn nextest(to: &mut Recogniser, number: u64, text: &str) -> bool {
    let Some((word, rest)) = text.strip_prefix(' ').and_then(|text| text.trim_start().split_once(" [")) else {
        return false;
    };
    let Some((time, rest)) = rest.split_once(']') else { return false };
    let Some(seconds) = time.trim().strip_suffix('s') else { return false };
    if word == "Summary" {
        let Some((_, counted)) = rest.split_once(" run: ") else { return false };
        let counts = to.found.counts_of("nextest");
        for (count, word) in numbered_words(counted) {
            counts.add(count, word);
        }
        return true;
    }
    let last = word.rsplit(' ').next().unwrap_or(word);
    let status = match last {
        "PASS" | "LEAK" | "FLAKY" => Status::Passed,
        "FAIL" | "TIMEOUT" | "ABORT" => Status::Failed,
        _ if last.starts_with("SIG") => Status::Failed,
        _ => return false,
    };
    let name = rest.trim_start();
    // Newer versions count: `( 3/34) binary test`.
    let name = name.strip_prefix('(').and_then(|name| name.split_once(')')).map_or(name, |(_, name)| name);
    if to.is_thorough || status == Status::Failed {
        let mut case = Test::new("nextest", Some(number), name, status);
        case.duration_ms = milliseconds(seconds);
        to.found.test(case);
    }
    true
}

/// `0.017` seconds as milliseconds.
pub(super) fn milliseconds(seconds: &str) -> Option<u64> {
    let (whole, part) = seconds.trim().split_once('.').unwrap_or((seconds.trim(), ""));
    let part: String = part.chars().chain("000".chars()).take(3).collect();
    Some(whole.parse::<u64>().ok()?.checked_mul(1000)? + part.parse::<u64>().ok()?)
}

fn panic(to: &mut Recogniser, number: u64, text: &str) -> bool {
    let Some((before, after)) = text.split_once(" panicked at ") else { return false };
    let Some(thread) = before.trim_start().strip_prefix("thread '").and_then(|rest| rest.split('\'').next()) else {
        return false;
    };
    // Before Rust 1.73 the message came first: `panicked at 'message', src/lib.rs:1:2`.
    let (message, place) = match after.rsplit_once("', ") {
        Some((message, place)) => (message.trim_start_matches('\''), Place::parse(place)),
        None => ("", Place::parse(after)),
    };
    let diagnostic = Diagnostic::new("panic", number, Severity::Error, message).at(place);
    let Some(diagnostic) = to.found.diagnostic(diagnostic) else { return true };
    if message.is_empty() {
        to.begin(Open::Panic { diagnostic, thread: thread.to_owned(), lines: 0 });
    } else {
        explain(to, diagnostic, thread);
    }
    true
}

/// The lines after `panicked at`: the message, up to an empty line or the note on backtraces.
pub(super) fn panic_message(
    to: &mut Recogniser,
    diagnostic: usize,
    thread: String,
    lines: u32,
    text: &str,
) -> (Open, bool) {
    let is_end = text.trim().is_empty() || text.starts_with("note: run with") || text.starts_with("stack backtrace:");
    let is_other = text.starts_with("thread '") || text.starts_with("test ");
    if !is_end && !is_other {
        let message = &mut to.found.diagnostics[diagnostic].message;
        if !message.is_empty() {
            message.push_str("; ");
        }
        message.push_str(crate::text::clip(text.trim(), 200));
        if lines + 1 < PANIC_LINES_MAX {
            return (Open::Panic { diagnostic, thread, lines: lines + 1 }, true);
        }
    }
    explain(to, diagnostic, &thread);
    (Open::Nothing, !is_other)
}

/// The thread of a test has the name of the test.
fn explain(to: &mut Recogniser, diagnostic: usize, thread: &str) {
    let Diagnostic { message, .. } = &to.found.diagnostics[diagnostic];
    let (message, place) = (message.clone(), to.found.diagnostics[diagnostic].place());
    let is_it = |case: &&mut Test| {
        case.is_bad() && case.message.is_none() && (case.name == thread || case.name.ends_with(&format!(" {thread}")))
    };
    if let Some(case) = to.found.tests.iter_mut().rev().find(is_it) {
        case.explain(&message, place.as_ref());
    }
}

/// `error[E0308]: mismatched types`, and on the next line where.
fn rustc(to: &mut Recogniser, number: u64, text: &str) -> bool {
    let (severity, rest) = match (text.strip_prefix("error"), text.strip_prefix("warning")) {
        (Some(rest), _) => (Severity::Error, rest),
        (_, Some(rest)) if to.is_thorough => (Severity::Warning, rest),
        _ => return false,
    };
    let (code, message) = match rest.strip_prefix('[').and_then(|rest| rest.split_once("]: ")) {
        Some((code, message)) => (Some(code.to_owned()), message),
        None => match rest.strip_prefix(": ") {
            Some(message) => (None, message),
            None => return false,
        },
    };
    if is_closing(message) {
        if severity == Severity::Error {
            to.found.suspect(number, text);
        }
        return true;
    }
    let diagnostic = Diagnostic { code, ..Diagnostic::new("text", number, severity, message) };
    if let Some(diagnostic) = to.found.diagnostic(diagnostic) {
        to.begin(Open::Arrow { diagnostic });
    }
    true
}

/// What cargo and rustc say at the end about messages that came before.
fn is_closing(message: &str) -> bool {
    let begins =
        ["could not compile", "aborting due to", "test failed, to rerun", "build failed", "process didn't exit"];
    begins.iter().any(|begin| message.starts_with(begin)) || message.contains(" generated ")
}
