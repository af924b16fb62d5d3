//! The difference that setup makes to a file, without what else is in it: settings hold secrets.

use std::fmt::Write as _;

use similar::{DiffOp, TextDiff};

/// Longest line that is shown, characters.
const LINE_CHARS_MAX: usize = 160;

/// Lines that come with `+` and that go with `-`. A line that only gets or loses a comma is not shown, and of one that is
/// changed otherwise only that it is.
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
        _ => {
            let _infallible = writeln!(out, "~ {} lines become {}", old.len(), new.len());
        }
    }
}

fn mark(out: &mut String, sign: char, lines: &[&str]) {
    for line in lines {
        out.push(sign);
        out.push_str(&crate::render::clean::short(line.trim_end_matches(['\n', '\r']), LINE_CHARS_MAX));
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
        assert!(shown.starts_with("~ 1 lines") && !shown.contains("s3cret"), "{shown}");
    }
}
