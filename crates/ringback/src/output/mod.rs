//! Reads a task's output for the doors: its digest, what tools said in it, where its lines begin.

mod digest;
mod marks;
mod modes;
pub(crate) mod progress;
mod reports;

pub(crate) use digest::{digest, findings};
pub(crate) use marks::Marks;
pub(crate) use modes::cursor_keys_are_application;
