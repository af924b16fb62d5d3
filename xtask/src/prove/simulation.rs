//! The core in seeded worlds: the test of `crates/core`, for longer and optimised.

use std::process::{Command, Stdio};

use super::Trial;
use super::results::Counts;

pub(crate) fn run(trial: &mut Trial<'_>) -> Result<(), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["test", "--quiet", "--release", "--package", "ringback-core", "--test", "simulation"]);
    command.args(["--", "--nocapture", "in_every_world"]).env("RUST_BACKTRACE", "0");
    command.env("RINGBACK_SIM_SECONDS", trial.time.as_secs().max(1).to_string()).stderr(Stdio::piped());
    let output = command.output().map_err(|error| format!("cannot start cargo: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    if let Some(line) = text.lines().find(|line| line.starts_with("RINGBACK_SIM_SEED=")) {
        let (seed, words) = line.split_once(": ").unwrap_or((line, ""));
        return trial.results.fail("simulation", seed, words);
    }
    let Some(line) = text.lines().find_map(|line| line.strip_prefix("simulation: ")) else {
        return Err(format!("the simulation said nothing: {text}"));
    };
    println!("simulation: {line}");
    let numbers: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [worlds, steps, rate] = numbers[..] else { return Err(format!("the simulation said {line:?}")) };
    trial.results.add("simulation", "core", &Counts::from([("worlds", worlds), ("steps", steps), ("broken", 0)]))?;
    trial.results.set("simulation", "core", "steps_per_second", rate)
}
