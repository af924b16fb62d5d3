//! Lines of JSON: cargo's messages, `go test -json`, libtest's and nextest's events, ruff's and eslint's.

use std::borrow::Cow;

use serde::Deserialize;

use super::{Diagnostic, Open, Recogniser, Severity, Status, Test, go};
use crate::text::Place;

/// Of how many running tests of Go the first words are kept.
const SAID_MAX: usize = 256;

pub(super) fn line(to: &mut Recogniser, number: u64, text: &str) -> bool {
    let begins = |begin: &str| text.starts_with(begin);
    let (name, is_read) = if begins("{\"reason\":\"") {
        ("cargo JSON", cargo(to, number, text))
    } else if begins("{\"Time\":\"") || begins("{\"Action\":\"") || begins("{\"ImportPath\":\"") {
        ("go test -json", go_test(to, number, text))
    } else if begins("{ \"type\": \"") || begins("{\"type\":\"test\"") || begins("{\"type\":\"suite\"") {
        ("libtest JSON", libtest(to, number, text))
    } else if begins("{\"cell\":") {
        ("ruff JSON", ruff(to, number, text))
    } else if begins("[{\"cell\":") {
        ("ruff JSON", ruff_all(to, number, text))
    } else if begins("[{\"filePath\":") {
        ("eslint JSON", eslint(to, number, text))
    } else {
        return ruff_begins(to, number, text);
    };
    if is_read.is_none() {
        to.found.note(Some(number), &format!("not all {name} could be read"));
    }
    true
}

#[derive(Deserialize)]
struct CargoLine<'a> {
    #[serde(borrow)]
    reason: Cow<'a, str>,
    #[serde(borrow)]
    message: Option<CargoMessage<'a>>,
}

#[derive(Deserialize)]
struct CargoMessage<'a> {
    #[serde(borrow)]
    level: Cow<'a, str>,
    #[serde(borrow)]
    message: Cow<'a, str>,
    code: Option<CargoCode>,
    #[serde(default)]
    spans: Vec<CargoSpan>,
}

#[derive(Deserialize)]
struct CargoCode {
    code: String,
}

#[derive(Deserialize)]
struct CargoSpan {
    file_name: String,
    line_start: u32,
    column_start: u32,
    is_primary: bool,
}

fn cargo(to: &mut Recogniser, number: u64, text: &str) -> Option<()> {
    // Most lines are of artifacts: a short look spares reading them.
    if !text.starts_with("{\"reason\":\"compiler-message\"") {
        return Some(());
    }
    let line: CargoLine<'_> = serde_json::from_str(text).ok()?;
    let message = line.message.filter(|_| line.reason == "compiler-message")?;
    let severity = match &*message.level {
        "error" | "error: internal compiler error" => Severity::Error,
        "warning" if to.is_thorough => Severity::Warning,
        _ => return Some(()),
    };
    if message.spans.is_empty()
        && (message.message.starts_with("aborting due to") || message.message.contains(" emitted"))
    {
        return Some(());
    }
    let place = message.spans.into_iter().find(|span| span.is_primary).map(|span| Place {
        path: span.file_name,
        line: Some(span.line_start),
        column: Some(span.column_start),
    });
    let diagnostic = Diagnostic::new("cargo JSON", number, severity, &message.message).at(place);
    to.found.diagnostic(Diagnostic { code: message.code.map(|code| code.code), ..diagnostic });
    Some(())
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct GoLine<'a> {
    #[serde(borrow)]
    action: Cow<'a, str>,
    #[serde(borrow, default)]
    package: Cow<'a, str>,
    #[serde(borrow)]
    test: Option<Cow<'a, str>>,
    #[serde(borrow)]
    output: Option<Cow<'a, str>>,
    elapsed: Option<f64>,
}

fn go_test(to: &mut Recogniser, number: u64, text: &str) -> Option<()> {
    let line: GoLine<'_> = serde_json::from_str(text).ok()?;
    let status = match &*line.action {
        "pass" => Status::Passed,
        "fail" => Status::Failed,
        "skip" => Status::Skipped,
        "output" | "build-output" => {
            go_output(to, number, &line);
            return Some(());
        }
        _ => return Some(()),
    };
    let Some(case) = line.test else {
        if status == Status::Failed {
            to.found.suspect(number, &format!("FAIL {}", line.package));
        }
        return Some(());
    };
    let name = format!("{} {case}", line.package);
    let mut case = Test::new("go test -json", Some(number), &name, status);
    case.duration_ms = line.elapsed.and_then(milliseconds);
    if let (Some((message, place)), Status::Failed) = (to.go_said.remove(&name), status) {
        case.explain(&message, Some(&place));
    }
    to.found.test(case);
    Some(())
}

fn milliseconds(seconds: f64) -> Option<u64> {
    let time = std::time::Duration::try_from_secs_f64(seconds).ok()?;
    u64::try_from(time.as_millis()).ok()
}

/// What a test prints may be why it fails; what a package prints is read like any line.
fn go_output(to: &mut Recogniser, number: u64, line: &GoLine<'_>) {
    let text = line.output.as_deref().unwrap_or_default().trim_end();
    let Some(case) = &line.test else {
        go::line(to, number, text);
        return;
    };
    if let Some((place, message)) = go::place_and_message(text.trim_start()) {
        let name = format!("{} {case}", line.package);
        // Whether it failed is said later.
        if to.go_said.len() < SAID_MAX {
            to.go_said.entry(name).or_insert_with(|| (message.to_owned(), place));
        }
    }
}

#[derive(Deserialize)]
struct LibtestLine<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    event: Option<Cow<'a, str>>,
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    stdout: Option<Cow<'a, str>>,
    exec_time: Option<f64>,
    passed: Option<u64>,
    failed: Option<u64>,
    ignored: Option<u64>,
}

fn libtest(to: &mut Recogniser, number: u64, text: &str) -> Option<()> {
    const SOURCE: &str = "libtest JSON";
    let line: LibtestLine<'_> = serde_json::from_str(text).ok()?;
    let event = line.event.as_deref().unwrap_or_default();
    if line.kind == "suite" {
        let (Some(passed), Some(failed)) = (line.passed, line.failed) else { return Some(()) };
        let counts = to.found.counts_of(SOURCE);
        *counts.passed.get_or_insert(0) += passed;
        counts.failed += failed;
        counts.skipped += line.ignored.unwrap_or(0);
        return Some(());
    }
    let status = match (&*line.kind, event) {
        ("test", "ok") => Status::Passed,
        ("test", "failed" | "timeout") => Status::Failed,
        ("test", "ignored") => Status::Skipped,
        _ => return Some(()),
    };
    if !to.is_thorough && status != Status::Failed {
        return Some(());
    }
    let mut case = Test::new(SOURCE, Some(number), line.name.as_deref()?, status);
    case.duration_ms = line.exec_time.and_then(milliseconds);
    let mut inner = Recogniser::new(false);
    for text in line.stdout.as_deref().unwrap_or_default().lines().take(1000) {
        inner.line(number, text);
    }
    if let Some(said) = inner.finish().diagnostics.first() {
        case.explain(&said.message, said.place().as_ref());
    }
    to.found.test(case);
    Some(())
}

#[derive(Deserialize)]
struct RuffLine {
    code: Option<String>,
    filename: String,
    message: String,
    location: RuffLocation,
}

#[derive(Deserialize)]
struct RuffLocation {
    row: u32,
    column: u32,
}

fn ruff(to: &mut Recogniser, number: u64, text: &str) -> Option<()> {
    let line: RuffLine = serde_json::from_str(text).ok()?;
    ruff_said(to, number, line);
    Some(())
}

fn ruff_all(to: &mut Recogniser, number: u64, text: &str) -> Option<()> {
    let all: Vec<RuffLine> = serde_json::from_str(text).ok()?;
    for line in all {
        ruff_said(to, number, line);
    }
    Some(())
}

fn ruff_said(to: &mut Recogniser, number: u64, line: RuffLine) {
    let place = Place { path: line.filename, line: Some(line.location.row), column: Some(line.location.column) };
    let diagnostic = Diagnostic::new("ruff JSON", number, Severity::Error, &line.message).at(Some(place));
    to.found.diagnostic(Diagnostic { code: line.code, ..diagnostic });
}

/// What is known of a message of ruff that is written over many lines, a field on each, by the order of their names.
#[derive(Debug)]
pub(super) struct RuffFields {
    number: u64,
    /// How far its own fields are indented; those of a fix within it are further.
    indent: usize,
    code: Option<String>,
    place: Place,
    is_in_place: bool,
}

/// `    "cell": null,`: the first field of a message of `ruff check --output-format=json`.
fn ruff_begins(to: &mut Recogniser, number: u64, text: &str) -> bool {
    let rest = text.trim_start();
    let is_it = rest.starts_with("\"cell\": ");
    if is_it {
        let (indent, place) = (text.len() - rest.len(), Place::default());
        to.begin(Open::Ruff(RuffFields { number, indent, code: None, place, is_in_place: false }));
    }
    is_it
}

pub(super) fn ruff_field(to: &mut Recogniser, mut fields: RuffFields, text: &str) -> (Open, bool) {
    let rest = text.trim_start();
    let indent = text.len() - rest.len();
    if indent < fields.indent {
        return (Open::Nothing, false);
    }
    let (name, value) = rest.split_once(": ").unwrap_or((rest, ""));
    let value = value.trim_end_matches(',');
    let string = || serde_json::from_str::<String>(value).ok();
    if indent > fields.indent {
        match name {
            "\"row\"" if fields.is_in_place => fields.place.line = value.parse().ok(),
            "\"column\"" if fields.is_in_place => fields.place.column = value.parse().ok(),
            _ => {}
        }
        return (Open::Ruff(fields), true);
    }
    fields.is_in_place = name == "\"location\"";
    match name {
        "\"code\"" => fields.code = string(),
        "\"filename\"" => fields.place.path = string().unwrap_or_default(),
        "\"message\"" => {
            let message = string().unwrap_or_default();
            let diagnostic = Diagnostic::new("ruff JSON", fields.number, Severity::Error, &message);
            let place = Some(fields.place).filter(|place| !place.path.is_empty());
            to.found.diagnostic(Diagnostic { code: fields.code, ..diagnostic.at(place) });
            return (Open::Nothing, true);
        }
        _ => {}
    }
    (Open::Ruff(fields), true)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EslintFile {
    file_path: String,
    messages: Vec<EslintMessage>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EslintMessage {
    rule_id: Option<String>,
    severity: u8,
    message: String,
    line: Option<u32>,
    column: Option<u32>,
}

fn eslint(to: &mut Recogniser, number: u64, text: &str) -> Option<()> {
    let files: Vec<EslintFile> = serde_json::from_str(text).ok()?;
    for file in files {
        for EslintMessage { rule_id, severity, message, line, column } in file.messages {
            let severity = if severity >= 2 { Severity::Error } else { Severity::Warning };
            if to.is_thorough || severity == Severity::Error {
                let place = Place { path: file.file_path.clone(), line, column };
                let diagnostic = Diagnostic::new("eslint JSON", number, severity, &message).at(Some(place));
                to.found.diagnostic(Diagnostic { code: rule_id, ..diagnostic });
            }
        }
    }
    Some(())
}
