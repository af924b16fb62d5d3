//! Clients that others wrote, found in `$RINGBACK_TEST_CLIENTS`.
//!
//! They are large, so they are not brought along; `.ci/clients` fills that folder.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::agent::{Home, PROGRAM};
use crate::http::Server;

/// The folder of the clients, if there is one with this in it; else says why the test does nothing.
fn clients(part: &str) -> Option<PathBuf> {
    let found = std::env::var_os("RINGBACK_TEST_CLIENTS").map(PathBuf::from).filter(|dir| dir.join(part).exists());
    if found.is_none() {
        println!("not run: no {part} in $RINGBACK_TEST_CLIENTS");
    }
    found
}

fn here(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp").join(name)
}

fn run(mut command: Command) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}: {text}\n{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn the_python_sdk_in_every_mode() {
    let Some(dir) = clients("venv/bin/python") else { return };
    let home = Home::new();
    let mut command = home.command_of(dir.join("venv/bin/python"));
    command.arg(here("sdk_client.py")).arg(PROGRAM);
    let text = run(command);
    assert!(text.contains("auto: 2026-07-28") && text.contains("legacy: 2025-"), "{text}");
}

#[test]
fn the_inspector_in_both_generations() {
    let Some(dir) = clients("node_modules/@modelcontextprotocol/inspector") else { return };
    let home = Home::new();
    for era in ["legacy", "modern"] {
        let mut command = home.command_of(dir.join("node_modules/node/bin/node"));
        command.arg(dir.join("node_modules/.bin/mcp-inspector")).args(["--cli", PROGRAM, "mcp", "--protocol-era", era]);
        // It passes on only a few variables of its own, and the test must not meet anybody's real home.
        command.arg("-e").arg(format!("RINGBACK_HOME={}", home.path().join("home").display()));
        command.args(["--format", "json", "--method", "tools/call", "--tool-name", "run"]);
        command.args(["--tool-args-json", r#"{"command":"echo hi"}"#]);
        let text = run(command);
        let answer: Value = serde_json::from_str(text.trim()).unwrap();
        assert_eq!(answer["result"]["structuredContent"]["tail"], "| hi", "{era}: {text}");
    }
}

const SUITE: &str = "node_modules/@modelcontextprotocol/conformance";

#[test]
fn the_conformance_suite_of_both_generations() {
    let Some(dir) = clients(SUITE) else { return };
    let home = Home::new();
    let server = Server::start(&home);
    let node = dir.join("node_modules/node/bin/node");
    // The suite cannot send a token.
    let mut proxy = Command::new(&node);
    proxy.arg(here("with_token.mjs")).arg(server.url()).arg(&server.token);
    let (_proxy, url) = Served::start(proxy);
    for suite in [&["--suite", "active"][..], &["--suite", "all", "--spec-version", "2026-07-28"]] {
        let mut command = Command::new(&node);
        command.arg(dir.join(SUITE).join("dist/index.js"));
        command.args(["server", "--url", &url, "--expected-failures"]).arg(here("conformance.yml")).args(suite);
        let text = run(command);
        println!(
            "{}",
            text.lines().rev().take(12).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("\n")
        );
    }
}

/// Scenarios of the tasks extension.
const TASK_SCENARIOS: [&str; 9] = [
    "tasks-lifecycle",
    "tasks-capability-negotiation",
    "tasks-wire-fields",
    "tasks-request-state-removal",
    "tasks-request-headers",
    "tasks-dispatch-and-envelope",
    "tasks-required-task-error",
    "tasks-mrtr-input",
    "tasks-mrtr-composition",
];

#[test]
fn the_conformance_suite_of_the_tasks_extension_over_real_tasks() {
    let Some(dir) = clients(SUITE) else { return };
    let home = Home::new();
    // The daemon is the product's: the fixture finds it, and would not know the program.
    home.cli(&["ps"]);
    let node = dir.join("node_modules/node/bin/node");
    let (_fixtures, url) = Served::start(home.command_of(fixtures()));
    for scenario in TASK_SCENARIOS {
        let found = tempfile::tempdir().unwrap();
        let mut command = Command::new(&node);
        command.arg(dir.join(SUITE).join("dist/index.js")).args(["server", "--url", &url, "--scenario", scenario]);
        let output = command.arg("-o").arg(found.path()).output().unwrap();
        let folder = std::fs::read_dir(found.path()).unwrap().next().unwrap().unwrap().path();
        let checks = std::fs::read_to_string(folder.join("checks.json")).unwrap();
        let checks: Vec<Value> = serde_json::from_str(&checks).unwrap();
        let passed = |check: &&Value| ["SUCCESS", "INFO"].contains(&check["status"].as_str().unwrap());
        let failed: Vec<&Value> = checks.iter().filter(|check| !passed(check)).collect();
        assert!(failed.is_empty(), "{scenario}: {failed:#?} {}", String::from_utf8_lossy(&output.stdout));
        assert!(checks.iter().any(|check| check["status"] == "SUCCESS"), "{scenario} checked nothing: {checks:?}");
        println!("{scenario}: {} checks", checks.len());
    }
}

/// The server with the suite's tools, beside the program that is tested.
fn fixtures() -> PathBuf {
    let program = Path::new(PROGRAM).with_file_name("examples").join("fixtures");
    assert!(program.exists(), "it is built by `cargo build -p ringback --example fixtures`");
    program
}

/// A server that says its address first.
struct Served(Child);

impl Served {
    fn start(mut command: Command) -> (Self, String) {
        let mut served = Self(command.stdout(Stdio::piped()).spawn().unwrap());
        let mut url = String::new();
        BufReader::new(served.0.stdout.take().unwrap()).read_line(&mut url).unwrap();
        (served, url.trim().to_owned())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ended_already = self.0.kill();
        let _reaped = self.0.wait();
    }
}
