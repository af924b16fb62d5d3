//! What the doors print, and what they do when somebody goes away: real processes, one private home per test.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod arguments;
mod attach;
mod follow;
mod home;
mod inbox;
mod json;
mod logs;
mod output;
mod progress;
mod pty;
#[cfg(feature = "webhook")]
mod sinks;
mod stdin;
mod terminal;
mod watch;
mod words;
