//! What holds for any bytes: valid and harmless text, within its limits, the same however the bytes were cut.

use proptest::prelude::*;
use ringback_render::digest::DigestOptions;
use ringback_render::junit;
use ringback_render::lines::LineIndex;
use ringback_render::recognise::Recogniser;
use ringback_render::{Digester, Line, Options, Progress, Renderer, Verdict};

/// Bytes as programs write them: words, lines, redraws, sequences, broken characters, noise.
fn output() -> impl Strategy<Value = Vec<u8>> {
    let fixed = prop::sample::select(vec![
        &b"\n"[..],
        b"\r\n",
        b"\r",
        b"\t",
        b"\x08",
        b"\x1b[K",
        b"\x1b[2K",
        b"\x1b[1A",
        b"\x1b[3B",
        b"\x1b[2J",
        b"\x1b[H",
        b"\x1b[5;3H",
        b"\x1b[31m",
        b"\x1b[?1049h",
        b"\x1b[?1049l",
        b"\x1b]0;title\x07",
        b"\x1b]9;4;1;42\x1b\\",
        b"\x1b]52;c;eA==\x07",
        b"\x1bP",
        b"\x1b]",
        b"\x1b[",
        b"\x1b",
        b"\x9b",
        b"\xe2\x89",
        b"\xf0\x9f",
        b"\xff",
        b"\0\0",
        "≤".as_bytes(),
        "你好".as_bytes(),
        "e\u{301}".as_bytes(),
        "\u{202e}".as_bytes(),
        "\u{e0041}".as_bytes(),
        b"error: no\n",
        b"error[E0308]: x\n --> a.rs:1:2\n",
        b"test a ... FAILED\n",
        b"test result: FAILED. 1 passed; 2 failed\n",
        b"Traceback (most recent call last):\n",
        b"{\"reason\":\"compiler-message\"",
        b"\x1b[2L",
        b"\x1b[M",
        b"\x1b[4P",
        b"\x1b[4@",
        b"\x1b[9X",
        b"\x1b[2S",
        b"\x1b7",
        b"\x1b8",
        b"\x1b[J",
        b"\x1b[2;9r",
        b"\x1b[4d",
        b"\x1bM",
        b"\x1bc",
        b"\x1b[65535b",
        b"\x1b[65535C",
        b"--- FAIL: TestA (0.00s)\n",
        b" FAIL  a > b\n",
        b"thread 'a' panicked at a.rs:1:2:\n",
        b"  1:2  error  x  y\n",
    ]);
    let piece = prop_oneof![
        3 => fixed.prop_map(<[u8]>::to_vec),
        2 => "[a-z ]{0,40}\n?".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..20),
        1 => ("[ab\t]{0,2}\r?\n", 1..120usize).prop_map(|(line, count)| line.repeat(count).into_bytes()),
        1 => painted(),
        1 => (1..60usize, any::<char>()).prop_map(|(count, c)| c.to_string().repeat(count).into_bytes()),
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

/// Rows that are filled up with blanks and have no newlines, as painted by a program that knows how wide its terminal is.
fn painted() -> impl Strategy<Value = Vec<u8>> {
    let rows = prop::collection::vec("[a-z ]{1,30}", 1..4);
    let back = prop::sample::select(vec!["\r\x1b[2K", "\x1b[1A\r\x1b[2K", "\x1b[2A\r\x1b[J", "\x1b[3F"]);
    (rows, prop::sample::select(vec![40usize, 50]), back, 1..4usize).prop_map(|(rows, width, back, times)| {
        let rows = rows.iter().map(|row| format!("{row:width$}")).collect::<Vec<_>>().concat();
        format!("{rows}{back}").repeat(times).into_bytes()
    })
}

fn options() -> impl Strategy<Value = Options> {
    let columns = prop_oneof![Just(None), (1..90u16).prop_map(Some)];
    (columns, 1..30u16, 1..200usize, any::<bool>()).prop_map(|(columns, rows, line_chars, fold)| Options {
        columns,
        rows,
        line_chars,
        fold,
        first_line: 1,
    })
}

/// A rendered line: its two numbers, how often it stands for, its text.
type Rendered = (u64, u64, u64, String);

fn render(bytes: &[u8], options: &Options, piece: usize) -> (Vec<Rendered>, Option<Progress>) {
    let mut lines = Vec::new();
    let mut out = |line: Line<'_>| lines.push((line.number, line.last_number, line.repeats, line.text.to_owned()));
    let mut renderer = Renderer::new(options);
    bytes.chunks(piece).for_each(|piece| renderer.push(piece, &mut out));
    let progress = renderer.progress();
    renderer.finish(&mut out);
    (lines, progress)
}

fn digest(bytes: &[u8], options: &DigestOptions, piece: usize) -> (String, String) {
    let mut digester = Digester::new(options.clone());
    bytes.chunks(piece).for_each(|piece| digester.push(piece));
    let verdict = Verdict {
        words: "FAILED",
        id: "abc",
        command: "make",
        has_ended: true,
        exit_code: Some(2),
        ..Verdict::default()
    };
    let digest = digester.finish(&verdict);
    (digest.text, format!("{:?}", digest.summary))
}

fn is_harmless(text: &str) -> bool {
    !text
        .chars()
        .any(|c| (c.is_control() && c != '\t') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{e0000}'..='\u{e007f}'))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rendering_in_pieces_is_rendering_at_once(bytes in output(), options in options(), piece in 1..50usize) {
        let whole = render(&bytes, &options, usize::MAX);
        prop_assert_eq!(&render(&bytes, &options, piece), &whole);
        prop_assert_eq!(&render(&bytes, &options, 1), &whole);
    }

    #[test]
    fn rendered_text_is_harmless_and_numbered_as_the_bytes_are(bytes in output(), options in options()) {
        let newlines = bytes.split(|byte| *byte == b'\n').count() as u64;
        for (number, last, repeats, text) in render(&bytes, &options, 4096).0 {
            prop_assert!(is_harmless(&text) && !text.ends_with(' '), "{:?}", text);
            prop_assert!((1..=newlines).contains(&number) && (1..=newlines).contains(&last), "{} of {}", number, newlines);
            prop_assert!(repeats >= 1);
            // Marks that stand on a character do not count; each row has few of them.
            let room = usize::from(options.rows) * 512 + 2 * options.line_chars + usize::from(options.columns.unwrap_or(0));
            prop_assert!(text.chars().count() <= room + 40);
        }
    }

    #[test]
    fn plain_lines_stay_as_they_are(lines in prop::collection::vec("[!-~\t]{1,30}", 0..200)) {
        let bytes = [&lines[..], &[String::new()]].concat().join("\n").into_bytes();
        let options = Options { fold: false, ..Options::default() };
        let expected: Vec<_> =
            (1..).zip(&lines).map(|(n, line)| (n, n, 1, line.trim_end_matches('\t').to_owned())).collect();
        prop_assert_eq!(render(&bytes, &options, 7).0, expected);
    }

    #[test]
    fn a_digest_keeps_its_budget_and_does_not_depend_on_the_pieces(
        bytes in output(), budget in 0..3000usize, piece in 1..50usize, columns in prop::option::of(20..100u16),
    ) {
        let options = DigestOptions { budget, columns, rows: 20, ..DigestOptions::default() };
        let whole = digest(&bytes, &options, usize::MAX);
        prop_assert!(whole.0.len() <= budget, "{} of {}", whole.0.len(), budget);
        prop_assert!(whole.0.lines().all(is_harmless), "{:?}", whole.0);
        prop_assert_eq!(digest(&bytes, &options, piece), whole);
    }

    #[test]
    fn nothing_is_left_out_without_its_range(count in 0..1200usize, budget in 128..3000usize, long in 1..200usize) {
        let line = |n: usize| format!("n{n} {}", "x".repeat(n * 7 % long));
        let bytes = (1..=count).map(line).collect::<Vec<_>>().join("\n");
        let (text, _) = digest(bytes.as_bytes(), &DigestOptions { budget, ..DigestOptions::default() }, 4096);
        prop_assert!(text.len() <= budget);
        let mut seen = vec![false; count + 1];
        for line in text.lines() {
            if let Some(number) = line.strip_prefix("| n").and_then(|rest| rest.split(' ').next()) {
                seen[number.parse::<usize>().unwrap()] = true;
            } else if let Some((range, _)) = line.strip_prefix("[L").and_then(|rest| rest.split_once(" left out")) {
                let (from, to) = range.split_once("–L").unwrap();
                prop_assert!(!line.contains("--lines") || line.ends_with(&format!(" --lines {from}:{to}]")), "{}", line);
                let left_out = &mut seen[from.parse::<usize>().unwrap()..=to.parse().unwrap()];
                prop_assert!(left_out.iter().all(|seen| !*seen), "twice\n{}", text);
                left_out.fill(true);
            }
        }
        prop_assert!(seen.iter().skip(1).all(|seen| *seen), "{}", text);
    }

    #[test]
    fn no_line_makes_the_recogniser_stumble(lines in prop::collection::vec("\\PC{0,60}", 0..40), thorough in any::<bool>()) {
        let mut recogniser = Recogniser::new(thorough);
        (1..).zip(&lines).for_each(|(number, line)| recogniser.line(number, line));
        recogniser.finish();
    }

    #[test]
    fn any_report_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 0..400usize) {
        junit::read(&bytes[..]);
        let xml = br#"<testsuites><testsuite name="a"><testcase name="b" time="1"><failure message="c">d &amp; e</failure></testcase></testsuite></testsuites>"#;
        let mut mixed = xml[..cut.min(xml.len())].to_vec();
        mixed.extend(bytes);
        junit::read(&mixed[..]);
    }

    #[test]
    fn any_file_of_marks_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let file = [&ringback_render::lines::MAGIC[..], &bytes].concat();
        prop_assert!(LineIndex::decode(&file).len() <= 1 + bytes.len() / 24);
    }
}
