//! Java: what Surefire counts, and exceptions that end a thread.

use super::{Diagnostic, Recogniser, Severity};

pub(super) fn line(to: &mut Recogniser, number: u64, text: &str) -> bool {
    surefire(to, text) || exception(to, number, text)
}

/// `[ERROR] Tests run: 3, Failures: 1, Errors: 0, Skipped: 0`; with a time it is of one class and comes again in the sum.
fn surefire(to: &mut Recogniser, text: &str) -> bool {
    let Some((_, counted)) = text.split_once("Tests run: ") else { return false };
    if counted.contains("Time elapsed") {
        return true;
    }
    let mut numbers = counted.split(',').map(|part| part.rsplit(' ').next().unwrap_or(part).parse::<u64>());
    let mut next = || numbers.next().and_then(Result::ok);
    let (Some(run), Some(failed), Some(errored)) = (next(), next(), next()) else { return false };
    let skipped = next().unwrap_or(0);
    let counts = to.found.counts_of("Surefire");
    (counts.failed, counts.errored, counts.skipped) = (failed, errored, skipped);
    counts.passed = Some(run.saturating_sub(failed + errored + skipped));
    true
}

/// `Exception in thread "main" java.lang.IllegalStateException: message`.
fn exception(to: &mut Recogniser, number: u64, text: &str) -> bool {
    let Some((_, rest)) = text.split_once("Exception in thread \"") else { return false };
    let message = rest.split_once("\" ").map_or(rest, |(_, message)| message);
    to.found.diagnostic(Diagnostic::new("java", number, Severity::Error, message));
    true
}
