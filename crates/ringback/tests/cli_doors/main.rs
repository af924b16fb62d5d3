//! What the doors print, and what they do when somebody goes away: real processes, one private home per test.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod follow;
mod home;
mod inbox;
mod logs;
mod output;
#[cfg(feature = "webhook")]
mod sinks;
mod watch;
mod words;
