//! The project's tasks beside its tests: figures about speed (`bench`) and about promises under faults (`prove`).

mod bench;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Tasks of the project: they build what they need, and print what they saw.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Measures ringback beside its peers in one run, as ratios to the floor of the machine.
    Bench(bench::Options),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().task {
        Task::Bench(options) => bench::run(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
