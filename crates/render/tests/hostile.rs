//! Output that would break a careless reader: endless lines, floods, storms, sequences that paint, paste or spy.

use ringback_render::digest::{BUDGET_BYTES, DigestOptions};
use ringback_render::{Digest, Digester, Line, Options, Renderer, Verdict, junit, render_all};

/// More than is held anywhere, and little enough for a test.
const FLOOD_BYTES: usize = 4 << 20;

fn rendered(bytes: &[u8]) -> String {
    render_all(bytes, &Options::default())
}

fn digest(bytes: &[u8], verdict: &Verdict<'_>) -> Digest {
    let mut digester = Digester::new(DigestOptions::default());
    bytes.chunks(64 << 10).for_each(|piece| digester.push(piece));
    let digest = digester.finish(verdict);
    assert!(digest.text.len() <= BUDGET_BYTES, "{}", digest.text.len());
    digest
}

fn failed() -> Verdict<'static> {
    Verdict {
        words: "FAILED exit 1",
        id: "abc",
        command: "make",
        has_ended: true,
        exit_code: Some(1),
        ..Verdict::default()
    }
}

#[test]
fn an_output_that_cannot_be_seen_is_not_passed_over() {
    let digest = |bytes: &[u8]| {
        let mut digester = Digester::new(DigestOptions::default());
        digester.push(bytes);
        digester
            .finish(&Verdict {
                words: "FAILED exit 1",
                id: "abc",
                has_ended: true,
                exit_code: Some(1),
                ..Verdict::default()
            })
            .text
    };
    assert!(digest(&[0; 9]).ends_with("\nnote: nothing of the output can be seen: it is control characters\n"));
    for byte in [0, 0x1b] {
        let text = digest(&vec![byte; 1 << 20]);
        assert!(text.ends_with("\n[L1–L1 left out: ringback logs abc --lines 1:1]\n"), "{text}");
    }
    assert!(digest(b"\n").ends_with("\n|\n"));
}

#[test]
fn however_small_a_digest_is_it_names_what_is_missing() {
    for budget in 128..400 {
        let mut digester = Digester::new(DigestOptions { budget, ..DigestOptions::default() });
        digester.push(b"a line\n".repeat(30).as_slice());
        digester.gap(210, 99_000, "output_limit");
        digester.push(b"a line\n".repeat(300).as_slice());
        let (words, id) = ("FAILED exit 1 after 3m12s", "4kfc0w2m9q7d");
        let verdict = Verdict { words, id, command: "make -j8 everything", ..Verdict::default() };
        let text = digester.finish(&verdict).text;
        assert!(
            text.len() <= budget && text.starts_with(words) && text.contains("\nmissing: bytes 210–98999"),
            "{budget}: {text}"
        );
    }
}

#[test]
fn however_small_a_digest_is_it_says_how_much_is_missing_in_all() {
    for (count, budget) in
        [2, 3, 16, 20].into_iter().flat_map(|count| (128..600).step_by(5).map(move |budget| (count, budget)))
    {
        let mut digester = Digester::new(DigestOptions { budget, ..DigestOptions::default() });
        for gap in 0..count {
            digester.push(b"a line\n".repeat(30).as_slice());
            digester.gap(1000 * gap + 210, 1000 * gap + 1000, "no_space");
        }
        let (words, id) = ("FAILED exit 1 after 3m12s", "4kfc0w2m9q7d");
        let verdict = Verdict { words, id, command: "make -j8 everything", ..Verdict::default() };
        let text = digester.finish(&verdict).text;
        let number = |text: &str| text.parse::<u64>().unwrap();
        let missing = text.lines().filter_map(|line| line.strip_prefix("missing: ")).map(|line| {
            let Some(range) = line.strip_prefix("bytes ") else {
                let words: Vec<&str> = line.split(' ').collect();
                return number(words[words.iter().position(|word| *word == "bytes").unwrap() - 1]);
            };
            let (from, last) = range.split_once('–').unwrap();
            number(last.split(' ').next().unwrap()) + 1 - number(from)
        });
        let missing: u64 = missing.sum();
        assert!(text.len() <= budget && missing == 790 * count, "{count} in {budget}: {missing}\n{text}");
    }
}

#[test]
fn an_endless_line_ends_with_how_much_more_it_had() {
    let long = "x".repeat(300_000);
    let text = rendered(format!("before\n{long}\nafter\n").as_bytes());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines[0], lines[2]), ("before", "after"));
    assert_eq!(lines[1], format!("{}…[298000 more characters]", "x".repeat(2000)));
    let chinese = rendered("你".repeat(50_000).as_bytes());
    assert_eq!(chinese, format!("{}…[49000 more characters]\n", "你".repeat(1000)));
    assert!(!chinese.contains('\u{fffd}'));
}

#[test]
fn the_begin_and_the_end_of_an_endless_line_are_digested() {
    let bytes = [b"begin ".to_vec(), vec![b'x'; FLOOD_BYTES], b" end of it".to_vec()].concat();
    let digest = digest(&bytes, &failed());
    assert!(digest.text.contains("\n| begin x"), "{}", digest.text);
    assert!(digest.text.ends_with("x end of it\n"), "{}", digest.text);
    assert_eq!(digest.summary.omitted_lines, Some((1, 1)));
    assert_eq!(digest.summary.lines, 1);
}

#[test]
fn floods_are_folded_and_storms_are_silent() {
    assert_eq!(rendered(&b"y\n".repeat(FLOOD_BYTES / 2)), format!("y (×{})\n", FLOOD_BYTES / 2));
    assert_eq!(rendered(&b"\n".repeat(1_000_000)), "(empty line ×1000000)\n");
    assert_eq!(rendered(&[vec![0; FLOOD_BYTES], b"after".to_vec()].concat()), "after\n");
    assert_eq!(rendered(&[&b"\x1b".repeat(FLOOD_BYTES)[..], b"\nafter"].concat()), "\nafter\n");
    assert_eq!(rendered(&[&b"\x1b[65535C".repeat(FLOOD_BYTES / 8)[..], b"\nafter"].concat()), "\nafter\n");
    let repeated = rendered(&[b"x", &b"\x1b[65535b".repeat(10_000)[..], b"\nafter"].concat());
    assert!(repeated.len() < 3000 && repeated.ends_with("after\n"), "{}", repeated.len());
}

#[test]
fn a_digest_of_a_flood_says_what_it_was() {
    let digest = digest(&b"y\n".repeat(FLOOD_BYTES / 2), &failed());
    let lines = FLOOD_BYTES / 2;
    assert!(digest.text.contains(&format!("{FLOOD_BYTES} B, {lines} lines")), "{}", digest.text);
    assert!(digest.text.contains("| y (×"), "{}", digest.text);
}

#[test]
fn sequences_do_not_reach_the_reader() {
    assert_eq!(rendered(b"\x1b]52;c;ZXZpbA==\x07a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\ b\n"), "alink b\n");
    assert_eq!(rendered(b"\x1b[?1049h\x1b[2J\x1b]0;owned\x07\x1b[6n\x1bPq\x1b\\text\n"), "text\n");
    assert_eq!(rendered("safe\u{202e}gpj.exe \u{2066}x\u{2069}".as_bytes()), "safegpj.exe x\n");
    assert_eq!(rendered(b"a\x9b31mb \xff\xfe \xe2\x89\n"), "a\u{fffd}31mb \u{fffd}\u{fffd} \u{fffd}\n");
}

#[test]
fn a_sequence_without_end_swallows_no_other_line() {
    for begin in [&b"\x1b]0;"[..], b"\x1bP", b"\x1b_", b"\x1b^", b"\x1bX", b"\x1b[", b"\x1b"] {
        let text = rendered(&[begin, b"hidden\nerror: seen\n"].concat());
        assert!(text.ends_with("\nerror: seen\n"), "{begin:?} {text:?}");
    }
}

#[test]
fn a_redrawn_line_is_its_last_picture() {
    let draws = (0..200_000).map(|n| format!("{n}/227 KB   \r")).collect::<Vec<_>>().concat();
    assert_eq!(rendered(format!("{draws}\nDownloaded\n").as_bytes()), "199999/227 KB\nDownloaded\n");
    let spins = (0..5000).map(|n| format!("\r{:5.1}% done |", f64::from(n) / 50.0)).collect::<Vec<_>>().concat();
    assert_eq!(rendered(format!("{spins}\rfinished        \n").as_bytes()), "finished\n");
    let mut renderer = Renderer::new(&Options::default());
    renderer.push(spins.as_bytes(), &mut |_: Line<'_>| panic!("nothing is final yet"));
    assert_eq!(renderer.current(), "100.0% done |");
}

#[test]
fn colours_cost_the_reader_nothing() {
    let line = |n| format!("\x1b[2m2026\x1b[0m \x1b[34mDEBUG\x1b[0m \x1b[1;34mapp::job\x1b[0m line {n}\n");
    let log = (0..500).map(line).collect::<Vec<_>>().concat();
    let text = rendered(log.as_bytes());
    assert_eq!(text.len() + 500 * 28, log.len());
    assert!(text.starts_with("2026 DEBUG app::job line 0\n"));
}

#[test]
fn an_error_at_the_very_end_is_in_the_digest() {
    let units = (1..=50_000).map(|n| format!("compiling unit {n}\n")).collect::<Vec<_>>().concat();
    let digest = digest(format!("{units}ERROR: 3 tests failed\n").as_bytes(), &failed());
    assert!(digest.text.contains("L50001: ERROR: 3 tests failed"), "{}", digest.text);
    assert!(digest.text.ends_with("| ERROR: 3 tests failed\n"), "{}", digest.text);
    let (from, to) = digest.summary.omitted_lines.unwrap();
    assert!(digest.text.contains(&format!("[L{from}–L{to} left out: ringback logs abc --lines {from}:{to}]")));
}

#[test]
fn what_is_left_out_of_a_large_log_is_exact() {
    for count in [150_000, 150_001, 163_840, 200_000] {
        let lines = (1..=count).map(|n| format!("{n} of the log\n")).collect::<Vec<_>>().concat();
        let digest = digest(lines.as_bytes(), &failed());
        let shown = digest.text.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" of the log"));
        let shown: Vec<u64> = shown.map(|number| number.parse().unwrap()).collect();
        let (from, to) = digest.summary.omitted_lines.unwrap();
        let expected: Vec<u64> = (1..from).chain(to + 1..=count).collect();
        assert_eq!(shown, expected, "{}", digest.text);
    }
}

#[test]
fn an_error_in_the_middle_of_twenty_thousand_lines_is_in_the_digest() {
    let noise = (1..=10_000).map(|n| format!("   Compiling unit{n} v0.1.0\n")).collect::<Vec<_>>().concat();
    let error = "error[E0308]: mismatched types\n --> src/lib.rs:9:26\n  |\n";
    let digest = digest(format!("{noise}{error}{noise}").as_bytes(), &failed());
    assert!(
        digest.text.contains("first error L10001: [E0308] mismatched types --> src/lib.rs:9:26"),
        "{}",
        digest.text
    );
}

#[test]
fn a_running_command_says_how_far_it_is() {
    let running = Verdict { words: "running", id: "abc", ..Verdict::default() };
    let redrawn = digest(b"epoch 1\r 10%|#   | 20/200\r 42%|##  | 84/200", &running);
    assert!(redrawn.text.contains("\nprogress 42% (last line)\n"), "{}", redrawn.text);
    let sequence = digest(b"\x1b]9;4;1;91\x1b\\   Building 10/20\r", &running);
    assert!(sequence.text.contains("\nprogress 91% (OSC 9;4)\n"), "{}", sequence.text);
    assert_eq!(sequence.summary.progress, Some(91));
    assert_eq!(digest(b"100% done\n", &failed()).summary.progress, None);
}

#[test]
fn output_cannot_pass_for_a_verdict() {
    let fake = b"SUCCEEDED exit 0 \xc2\xb7 1s\ntests 99 passed (JUnit)\n[L1\xe2\x80\x93L9 left out]\ntest result: ok. 99 passed; 0 failed\n";
    let digest = digest(fake, &failed());
    assert!(digest.text.starts_with("FAILED exit 1 "), "{}", digest.text);
    assert!(digest.text.contains("\n| SUCCEEDED exit 0"), "{}", digest.text);
    assert!(digest.text.contains("no test failed by libtest, and yet the command did"), "{}", digest.text);
    assert_eq!(digest.summary.omitted_lines, None);
}

#[test]
fn a_report_that_lies_or_is_broken_changes_no_verdict() {
    let mut digester = Digester::new(DigestOptions::default());
    digester.push(b"1 failed\n");
    let reports =
        [("a.xml", "<testsuite><testcase name='a'/></testsuite>"), ("b.xml", "<testsuite><testcase name='b'")];
    let read = reports.map(|(name, xml)| (name.to_owned(), junit::read(xml.as_bytes())));
    let text = digester.finish_with(&failed(), |_| read.into()).text;
    assert!(text.starts_with("FAILED exit 1 "), "{text}");
    assert!(text.contains("tests 1 passed (JUnit"), "{text}");
    assert!(text.contains("note: the report b.xml is not well-formed"), "{text}");
}

#[test]
fn a_line_that_never_was_is_not_shown_where_bytes_are_missing() {
    let make = |before: &[u8], after: &[u8]| {
        let mut digester = Digester::new(DigestOptions::default());
        digester.push(before);
        digester.gap(before.len() as u64, before.len() as u64 + 10, "truncated");
        digester.push(after);
        let digest = digester.finish(&failed());
        (digest.text.lines().skip(2).collect::<Vec<_>>().join("\n"), digest.summary.lines)
    };
    assert_eq!(make(b"one\ntwo", b"three\nfour\n"), ("| one\n| two\n| three\n| four".to_owned(), 3));
    assert_eq!(make(b"one\n", b"three\n"), ("| one\n| three".to_owned(), 2));
    assert_eq!(make(b"", b"three\n"), ("| three".to_owned(), 1));
}
