//! Reads a task's output for the doors: its digest, what tools said in it, where its lines begin.

mod digest;
mod marks;
pub(crate) mod progress;
mod reports;

pub(crate) use digest::{digest, findings};
pub(crate) use marks::Marks;
