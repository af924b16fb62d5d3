//! Reads `JUnit` XML, as nextest, pytest, vitest, gotestsum and Surefire write it: streaming, bounded, without entities.

mod slim;

use std::cell::Cell;
use std::fmt;
use std::io::{self, BufRead, Read};
use std::rc::Rc;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use crate::recognise::{Diagnostic, Findings, Recogniser, Status, Test};
use crate::text::{clip, shorten};
pub use slim::Slim;

/// A larger report is not read to its end.
pub const REPORT_BYTES_MAX: u64 = 256 << 20;
/// One tag or one piece of text that is larger is refused, since it is held in memory.
pub const PIECE_BYTES_MAX: u64 = 8 << 20;
/// How much of a failure's text is looked at.
const FAILURE_BYTES_MAX: usize = 16 << 10;
/// What is longer is the name of no entity.
const NAME_BYTES_MAX: usize = 64;
/// How much of the reason is told why a report cannot be read.
const WHY_BYTES_MAX: usize = 300;
/// What these reports are called where they say something.
pub(crate) const SOURCE: &str = "JUnit";

/// Why a report was not read, or not to its end.
#[derive(Debug)]
pub enum ReportError {
    /// The file cannot be read.
    Io(io::Error),
    /// It is not well-formed, or ends in the middle.
    Malformed(String),
    /// It declares a document type; entities could make much out of little.
    Doctype,
    /// A piece, or the whole, is too large.
    TooLarge,
    /// It is well-formed, and no `JUnit` report.
    NotJunit,
    /// Somebody wrote it anew after the run that it was about.
    Overwritten,
    /// What an earlier reading said.
    Said(String),
}

impl fmt::Display for ReportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "cannot be read: {error}"),
            Self::Malformed(why) => write!(f, "is not well-formed: {why}"),
            Self::Doctype => write!(f, "declares a document type, which is refused"),
            Self::TooLarge => write!(f, "is too large"),
            Self::NotJunit => write!(f, "is no JUnit report"),
            Self::Overwritten => write!(f, "was written after this task had ended, and is not believed"),
            Self::Said(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for ReportError {}

/// What a report says, and why it was not read to its end, if it was not.
pub type Report = (Findings, Option<ReportError>);

/// Reads a report as far as it can be read.
pub fn read(report: impl BufRead) -> Report {
    let piece = Rc::new(Cell::new(0));
    let bounded = Bounded { inner: report, piece: piece.clone(), total: 0 };
    let mut reader = Reader::from_reader(bounded);
    let mut state = State::default();
    let mut buffer = Vec::new();
    let error = loop {
        buffer.clear();
        piece.set(0);
        match reader.read_event_into(&mut buffer) {
            Ok(Event::Eof) => break state.ended(),
            Ok(Event::DocType(_)) => break Some(ReportError::Doctype),
            Ok(event) => {
                if let Err(error) = state.event(&event) {
                    break Some(error);
                }
            }
            Err(quick_xml::Error::Io(error)) if error.kind() == io::ErrorKind::FileTooLarge => {
                break Some(ReportError::TooLarge);
            }
            Err(quick_xml::Error::Io(error)) => break Some(ReportError::Io(io::Error::new(error.kind(), error))),
            Err(error) => break Some(malformed(&error)),
        }
    };
    match error {
        Some(_) => state.cut(),
        None => state.compare(),
    }
    if let Some(counts) = state.found.counts.first_mut() {
        counts.is_partial = error.is_some();
    }
    (state.found, error)
}

#[derive(Default)]
struct State {
    found: Findings,
    /// How many elements are open.
    depth: u32,
    is_junit: bool,
    test: Option<Test>,
    /// The text of the failure that is being read.
    failure: Option<String>,
    message: String,
    /// How deep the outermost elements are that have totals, and how many failed by those.
    said_at: Option<u32>,
    said_bad: u64,
}

impl State {
    fn event(&mut self, event: &Event<'_>) -> Result<(), ReportError> {
        match event {
            Event::Start(tag) => {
                self.depth += 1;
                self.open(tag, self.depth)?;
            }
            Event::Empty(tag) => {
                self.open(tag, self.depth + 1)?;
                self.close(tag.name().as_ref());
            }
            Event::End(tag) => {
                self.depth = self.depth.saturating_sub(1);
                self.close(tag.name().as_ref());
            }
            Event::Text(text) => self.text(text),
            Event::CData(text) => self.text(text),
            Event::GeneralRef(name) => self.text(entity(name).encode_utf8(&mut [0; 4])),
            _ => {}
        }
        Ok(())
    }

    fn ended(&self) -> Option<ReportError> {
        match (self.is_junit, self.depth) {
            (false, _) => Some(ReportError::NotJunit),
            (true, 0) => None,
            (true, _) => Some(ReportError::Malformed("it ends in the middle".into())),
        }
    }

    /// What the report ends in the middle of has failed, if that was said before.
    fn cut(&mut self) {
        if self.test.as_ref().is_some_and(Test::is_bad) {
            self.explain();
            self.close("testcase");
        }
    }

    /// Says that the totals have more failures than are listed, which need not be wrong: a suite may fail before its first test.
    fn compare(&mut self) {
        let listed: u64 = self.found.counts.iter().map(|counts| counts.failed + counts.errored).sum();
        if self.said_bad > listed {
            let said = self.said_bad;
            self.found
                .note(None, &format!("a total in a {SOURCE} report says {said} failed, and {listed} are listed there"));
        }
    }

    fn open(&mut self, tag: &BytesStart<'_>, depth: u32) -> Result<(), ReportError> {
        match tag.name().as_ref() {
            "testsuites" | "testsuite" => {
                self.is_junit = true;
                // A total that cannot be read is none; the tests can be, all the same.
                let total = ["failures", "errors"].into_iter().filter_map(|name| attribute(tag, name).ok().flatten());
                let total: Vec<u64> = total.filter_map(|count| count.trim().parse().ok()).collect();
                // The outermost elements that have totals have them of all.
                if !total.is_empty() && *self.said_at.get_or_insert(depth) == depth {
                    self.said_bad = total.into_iter().fold(self.said_bad, u64::saturating_add);
                }
            }
            "testcase" => self.test = Some(test(tag)?),
            name @ ("failure" | "error" | "skipped") => {
                if let Some(case) = &mut self.test {
                    case.status = match name {
                        "failure" => Status::Failed,
                        "error" => Status::Errored,
                        // What has failed, and then was given up, has failed.
                        _ if case.is_bad() => case.status,
                        _ => Status::Skipped,
                    };
                    self.message = attribute(tag, "message")?.unwrap_or_default();
                    self.failure = Some(String::new());
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn text(&mut self, text: &str) {
        if let Some(failure) = &mut self.failure {
            failure.push_str(clip(text, FAILURE_BYTES_MAX.saturating_sub(failure.len())));
        }
    }

    fn close(&mut self, name: &str) {
        match name {
            "failure" | "error" | "skipped" => self.explain(),
            "testcase" => {
                let Some(case) = self.test.take() else { return };
                let counts = self.found.counts_of(SOURCE);
                match case.status {
                    Status::Passed => *counts.passed.get_or_insert(0) += 1,
                    Status::Failed => counts.failed += 1,
                    Status::Errored => counts.errored += 1,
                    Status::Skipped => counts.skipped += 1,
                }
                self.found.test(case);
            }
            _ => {}
        }
    }

    /// A failure's message is the attribute, or what its text says in a known form, or its first line.
    fn explain(&mut self) {
        let (Some(case), Some(text)) = (&mut self.test, self.failure.take()) else { return };
        let said = said_in(&text).or_else(|| said_in(&self.message));
        let place = said.as_ref().and_then(Diagnostic::place);
        let first = |text: &str| text.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned);
        let message = said.map(|said| said.message).filter(|message| !message.is_empty());
        let message = message.or_else(|| first(&self.message)).or_else(|| first(&text)).unwrap_or_default();
        case.explain(&message, place.as_ref());
    }
}

/// What a failure's text says in a known form.
fn said_in(text: &str) -> Option<Diagnostic> {
    let mut inner = Recogniser::new(false);
    text.lines().for_each(|line| inner.line(0, line));
    inner.finish().diagnostics.into_iter().next()
}

fn test(tag: &BytesStart<'_>) -> Result<Test, ReportError> {
    let name = attribute(tag, "name")?.unwrap_or_default();
    let class = attribute(tag, "classname")?.unwrap_or_default();
    let full = if class.is_empty() || name.starts_with(&class) { name } else { format!("{class} {name}") };
    let mut case = Test::new(SOURCE, None, &full, Status::Passed);
    let seconds = attribute(tag, "time")?.and_then(|time| time.replace(',', "").parse::<f64>().ok());
    let time = seconds.and_then(|seconds| std::time::Duration::try_from_secs_f64(seconds).ok());
    case.duration_ms = time.and_then(|time| u64::try_from(time.as_millis()).ok());
    case.path = attribute(tag, "file")?;
    case.line = attribute(tag, "line")?.and_then(|line| line.parse().ok());
    Ok(case)
}

/// What the reader says may quote a tag of megabytes.
fn malformed(error: &dyn fmt::Display) -> ReportError {
    ReportError::Malformed(shorten(&error.to_string(), WHY_BYTES_MAX))
}

/// The value of an attribute. Only the entities that XML itself defines are known.
fn attribute(tag: &BytesStart<'_>, name: &str) -> Result<Option<String>, ReportError> {
    match tag.try_get_attribute(name) {
        Ok(None) => Ok(None),
        Ok(Some(attribute)) => Ok(Some(clip(&resolved(&attribute.value), FAILURE_BYTES_MAX).to_owned())),
        Err(error) => Err(malformed(&error)),
    }
}

/// A value with what its entities stand for; an `&` that begins none stands for itself.
fn resolved(value: &str) -> String {
    let (mut text, mut rest) = (String::new(), value);
    while let Some((before, after)) = rest.split_once('&') {
        text.push_str(before);
        let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '#');
        let named = clip(after, NAME_BYTES_MAX).split_once(';').map(|(name, _)| name).filter(|name| is_name(name));
        text.push(named.map_or('&', entity));
        rest = named.map_or(after, |name| &after[name.len() + 1..]);
    }
    text + rest
}

/// What an entity stands for. Tests write most of what is not a letter as its number, also what may be in no XML at all
/// (w3.org/TR/xml, 2.2): a place is kept for that.
fn entity(name: &str) -> char {
    let is_allowed = |c: &char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..);
    let code =
        |digits: &str, radix| u32::from_str_radix(digits, radix).ok().and_then(char::from_u32).filter(is_allowed);
    let known = match name {
        "lt" => Some('<'),
        "gt" => Some('>'),
        "amp" => Some('&'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => match (name.strip_prefix("#x"), name.strip_prefix('#')) {
            (Some(digits), _) => code(digits, 16),
            (_, Some(digits)) => code(digits, 10),
            _ => None,
        },
    };
    known.unwrap_or('\u{fffd}')
}

/// A reader that refuses to go on when a piece or the whole becomes too large.
struct Bounded<R> {
    inner: R,
    piece: Rc<Cell<u64>>,
    total: u64,
}

impl<R: BufRead> Read for Bounded<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(bytes)?;
        self.note(count);
        Ok(count)
    }
}

impl<R: BufRead> BufRead for Bounded<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.piece.get() > PIECE_BYTES_MAX || self.total > REPORT_BYTES_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.inner.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.note(amount);
        self.inner.consume(amount);
    }
}

impl<R> Bounded<R> {
    fn note(&mut self, count: usize) {
        self.total += count as u64;
        self.piece.set(self.piece.get() + count as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(xml: &str) -> (String, Option<String>) {
        let (found, error) = read(xml.as_bytes());
        let mut seen = Vec::new();
        if let Some(counts) = found.counts.first() {
            let passed = counts.passed.unwrap_or(0);
            seen.push(format!("{passed}/{}/{}/{}", counts.failed, counts.errored, counts.skipped));
        }
        for test in found.tests.iter().filter(|test| test.is_bad()) {
            let (path, line) = (test.path.as_deref().unwrap_or("-"), test.line.unwrap_or(0));
            seen.push(format!("{} {path}:{line} {}", test.name, test.message.as_deref().unwrap_or("-")));
        }
        (seen.join("\n"), error.map(|error| error.to_string()))
    }

    #[test]
    fn a_report_is_read() {
        let xml = r#"<?xml version="1.0"?><testsuites><testsuite name="a" tests="4">
<testcase name="ok" classname="a" time="0.5"/>
<testcase name="retry" classname="net"><failure message="thread 'retry' panicked at src/net.rs:88:5" type="t">thread 'retry' panicked at src/net.rs:88:5:
left &amp; right differ
note: run with</failure><system-out><![CDATA[<noise>]]></system-out></testcase>
<testcase name="x" file="t/a.js" line="3"><error>cannot import
more</error></testcase>
<testcase name="y"><skipped/></testcase></testsuite></testsuites>"#;
        let (seen, error) = check(xml);
        assert_eq!(seen, "1/1/1/1\nnet retry src/net.rs:88 left & right differ\nx t/a.js:3 cannot import");
        assert_eq!(error, None);
    }

    #[test]
    fn a_hostile_report_is_refused_with_a_word() {
        let bomb = r#"<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><testsuite/>"#;
        assert_eq!(check(bomb).1.unwrap(), "declares a document type, which is refused");
        let cut = "<testsuite><testcase name='a'><failure message='no'>at src/a.rs:3";
        assert_eq!(check(cut).0, "0/1/0/0\na -:0 no");
        assert_eq!(check("<testsuite><testcase name='b'><failure message='n").0, "");
        let cut = r#"<testsuites><testsuite><testcase name="a"/><testcase na"#;
        let (seen, error) = check(cut);
        assert_eq!(seen, "1/0/0/0");
        assert!(error.unwrap().starts_with("is not well-formed"));
        assert_eq!(check("<testsuite><testcase name='a'/>").1.unwrap(), "is not well-formed: it ends in the middle");
        assert_eq!(check("<html></html>").1.unwrap(), "is no JUnit report");
        assert_eq!(check("").1.unwrap(), "is no JUnit report");
    }

    #[test]
    fn a_total_of_more_failures_than_are_listed_is_said() {
        let notes = |xml: &str| read(xml.as_bytes()).0.notes.into_iter().map(|note| note.text).collect::<Vec<_>>();
        let word = "a total in a JUnit report says 2 failed, and 1 are listed there";
        let bad = "<testcase name='a'><failure/></testcase>";
        for totals in
            ["<testsuites failures='1' errors='1'><testsuite failures='9'>", "<testsuites><testsuite failures='2'>"]
        {
            assert_eq!(notes(&format!("{totals}{bad}</testsuite></testsuites>")), [word], "{totals}");
        }
        let suites = "<testsuites><testsuite errors='1'/><testsuite failures='1'><testsuite failures='1'>";
        assert_eq!(notes(&format!("{suites}{bad}</testsuite></testsuite></testsuites>")), [word]);
        let report = read(format!("{suites}</testsuite></testsuite></testsuites>").as_bytes());
        let file = crate::kept::ReportFile { path: "junit.xml".to_owned(), written_ms: 0, report };
        let kept = crate::kept::decode(&crate::kept::encode(&[file])).unwrap();
        assert_eq!(kept[0].report.0.notes.len(), 1);
        assert!(
            notes(&format!("<testsuites failures='1'><testsuite failures='x'>{bad}</testsuite></testsuites>"))
                .is_empty()
        );
    }

    #[test]
    fn wherever_a_report_is_cut_what_had_failed_is_named_and_nothing_passes_for_whole() {
        let bad = "<failure message=\"a &lt; b\">";
        let xml = format!(
            "<?xml version='1.0'?><testsuites><!-- - --><testsuite name='s'><testcase name='a'/><testcase name='b'>{bad}\
            <![CDATA[x ]]]]><![CDATA[> y]]>&#10;</failure><system-out><![CDATA[<failure/>]]></system-out></testcase>\
            </testsuite></testsuites>"
        );
        let failed_at = xml.find(bad).unwrap() + bad.len();
        for cut in (0..xml.len()).step_by(if cfg!(miri) { 23 } else { 1 }) {
            let (found, error) = read(Slim::new(&xml.as_bytes()[..cut]));
            let failed = found.counts.first().map_or(0, |counts| counts.failed);
            assert_eq!((error.is_some(), failed), (true, u64::from(cut >= failed_at)), "{}", &xml[..cut]);
        }
        assert!(read(Slim::new(xml.as_bytes())).1.is_none());
    }

    #[test]
    fn neither_a_total_nor_a_later_word_hides_what_failed() {
        let case = "<testcase name='a'><failure message='no'/><skipped/></testcase>";
        for totals in ["failures='&nbsp;'", "failures='-1' errors='x'", "name='a' name='b' failures='1'"] {
            let (seen, error) = check(&format!("<testsuite {totals}>{case}</testsuite>"));
            assert_eq!((seen.as_str(), error), ("0/1/0/0\na -:0 no", None), "{totals}");
        }
    }

    #[test]
    fn characters_that_are_written_as_numbers_are_those() {
        let text = "got &#34;&#x9;&#233;&#x1F600;&lt;&#39; not &nosuch;";
        let (seen, error) =
            check(&format!("<testsuite><testcase name='a'><failure>{text}</failure></testcase></testsuite>"));
        assert_eq!((seen.as_str(), error), ("0/1/0/0\na -:0 got \"\té\u{1f600}<' not \u{fffd}", None));
    }

    #[test]
    fn what_no_xml_may_name_leaves_its_place_and_refuses_nothing() {
        for reference in
            ["&#0;", "&#x0;", "&#27;", "&#xD800;", "&#xFFFE;", "&#x110000;", "&#99999999999;", "&#;", "&evil;"]
        {
            let bad =
                format!("<testcase name='a {reference}b'><failure message='m {reference}&lt;'>t</failure></testcase>");
            let (seen, error) = check(&format!("<testsuite>{bad}<testcase name='c'/></testsuite>"));
            assert_eq!((seen.as_str(), error), ("1/1/0/0\na \u{fffd}b -:0 m \u{fffd}<", None), "{reference}");
            let text = format!("<testcase name='a'><failure>t {reference}&gt;</failure></testcase>");
            let (seen, error) = check(&format!("<testsuite>{text}</testsuite>"));
            assert_eq!((seen.as_str(), error), ("0/1/0/0\na -:0 t \u{fffd}>", None), "{reference}");
        }
        let (seen, error) =
            check("<testsuite><testcase name='a & b &amp;c; &' time='1'><failure/></testcase></testsuite>");
        assert_eq!((seen.as_str(), error), ("0/1/0/0\na & b &c; & -:0 -", None));
    }

    #[test]
    fn what_stands_behind_a_huge_comment_or_attribute_is_read() {
        let much = "x&amp;- ".repeat(if cfg!(miri) { 100 } else { 2 << 20 });
        let bad = "<testcase name='late'><failure message='no'/></testcase>";
        let report = format!("<testsuite><!--{much}--><testcase name='a' log='{much}' b=\"{much}\"/>{bad}</testsuite>");
        let (found, error) = read(Slim::new(report.as_bytes()));
        assert!(error.is_none(), "{error:?}");
        assert_eq!((found.counts[0].passed, found.counts[0].failed), (Some(1), 1));
    }

    #[test]
    fn what_failed_is_named_after_however_many_that_did_not() {
        let fine = if cfg!(miri) { 30 } else { 30_000 };
        let many: String = (0..fine).map(|n| format!("<testcase name='fine {n}'/>")).collect::<Vec<_>>().concat();
        let bad = "<testcase name='late'><failure message='no'/></testcase>";
        let (seen, error) = check(&format!("<testsuite>{many}{bad}</testsuite>"));
        assert_eq!((seen, error), (format!("{fine}/1/0/0\nlate -:0 no"), None));
    }

    #[test]
    #[cfg_attr(miri, ignore = "writes more than the most, which takes miri hours")]
    fn a_huge_piece_is_refused_in_little_memory() {
        let huge = io::repeat(b'x').take(PIECE_BYTES_MAX * 8);
        let report = io::BufReader::new(b"<testsuite><system-out>".chain(huge));
        let (_, error) = read(report);
        assert!(matches!(error, Some(ReportError::TooLarge)), "{error:?}");
    }
}
