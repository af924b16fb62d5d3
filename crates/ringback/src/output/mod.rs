//! Reads a task's output for the doors: its digest, what tools said in it, where its lines begin.

mod digest;
mod enrich;
mod marks;
mod masked;
mod modes;
mod picture;
pub(crate) mod progress;
mod reports;
mod sizes;

use std::io;
use std::time::Duration;

use jiff::Timestamp;
use ringback_host::client::output::Output;
use ringback_host::quantity::millis;

pub(crate) use digest::{Source, digest, findings};
pub(crate) use enrich::enrich;
pub(crate) use marks::Marks;
pub(crate) use modes::cursor_keys_are_application;
pub(crate) use picture::picture;
pub(crate) use reports::keep;
pub(crate) use sizes::Sizes;

/// Where what came in this last time begins.
pub(crate) fn offset_ago(output: &mut Output, age: Duration) -> io::Result<u64> {
    let now_ms = u64::try_from(Timestamp::now().as_millisecond()).unwrap_or(0);
    output.offset_at(now_ms.saturating_sub(millis(age)))
}
