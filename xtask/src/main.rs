//! The project's tasks beside its tests: figures about speed (`bench`) and about promises under faults (`prove`).

mod prove;

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
    /// Kills, fills, cuts off and counts: whether the promises hold under faults that we choose.
    Prove(prove::Options),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().task {
        Task::Prove(options) => prove::run(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
