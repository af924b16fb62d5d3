//! Bytes that are not ours, through every parser of them: the test of the corpora, for longer, with other inputs each time.

use std::process::{Command, Stdio};

use super::Trial;
use super::results::Counts;

/// How many targets there are, about; the time is divided among them.
const TARGETS: u64 = 15;

pub(crate) fn run(trial: &mut Trial<'_>) -> Result<(), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["test", "--quiet", "--package", "ringback", "--test", "fuzz", "--", "--nocapture", "what_chance"]);
    command.env("RINGBACK_FUZZ_SECONDS", (trial.time.as_secs() / TARGETS).max(1).to_string());
    let output = command.env("RUST_BACKTRACE", "0").stderr(Stdio::piped()).output();
    let output = output.map_err(|error| format!("cannot start cargo: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let (mut targets, mut inputs) = (0, 0);
    for line in text.lines() {
        // `junit: 4711 inputs in 4.0s`
        if let Some(count) = line.split_once(": ").and_then(|(_, rest)| rest.split_once(" inputs in ")?.0.parse().ok())
        {
            let count: u64 = count;
            (targets, inputs) = (targets + 1, inputs + count);
        }
        // The input is kept in the corpus, and is a test from then on.
        if let Some((target, path)) = line.split_once(" fails on ") {
            let below = path.find("fuzz/corpus/").map_or(path, |at| &path[at..]);
            trial.results.fail("fuzz", below, target)?;
        }
    }
    if targets == 0 && output.status.success() {
        return Err(format!("the fuzz targets said nothing: {text}"));
    }
    println!("fuzz: {inputs} inputs for {targets} targets");
    let broken = u64::from(!output.status.success());
    trial.results.add("fuzz", "parsers", &Counts::from([("inputs", inputs), ("broken", broken)]))?;
    trial.results.set("fuzz", "parsers", "targets", targets)
}
