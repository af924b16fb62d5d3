//! Clients that others wrote, found in `$RINGBACK_TEST_CLIENTS`.
//!
//! They are large, so they are not brought along:
//!
//! ```sh
//! cd "$RINGBACK_TEST_CLIENTS"
//! npm i node@22 @modelcontextprotocol/conformance@0.2.0-alpha.12 @modelcontextprotocol/inspector@2.12.0
//! python3 -m venv venv && venv/bin/pip install mcp==2.3.0
//! ```

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

#[test]
fn the_conformance_suite_of_both_generations() {
    let Some(dir) = clients("node_modules/@modelcontextprotocol/conformance") else { return };
    let home = Home::new();
    let server = Server::start(&home);
    let node = dir.join("node_modules/node/bin/node");
    let mut proxy = Command::new(&node);
    proxy.arg(here("with_token.mjs")).arg(server.url()).arg(&server.token).stdout(Stdio::piped());
    let mut proxy = Proxy(proxy.spawn().unwrap());
    let mut url = String::new();
    BufReader::new(proxy.0.stdout.take().unwrap()).read_line(&mut url).unwrap();
    for suite in [&["--suite", "active"][..], &["--suite", "all", "--spec-version", "2026-07-28"]] {
        let mut command = Command::new(&node);
        command.arg(dir.join("node_modules/@modelcontextprotocol/conformance/dist/index.js"));
        command.args(["server", "--url", url.trim(), "--expected-failures"]).arg(here("conformance.yml")).args(suite);
        let text = run(command);
        println!(
            "{}",
            text.lines().rev().take(12).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("\n")
        );
    }
}

struct Proxy(Child);

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ended_already = self.0.kill();
        let _reaped = self.0.wait();
    }
}
