//! Hides what looks like a secret in output that agents read: each byte of it becomes a star, so that offsets and lines stay
//! what they are. The files are not touched.
//!
//! Hidden are the values of the task's own variables that are called secrets, read from its spec, which stays the only place
//! where they are; and what has the shape of a secret ([`ringback_core::shape`]).

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::OnceLock;

use aho_corasick::{AhoCorasick, MatchKind};
use ringback_core::secret::{VALUE_BYTES_MIN, is_secret_value};
use ringback_core::shape;
use ringback_sys::task_files;

/// What stands in the place of each byte.
const STAR: u8 = b'*';
/// How much before and after a piece is read with it, so that a secret over its border is seen, bytes.
pub(crate) const MARGIN_BYTES: usize = shape::SECRET_BYTES_MAX;
/// How many lines of values are looked for at most; an environment with more holds data.
const VALUES_MAX: usize = 1024;

/// What is hidden in the output of one task.
#[derive(Clone, Debug, Default)]
pub struct Mask {
    values: Option<AhoCorasick>,
}

impl Mask {
    /// What is hidden of the task with this folder. Without a spec in it: what has the shape of a secret.
    pub fn of_folder(folder: &Path) -> Self {
        let spec = task_files::read_spec(folder);
        spec.map(|spec| Self::of_environment(spec.vars.iter().map(Vec::as_slice))).unwrap_or_default()
    }

    /// What is hidden of a task with this environment, `NAME=VALUE`.
    fn of_environment<'a>(vars: impl Iterator<Item = &'a [u8]>) -> Self {
        let pairs = vars.filter_map(|var| {
            let at = var.iter().position(|byte| *byte == b'=')?;
            Some((&var[..at], &var[at + 1..]))
        });
        let secret = pairs.filter(|(name, value)| is_secret_value(name, value)).map(|(_, value)| value);
        // Output comes in lines, and each line of a key is as secret as the whole.
        let lines = secret.flat_map(|value| value.split(|byte| matches!(byte, b'\n' | b'\r')));
        let lines = lines.filter(|line| line.len() >= VALUE_BYTES_MIN);
        let values: Vec<&[u8]> = lines.map(|line| &line[..line.len().min(MARGIN_BYTES)]).take(VALUES_MAX).collect();
        if values.is_empty() {
            return Self::default();
        }
        // Standard, since one value may begin within another. Too large for a searcher is too large to be a secret.
        Self { values: AhoCorasick::builder().match_kind(MatchKind::Standard).build(values).ok() }
    }

    /// Whether one of the task's own secrets is in this text.
    pub fn finds_value(&self, text: &[u8]) -> bool {
        self.values.as_ref().is_some_and(|values| values.is_match(text))
    }

    /// Stars every secret in a text that has both ends.
    pub fn hide(&self, text: &mut [u8]) {
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        if let Some(values) = &self.values {
            ranges.extend(values.find_overlapping_iter(&*text).map(|found| (found.start(), found.end())));
        }
        for found in shapes().find_iter(&*text) {
            let secret = shape::secret_at(text, found.pattern().as_usize(), found.start());
            ranges.extend(secret.map(|range| (range.start, range.end)));
        }
        for (start, end) in ranges {
            for byte in text[start..end].iter_mut().filter(|byte| !matches!(byte, b'\n' | b'\r')) {
                *byte = STAR;
            }
        }
    }

    /// As `pread(2)` into `block`, with every secret starred, also one that begins before it or ends after it.
    pub fn read_at(&self, file: &File, block: &mut [u8], at: u64) -> io::Result<usize> {
        let before = usize::try_from(at).map_or(MARGIN_BYTES, |at| at.min(MARGIN_BYTES));
        let mut around = vec![0; before + block.len() + MARGIN_BYTES];
        let mut have = 0;
        while have < around.len() {
            match file.read_at(&mut around[have..], at - before as u64 + have as u64) {
                Ok(0) => break,
                Ok(count) => have += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let around = &mut around[..have];
        self.hide(around);
        let shown = around.get(before..).unwrap_or_default();
        let count = shown.len().min(block.len());
        block[..count].copy_from_slice(&shown[..count]);
        Ok(count)
    }

    /// The text with every secret starred.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut bytes = text.as_bytes().to_vec();
        self.hide(&mut bytes);
        if bytes == text.as_bytes() {
            return Cow::Borrowed(text);
        }
        // A secret is whole characters, as far as its name and shape go; a value of other bytes may not be.
        Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// A line of ours, a command for example, with what has the shape of a secret starred.
pub fn line(text: &str) -> Cow<'_, str> {
    Mask::default().text(text)
}

/// The words of a command with the same starred; a word may be announced by the one before it.
pub fn words(words: Vec<String>) -> Vec<String> {
    let joined = words.join(" ");
    let mut bytes = joined.clone().into_bytes();
    Mask::default().hide(&mut bytes);
    if bytes == joined.as_bytes() {
        return words;
    }
    let mut at = 0;
    let hidden = words.iter().map(|word| {
        let part = &bytes[at..at + word.len()];
        at += word.len() + 1;
        String::from_utf8_lossy(part).into_owned()
    });
    hidden.collect()
}

fn shapes() -> &'static AhoCorasick {
    static SHAPES: OnceLock<AhoCorasick> = OnceLock::new();
    SHAPES.get_or_init(|| {
        let search = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(shape::literals());
        #[expect(clippy::expect_used, reason = "a few short literals, the same in every build, which a test compiles")]
        search.expect("the literals of the shapes")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn mask(vars: &[&str]) -> Mask {
        Mask::of_environment(vars.iter().map(|var| var.as_bytes()))
    }

    #[test]
    fn values_of_variables_that_are_called_secrets_are_starred_and_no_others() {
        let mask = mask(&["GH_TOKEN=abcd1234efgh", "DB_PASSWORD=postgres", "PLAIN=zyxw9876", "B_SECRET=1234efghijk"]);
        let text = "a abcd1234efgh b postgres zyxw9876 abcd1234efghijk";
        assert_eq!(mask.text(text), "a ************ b postgres zyxw9876 ***************");
        assert!(mask.finds_value(b"-abcd1234efgh-") && !mask.finds_value(b"zyxw9876"));
        assert!(!Mask::default().finds_value(b"ghp_0123456789abcdefghijABCDEFGHIJ0123456789"));
    }

    #[test]
    fn words_stay_words() {
        let check = |all: &[&str]| words(all.iter().map(|word| (*word).to_owned()).collect()).join("|");
        assert_eq!(check(&["x", "--password", "hunter22", "ü"]), "x|--password|********|ü");
        assert_eq!(check(&["--token=abcd1234", "", "-v"]), "--token=********||-v");
        assert_eq!((check(&[]), check(&["a b", "c"])), (String::new(), "a b|c".to_owned()));
    }

    #[test]
    fn each_line_of_a_key_is_hidden_and_lines_stay_lines() {
        let mask = mask(&["DEPLOY_PRIVATE_KEY=first-line-1\nsecond-line-2\nx"]);
        assert_eq!(mask.text("> first-line-1\r\n> second-line-2\nx"), "> ************\r\n> *************\nx");
        let shape = "-----BEGIN PRIVATE KEY-----\nMIIE\nabc\n-----END PRIVATE KEY-----\nafter";
        let hidden = "-----BEGIN PRIVATE KEY-----\n****\n***\n-----END PRIVATE KEY-----\nafter";
        assert_eq!(Mask::default().text(shape), hidden);
    }

    #[test]
    fn a_page_begins_or_ends_within_a_secret_and_shows_nothing_of_it() {
        let mut file = tempfile::tempfile().unwrap();
        let secret = "ghp_0123456789abcdefghijABCDEFGHIJ0123456789";
        let text = format!("{}abcd1234efgh {secret}\nend\n", "x".repeat(10_000));
        file.write_all(text.as_bytes()).unwrap();
        let mask = mask(&["GH_TOKEN=abcd1234efgh"]);
        let whole = mask.text(&text).into_owned();
        assert!(!whole.contains("abcd") && !whole.contains("0123") && whole.len() == text.len());
        for size in [1, 7, 64, 4096, 20_000] {
            let (mut at, mut pages) = (0, Vec::new());
            loop {
                let mut page = vec![0; size];
                let count = mask.read_at(&file, &mut page, at).unwrap();
                if count == 0 {
                    break;
                }
                pages.extend_from_slice(&page[..count]);
                at += count as u64;
            }
            assert_eq!(String::from_utf8(pages).unwrap(), whole, "pages of {size}");
        }
        assert_eq!(mask.read_at(&file, &mut [0; 10], 1 << 40).unwrap(), 0);
    }

    #[test]
    fn whatever_the_bytes_the_length_stays() {
        let mut state = 7_u64;
        for length in [0, 1, 50, 5000] {
            let mut bytes: Vec<u8> = Vec::new();
            while bytes.len() < length {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let number = usize::try_from(state >> 33).unwrap();
                let literals: Vec<&str> = shape::literals().collect();
                bytes.extend_from_slice(literals[number % literals.len()].as_bytes());
                bytes.extend_from_slice(&state.to_be_bytes()[..number % 8]);
            }
            let lines = |bytes: &[u8]| bytes.split(|byte| *byte == b'\n').map(<[u8]>::len).collect::<Vec<_>>();
            let (before, count) = (bytes.len(), lines(&bytes));
            Mask::default().hide(&mut bytes);
            assert_eq!((bytes.len(), lines(&bytes)), (before, count));
        }
    }
}
