//! The rules: what a task may do next, who is told, what may be thrown away. No I/O, no clock, no chance.
//!
//! Everything is handed in: the time, what a keeper saw, what a client asked. Everything comes out as a list of
//! [`effect::Effect`]s, which somebody else performs. Start reading at [`task`], then [`board`].

#![no_std]
#![forbid(unsafe_code)]
#![warn(clippy::wildcard_enum_match_arm)]

extern crate alloc;

pub mod board;
pub mod character;
pub mod effect;
pub mod id;
pub mod lines;
pub mod notice;
pub mod outcome;
pub mod reading;
pub mod report;
pub mod retention;
pub mod secret;
pub mod shape;
pub mod spec;
pub mod task;
pub mod watch;
