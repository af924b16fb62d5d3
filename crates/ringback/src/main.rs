//! The doors: words in, words out.

mod cli;
mod explain;
mod hook;
#[cfg(feature = "mcp")]
mod mcp;
mod output;
mod render;
mod setup;
mod spool;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
