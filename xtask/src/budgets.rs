//! `cargo xtask budgets`: whether the release program executes no more instructions on the submit path than it may.
//!
//! The counting is a test of the doors (`crates/ringback/tests/budgets.rs`), which is handed the release program here.

use clap::Args;

use crate::Done;
use crate::built;

/// What to do with what was counted.
#[derive(Args)]
pub(crate) struct Options {
    /// Write the counts as the new budgets.
    #[arg(long)]
    write: bool,
}

/// Builds the release program and has it counted.
pub(crate) fn run(options: &Options) -> Done {
    let program = built::release()?;
    let mut test = built::cargo();
    test.args(["test", "--quiet", "--package", "ringback", "--test", "budgets", "--", "--nocapture"]);
    test.env("RINGBACK_BUDGETS_OF", program);
    if options.write {
        test.env("RINGBACK_BLESS", "1");
    }
    if test.status()?.success() { Ok(()) } else { Err("more instructions than there may be".into()) }
}
