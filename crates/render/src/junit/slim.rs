//! Leaves out what nobody reads of a report: a test may have written a hundred megabytes, and all of it is in there, as a
//! text, in an attribute, or in a comment.

use std::io::{self, BufRead, Read};

use super::REPORT_BYTES_MAX;

/// How much is left of one text; more than is looked at of any.
const TEXT_BYTES_MAX: usize = 64 << 10;
/// Within so many bytes more every entity that is one has ended.
const ENTITY_BYTES_MAX: usize = 4 << 10;
const COMMENT: &[u8] = b"!--";
const CDATA: &[u8] = b"![CDATA[";

/// A report of which each text, value and comment is cut after its begin, so that the rest of it costs next to nothing.
pub struct Slim<R> {
    inner: R,
    within: Within,
    /// How much of this text was left.
    text: usize,
    /// How much of what the inner reader holds is passed on.
    passed: usize,
    total: u64,
}

/// What the next byte belongs to.
#[derive(Clone, Copy)]
enum Within {
    Text,
    /// After `<`, and so many bytes with which a comment or a `CDATA` may begin.
    Opening(&'static [u8], usize),
    Tag(Option<u8>),
    /// After so many `-` in a row.
    Comment(usize),
    /// After so many `]` in a row.
    Cdata(usize),
    /// Of `<? ?>`, where quotes mean nothing; whether the last byte was `?`.
    Instruction(bool),
}

impl<R: BufRead> Slim<R> {
    /// Reads from this.
    pub fn new(inner: R) -> Self {
        Self { inner, within: Within::Text, text: 0, passed: 0, total: 0 }
    }

    /// Looks at the next bytes, of which there is one at least. Gives how many of them are passed on, or left out.
    fn step(within: &mut Within, text: &mut usize, bytes: &[u8]) -> (usize, bool) {
        let first = bytes[0];
        match *within {
            Within::Text if first == b'<' => *within = Within::Opening(CDATA, 0),
            Within::Text => return some_of(text, memchr::memchr(b'<', bytes).unwrap_or(bytes.len()), bytes),
            Within::Opening(_, 0) if first == b'?' => (*within, *text) = (Within::Instruction(false), 0),
            Within::Opening(_, 1) if first == COMMENT[1] => *within = Within::Opening(COMMENT, 2),
            Within::Opening(begin, seen) if first == begin[seen] => {
                *within = match (seen + 1 == begin.len(), begin == CDATA) {
                    (false, _) => Within::Opening(begin, seen + 1),
                    (true, true) => Within::Cdata(0),
                    (true, false) => Within::Comment(0),
                };
                *text = 0;
            }
            Within::Opening(..) => {
                *within = Within::Tag(None);
                return (0, true);
            }
            Within::Tag(Some(quote)) if first != quote => {
                return some_of(text, memchr::memchr(quote, bytes).unwrap_or(bytes.len()), bytes);
            }
            Within::Tag(quote) => {
                *within = match (quote, first) {
                    (None, b'>') => Within::Text,
                    (None, b'"' | b'\'') => Within::Tag(Some(first)),
                    _ => Within::Tag(None),
                };
                *text = 0;
            }
            Within::Instruction(is_asked) => match first {
                b'?' => *within = Within::Instruction(true),
                b'>' if is_asked => (*within, *text) = (Within::Text, 0),
                _ => {
                    *within = Within::Instruction(false);
                    return some_of(text, memchr::memchr(b'?', bytes).unwrap_or(bytes.len()), bytes);
                }
            },
            Within::Comment(dashes) => match first {
                b'-' => *within = Within::Comment(dashes + 1),
                b'>' if dashes >= 2 => (*within, *text) = (Within::Text, 0),
                _ => {
                    *within = Within::Comment(0);
                    return some_of(text, memchr::memchr(b'-', bytes).unwrap_or(bytes.len()), bytes);
                }
            },
            Within::Cdata(brackets) => match first {
                b']' => *within = Within::Cdata(brackets + 1),
                b'>' if brackets >= 2 => (*within, *text) = (Within::Text, 0),
                _ => {
                    *within = Within::Cdata(0);
                    return some_of(text, memchr::memchr(b']', bytes).unwrap_or(bytes.len()), bytes);
                }
            },
        }
        (1, true)
    }
}

/// The begin of a text is passed on, up to where neither a character nor an entity is cut.
fn some_of(text: &mut usize, count: usize, bytes: &[u8]) -> (usize, bool) {
    let most = TEXT_BYTES_MAX + ENTITY_BYTES_MAX;
    if *text >= most {
        return (count, false);
    }
    let is_begin = *text < TEXT_BYTES_MAX;
    let count = count.min(if is_begin { TEXT_BYTES_MAX } else { most } - *text);
    // Before what stands neither within a character nor within an entity.
    let is_within = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'#' | b';' | 0x80..=0xbf);
    let end = bytes[..count].iter().position(|byte| !is_within(*byte)).filter(|_| !is_begin);
    *text = end.map_or(*text + count, |_| most);
    match end {
        // Nothing to pass on: what is here is the first that is left out.
        Some(0) => (count, false),
        _ => (end.unwrap_or(count), true),
    }
}

impl<R: BufRead> BufRead for Slim<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.passed == 0 {
            let bytes = self.inner.fill_buf()?;
            let (mut passed, mut left_out) = (0, 0);
            while left_out == 0 && passed < bytes.len() {
                match Self::step(&mut self.within, &mut self.text, &bytes[passed..]) {
                    (count, true) => passed += count,
                    // What is passed on has to be taken before.
                    (_, false) if passed > 0 => break,
                    (count, false) => left_out = count,
                }
            }
            if passed + left_out == 0 {
                break;
            }
            self.total += (passed + left_out) as u64;
            if self.total > REPORT_BYTES_MAX {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            self.inner.consume(left_out);
            self.passed = passed;
        }
        let bytes = self.inner.fill_buf()?;
        Ok(&bytes[..self.passed])
    }

    fn consume(&mut self, count: usize) {
        self.passed -= count;
        self.inner.consume(count);
    }
}

impl<R: BufRead> Read for Slim<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(bytes)?;
        self.consume(count);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(xml: &str, expected: &str) {
        for size in [1, 3, 7, 8 << 10] {
            let mut slim = String::new();
            Slim::new(io::BufReader::with_capacity(size, xml.as_bytes())).read_to_string(&mut slim).unwrap();
            assert!(slim == expected, "{size}: {} of {} bytes", slim.len(), xml.len());
        }
    }

    /// A text of more than is left, and what is left of it.
    fn long(words: &str) -> (String, String) {
        let long = words.repeat(200_000 / words.len());
        let end = long[TEXT_BYTES_MAX..].find(|byte: char| !byte.is_ascii_alphanumeric() && byte != ';').unwrap();
        (long.clone(), long[..TEXT_BYTES_MAX + end].to_owned())
    }

    #[test]
    fn only_the_end_of_a_long_text_is_left_out() {
        for text in ["<a b='c'>short</a>", "<a b='>'/><!-- <it's> --><![CDATA[<x>]]>", "", "<", "no xml"] {
            check(text, text);
        }
        // Under miri a long one would take hours.
        if cfg!(miri) {
            return;
        }
        let (text, left) = long("x> ]] - ' ");
        check(&format!("<a><b>{text}</b>{text}</a>"), &format!("<a><b>{left}</b>{left}</a>"));
        let odd =
            format!("<?xml version='1.0'?><?note it's > so??><a>{text}</a><b c=\"{}\"/>", "x".repeat(TEXT_BYTES_MAX));
        check(&odd, &odd.replace(&text, &left));
        let attributes = |text: &str| format!("<a b=\"{text}\" c='{}'/>", text.replace('\'', "\""));
        check(&attributes(&text), &attributes(&left));
        let (text, left) = long("x> ]] ' ");
        check(&format!("<!--{text}-->"), &format!("<!--{left}-->"));
        let (text, left) = long("<x> - ' >");
        check(&format!("<a><![CDATA[{text}]]]><b/></a>"), &format!("<a><![CDATA[{left}]]]><b/></a>"));
    }

    #[test]
    fn neither_an_entity_nor_a_character_is_cut() {
        for words in ["&amp;", "\u{6f22}", "&#x6f22;\u{6f22}\u{1f600}", "x"] {
            for (before, (begin, end)) in (0..5).flat_map(|before| [(before, ("", "")), (before, ("<![CDATA[", "]]>"))])
            {
                let times = if cfg!(miri) { 20 } else { 300_000 / words.len() };
                let text = format!("{}{}", "-".repeat(before), words.repeat(times));
                let report = format!("<testsuite><system-out>{begin}{text}{end}</system-out></testsuite>");
                let (found, error) = super::super::read(Slim::new(report.as_bytes()));
                assert!(error.is_none() && found.notes.is_empty(), "{before} {words}: {error:?}");
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "writes more than the most, which takes miri hours")]
    fn a_report_of_more_than_the_most_is_refused() {
        let endless = b"<testsuite>".chain(io::BufReader::with_capacity(1 << 20, io::repeat(b'x')));
        let error = io::copy(&mut Slim::new(endless), &mut io::sink()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }
}
