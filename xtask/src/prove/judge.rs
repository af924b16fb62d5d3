//! What ringback says, against what the commands wrote down themselves and what was killed.

use std::path::Path;

use serde_json::Value;

use super::killer::Hits;
use super::results::Counts;
use super::zoo::{Ends, Kind, ZOO};

/// What is wrong with one task, if anything, and what is to be counted.
pub(crate) fn task(task: &Value, oracle: &Path, hits: &Hits, counts: &mut Counts) -> Vec<String> {
    let Some((kind, number)) = kind_of(task) else { return vec![format!("a task that nobody asked for: {task}")] };
    let id = task["id"].as_str().unwrap_or_default();
    let (keeper, command) = (hits.keepers.contains(id), hits.commands.contains(id));
    let mut wrong = Vec::new();
    let mut count = |name: &'static str, words: String| {
        *counts.entry(name).or_default() += 1;
        wrong.push(words);
    };
    let starts = lines(oracle, "starts", number);
    if starts > 1 {
        count("started_twice", format!("{} started {starts} times: {task}", kind.word));
    }
    let code = std::fs::read_to_string(oracle.join(format!("code.{number}"))).ok();
    let own_word = code.is_some() && code.and_then(|code| code.trim().parse().ok()) == task["exit_code"].as_u64();
    let no_code = task["exit_code"].is_null();
    let right = match (task["state"].as_str().unwrap_or_default(), kind.ends) {
        ("exited", Ends::Itself) => own_word,
        ("exited", Ends::Stopped) => own_word && command,
        ("signaled", Ends::Crash) if task["signal"] == "SIGSEGV" => no_code,
        ("signaled", Ends::Memory) => {
            no_code && task["signal"] == "SIGKILL" && matches!(task["reason"].as_str(), None | Some("oom"))
        }
        // Killed by us, or a child that a killed keeper left in its gate.
        ("signaled", _) => no_code && task["signal"] == "SIGKILL" && (command || keeper && starts == 0),
        ("timed_out", Ends::Limit) | ("killed", Ends::Stopped) => no_code,
        ("start_failed", Ends::Never) => no_code && starts == 0,
        ("start_failed", _) => no_code && starts == 0 && (keeper || task["reason"] == "resources"),
        ("lost", _) if keeper => {
            *counts.entry("said_lost").or_default() += 1;
            return if no_code { Vec::new() } else { vec![format!("lost, with a code: {task}")] };
        }
        ("lost", _) => {
            count("lost", format!("{} is lost and nobody touched its keeper: {task}", kind.word));
            true
        }
        ("queued" | "running", _) => {
            count("never_ends", format!("{} never ends: {task}", kind.word));
            true
        }
        _ => false,
    };
    if !right {
        count("wrong", format!("{} (hit: keeper {keeper}, command {command}): {task}", kind.word));
    }
    if let Some(words) = bytes(task, kind, number, keeper, command, counts) {
        wrong.push(words);
    }
    wrong
}

/// The output, where all of it must be there: what is missing must be said.
fn bytes(task: &Value, kind: &Kind, number: u64, keeper: bool, command: bool, counts: &mut Counts) -> Option<String> {
    if command || task["state"] != "exited" {
        return None;
    }
    let expected = kind.output(number);
    let path = task["output"]["path"].as_str().unwrap_or_default();
    let output = std::fs::read(path).unwrap_or_default();
    *counts.entry("bytes").or_default() += output.len() as u64;
    if output == expected {
        return None;
    }
    if keeper && task["output"]["complete"] == false && output.len() < expected.len() {
        *counts.entry("said_incomplete").or_default() += 1;
        return None;
    }
    *counts.entry("bytes_missing").or_default() += 1;
    Some(format!("{} wrote {} bytes, {} are there: {task}", kind.word, expected.len(), output.len()))
}

/// Kind and number stand in the name that the task was given.
pub(crate) fn kind_of(task: &Value) -> Option<(&'static Kind, u64)> {
    let (kind, number) = task["name"].as_str()?.split_once('-')?;
    Some((ZOO.get(kind.parse::<usize>().ok()?)?, number.parse().ok()?))
}

fn lines(oracle: &Path, name: &str, number: u64) -> usize {
    std::fs::read_to_string(oracle.join(format!("{name}.{number}"))).unwrap_or_default().lines().count()
}
