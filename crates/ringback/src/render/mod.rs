//! How things look, for all doors: cleaned text, ages, colours, tables, verdicts, receipts and JSON documents.

pub(crate) mod age;
pub(crate) mod clean;
pub(crate) mod count;
pub(crate) mod headline;
pub(crate) mod held;
pub(crate) mod json;
pub(crate) mod receipt;
pub(crate) mod style;
pub(crate) mod table;
pub(crate) mod tags;
pub(crate) mod task;
