//! `logs`: by bytes, lines, pattern, stream and time; gaps are marked, and a reader that leaves is no error.

use std::io::Read as _;

use crate::home::{Home, seq};

#[test]
fn a_part_is_exactly_what_was_asked_for() {
    let home = Home::new();
    let id = home.ended(&["-c", "seq 1 3000"]);
    let logs = |args: &[&str]| home.say(&[&["logs", &id], args].concat()).out;
    let all = seq(3000);
    assert_eq!(logs(&[]), all);
    assert_eq!(logs(&["-n", "2"]), "2999\n3000\n");
    assert_eq!(logs(&["-n", "all"]), all);
    assert_eq!(logs(&["-n", "0"]), "");
    assert_eq!(logs(&["--lines", "10:12"]), "10\n11\n12\n");
    assert_eq!(logs(&["--lines", "2999:"]), "2999\n3000\n");
    assert_eq!(logs(&["--offset", "2", "--limit", "4"]), "2\n3\n");
    assert_eq!(logs(&["--offset", "999999"]), "");
    assert_eq!(logs(&["--grep", "^29.9$", "-n", "2"]), "2989\n2999\n");
    assert_eq!(logs(&["--since", "1h", "--grep", "^7$"]), "7\n");
}

#[test]
fn streams_and_times_come_from_the_index() {
    let home = Home::new();
    let id = home.ended(&["--split", "-c", "echo one; echo two >&2; echo three"]);
    assert_eq!(home.say(&["logs", "--stdout", &id]).out, "one\nthree\n");
    assert_eq!(home.say(&["logs", "--stderr", &id]).out, "two\n");
    let stamped = home.say(&["logs", "--stderr", "--timestamps", &id]).out;
    let (time, text) = stamped.split_once(' ').unwrap();
    assert!(time.parse::<jiff::Timestamp>().is_ok() && text == "two\n", "{stamped}");
    let merged = home.ended(&["--", "true"]);
    let said = home.say(&["logs", "--stderr", &merged]);
    assert_eq!(said.code, Some(125));
    assert!(
        said.err.contains("not told apart") && said.err.contains("hint: ") && said.err.contains("--split"),
        "{said:?}"
    );
}

#[test]
fn bytes_that_are_no_text_are_exact() {
    let home = Home::new();
    let id = home.ended(&["-c", r"printf 'a\000\377\n'"]);
    let raw = home.client(&["logs", &id]).output().unwrap().stdout;
    assert_eq!(raw, b"a\0\xff\n");
    let document = home.say(&["logs", "--json", &id]).json();
    assert_eq!((&document["text_exact"], &document["base64"]), (&false.into(), &"YQD/Cg==".into()));
    assert_eq!((&document["next_offset"], &document["complete"]), (&4.into(), &true.into()));
}

#[test]
fn a_document_is_bounded_and_says_where_to_go_on() {
    let home = Home::new();
    let id = home.ended(&["-c", "seq 1 300000"]);
    let (mut text, mut offset) = (String::new(), 0);
    loop {
        let part = home.say(&["logs", "--json", "--offset", &offset.to_string(), &id]).json();
        assert!(part["text"].as_str().unwrap().len() <= 1 << 20);
        text.push_str(part["text"].as_str().unwrap());
        offset = part["next_offset"].as_u64().unwrap();
        if part["complete"] == true {
            break;
        }
    }
    let expected = seq(300_000);
    assert!(text == expected);
}

#[test]
fn what_was_not_kept_is_marked_with_its_exact_range() {
    let home = Home::new();
    let id = home.ended(&["--max-output", "256KiB", "-c", "seq 1 200000"]);
    let task = home.say(&["show", "--json", &id]).json();
    let gap = &task["output"]["gaps"][0];
    let (from, to) = (gap[0].as_u64().unwrap(), gap[1].as_u64().unwrap());
    let expected = seq(200_000);
    let (head, tail) = (&expected[..usize::try_from(from).unwrap()], &expected[usize::try_from(to).unwrap()..]);
    let raw = home.say(&["logs", "--raw", &id]);
    assert!(raw.out == format!("{head}{tail}"));
    let mark = format!("[ringback: bytes {from}-{} are missing: output_limit]\n", to - 1);
    assert_eq!(raw.err, mark);
    let marked = home.say(&["logs", &id]).out;
    let line = if head.ends_with('\n') { mark } else { format!("\n{mark}") };
    assert!(marked == format!("{head}{line}{tail}"));
}

#[test]
fn a_reader_that_leaves_ends_it_quietly() {
    let home = Home::new();
    let id = home.ended(&["-c", "seq 1 300000"]);
    let mut client = home.client(&["logs", &id]).spawn().unwrap();
    let mut first = [0; 2];
    client.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = client.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(141), &b""[..]));
}

#[test]
fn what_came_of_late_can_be_left_out() {
    let home = Home::new();
    let id = home.ended(&["-c", "echo first"]);
    assert_eq!(home.say(&["logs", &id, "--until", "1h"]).out, "");
    assert_eq!(home.say(&["logs", &id, "--since", "1h", "--until", "0s"]).out, "first\n");
    assert_eq!(home.say(&["logs", &id, "--until", "1h", "--json"]).json()["text"], "");
    assert_eq!(home.say(&["logs", &id, "--until", "1h", "-f"]).code, Some(2));
}
