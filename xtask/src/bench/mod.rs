//! `cargo xtask bench`: ringback and its peers side by side in one run, as ratios to the floor of the machine.
//!
//! The floor is a bare `posix_spawn` of `sh -c true` and the wait for it, taken between the samples of a row, because a
//! machine's floor moves within minutes and only figures of one run compare.

mod mcp;
mod measure;
mod peers;
mod plot;
mod report;
mod rows;
mod stage;

use std::path::PathBuf;

use clap::Args;

use crate::Done;
use measure::Row;
use stage::Stage;

pub(crate) use measure::Stamp;

/// What to measure.
#[derive(Args)]
pub(crate) struct Options {
    /// Samples of each short row; long rows take fewer.
    #[arg(long, default_value_t = 200, value_name = "N")]
    samples: usize,
    /// Only the rows whose names contain this (repeatable).
    #[arg(long = "row", value_name = "TEXT")]
    rows: Vec<String>,
    /// Where the homes are made: the disk that is measured [default: target/bench].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Running tasks that a new daemon takes over in the row of that name.
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    adopt: usize,
    /// MiB of output in the row of capture.
    #[arg(long, default_value_t = 1_024, value_name = "MIB")]
    capture: u64,
    /// Write docs/performance.md and its plot.
    #[arg(long)]
    write: bool,
}

/// Measures every row asked for, prints the table, and writes the page where that was asked for.
pub(crate) fn run(options: &Options) -> Done {
    let stage = Stage::set(options.dir.as_deref())?;
    let mut seen: Vec<Row> = Vec::new();
    for (name, measure) in rows::ALL {
        if !options.rows.is_empty() && !options.rows.iter().any(|part| name.contains(part.as_str())) {
            continue;
        }
        eprintln!("{name} …");
        match measure(&stage, options) {
            Ok(rows) => {
                for row in rows {
                    println!("{}", report::line(&row));
                    seen.push(row);
                }
            }
            Err(error) => println!("{name}: not measured: {error}"),
        }
    }
    if options.write { report::write(&stage, &seen) } else { Ok(()) }
}
