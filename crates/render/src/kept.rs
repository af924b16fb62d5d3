//! What report files said, in a bounded form that is kept with a task: the files go, or the next run writes over them.

use serde::{Deserialize, Serialize};

use crate::junit::{Report, ReportError, SOURCE};
use crate::recognise::{Counts, Findings, Status, Test};
use crate::text::shorten;

/// Most bytes that are kept of one task. Of what is beyond only the number is kept, and failed tests are the last to go.
pub const KEPT_BYTES_MAX: usize = 4 << 20;
/// The number of this form. A reader refuses a later one, which may mean something else.
const FORM: u32 = 1;
/// The longest path of a file that is kept.
const PATH_BYTES_MAX: usize = 512;
/// What one test takes beside its texts, about: the names of its fields, and escapes.
const TEST_BYTES: usize = 128;
/// What one report takes beside its tests, about.
const REPORT_BYTES: usize = 512;

/// One report file, as it was read.
#[derive(Debug)]
pub struct ReportFile {
    /// Its path, below the folder of the task if it is there.
    pub path: String,
    /// When it was last written, milliseconds after 1970.
    pub written_ms: i64,
    /// What it said.
    pub report: Report,
}

#[derive(Serialize, Deserialize)]
struct Form {
    form: u32,
    reports: Vec<KeptReport>,
}

#[derive(Serialize, Deserialize)]
struct KeptReport {
    path: String,
    written_ms: i64,
    /// Why it was not read to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    passed: Option<u64>,
    failed: u64,
    errored: u64,
    skipped: u64,
    tests: Vec<KeptTest>,
    tests_left_out: u64,
    /// What else was said of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct KeptTest {
    name: String,
    status: Status,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    /// Whether there is room for it.
    #[serde(skip)]
    is_kept: bool,
}

/// The bytes to keep, at most about [`KEPT_BYTES_MAX`].
pub fn encode(files: &[ReportFile]) -> Vec<u8> {
    let room = KEPT_BYTES_MAX.saturating_sub(files.len() * REPORT_BYTES);
    let mut reports: Vec<KeptReport> = files.iter().map(KeptReport::of).collect();
    let mut used = 0;
    for wants_bad in [true, false] {
        let tests = reports.iter_mut().flat_map(|report| &mut report.tests);
        for test in tests.filter(|test| test.is_bad() == wants_bad) {
            used += test.bytes();
            test.is_kept = used <= room;
        }
    }
    for report in &mut reports {
        let before = report.tests.len();
        report.tests.retain(|test| test.is_kept);
        report.tests_left_out += (before - report.tests.len()) as u64;
    }
    // Numbers and texts can always be written.
    serde_json::to_vec(&Form { form: FORM, reports }).unwrap_or_default()
}

/// What was kept, or why it cannot be read.
pub fn decode(bytes: &[u8]) -> Result<Vec<ReportFile>, String> {
    #[derive(Deserialize)]
    struct Head {
        form: u32,
    }
    let head: Head = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if head.form != FORM {
        return Err(format!("it has the form {}, and {FORM} is known", head.form));
    }
    let form: Form = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    Ok(form.reports.into_iter().map(KeptReport::file).collect())
}

impl KeptReport {
    fn of(file: &ReportFile) -> Self {
        let (found, error) = &file.report;
        let counts = found.counts.first().cloned().unwrap_or_default();
        Self {
            path: shorten(&file.path, PATH_BYTES_MAX),
            written_ms: file.written_ms,
            error: error.as_ref().map(|error| shorten(&error.to_string(), PATH_BYTES_MAX)),
            passed: counts.passed,
            failed: counts.failed,
            errored: counts.errored,
            skipped: counts.skipped,
            tests: found.tests.iter().map(KeptTest::of).collect(),
            tests_left_out: found.tests_left_out,
            notes: found.notes.iter().map(|note| shorten(&note.text, PATH_BYTES_MAX)).collect(),
        }
    }

    fn file(self) -> ReportFile {
        let Self { passed, failed, errored, skipped, .. } = self;
        let mut found = Findings::default();
        let counts = Counts { source: SOURCE, passed, failed, errored, skipped, is_partial: self.error.is_some() };
        if counts.passed.is_some() || counts.bad() + counts.skipped > 0 {
            found.counts.push(counts);
        }
        for test in self.tests {
            found.test(test.test());
        }
        found.tests_left_out += self.tests_left_out;
        self.notes.iter().for_each(|text| found.note(None, text));
        let error = self.error.map(ReportError::Said);
        ReportFile { path: self.path, written_ms: self.written_ms, report: (found, error) }
    }
}

impl KeptTest {
    fn of(test: &Test) -> Self {
        Self {
            name: test.name.clone(),
            status: test.status,
            duration_ms: test.duration_ms,
            message: test.message.clone(),
            path: test.path.as_deref().map(|path| shorten(path, PATH_BYTES_MAX)),
            line: test.line,
            is_kept: false,
        }
    }

    fn is_bad(&self) -> bool {
        matches!(self.status, Status::Failed | Status::Errored)
    }

    fn bytes(&self) -> usize {
        let texts = [Some(&self.name), self.message.as_ref(), self.path.as_ref()];
        TEST_BYTES + texts.into_iter().flatten().map(|text| written_bytes(text)).sum::<usize>()
    }

    fn test(self) -> Test {
        let mut test = Test::new(SOURCE, None, &self.name, self.status);
        (test.duration_ms, test.message, test.path, test.line) = (self.duration_ms, self.message, self.path, self.line);
        test
    }
}

/// How many bytes a text takes in JSON.
fn written_bytes(text: &str) -> usize {
    let of = |byte: u8| match byte {
        b'"' | b'\\' => 2,
        0..0x20 => 6,
        _ => 1,
    };
    text.bytes().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::junit;

    fn file(path: &str, xml: &str) -> ReportFile {
        ReportFile { path: path.to_owned(), written_ms: 7, report: junit::read(xml.as_bytes()) }
    }

    /// What a reader sees: everything that the report says, as text.
    fn seen(files: Vec<ReportFile>) -> String {
        let mut found = Findings::default();
        let written: Vec<i64> = files.iter().map(|file| file.written_ms).collect();
        found.add_reports(files.into_iter().map(|file| (file.path, file.report)).collect());
        format!("{written:?} {}", serde_json::to_string(&found).unwrap())
    }

    fn suite(tests: usize) -> String {
        let case = |n: usize| match n % 100 {
            99 => format!("<testcase name='t{n}' file='a.rs' line='{n}'><failure message='no {n}'/></testcase>"),
            _ => format!("<testcase name='t{n}' classname='a' time='0.5'/>"),
        };
        format!("<testsuite>{}</testsuite>", (0..tests).map(case).collect::<String>())
    }

    #[test]
    fn what_was_kept_reads_as_the_files_did() {
        let all = || {
            let cut = "<testsuite><testcase name='x'><error>cannot\nmore</error></testcase><testcase na";
            vec![
                file("a.xml", &suite(if cfg!(miri) { 100 } else { 300 })),
                file("b.xml", cut),
                file("c.xml", "<html/>"),
                file("d.xml", "<testsuite/>"),
            ]
        };
        let bytes = encode(&all());
        assert_eq!(seen(decode(&bytes).unwrap()), seen(all()));
    }

    #[test]
    #[cfg_attr(miri, ignore = "writes more than the most, which takes miri hours")]
    fn of_too_many_tests_those_that_failed_are_kept() {
        let long = "n".repeat(500);
        let case = |n: usize| match n % 100 {
            99 => format!("<testcase name='{n}{long}'><failure message='{long}'/></testcase>"),
            _ => format!("<testcase name='{n}{long}'/>"),
        };
        let xml = format!("<testsuite>{}</testsuite>", (0..15_000).map(case).collect::<String>());
        let bytes = encode(&[file("a.xml", &xml)]);
        assert!(bytes.len() <= KEPT_BYTES_MAX, "{}", bytes.len());
        let (found, error) = decode(&bytes).unwrap().remove(0).report;
        assert_eq!(found.tests.iter().filter(|test| test.is_bad()).count(), 150);
        assert_eq!(found.tests.len() as u64 + found.tests_left_out, 15_000);
        assert_eq!((found.counts[0].failed, found.counts[0].passed, error.is_none()), (150, Some(14_850), true));
    }

    #[test]
    fn what_is_no_form_of_ours_is_refused_with_a_word() {
        assert_eq!(decode(br#"{"form":2,"reports":"later"}"#).err().unwrap(), "it has the form 2, and 1 is known");
        for bytes in [&b""[..], b"{}", b"{\"form\":1}", b"\xff"] {
            assert!(decode(bytes).is_err());
        }
    }
}
