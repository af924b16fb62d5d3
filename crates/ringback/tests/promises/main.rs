//! The promises of ringback, each seen through the real binary with real processes, in private homes.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::cast_possible_truncation, reason = "numbers of a test are small")]
#![allow(clippy::format_collect, clippy::needless_for_each, clippy::similar_names, reason = "a test reads as a story")]

#[path = "../support/mod.rs"]
mod support;

mod contract;
mod outcomes;

mod cgroups;
mod findings;
mod held_pipes;
mod hidden;
mod hold_back;
mod hostile_output;
mod limits;
mod timeouts;
mod trees;

mod bounds;
mod bytes;
mod masks;
mod planted;
mod private;

mod confined;
mod strangers;

mod inbox;
mod sessions;

mod bad_input;
mod bad_times;

mod concurrency;
mod crash_points;
mod front;
mod home_moves;
mod keeper_deaths;
mod stopped;
mod survive;
mod upgrade;

mod cases;
