//! The doors: words in, words out.

mod caller;
mod cli;
mod exact;
mod explain;
mod hook;
#[cfg(feature = "mcp")]
mod mcp;
mod output;
mod render;
mod setup;
mod spool;
mod terminal;

use std::process::ExitCode;

fn main() -> ExitCode {
    // Where the keeper could not be built as a program of its own, this one is called by its name.
    let called = ringback_sys::launch::keep_if_called_keeper().or_else(ringback_sys::terminal::guard_if_called_guard);
    match called {
        Some(code) => u8::try_from(code).map_or(ExitCode::FAILURE, ExitCode::from),
        None => cli::main(),
    }
}
