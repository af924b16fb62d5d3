//! Every real capture, as it is rendered and as it is digested.

use std::fs;
use std::path::Path;

use ringback_render::digest::{BUDGET_BYTES, DigestOptions};
use ringback_render::{Digester, Options, Verdict, render_all};

const PTY: Options =
    Options { columns: Some(120), rows: 40, line_chars: Options::LINE_CHARS, fold: true, first_line: 1 };

#[test]
fn what_a_person_saw() {
    insta::assert_snapshot!("nextest", render_all(include_bytes!("captures/nextest.pty.raw"), &PTY));
    insta::assert_snapshot!("vitest", render_all(include_bytes!("captures/vitest.pty.raw"), &PTY));
    insta::assert_snapshot!("pytest", render_all(include_bytes!("captures/pytest.pty.raw"), &PTY));
    insta::assert_snapshot!("tqdm-train", render_all(include_bytes!("captures/tqdm-train.pty.raw"), &PTY));
    insta::assert_snapshot!("npm-ci", render_all(include_bytes!("captures/npm-ci.pty.raw"), &PTY));
    insta::assert_snapshot!("ffmpeg", render_all(include_bytes!("captures/ffmpeg.pty.raw"), &PTY));
    insta::assert_snapshot!("cargo-osc", render_all(include_bytes!("captures/cargo-osc.pty.raw"), &PTY));
}

fn digest(raw: &[u8], verdict: &Verdict<'_>) -> String {
    let mut digester = Digester::new(DigestOptions { columns: Some(120), rows: 40, ..DigestOptions::default() });
    digester.push(raw);
    let digest = digester.finish(verdict);
    assert!(digest.text.len() <= BUDGET_BYTES);
    digest.text
}

fn ended<'a>(command: &'a str, words: &'a str, code: i32) -> Verdict<'a> {
    Verdict {
        words,
        id: "0h7k3m9x2c4d",
        command,
        has_ended: true,
        exit_code: Some(code),
        is_pty: true,
        ..Verdict::default()
    }
}

/// A capture, and how its command ended.
struct Capture {
    name: &'static str,
    raw: &'static [u8],
    command: &'static str,
    words: &'static str,
    code: i32,
}

macro_rules! capture {
    ($name:literal, $command:literal, $words:literal, $code:literal) => {
        Capture {
            name: $name,
            raw: include_bytes!(concat!("captures/", $name, ".pty.raw")),
            command: $command,
            words: $words,
            code: $code,
        }
    };
}

const CAPTURES: [Capture; 7] = [
    capture!("tqdm-train", "python3 train.py", "SUCCEEDED exit 0 after 7.2s", 0),
    capture!("nextest", "cargo nextest run", "SUCCEEDED exit 0 after 640ms", 0),
    capture!("ffmpeg", "ffmpeg -i in out.mp4", "SUCCEEDED exit 0 after 9.2s", 0),
    capture!("vitest", "npx vitest run", "FAILED exit 1 after 1.7s", 1),
    capture!("cargo-osc", "cargo build --tests", "SUCCEEDED exit 0 after 670ms", 0),
    capture!("pytest", "pytest -q", "FAILED exit 2 after 1.9s", 2),
    capture!("npm-ci", "npm ci", "SUCCEEDED exit 0 after 4.3s", 0),
];

impl Capture {
    fn digest(&self) -> String {
        digest(self.raw, &ended(self.command, self.words, self.code))
    }
}

#[test]
fn what_an_agent_is_told() {
    for capture in CAPTURES {
        insta::assert_snapshot!(format!("digest-{}", capture.name), capture.digest());
    }
}

/// After a change: `RINGBACK_BLESS=1 cargo test -p ringback-render --test captures`, then read the difference.
#[test]
fn the_page_has_the_figures_of_every_capture() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/output.md");
    let text = fs::read_to_string(&page).unwrap();
    let begin = "| capture | raw B | rendered B | digest B |\n|---|---|---|---|\n";
    let (before, rest) = text.split_once(begin).unwrap();
    let (_, after) = rest.split_once("\n\n").unwrap();
    let rows: Vec<String> = CAPTURES
        .iter()
        .map(|capture| {
            let figures = [capture.raw.len(), render_all(capture.raw, &PTY).len(), capture.digest().len()].map(grouped);
            format!("| {} | {} |", capture.name, figures.join(" | "))
        })
        .collect();
    let actual = format!("{before}{begin}{}\n\n{after}", rows.join("\n"));
    if std::env::var_os("RINGBACK_BLESS").is_some() {
        fs::write(&page, &actual).unwrap();
    }
    assert!(
        actual == text || std::env::var_os("RINGBACK_BLESS").is_some(),
        "the table of captures is\n{}",
        rows.join("\n")
    );
}

/// `117395` as `117,395`.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
    groups.join(",")
}
