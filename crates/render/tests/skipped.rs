//! A long output of which most blocks are passed over gives the digest of one of which each byte is looked at; and what is
//! hidden in what is shown is hidden as if it were hidden everywhere.

use proptest::prelude::*;
use ringback_render::digest::{DigestOptions, Skipper};
use ringback_render::scan::{GLANCE_BACK_BYTES, Glance, Veil};
use ringback_render::{Digester, Verdict};

/// More than the end that is kept, what is around it to hide secrets, and a bit.
const BLOCK_BYTES: usize = 300_000;
const MARGIN_BYTES: usize = 64;
const SECRET: &[u8] = b"hunter22";

fn hide(text: &mut [u8]) {
    let found: Vec<usize> = memchr::memmem::find_iter(text, SECRET).collect();
    for at in found {
        text[at..at + SECRET.len()].fill(b'*');
    }
}

fn digester() -> Digester {
    Digester::new(DigestOptions::default())
}

fn finish(digester: Digester) -> String {
    let verdict =
        Verdict { words: "FAILED exit 1", id: "abc", has_ended: true, exit_code: Some(1), ..Verdict::default() };
    let digest = digester.finish(&verdict);
    format!("{}\n{:?}", digest.text, digest.summary)
}

/// Of bytes in which everything is hidden, each of which is given.
fn plainly(bytes: &[u8]) -> String {
    let (mut digester, mut hidden) = (digester(), bytes.to_vec());
    hide(&mut hidden);
    digester.push(&hidden);
    finish(digester)
}

/// Of blocks, with a glance at each in steps of this size.
fn in_blocks(bytes: &[u8], step: usize) -> String {
    let veil = Veil::new(MARGIN_BYTES, |text, _| hide(text));
    let (mut digester, mut skipper) = (digester().veiled(veil), Skipper::default());
    for (number, block) in bytes.chunks(BLOCK_BYTES).enumerate() {
        let (begin, mut glance, mut done) = (number * BLOCK_BYTES, Glance::default(), 0);
        while done < block.len() {
            let before = (begin + done).min(GLANCE_BACK_BYTES);
            let end = (done + step).min(block.len());
            glance.add(&bytes[begin + done - before..begin + end], before);
            done = end;
        }
        skipper.next(&mut digester, block, glance);
    }
    skipper.flush(&mut digester);
    finish(digester)
}

/// A log with these lines at these places, in thousandths of its length.
fn log(lines: usize, width: usize, said: &[(usize, &str)]) -> Vec<u8> {
    let mut all: Vec<u8> = Vec::new();
    for number in 0..lines {
        for (_, text) in said.iter().filter(|(at, _)| at * lines / 1000 == number) {
            all.extend_from_slice(text.as_bytes());
        }
        all.extend_from_slice(format!("step {number} {}\n", "x".repeat(number % width)).as_bytes());
    }
    all
}

const SAID: [&str; 10] = [
    "error[E0308]: mismatched types hunter22\n  --> src/lib.rs:9:26\n",
    "thread 'a' panicked at src/main.rs:1:2:\nthe value hunter22 is wrong\n",
    "\x1b[31mfatal: hunter22 is no password\x1b[0m\r\n",
    "--- FAIL: TestX (0.1s)\n    x_test.go:7: got hunter22\n",
    "/src/b.js\n  12:5  error  'hunter22' is not defined  no-undef\n",
    "Traceback (most recent call last):\n  File \"a.py\", line 3\nValueError: hunter22\n",
    "hunter22hunter22hunter22\n",
    "test result: FAILED. 1 passed; 2 failed; 0 ignored\n",
    "ERROR: no\n",
    "\n\n",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    #[test]
    fn what_is_passed_over_changes_nothing(
        lines in 20_000_usize..60_000,
        width in 1_usize..120,
        said in proptest::collection::vec((0_usize..1000, 0..SAID.len()), 0..12),
        step in 1_000_usize..400_000,
    ) {
        let said: Vec<(usize, &str)> = said.into_iter().map(|(at, which)| (at, SAID[which])).collect();
        let bytes = log(lines, width, &said);
        let (whole, blocks) = (plainly(&bytes), in_blocks(&bytes, step));
        prop_assert!(!whole.contains("hunter22"));
        prop_assert_eq!(blocks, whole);
    }
}

#[test]
fn a_word_on_the_border_of_two_blocks_is_seen() {
    let said = "error: hunter22 on the border\n";
    for before in (0..said.len() + 2).step_by(5) {
        let mut bytes = b"quiet\n".repeat((6 * BLOCK_BYTES - before) / 6);
        bytes.extend(std::iter::repeat_n(b'\n', 6 * BLOCK_BYTES - before - bytes.len()));
        bytes.extend_from_slice(said.as_bytes());
        bytes.extend(b"quiet\n".repeat(BLOCK_BYTES / 3));
        let digest = in_blocks(&bytes, 100_000);
        assert!(digest.contains("error L") && digest.contains(": ******** on the border"), "{before}: {digest}");
        assert_eq!(digest, plainly(&bytes));
    }
}

#[test]
fn where_each_line_cries_the_end_is_looked_at() {
    let mut bytes = b"error: hunter22\n".repeat(120_000);
    bytes.extend_from_slice(b"test result: FAILED. 1 passed; 2 failed; 0 ignored\n");
    let digest = in_blocks(&bytes, 100_000);
    assert!(digest.contains("1 passed, 2 failed (libtest)") && digest.contains("were not looked for"), "{digest}");
    assert_eq!(digest, plainly(&bytes));
}
