//! The rows: each measures one thing that people and agents feel.

mod many;
mod notice;
mod size;
mod submit;
mod whole;

use super::Options;
use super::measure::Row;
use super::stage::Stage;
use crate::Done;

/// One or more lines of the table, measured together because they share their floor.
type Measure = fn(&Stage, &Options) -> Done<Vec<Row>>;

/// Every row, with the name that `--row` looks for.
pub(super) const ALL: [(&str, Measure); 15] = [
    ("submit by CLI", submit::by_cli),
    ("submit by MCP", submit::by_mcp),
    ("submit by library", submit::by_library),
    ("first run", submit::first),
    ("start-up", submit::start_up),
    ("1,000 by CLI", many::by_cli),
    ("5,000 by library", many::by_library),
    ("notice", notice::measure),
    ("capture", whole::capture),
    ("stop", whole::stop),
    ("adoption", whole::adoption),
    ("memory", size::memory),
    ("after 10,000", size::after_many),
    ("binary", size::binary),
    ("release build", size::build),
];
