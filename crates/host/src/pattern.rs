//! Regular expressions as people and models write them: compiled with a bound, and refused with the reason in one line.

use regex::bytes::{Regex, RegexBuilder};

/// How much memory one compiled pattern may take, bytes; past this it is a mistake like `(a{1000}){1000}`.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// Compiles a pattern that is held against one line at a time.
pub fn of_line(text: &str) -> Result<Regex, String> {
    compile(RegexBuilder::new(text))
}

/// Compiles a pattern that is held against many lines at once: `^` and `$` are the ends of a line.
pub fn of_lines(text: &str) -> Result<Regex, String> {
    let mut builder = RegexBuilder::new(text);
    builder.multi_line(true);
    compile(builder)
}

fn compile(mut builder: RegexBuilder) -> Result<Regex, String> {
    let built = builder.size_limit(COMPILED_BYTES_MAX).dfa_size_limit(COMPILED_BYTES_MAX).build();
    // The library draws the place over several lines; the last one says what is wrong.
    built.map_err(|error| {
        let text = error.to_string();
        let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
        last.trim().trim_start_matches("error: ").to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_compiled_is_explained_in_one_line() {
        assert!(of_lines("^b$").is_ok_and(|regex| regex.is_match(b"a\nb\nc")));
        assert!(of_line("^b$").is_ok_and(|regex| !regex.is_match(b"a\nb\nc")));
        for bad in ["(", "[", "(a{1000}){1000}"] {
            let why = of_line(bad).unwrap_err();
            assert!(!why.is_empty() && !why.contains('\n'), "{bad}: {why:?}");
        }
    }
}
