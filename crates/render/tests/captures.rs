//! Every real capture, as it is rendered and as it is digested.

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

#[test]
fn what_an_agent_is_told() {
    let raw = include_bytes!("captures/nextest.pty.raw");
    insta::assert_snapshot!(
        "digest-nextest",
        digest(raw, &ended("cargo nextest run", "SUCCEEDED exit 0 after 640ms", 0))
    );
    let raw = include_bytes!("captures/vitest.pty.raw");
    insta::assert_snapshot!("digest-vitest", digest(raw, &ended("npx vitest run", "FAILED exit 1 after 1.7s", 1)));
    let raw = include_bytes!("captures/pytest.pty.raw");
    insta::assert_snapshot!("digest-pytest", digest(raw, &ended("pytest -q", "FAILED exit 2 after 1.9s", 2)));
    let raw = include_bytes!("captures/tqdm-train.pty.raw");
    insta::assert_snapshot!(
        "digest-tqdm-train",
        digest(raw, &ended("python3 train.py", "SUCCEEDED exit 0 after 7.2s", 0))
    );
    let raw = include_bytes!("captures/npm-ci.pty.raw");
    insta::assert_snapshot!("digest-npm-ci", digest(raw, &ended("npm ci", "SUCCEEDED exit 0 after 4.3s", 0)));
    let raw = include_bytes!("captures/ffmpeg.pty.raw");
    insta::assert_snapshot!(
        "digest-ffmpeg",
        digest(raw, &ended("ffmpeg -i in out.mp4", "SUCCEEDED exit 0 after 9.2s", 0))
    );
    let raw = include_bytes!("captures/cargo-osc.pty.raw");
    insta::assert_snapshot!(
        "digest-cargo-osc",
        digest(raw, &ended("cargo build --tests", "SUCCEEDED exit 0 after 670ms", 0))
    );
}
