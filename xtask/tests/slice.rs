//! A short slice of `cargo xtask prove` in every run of the tests; the rest is run by hand, for longer.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;
use std::process::Command;

/// The program that the tests of this workspace have built; without it there is nothing to try.
fn program() -> std::path::PathBuf {
    Path::new(env!("CARGO_BIN_EXE_xtask")).with_file_name("ringback")
}

fn prove(part: &str) {
    assert!(program().is_file(), "build it first: cargo build -p ringback");
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("results.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(["prove", "--seconds", "0", "--seed", "1", "--only", part, "--results"]).arg(&results);
    let output = command.arg("--program").arg(program()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(std::fs::read_to_string(results).unwrap().contains("\"tasks\""), "nothing was tried: {said}");
}

/// With `--seconds 0` it is the first of all ways: reads, writes and splices that do less than they were asked for.
#[test]
fn system_calls_that_do_less_than_they_were_asked_for_lose_nothing() {
    if cfg!(target_arch = "x86_64") {
        prove("faults");
    }
}

#[test]
fn a_round_of_random_kills_breaks_no_promise() {
    prove("kills");
}
