//! SIGKILL at every pair of named boundaries, of daemon and keeper: the test of the promises, for longer, and where it
//! stopped it goes on.

use std::process::{Command, Stdio};

use super::Trial;
use super::results::Counts;

pub(crate) fn run(trial: &mut Trial<'_>) -> Result<(), String> {
    let from = trial.results.count("crashes", "pairs", "next");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["test", "--quiet", "--package", "ringback", "--test", "promises", "--", "--nocapture"]);
    command.arg("crash_points::daemons_and_keepers_that_die_at_any_two_points_lose_nothing");
    command.env("RINGBACK_PAIRS_FROM", from.to_string()).env("RUST_BACKTRACE", "0");
    command.env("RINGBACK_PAIRS_SECONDS", trial.time.as_secs().max(1).to_string()).stderr(Stdio::piped());
    let output = command.output().map_err(|error| format!("cannot start cargo: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let Some(line) = text.lines().find_map(|line| line.strip_prefix("crashes: ")) else {
        return Err(format!("the crashes said nothing: {text}{}", String::from_utf8_lossy(&output.stderr)));
    };
    println!("crashes: {line}");
    let numbers: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [told, pairs, from] = numbers[..] else { return Err(format!("the crashes said {line:?}")) };
    let wrong: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("wrong: ")).collect();
    for story in &wrong {
        let (points, words) = story.split_once(": ").unwrap_or((story, ""));
        trial.results.fail("crashes", points, words)?;
    }
    let counts = Counts::from([("stories", told), ("broken", wrong.len() as u64)]);
    trial.results.add("crashes", "pairs", &counts)?;
    trial.results.set("crashes", "pairs", "of", pairs)?;
    trial.results.set("crashes", "pairs", "next", (from + told) % pairs.max(1))
}
