//! What the help says is what the pages say: README's block and docs/cli.md are the command line itself.
//!
//! After a change of the help: `RINGBACK_BLESS=1 cargo test -p ringback --test cli_reference`, then read the difference.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn help(words: &[&str]) -> String {
    let out = Command::new(env!("CARGO_BIN_EXE_ringback")).args(words).env("COLUMNS", "100").output().unwrap();
    assert!(out.status.success(), "{words:?}");
    let text = String::from_utf8(out.stdout).unwrap();
    text.lines().flat_map(|line| [line.trim_end(), "\n"]).collect()
}

/// The verbs, in the order of the help.
fn verbs() -> Vec<String> {
    let text = help(&["--help"]);
    let verbs = text.lines().skip_while(|line| *line != "Start and look:").take_while(|line| *line != "Options:");
    let names = verbs.filter_map(|line| line.strip_prefix("  ")).filter_map(|line| line.split(' ').next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

fn compare(path: &str, expected: &str, actual: &str) {
    if expected == actual {
        return;
    }
    if std::env::var_os("RINGBACK_BLESS").is_some() {
        fs::write(root().join(path), actual).unwrap();
        return;
    }
    let differs = expected.lines().zip(actual.lines()).find(|(a, b)| a != b);
    panic!("{path} is not what the help says; first difference: {differs:?}; see the head of this test");
}

#[test]
fn the_block_in_the_readme_is_the_help() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let (before, rest) = readme.split_once("<!-- begin: ringback --help -->\n").unwrap();
    let (_, after) = rest.split_once("<!-- end: ringback --help -->").unwrap();
    let block = format!("```text\n{}```\n", help(&["--help"]));
    let actual = format!("{before}<!-- begin: ringback --help -->\n{block}<!-- end: ringback --help -->{after}");
    compare("README.md", &readme, &actual);
}

#[test]
fn the_reference_is_the_help_of_every_verb() {
    let mut page = String::from("# Command line\n\nThis page is the help of every verb, word for word.\n");
    let nested = [
        "session end",
        "session watch",
        "session lease",
        "session ls",
        "daemon run",
        "daemon stop",
        "daemon status",
        "daemon restart",
    ];
    let all = verbs();
    assert!(all.len() >= 20, "{all:?}");
    for verb in all.iter().map(String::as_str).chain(nested) {
        let words: Vec<&str> = verb.split(' ').chain(["--help"]).collect();
        page.extend(["\n## ringback ", verb, "\n\n```text\n", &help(&words), "```\n"]);
    }
    let written = fs::read_to_string(root().join("docs/cli.md")).unwrap_or_default();
    compare("docs/cli.md", &written, &page);
}

#[test]
fn alone_it_shows_its_verbs() {
    assert_eq!(help(&[]), help(&["--help"]));
}
