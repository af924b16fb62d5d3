//! `cargo xtask bench`: every row of docs/performance.md, measured in one run.

use clap::Args;

/// What to measure.
#[derive(Args)]
pub struct Options {
    /// Runs of each row; figures are medians with minimum and maximum.
    #[arg(long, default_value_t = 200, value_name = "N")]
    pub runs: u32,
}

/// Measures, and writes the table.
pub fn run(options: &Options) -> Result<(), String> {
    Err(format!("{} runs asked for, and no row is built yet", options.runs))
}
