//! The doors: words in, words out.

mod cli;
mod explain;
mod render;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
