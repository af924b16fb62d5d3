//! `cargo xtask bench`: ringback and its peers side by side in one run, as ratios to the floor of the machine.
//!
//! The floor is a bare `posix_spawn` of `sh -c true` and the wait for it, taken between the samples of a row, because a
//! machine's floor moves within minutes and only figures of one run compare.

mod curves;
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

pub(crate) use measure::{Stamp, time};
pub(crate) use stage::{Stage, await_ends, submit};

/// What to measure.
#[derive(Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
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
    /// Build the program from nothing, too, for the row about that: minutes.
    #[arg(long)]
    build: bool,
    /// Draw how times and sizes change with what there is, in place of the rows.
    #[arg(long)]
    curves: bool,
    /// The most ended tasks in the store, for the curves.
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    largest_stored: u64,
    /// The most live tasks, for the curves.
    #[arg(long, default_value_t = 5_000, value_name = "N")]
    largest_live: u64,
    /// The most bytes of output, for the curves.
    #[arg(long, default_value_t = 10_000_000_000, value_name = "BYTES")]
    largest_output: u64,
    /// First install the peers that are missing: Debian's with apt-get, the others beside the build.
    #[arg(long)]
    install_peers: bool,
    /// Write docs/performance.md and its pictures.
    #[arg(long)]
    write: bool,
}

/// Measures every row asked for, prints the table, and writes the page where that was asked for.
pub(crate) fn run(options: &Options) -> Done {
    if options.install_peers {
        peers::install()?;
    }
    let stage = Stage::set(options.dir.as_deref())?;
    if options.curves {
        return curves::run(&stage, options);
    }
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
    if options.write { report::write(&seen) } else { Ok(()) }
}
