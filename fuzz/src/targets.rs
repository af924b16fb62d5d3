//! What is fuzzed: one function for each parser of bytes that are not ours.
//!
//! The fuzzer and the test of the corpora (`crates/ringback/tests/fuzz.rs`) call these very functions.

#[path = "spool.rs"]
mod spool;

use ringback_host::client::output::{Output, Piece};
use ringback_host::mask::Mask;
use ringback_host::quantity;
use ringback_host::wire::{self, Answer, ByteBuf, Call, TaskObject};
use ringback_render::digest::DigestOptions;
use ringback_render::kept::{self, ReportFile};
use ringback_render::lines::LineIndex;
use ringback_render::recognise::{Findings, Recogniser};
use ringback_render::{Digester, Line, Options, Progress, Renderer, Verdict, junit};
use ringback_sys::form::{index, news, receipt, record, request, sizes, spec};

/// A target: its name, which is also that of its corpus, and what it does.
pub(crate) type Target = (&'static str, fn(&[u8]));

/// All of them.
pub(crate) const TARGETS: [Target; 15] = [
    ("terminal", terminal),
    ("digest", digest),
    ("junit", report),
    ("cargo_json", recognise),
    ("libtest", recognise),
    ("go_json", recognise),
    ("other_diagnostics", recognise),
    ("findings", findings),
    ("line_marks", line_marks),
    ("wire_frame", wire_frame),
    ("state_record", state_record),
    ("keeper_files", keeper_files),
    ("output_index", output_index),
    ("spool_request", spool::read),
    ("mask", mask),
];

/// The same bytes in pieces of different sizes, as the first of them say.
fn pieces(data: &[u8]) -> (usize, &[u8]) {
    data.split_first().map_or((1, data), |(first, rest)| (usize::from(*first) + 1, rest))
}

fn is_harmless(text: &str) -> bool {
    !text
        .chars()
        .any(|c| (c.is_control() && c != '\t') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'))
}

/// What a person would have seen is harmless, numbered as the bytes are, and the same however they were cut.
fn terminal(data: &[u8]) {
    let (piece, bytes) = pieces(data);
    let newlines = bytes.split(|byte| *byte == b'\n').count() as u64;
    for columns in [None, Some(20)] {
        let options = Options { columns, rows: 10, line_chars: 100, fold: true, first_line: 1 };
        let render = |piece: usize| {
            let mut lines = Vec::new();
            let mut out =
                |line: Line<'_>| lines.push((line.number, line.last_number, line.repeats, line.text.to_owned()));
            let mut renderer = Renderer::new(&options);
            bytes.chunks(piece).for_each(|piece| renderer.push(piece, &mut out));
            let seen = (renderer.current(), renderer.progress());
            renderer.finish(&mut out);
            (lines, seen)
        };
        let whole = render(bytes.len().max(1));
        assert_eq!(render(piece), whole, "in pieces of {piece}");
        for (number, last, repeats, text) in &whole.0 {
            assert!(is_harmless(text) && *repeats > 0, "{text:?}");
            assert!((1..=newlines).contains(number) && (1..=newlines).contains(last), "{number} of {newlines}");
        }
    }
    Progress::of_text(&String::from_utf8_lossy(bytes));
}

/// A digest is harmless, within its budget, and the same however the bytes were cut.
fn digest(data: &[u8]) {
    let (piece, bytes) = pieces(data);
    for (budget, columns) in [(2048, None), (300, Some(40))] {
        let make = |piece: usize| {
            let options = DigestOptions { budget, columns, rows: 20, ..DigestOptions::default() };
            let mut digester = Digester::new(options);
            bytes.chunks(piece).for_each(|piece| digester.push(piece));
            let verdict =
                Verdict { words: "FAILED", id: "abc", has_ended: true, exit_code: Some(1), ..Verdict::default() };
            let digest = digester.finish(&verdict);
            (digest.text, format!("{:?}", digest.summary))
        };
        let whole = make(bytes.len().max(1));
        assert!(whole.0.len() <= budget && whole.0.lines().all(is_harmless), "{:?}", whole.0);
        assert!(whole.0.starts_with("FAILED"), "{:?}", whole.0);
        assert_eq!(make(piece), whole, "in pieces of {piece}");
    }
}

/// A report is read or refused; what is kept of it reads as it did.
fn report(data: &[u8]) {
    let read = || ReportFile { path: "a.xml".to_owned(), written_ms: 1, report: junit::read(data) };
    let said = |file: ReportFile| {
        let mut found = Findings::default();
        found.add_reports(vec![(file.path, file.report)]);
        serde_json::to_string(&found).unwrap_or_default()
    };
    let mut kept = kept::decode(&kept::encode(&[read()])).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(kept.len(), 1);
    assert_eq!(said(kept.remove(0)), said(read()));
}

/// Lines of tools, as they are recognised in an output.
fn recognise(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for thorough in [false, true] {
        let mut recogniser = Recogniser::new(thorough);
        (1..).zip(text.lines()).for_each(|(number, line)| recogniser.line(number, line));
        let found = recogniser.finish();
        let lines = text.lines().count() as u64;
        assert!(found.diagnostics.iter().all(|said| (1..=lines).contains(&said.output_line)));
        assert!(found.tests.iter().filter_map(|test| test.output_line).all(|line| (1..=lines).contains(&line)));
        assert!(serde_json::to_string(&found).is_ok());
    }
}

/// What was kept of reports, as somebody else may have left it.
fn findings(data: &[u8]) {
    if let Ok(files) = kept::decode(data) {
        assert!(kept::decode(&kept::encode(&files)).is_ok_and(|again| again.len() == files.len()));
    }
}

/// Marks where lines begin.
fn line_marks(data: &[u8]) {
    let index = LineIndex::decode(data);
    assert!(index.before_line(u64::MAX).line <= index.counted().line);
    assert_eq!(LineIndex::decode(&index.encode_from(0)), index);
}

/// What clients and daemon say to each other. The first four bytes are the length.
fn wire_frame(data: &[u8]) {
    let Some((prefix, body)) = data.split_first_chunk() else { return };
    let Ok(length) = wire::frame::body_length(*prefix) else { return };
    let body = &body[..length.min(body.len())];
    let mut out = Vec::new();
    if let Ok(call) = wire::decode::<Call>(body) {
        assert!(wire::encode(&call, &mut out).is_ok());
    }
    if let Ok(answer) = wire::decode::<Answer>(body) {
        assert!(wire::encode(&answer, &mut out).is_ok());
    }
}

/// The record of a keeper.
fn state_record(data: &[u8]) {
    if let Some(record) = record::Record::newest(data) {
        assert_eq!(record::Record::decode(&record.encode()), Some(record));
    }
    // A checksum that is right for whatever follows: else nothing gets past it.
    if let Some(slot) = data.get(..record::SLOT_BYTES) {
        let mut slot = slot.to_vec();
        let sum = ringback_sys::form::crc::crc32c(&slot[4..]);
        slot[..4].copy_from_slice(&sum.to_le_bytes());
        if let Some(record) = record::Record::decode(&slot) {
            assert_eq!(record::Record::decode(&record.encode()), Some(record));
        }
    }
}

/// The other files of a task folder.
fn keeper_files(data: &[u8]) {
    spec::Head::decode(data);
    receipt::Head::decode(data);
    receipt::Entry::decode(data);
    request::Request::decode(data);
    sizes::Entry::decode(data);
    news::task(data);
    let text = String::from_utf8_lossy(data);
    let (_, _) = (quantity::duration(&text), quantity::size(&text));
}

/// An index that does not belong to its output, read for labels, times and ends.
fn output_index(data: &[u8]) {
    let (length, entries) = pieces(data);
    let bytes: Vec<u8> = (0..length).map(|at| if at % 7 == 6 { b'\n' } else { b'x' }).collect();
    let mut task = TaskObject { state: "exited".to_owned(), ..TaskObject::default() };
    task.output.packed.is = true;
    task.output.packed.bytes = Some((Some(ByteBuf::from(bytes.clone())), ByteBuf::from(entries)));
    let gap = entries.first().map_or((0, 0), |first| (u64::from(*first), u64::from(*first) + 5));
    task.output.gaps = vec![(gap.0, gap.1, "io_error".to_owned())];
    let Ok(Some(mut output)) = Output::open(&task) else { panic!("it is there") };
    let end = output.len().unwrap_or_default();
    let (mut plain, mut labelled) = (Vec::new(), Vec::new());
    for (labels, seen) in [(false, &mut plain), (true, &mut labelled)] {
        let mut take = |piece: Piece<'_>| {
            match piece {
                Piece::Bytes { offset, bytes, .. } => seen.extend((offset..).zip(bytes.iter().copied())),
                Piece::Gap(gap) => seen.push((gap.from, 0)),
            }
            Ok(())
        };
        assert!(output.scan(0..end, labels, &mut take).is_ok());
    }
    assert_eq!(plain, labelled);
    for entry in entries.chunks_exact(index::ENTRY_BYTES).filter_map(index::Entry::decode) {
        assert!(output.offset_at(entry.wall_ms).is_ok());
    }
    assert!(output.tail_start(2, end).is_ok_and(|start| start <= end));
}

/// Nothing but stars comes in place of a secret, none for a newline, and whatever the size of a page it shows the same.
fn mask(data: &[u8]) {
    let (page, bytes) = pieces(data);
    let mut hidden = bytes.to_vec();
    Mask::default().hide(&mut hidden);
    assert_eq!(hidden.len(), bytes.len());
    let is_kept = |(now, before): (&u8, &u8)| now == before || (*now == b'*' && !matches!(before, b'\n' | b'\r'));
    assert!(hidden.iter().zip(bytes).all(is_kept));
    let mut task = TaskObject { state: "exited".to_owned(), ..TaskObject::default() };
    task.output.packed.is = true;
    task.output.packed.bytes = Some((Some(ByteBuf::from(bytes)), ByteBuf::new()));
    let Ok(Some(mut output)) = Output::open(&task) else { panic!("it is there") };
    // For each page what is around it is read, too, so that of a long output not all small ones are.
    for page_at in (0..bytes.len()).step_by(page * bytes.len().div_ceil(page * PAGES_MAX).max(1)) {
        let end = bytes.len().min(page_at + page);
        let shown = output.read(page_at as u64..end as u64).unwrap_or_default();
        assert!(shown == hidden[page_at..end], "{page} bytes at {page_at}");
    }
}

/// How many pages of one output are read at most.
const PAGES_MAX: usize = 32;

/// Runs the target of this name.
pub(crate) fn run(name: &str, data: &[u8]) {
    let target = TARGETS.iter().find(|(known, _)| *known == name);
    target.unwrap_or_else(|| panic!("there is no target {name}")).1(data);
}
