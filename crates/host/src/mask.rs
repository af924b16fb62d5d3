//! Hides what looks like a secret in output that agents read: each byte of it becomes a star, so that offsets and lines stay
//! what they are. The files are not touched.
//!
//! Hidden are the values of the task's own variables that are called secrets, read from its spec, which stays the only place
//! where they are; and what has the shape of a secret ([`ringback_core::shape`]). Both are looked for in the bytes as they are
//! and as a terminal shows them ([`ringback_core::reading`]), since every door takes colours out later than this.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::OnceLock;

use aho_corasick::{AhoCorasick, MatchKind};
use ringback_core::reading::readings;
use ringback_core::secret::{VALUE_BYTES_MIN, is_secret_value};
use ringback_core::shape;
use ringback_sys::task_files;

/// What stands in the place of each byte.
const STAR: u8 = b'*';
/// How much before and after a piece is read with it, so that a secret over its border is seen, bytes: the longest one, and
/// as much of colours and cursor moves within it.
pub(crate) const MARGIN_BYTES: usize = 2 * shape::SECRET_BYTES_MAX;
/// How much of a value is starred where what is there ends with its begin, bytes: half of the shortest value.
const BEGIN_BYTES_MIN: usize = VALUE_BYTES_MIN / 2;
/// How many words a secret is written with at most, it and what announces it: `Authorization: Basic SECRET`.
const WORDS_AROUND: usize = 3;
/// How many lines of values are looked for at most; an environment with more holds data.
const VALUES_MAX: usize = 1024;

/// Bytes of a file that are shown, with what is read around them to know what must not be.
#[derive(Debug, Default)]
pub struct Block {
    /// It keeps its size, so that it is zeroed once and not for each reading.
    around: Vec<u8>,
    shown: Range<usize>,
}

impl Block {
    /// What is shown.
    pub fn bytes(&self) -> &[u8] {
        &self.around[self.shown.clone()]
    }

    /// As `pread(2)` of `length` bytes, all of which are shown.
    pub(crate) fn read(&mut self, file: &File, length: usize, at: u64) -> io::Result<()> {
        self.shown = 0..self.fill(file, 0..length, at)?;
        Ok(())
    }

    /// The same in steps: `glance` is given what each of them read, and before it as many bytes as it says, up to `back` of
    /// which were before all of it.
    pub(crate) fn read_in_steps(
        &mut self,
        file: &File,
        back: usize,
        length: usize,
        at: u64,
        step: usize,
        glance: &mut dyn FnMut(&[u8], usize),
    ) -> io::Result<()> {
        let before = usize::try_from(at).map_or(back, |at| at.min(back));
        let (begin, end) = (at - before as u64, before + length);
        let mut have = 0;
        while have < end {
            // What was before comes with the first step.
            let until = end.min(have.max(before) + step);
            let read = self.fill(file, have..until, begin + have as u64)?;
            let fresh = have.max(before);
            have += read;
            if have > fresh {
                glance(&self.around[..have], fresh);
            }
            if have < until {
                break;
            }
        }
        self.shown = before.min(have)..have;
        Ok(())
    }

    /// Reads as much as there is for this part of it, from this offset on; how much that is.
    fn fill(&mut self, file: &File, part: Range<usize>, at: u64) -> io::Result<usize> {
        if self.around.len() < part.end {
            self.around.resize(part.end, 0);
        }
        let (part, mut have) = (&mut self.around[part], 0);
        while have < part.len() {
            match file.read_at(&mut part[have..], at + have as u64) {
                Ok(0) => break,
                Ok(count) => have += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(have)
    }
}

impl AsRef<[u8]> for Block {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

/// What is hidden in the output of one task.
#[derive(Clone, Debug, Default)]
pub struct Mask {
    /// Finds every value, also one within another.
    values: Option<AhoCorasick>,
    /// Tells whether there is any, many bytes at once, which no searcher for overlapping ones can.
    any: Option<AhoCorasick>,
    /// The same for the begins of values.
    begins: Vec<Begin>,
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
        let values: Vec<&[u8]> =
            lines.map(|line| &line[..line.len().min(shape::SECRET_BYTES_MAX)]).take(VALUES_MAX).collect();
        if values.is_empty() {
            return Self::default();
        }
        // Standard, since one value may begin within another. Too large for a searcher is too large to be a secret.
        let begins = values.iter().map(|value| Begin::of(value)).collect();
        let search = |kind| AhoCorasick::builder().match_kind(kind).build(&values).ok();
        Self { values: search(MatchKind::Standard), any: search(MatchKind::LeftmostFirst), begins }
    }

    /// Whether one of the task's own secrets is in this text.
    pub fn finds_value(&self, text: &[u8]) -> bool {
        let Some(any) = &self.any else { return false };
        any.is_match(text) || readings(text).iter().any(|reading| any.is_match(&reading.text))
    }

    /// Stars every secret in a text that has both ends.
    pub fn hide(&self, text: &mut [u8]) {
        self.hide_in(text, false);
    }

    /// The same, and at the end what a value begins with, if the text `goes_on`. Codes within a secret stay what they are.
    pub(crate) fn hide_in(&self, text: &mut [u8], goes_on: bool) {
        let mut secrets = self.secrets(text, goes_on);
        for reading in readings(text) {
            let found = self.secrets(&reading.text, goes_on);
            secrets.extend(found.into_iter().flat_map(|range| reading.places(range)));
        }
        for range in secrets {
            for byte in text[range].iter_mut().filter(|byte| !matches!(byte, b'\n' | b'\r')) {
                *byte = STAR;
            }
        }
    }

    /// Where secrets stand, each byte once: a secret that repeats itself is found anew at each of its bytes.
    fn secrets(&self, text: &[u8], goes_on: bool) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        if let (Some(values), Some(any)) = (&self.values, &self.any)
            && any.is_match(text)
        {
            values.find_overlapping_iter(text).for_each(|value| add(&mut found, value.range()));
        }
        let mut looker = shape::Looker::new(text);
        for literal in shapes().find_iter(text) {
            if let Some(secret) = looker.secret_at(literal.pattern().as_usize(), literal.start()) {
                add(&mut found, secret);
            }
        }
        if goes_on {
            let begun = self.begins.iter().map(|begin| begin.at_end_of(text)).max().unwrap_or(0);
            if begun >= BEGIN_BYTES_MIN {
                add(&mut found, text.len() - begun..text.len());
            }
        }
        found.sort_unstable_by_key(|range| range.start);
        found.into_iter().fold(Vec::new(), |mut apart, range| {
            add(&mut apart, range);
            apart
        })
    }

    /// As `pread(2)` into `block`, with every secret starred, also one that begins before it or ends after it, or
    /// that is not there yet beyond its begin.
    pub fn read_at(&self, file: &File, block: &mut [u8], at: u64) -> io::Result<usize> {
        let mut around = Block::default();
        self.read_block(file, &mut around, block.len(), at)?;
        let shown = around.bytes();
        block[..shown.len()].copy_from_slice(shown);
        Ok(shown.len())
    }

    /// The same for `length` bytes into a block that may be used again.
    pub(crate) fn read_block(&self, file: &File, block: &mut Block, length: usize, at: u64) -> io::Result<()> {
        let before = usize::try_from(at).map_or(MARGIN_BYTES, |at| at.min(MARGIN_BYTES));
        let have = block.fill(file, 0..before + length + MARGIN_BYTES, at - before as u64)?;
        // Less than was asked for: this is the end of what is there.
        let goes_on = have < before + length + MARGIN_BYTES;
        self.hide_in(&mut block.around[..have], goes_on);
        block.shown = before.min(have)..have.min(before + length);
        Ok(())
    }

    /// How many bytes at the end of this text may be the begin of a secret that is still being written: of a value, or of
    /// the last word where something announces one. At most [`shape::SECRET_BYTES_MAX`].
    pub(crate) fn begun(&self, text: &[u8]) -> usize {
        let value = self.begins.iter().map(|begin| begin.at_end_of(text)).max().unwrap_or(0);
        let line = &text[text.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1)..];
        let mut words = line.rsplitn(WORDS_AROUND + 1, u8::is_ascii_whitespace);
        let word = words.next().unwrap_or_default().len();
        let around = &line[words.nth(WORDS_AROUND - 1).map_or(0, <[u8]>::len)..];
        // Of a prompt nothing has begun yet.
        let is_begun = !matches!(line.last(), Some(b':' | b'=' | b'?' | b'>')) && shapes().is_match(around);
        let word = if is_begun && word <= shape::SECRET_BYTES_MAX { word } else { 0 };
        word.max(if value >= BEGIN_BYTES_MIN { value } else { 0 })
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

/// One range more; one that meets the last makes it wider.
fn add(ranges: &mut Vec<Range<usize>>, range: Range<usize>) {
    match ranges.last_mut() {
        Some(last) if range.start <= last.end && last.start <= range.end => {
            *last = last.start.min(range.start)..last.end.max(range.end);
        }
        _ => ranges.push(range),
    }
}

/// A value, and how far it repeats its own begin: with that its begin is found in one pass (Knuth, Morris and Pratt).
#[derive(Clone, Debug)]
struct Begin {
    value: Vec<u8>,
    /// For each length of a begin the length of the next shorter one that it ends with.
    shorter: Vec<usize>,
}

impl Begin {
    fn of(value: &[u8]) -> Self {
        let mut begin = Self { value: value.to_vec(), shorter: vec![0; 2] };
        for (at, byte) in value.iter().enumerate().skip(1) {
            begin.shorter.push(begin.after(begin.shorter[at], *byte));
        }
        begin
    }

    /// How much of the begin a text ends with after one byte more.
    fn after(&self, mut length: usize, byte: u8) -> usize {
        while length > 0 && self.value[length] != byte {
            length = self.shorter[length];
        }
        length + usize::from(self.value[length] == byte)
    }

    /// How many bytes at the end of this text are a begin of the value, but not all of it.
    fn at_end_of(&self, text: &[u8]) -> usize {
        let last = &text[text.len().saturating_sub(self.value.len() - 1)..];
        last.iter().fold(0, |length, byte| self.after(length, *byte))
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
        // None begins with another, so the first that is found is the longest, too. Of the longest they would be sorted by
        // their length, and then every other block of 16 bytes of a plain log looks like one of them at first.
        let search = AhoCorasick::builder().match_kind(MatchKind::LeftmostFirst).build(shape::literals());
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
    fn a_secret_that_repeats_itself_is_starred_once_for_each_byte() {
        let long = "x1".repeat(shape::SECRET_BYTES_MAX / 2);
        let vars = [format!("A_TOKEN={long}"), "B_TOKEN=1x1x1x1x1".into(), "C_TOKEN=token=a1".into()];
        let mask = mask(&vars.each_ref().map(String::as_str));
        for text in [
            "x1".repeat(50_000),
            format!("{}\n", "1x1x1x1x1 ".repeat(10_000)),
            "sk-0-".repeat(20_000),
            "token=a1".repeat(10_000),
            format!("a1b2c3d4 {long} token=a1token=a1 {long}"),
        ] {
            let secrets = mask.secrets(text.as_bytes(), true);
            assert!(secrets.windows(2).all(|pair| pair[0].end < pair[1].start), "no byte is starred twice");
            let starred: usize = secrets.iter().map(Range::len).sum();
            assert!(starred > text.len() / 2 && starred <= text.len(), "{starred} of {}", text.len());
        }
    }

    #[test]
    fn colours_and_moves_within_a_secret_do_not_show_it() {
        let mask = mask(&["MY_API_TOKEN=s3cr3tvalue99XYZ"]);
        let (half, rest) = ("ghp_0123456789abcdef", "ghijABCDEFGHIJ0123456789");
        for (text, shown) in [
            ("\x1b[31ms3cr3t\x1b[0mvalue99XYZ.".to_owned(), "\x1b[31m******\x1b[0m**********.".to_owned()),
            ("password=\x1b[1mhunter22x\x1b[0m".into(), "password=\x1b[1m*********\x1b[0m".into()),
            ("\x1b[1mpassword\x1b[m: hunt\x1b(Ber22x".into(), "\x1b[1mpassword\x1b[m: ****\x1b(B*****".into()),
            (format!("{half}\x1b[0m{rest}"), format!("ghp_{}\x1b[0m{}", "*".repeat(16), "*".repeat(24))),
            ("s3cr3t\x1b]8;;http://x/\x1b\\value99XYZ".into(), "******\x1b]8;;http://x/\x1b\\**********".into()),
            ("s3cr3tXX\x08\x08value99XYZ".into(), "******XX\x08\x08**********".into()),
            ("  value99XYZ\rs3\n".into(), "  value99XYZ\rs3\n".into()),
            ("......value99XYZ\rs3cr3t\r\n".into(), "......**********\r******\r\n".into()),
            ("{\"a\":\"s3cr3t\\u001b[0mvalue99XYZ\"}".into(), "{\"a\":\"******\\u001b[0m**********\"}".into()),
            ("s3cr3t\u{200b}value\x0099XYZ".into(), "******\u{200b}*****\0*****".into()),
        ] {
            assert_eq!(mask.text(&text), shown);
            assert_eq!(mask.finds_value(text.as_bytes()), text.contains("s3cr3t"), "{text:?}");
        }
        let letters: Vec<String> = "s3cr3tvalue99XYZ".chars().map(String::from).collect();
        let of_letters = letters.join("\x1b[0m\x1b[38;2;200;100;50m");
        assert!(!mask.text(&of_letters).contains(['v', 'X', 'Z']));
    }

    #[test]
    fn a_value_that_has_only_begun_is_starred_at_the_end() {
        let mut file = tempfile::tempfile().unwrap();
        let mask = mask(&["A_TOKEN=s3cr3tvalue99XYZ", "B_TOKEN=ababababac12"]);
        let mut shown = String::new();
        for (piece, expected) in [
            ("a s3cr3tval", "a *********"),
            ("ue99XYZ b s3c", "******* b s3c"),
            ("onds \x1b[1ms3cr\x1b[0m", "onds \x1b[1m****\x1b[0m"),
            ("3tvalue99XYZ\nababab", "************\n******"),
            ("ababac12 s3cr3t\n", "******** s3cr3t\n"),
        ] {
            let at = file.metadata().unwrap().len();
            file.write_all(piece.as_bytes()).unwrap();
            let mut page = vec![0; 100];
            let count = mask.read_at(&file, &mut page, at).unwrap();
            assert_eq!(std::str::from_utf8(&page[..count]).unwrap(), expected);
            shown.push_str(expected);
        }
        assert!(!shown.contains("s3cr3tv"));
    }

    #[test]
    fn what_may_be_the_begin_of_a_secret_is_told() {
        let mask = mask(&["MY_API_TOKEN=s3cr3tvalue99XYZ"]);
        let long = format!("token={}", "x".repeat(shape::SECRET_BYTES_MAX));
        for (text, begun) in [
            ("", 0),
            ("plain words", 0),
            ("a s3cr3tval", 9),
            ("a s3cr3tvalue99XYZ", 0),
            ("a s3c", 0),
            ("x\ntoken=abc", 9),
            ("token=abc ", 0),
            ("token=abc\n", 0),
            ("token=abc\nxyz", 0),
            ("Password:", 0),
            ("--password hunt", 4),
            ("a Authorization: Basic dXNl", 4),
            ("Authorization: Basic dXNlcjpw and", 0),
            ("see ghp_0123", 8),
            (&long, 0),
        ] {
            assert_eq!(mask.begun(text.as_bytes()), begun, "{text:?}");
        }
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
    fn no_literal_begins_with_another() {
        let all: Vec<&str> = shape::literals().collect();
        let begins = |one: &&str| all.iter().any(|other| one != other && one.starts_with(*other));
        assert_eq!(all.iter().find(|one| begins(one)), None);
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
