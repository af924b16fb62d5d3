//! The project's tasks beside its tests: figures about speed (`bench`, `budgets`, `flame`) and about promises under faults
//! (`prove`).

mod bench;
mod budgets;
mod built;
mod flame;
mod prove;

use std::error::Error;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// What a task of the project gives back: done, or what stood in its way.
type Done<T = ()> = Result<T, Box<dyn Error>>;

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
    /// Measures ringback beside its peers in one run, as ratios to the floor of the machine.
    Bench(bench::Options),
    /// Counts the instructions of the submit path of the release program, and compares them with their budgets.
    Budgets(budgets::Options),
    /// Draws where the time of a submission, an ending and a capture goes, as flame graphs.
    Flame(flame::Options),
    /// The work that `flame` records.
    #[command(hide = true)]
    Drive(flame::Drive),
    /// A client that asks for many tasks, which `prove` kills.
    #[command(hide = true)]
    Ask(prove::Asker),
    /// Sleeps, and writes the monotonic clock to a file as its last act: what the bench waits for.
    #[command(hide = true)]
    Stamp(bench::Stamp),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().task {
        Task::Prove(options) => prove::run(&options).map_err(Into::into),
        Task::Ask(asker) => asker.run(),
        Task::Bench(options) => bench::run(&options),
        Task::Budgets(options) => budgets::run(&options),
        Task::Flame(options) => flame::run(&options),
        Task::Drive(drive) => drive.run(),
        Task::Stamp(stamp) => stamp.write(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
