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

pub(crate) use digest::{Source, digest, findings};
pub(crate) use enrich::enrich;
pub(crate) use marks::Marks;
pub(crate) use modes::cursor_keys_are_application;
pub(crate) use picture::picture;
pub(crate) use reports::keep;
pub(crate) use sizes::Sizes;
