//! The difference that setup makes to a file, without what else is in it: settings hold secrets.

use std::collections::HashSet;
use std::fmt::Write as _;

use similar::{DiffOp, TextDiff};

use crate::render::count::count;

/// Longest line that is shown, characters.
const LINE_CHARS_MAX: usize = 160;

/// Lines that come with `+` and that go with `-`. A line that only gets or loses a comma is not shown. Of lines that are
/// changed otherwise what is put in or taken out is shown; where that is in several places, the new lines are, with dots for
/// all that stood there before.
pub(super) fn difference(before: &str, after: &str) -> String {
    let diff = TextDiff::from_lines(before, after);
    let (old, new) = (diff.old_slices(), diff.new_slices());
    let mut out = String::new();
    for op in diff.ops() {
        match *op {
            DiffOp::Equal { .. } => {}
            DiffOp::Insert { new_index, new_len, .. } => mark(&mut out, '+', &new[new_index..new_index + new_len]),
            DiffOp::Delete { old_index, old_len, .. } => mark(&mut out, '-', &old[old_index..old_index + old_len]),
            DiffOp::Replace { old_index, old_len, new_index, new_len } => {
                replaced(&mut out, &old[old_index..old_index + old_len], &new[new_index..new_index + new_len]);
            }
        }
    }
    out
}

fn replaced(out: &mut String, old: &[&str], new: &[&str]) {
    let same = |a: &str, b: &str| a.trim_end().trim_end_matches(',') == b.trim_end().trim_end_matches(',');
    match (old, new) {
        ([one], [first, rest @ ..]) if same(one, first) => mark(out, '+', rest),
        ([first, rest @ ..], [one]) if same(one, first) => mark(out, '-', rest),
        ([rest @ .., last], [one]) if same(one, last) => mark(out, '-', rest),
        _ => rewritten(out, old, new),
    }
}

fn rewritten(out: &mut String, old: &[&str], new: &[&str]) {
    let (before, after) = (old.concat(), new.concat());
    let head = common(before.chars(), after.chars());
    let (before_rest, after_rest) = (&before[head..], &after[head..]);
    let tail = common(before_rest.chars().rev(), after_rest.chars().rev());
    let (gone, come) = (&before_rest[..before_rest.len() - tail], &after_rest[..after_rest.len() - tail]);
    let lines = |text: &str| text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect::<Vec<_>>();
    match (gone.trim().is_empty(), come.trim().is_empty()) {
        (true, _) => mark(out, '+', &lines(come)),
        (false, true) => mark(out, '-', &lines(gone)),
        (false, false) => {
            let _infallible = writeln!(out, "~ {} changed into {}", count(old.len() as u64, "line"), new.len());
            let known: HashSet<&str> = before.split(is_between).collect();
            let hidden = |line: &&str| line.split_inclusive(is_between).map(|word| veil(word, &known)).collect();
            mark(out, '+', &new.iter().map(hidden).collect::<Vec<String>>());
        }
    }
}

/// How many bytes they have in common at this end.
fn common(a: impl Iterator<Item = char>, b: impl Iterator<Item = char>) -> usize {
    a.zip(b).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum()
}

/// What stands between the words of settings, and is in no secret.
fn is_between(c: char) -> bool {
    c.is_whitespace() || "\"'{}[](),".contains(c)
}

/// A word with what ends it; dots, if it was there before.
fn veil(word: &str, known: &HashSet<&str>) -> String {
    let bare = word.trim_end_matches(is_between);
    if bare.chars().all(|c| !c.is_alphanumeric()) || !known.contains(bare) {
        return word.to_owned();
    }
    format!("…{}", &word[bare.len()..])
}

fn mark<T: AsRef<str>>(out: &mut String, sign: char, lines: &[T]) {
    for line in lines {
        out.push(sign);
        out.push_str(&crate::render::clean::short(line.as_ref().trim_end_matches(['\n', '\r']), LINE_CHARS_MAX));
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_ours_is_shown() {
        let before = "{\n  \"key\": \"s3cret\"\n}\n";
        let after = "{\n  \"key\": \"s3cret\",\n  \"mcp\": {}\n}\n";
        assert_eq!(difference(before, after), "+  \"mcp\": {}\n");
        assert_eq!(difference(after, before), "-  \"mcp\": {}\n");
        let shown = difference("{\"key\": \"s3cret\"}", "{\"key\": \"s3cret\", \"mcp\": {}}");
        assert_eq!(shown, "+, \"mcp\": {}\n");
        assert_eq!(difference("{}\n", "{\n  \"mcp\": {\n  }\n}\n"), "+  \"mcp\": {\n+  }\n");
    }

    #[test]
    fn where_a_line_changes_in_several_places_what_was_there_is_dots() {
        let before = "{\"key\": \"s3cret\", \"hooks\": {\"Stop\": []}}";
        let after = "{\"mcp\": {}, \"key\": \"s3cret\", \"hooks\": {\"Stop\": [\"ringback hook\"]}}";
        let shown = "~ 1 line changed into 1\n+{\"mcp\": {}, \"…\": \"…\", \"…\": {\"…\": [\"ringback hook\"]}}\n";
        assert_eq!(difference(before, after), shown);
    }
}
