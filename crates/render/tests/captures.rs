//! Every real capture, as it is rendered and as it is digested.

use std::fs;
use std::path::Path;

use ringback_render::digest::{BUDGET_BYTES, DigestOptions};
use ringback_render::{Digester, Options, Verdict, render_all};

const PTY: Options =
    Options { columns: Some(120), rows: 40, line_chars: Options::LINE_CHARS, fold: true, first_line: 1 };

fn digest(raw: &[u8], verdict: &Verdict<'_>, Options { columns, rows, .. }: Options) -> String {
    let mut digester = Digester::new(DigestOptions { columns, rows, ..DigestOptions::default() });
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
    fn digest(&self, options: Options) -> String {
        digest(self.raw, &ended(self.command, self.words, self.code), options)
    }
}

#[test]
fn what_a_person_saw() {
    for capture in CAPTURES {
        insta::assert_snapshot!(capture.name, render_all(capture.raw, &PTY));
    }
}

#[test]
fn what_an_agent_is_told() {
    for capture in CAPTURES {
        insta::assert_snapshot!(format!("digest-{}", capture.name), capture.digest(PTY));
    }
}

/// As of `script -c`, `ssh -t` or `docker run -t` behind a pipe: there is a terminal, and it is not ours.
#[test]
fn what_was_painted_at_a_terminal_that_nobody_told_us_of_reads_the_same() {
    for capture in CAPTURES {
        assert_eq!(render_all(capture.raw, &Options::default()), render_all(capture.raw, &PTY), "{}", capture.name);
        assert_eq!(capture.digest(Options::default()), capture.digest(PTY), "{}", capture.name);
    }
}

#[test]
fn every_capture_is_among_them() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures");
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter_map(|name| Some(name.strip_suffix(".pty.raw")?.to_owned())).collect();
    let mut tested = CAPTURES.map(|capture| capture.name);
    names.sort();
    tested.sort_unstable();
    assert_eq!(names, tested);
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
            let figures =
                [capture.raw.len(), render_all(capture.raw, &PTY).len(), capture.digest(PTY).len()].map(grouped);
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
