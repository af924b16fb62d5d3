//! Where no keeper could be built, the main program keeps tasks itself, and `doctor` says so.

#![expect(clippy::unwrap_used, reason = "a test that cannot set up its world has failed")]

use std::process::{Command, Output};

fn ringback(home: &std::path::Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringback"));
    command.args(arguments).env("RINGBACK_HOME", home).env("RINGBACK_KEEPER", "multi-call");
    command.env_remove("RINGBACK_SESSION").output().unwrap()
}

#[test]
fn the_main_program_keeps_tasks_where_no_keeper_could_be_built() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("h");
    let run = ringback(&home, &["run", "--wait", "-c", "echo kept; exit 7"]);
    assert_eq!(run.status.code(), Some(7));
    let status = String::from_utf8(ringback(&home, &["daemon", "status", "--json"]).stdout).unwrap();
    assert!(status.contains("\"multi-call\""), "{status}");
    let doctor = String::from_utf8(ringback(&home, &["doctor"]).stdout).unwrap();
    assert!(doctor.contains("warn  keeper"), "{doctor}");
    let id = String::from_utf8(run.stdout).unwrap();
    let id = id.split_whitespace().next().unwrap();
    assert_eq!(ringback(&home, &["logs", id]).stdout, b"kept\n");
    assert!(ringback(&home, &["daemon", "stop"]).status.success());
}
