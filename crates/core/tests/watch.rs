//! The rules of watching as scripts: what happens when, and what is told.

#![expect(clippy::unwrap_used, reason = "a script that cannot be read is a wrong test")]

use std::fmt::Write as _;

use ringback_core::lines::{LINE_BYTES_MAX, Lines};
use ringback_core::watch::{MATCHES_MAX, PROGRESS_MAX_MS, Pace, Rules, Say, Stand, Watch};

const PROGRESS: Rules = Rules { progress: Some(Pace { base_ms: 2, max_ms: 30 }), stall_ms: None };
const STALL: Rules = Rules { progress: None, stall_ms: Some(10) };

/// Each line is a time and what happened at it: `out N` (the output grew to N), `match`, `match xN`, `release`,
/// `tick`, or `restart` (a new daemon knows only where the watch stood, and how long ago the file was written).
fn check(rules: Rules, script: &str, expected: &str) {
    let mut watch = Watch::new(rules, Stand::default(), 0);
    let (mut length, mut written) = (0, 0);
    let mut told = String::new();
    for line in script.split(';').map(str::trim) {
        let (now, event) = line.split_once(' ').unwrap();
        let now: u64 = now.parse().unwrap();
        let words: Vec<&str> = event.split(' ').collect();
        match words.as_slice() {
            ["out", to] => (length, written) = (to.parse().unwrap(), now),
            ["match"] => assert!(watch.matched(now)),
            ["match", times] => match_times(&mut watch, times[1..].parse().unwrap(), now),
            ["release"] => watch.release(),
            ["restart"] => watch = Watch::new(rules, *watch.stand(), 0),
            ["tick"] => {}
            other => panic!("{other:?}"),
        }
        watch.look(now, length, now - written);
        for say in watch.tick(now) {
            let _ = match say {
                Say::Progress { from, to, silence_ms } => {
                    write!(told, "{now} progress {from}-{to} silent {silence_ms}; ")
                }
                Say::Stalled { at, silence_ms } => write!(told, "{now} stalled at {at} silent {silence_ms}; "),
                Say::Folded { count } => write!(told, "{now} folded {count}; "),
            };
        }
    }
    assert_eq!(told.trim_end_matches("; "), expected, "{script}");
}

fn match_times(watch: &mut Watch, times: u64, now: u64) {
    for _ in 0..times {
        watch.matched(now);
    }
}

#[test]
fn pauses_double_up_to_the_ceiling() {
    let pauses = |base_ms, max_ms| (0..6).map(|n| Pace { base_ms, max_ms }.pause_ms(n)).collect::<Vec<_>>();
    assert_eq!(pauses(2000, PROGRESS_MAX_MS), [2000, 4000, 8000, 16_000, 30_000, 30_000]);
    assert_eq!(pauses(40_000, PROGRESS_MAX_MS), [40_000; 6], "the ceiling is never below the first pause");
    assert_eq!(Pace { base_ms: 2000, max_ms: PROGRESS_MAX_MS }.pause_ms(u32::MAX), PROGRESS_MAX_MS);
}

#[test]
fn progress_tells_only_what_is_new_and_when_it_is_due() {
    check(
        PROGRESS,
        "1 out 5; 2 tick; 3 tick; 4 out 9; 6 tick; 13 tick; 14 tick",
        "2 progress 0-5 silent 1; 6 progress 5-9 silent 2; 14 progress 9-9 silent 10",
    );
}

#[test]
fn a_late_tick_tells_once_and_the_schedule_goes_on_from_there() {
    check(PROGRESS, "100 tick; 103 tick; 104 tick", "100 progress 0-0 silent 100; 104 progress 0-0 silent 104");
}

#[test]
fn a_new_daemon_goes_on_with_the_schedule_and_the_offset() {
    check(PROGRESS, "1 out 5; 2 tick; 3 restart; 5 out 8; 6 tick", "2 progress 0-5 silent 1; 6 progress 5-8 silent 1");
}

#[test]
fn a_silence_is_told_once_and_again_only_after_new_output() {
    check(STALL, "5 out 3; 14 tick; 15 tick; 16 tick; 40 tick", "15 stalled at 3 silent 10");
    check(STALL, "10 tick; 12 out 1; 22 tick; 23 tick", "10 stalled at 0 silent 10; 22 stalled at 1 silent 10");
    check(STALL, "10 tick; 11 restart; 25 tick", "10 stalled at 0 silent 10");
}

#[test]
fn output_that_nobody_looked_at_moves_the_silence() {
    // The output of 9 is first seen at 12: the silence began at 9 all the same.
    let mut watch = Watch::new(STALL, Stand::default(), 0);
    watch.look(12, 4, 3);
    assert!(watch.tick(12).is_empty());
    assert_eq!(watch.due_ms(), Some(19));
    // A clock that jumped, or a machine that slept, is no silence.
    let mut watch = Watch::new(STALL, Stand::default(), 0);
    watch.look(5, 1, 0);
    watch.look(6, 2, 1_000_000);
    assert!(watch.tick(6).is_empty());
}

#[test]
fn a_released_task_may_be_silent() {
    check(STALL, "5 release; 10 tick; 100 tick", "");
}

#[test]
fn many_matches_are_folded_and_counted() {
    let rules = Rules::default();
    check(rules, "1 match; 5000 tick", "");
    let beyond = MATCHES_MAX + 3;
    check(
        rules,
        &format!("1 match x{beyond}; 2000 tick; 2001 tick; 2002 match x5; 4000 tick; 6001 tick"),
        "2001 folded 3; 6001 folded 8",
    );
    let mut watch = Watch::new(rules, Stand::default(), 0);
    match_times(&mut watch, beyond, 1);
    assert_eq!(watch.end(2), Some(Say::Folded { count: 3 }), "the end does not wait for the pace");
    assert_eq!(watch.end(3), None);
}

#[test]
fn ready_is_told_once() {
    let mut watch = Watch::new(Rules::default(), Stand::default(), 0);
    assert!(watch.ready());
    assert!(!watch.ready());
    let mut again = Watch::new(Rules::default(), *watch.stand(), 0);
    assert!(!again.ready());
}

/// All lines that contain `needle`, cut from `text` in pieces of `size`; `None` stands for a pause between the pieces.
fn found(text: &str, size: usize, needle: &str) -> Vec<(u64, String)> {
    let (mut lines, mut found) = (Lines::default(), Vec::new());
    let mut look = |from: u64, line: &[u8]| {
        let line = String::from_utf8_lossy(line).into_owned();
        let hit = line.contains(needle);
        if hit {
            found.push((from, line));
        }
        hit
    };
    for piece in text.as_bytes().chunks(size) {
        lines.push(piece, &mut look);
    }
    lines.flush(&mut look);
    found
}

#[test]
fn lines_are_whole_whatever_the_pieces() {
    let text = "one\r\ntwo ok\nthree\n\nok 10%\rok 20%\rlast ok";
    let expected = [(5, "two ok"), (19, "ok 10%"), (26, "ok 20%"), (33, "last ok")];
    let expected: Vec<(u64, String)> = expected.map(|(at, line)| (at, line.to_owned())).into();
    for size in 1..=text.len() {
        assert_eq!(found(text, size, "ok"), expected, "pieces of {size}");
    }
}

#[test]
fn an_unfinished_line_is_told_once() {
    let mut lines = Lines::default();
    let mut count = 0;
    let mut look = |_: u64, line: &[u8]| {
        let hit = line.starts_with(b"login:");
        count += usize::from(hit);
        hit
    };
    lines.push(b"login:", &mut look);
    assert!(lines.is_waiting());
    lines.flush(&mut look);
    assert!(!lines.is_waiting());
    assert_eq!(lines.mark(), (6, true));
    lines.push(b" root\nlogin:", &mut look);
    lines.flush(&mut look);
    assert_eq!(count, 2, "the rest of a told line is not told again, the next line is");
}

#[test]
fn a_new_reader_goes_on_at_the_mark() {
    let mut lines = Lines::at(6, true);
    let mut seen = Vec::new();
    lines.push(b" root\nnext\n", &mut |from, line| {
        seen.push((from, line.to_vec()));
        false
    });
    assert_eq!(seen, [(12, b"next".to_vec())]);
    assert_eq!(lines.mark(), (17, false));
}

#[test]
fn a_line_without_end_is_looked_at_in_pieces_with_an_overlap() {
    // The word lies across the place where the line is cut.
    let mut text = "x".repeat(LINE_BYTES_MAX - 2);
    text.push_str("needle");
    text.push_str(&"y".repeat(3 * LINE_BYTES_MAX));
    assert_eq!(found(&text, 4096, "needle").len(), 1);
    let mut lines = Lines::default();
    for piece in text.as_bytes().chunks(4096) {
        lines.push(piece, &mut |_, _| false);
    }
    assert_eq!(lines.next(), text.len() as u64);
}

#[test]
fn what_is_not_there_is_skipped() {
    let mut lines = Lines::default();
    let mut seen = Vec::new();
    lines.push(b"unfin", &mut |_, _| false);
    lines.skip_to(3);
    assert_eq!(lines.next(), 5, "never backward");
    lines.skip_to(100);
    lines.push(b"tail\n", &mut |from, line| {
        seen.push((from, line.to_vec()));
        false
    });
    assert_eq!(seen, [(100, b"tail".to_vec())]);
}
