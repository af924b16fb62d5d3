//! `cargo xtask prove`: the promises under faults that we choose, on the real programs, against an oracle.
//!
//! Each part prints what it saw and adds it to a results file, so that short runs add up to a long one.

mod asker;
mod canary;
mod chance;
mod crashes;
mod disk;
mod faults;
mod fuzz;
mod judge;
mod killer;
mod kills;
mod life;
mod peers;
mod power;
pub(crate) mod processes;
mod reader;
mod results;
mod room;
mod round;
mod simulation;
mod soak;
mod subject;
mod tables;
mod zoo;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::built;
pub(crate) use asker::Asker;
use results::Results;

/// How long, and what.
#[derive(Args)]
pub(crate) struct Options {
    /// About how long all parts take together.
    #[arg(long, default_value_t = 10, value_name = "N")]
    pub(crate) minutes: u64,
    /// Only these parts (may be given again).
    #[arg(long, value_name = "PART")]
    pub(crate) only: Vec<Part>,
    /// The first seed of the random parts; the time of day when it is not given.
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Where results add up; delete it to begin anew.
    #[arg(long, value_name = "FILE", default_value = "target/prove.json")]
    pub(crate) results: PathBuf,
    /// Add what is seen to the results that are kept with the sources (docs/proof.json), and write the tables of
    /// docs/reliability.md from them.
    #[arg(long, conflicts_with = "results")]
    keep: bool,
    /// Run nothing: add the results of this file to those that are kept, and write the tables (may be given again).
    #[arg(long, value_name = "FILE", conflicts_with_all = ["results", "only"])]
    add: Vec<PathBuf>,
    /// The program to be tried; a debug build of this checkout when it is not given.
    #[arg(long, value_name = "FILE")]
    pub(crate) program: Option<PathBuf>,
    /// How many finished tasks the large home of `life` has; else a million, or the power of ten that can be written in its time.
    #[arg(long, value_name = "N")]
    pub(crate) ended: Option<u64>,
    /// How many homes `kills` has beside each other.
    #[arg(long, default_value_t = 6, value_name = "N")]
    pub(crate) homes: usize,
    /// As `--minutes`, for short runs; 0 is one round of each part.
    #[arg(long, hide = true)]
    seconds: Option<u64>,
    /// Set by `prove` itself, in a process namespace of its own.
    #[arg(long, hide = true)]
    inside: bool,
}

/// One way to try the promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// The core in seeded worlds.
    Simulation,
    /// SIGKILL at every pair of named boundaries between two effects.
    Crashes,
    /// SIGKILL at random, on the real programs under load.
    Kills,
    /// The same kills for pueue, task-spooler, nq and nohup, where they are installed.
    Peers,
    /// System calls that fail, come late, do less than they should, or hang; a full disk.
    Faults,
    /// A disk that forgets what was not synced.
    Power,
    /// A home with very many finished tasks and 2,000 that live.
    Life,
    /// Bytes that are not ours, through every parser of them.
    Fuzz,
    /// The same work again and again, after which nothing has grown.
    Soak,
}

/// All parts, and how many hundredths of the time each gets.
const SHARES: [(Part, u64); 9] = [
    (Part::Simulation, 15),
    (Part::Crashes, 20),
    (Part::Kills, 30),
    (Part::Peers, 5),
    (Part::Faults, 10),
    (Part::Power, 5),
    (Part::Life, 5),
    (Part::Fuzz, 5),
    (Part::Soak, 5),
];

/// What every part is given.
pub(crate) struct Trial<'a> {
    pub(crate) program: &'a Path,
    pub(crate) seed: u64,
    pub(crate) time: Duration,
    pub(crate) results: &'a mut Results,
}

/// Runs the parts, or adds results that there are.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let kept = built::root().join(tables::KEPT);
    if !options.add.is_empty() {
        let mut results = Results::open(&kept)?;
        for path in &options.add {
            results.take_in(&Results::open(path)?)?;
        }
        return tables::write(&results);
    }
    let path = if options.keep { &kept } else { &options.results };
    let tried = try_all(options, path);
    if options.keep {
        tables::write(&Results::open(path)?)?;
    }
    tried
}

/// Runs the parts, prints the table, and fails if any promise was seen broken.
fn try_all(options: &Options, path: &Path) -> Result<(), String> {
    let program = match &options.program {
        Some(program) => program.clone(),
        None => build()?,
    };
    let program = program.canonicalize().map_err(|error| format!("cannot find {}: {error}", program.display()))?;
    if program.file_name() != Some("ringback".as_ref()) {
        return Err(format!("{} is not called `ringback`, so it would not find itself", program.display()));
    }
    let seed = options.seed.unwrap_or_else(chance::time_of_day);
    let mut results = Results::open(path)?;
    let failures = results.failures();
    let chosen = |part: Part| options.only.is_empty() || options.only.contains(&part);
    let shares: u64 = SHARES.iter().filter(|(part, _)| chosen(*part)).map(|(_, share)| share).sum();
    let seconds = options.seconds.unwrap_or(options.minutes * 60);
    let mut stopped = Vec::new();
    for (part, share) in SHARES.into_iter().filter(|(part, _)| chosen(*part)) {
        let time = Duration::from_secs(seconds * share / shares.max(1));
        let mut trial = Trial { program: &program, seed, time, results: &mut results };
        // One part that cannot go on does not take the others' time from them.
        if let Err(words) = try_part(part, &mut trial, options) {
            eprintln!("{part:?} stopped: {words}");
            stopped.push(format!("{part:?}"));
        }
        results = Results::open(path)?;
    }
    if !options.inside {
        println!("\n{}", tables::of_all(&results));
    }
    let new = results.failures() - failures;
    if stopped.is_empty() && (new == 0 || options.inside) {
        return Ok(());
    }
    let stopped = if stopped.is_empty() { String::new() } else { format!("; stopped: {}", stopped.join(", ")) };
    Err(format!("{new} new failures, kept in {}{stopped}", path.display()))
}

fn try_part(part: Part, trial: &mut Trial<'_>, options: &Options) -> Result<(), String> {
    match part {
        Part::Simulation => simulation::run(trial),
        Part::Crashes => crashes::run(trial),
        Part::Kills => kills::run(trial, options.inside, options.homes),
        Part::Peers => peers::run(trial),
        Part::Faults => faults::run(trial),
        Part::Power => power::run(trial),
        Part::Life => life::run(trial, options),
        Part::Fuzz => fuzz::run(trial),
        Part::Soak => soak::run(trial),
    }
}

/// Builds the program as its tests have it: with named crash points.
fn build() -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo).args(["build", "--quiet", "--package", "ringback"]).status();
    match built {
        Ok(status) if status.success() => Ok(target().join("debug/ringback")),
        Ok(status) => Err(format!("the build of ringback ended with {status}")),
        Err(error) => Err(format!("cannot start cargo: {error}")),
    }
}

/// Where builds go: two folders above this program.
pub(crate) fn target() -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    own.ancestors().nth(2).unwrap_or(Path::new("target")).to_path_buf()
}

/// Whether a program is installed.
pub(crate) fn is_installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}
