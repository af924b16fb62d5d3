//! The digest: what an agent has to know of an ended (or running) command, in a few hundred words.
//!
//! The verdict comes from the wait status that is handed in, and from nothing else. What tools say in the output adds to it,
//! with its source, and replaces nothing. What is left out is named by its raw lines. The same bytes, facts and budget
//! give the same digest.

mod calls;
mod compose;
mod edges;
mod hints;
mod skip;
mod verdict;

use serde::Serialize;

use crate::junit::Report;
use crate::recognise::{Counts, Diagnostic, Mention, Note, Recogniser, Suspect, Test};
use crate::render::Options;
use crate::scan::{Scanned, Scanner, TAIL_BYTES, Veil};
use edges::Edges;

pub use calls::Calls;
pub use skip::Skipper;
pub use verdict::Verdict;

/// Bytes of a digest, unless something else is asked for.
pub const BUDGET_BYTES: usize = 2048;
/// How much of the begin is rendered where the output is too large to be held.
const HEAD_BYTES: usize = 32 << 10;
/// How much of the end of an endless line is shown.
const ENDLESS_BYTES: usize = 384;
/// Most tests and messages in the structured summary.
const SUMMARY_MAX: usize = 20;
/// Stands for bytes that are missing: what comes after them is shown in a row of its own, and no line is counted.
const CUT: &[u8] = b"\x0b";
/// Most gaps that are named.
const GAPS_MAX: usize = 16;

/// How the digest is made.
#[derive(Clone, Debug)]
pub struct DigestOptions {
    /// Most bytes of its text.
    pub budget: usize,
    /// The width of the terminal that the command wrote to, if it did.
    pub columns: Option<u16>,
    /// Its rows.
    pub rows: u16,
    /// By which door it is read.
    pub calls: Calls,
}

impl Default for DigestOptions {
    fn default() -> Self {
        Self { budget: BUDGET_BYTES, columns: None, rows: Options::ROWS, calls: Calls::CommandLine }
    }
}

/// What was made.
#[derive(Clone, Debug)]
pub struct Digest {
    /// The text, within its budget.
    pub text: String,
    /// The same as data.
    pub summary: Summary,
}

impl Digest {
    /// The text without the line of the verdict, for a reader who has it already.
    pub fn body(&self) -> &str {
        self.text.split_once('\n').map_or("", |(_, body)| body.trim_end_matches('\n'))
    }
}

/// A digest as data.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The words of the verdict: `FAILED exit 101 after 3m12s`.
    pub verdict: String,
    /// Bytes of the output.
    pub bytes: u64,
    /// Raw lines of the output.
    pub lines: u64,
    /// Hundredths done, where a running command says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<u8>,
    /// How many tests, for each source.
    pub tests: Vec<Counts>,
    /// The first tests that failed.
    pub failed: Vec<Test>,
    /// The first errors.
    pub errors: Vec<Diagnostic>,
    /// The first lines that look like errors.
    pub suspects: Vec<Suspect>,
    /// What could not be read, or does not fit together.
    pub notes: Vec<Note>,
    /// What the evidence suggests.
    pub hints: Vec<String>,
    /// Raw lines that the text leaves out, first and last.
    pub omitted_lines: Option<(u64, u64)>,
    /// Raw lines in which no errors were looked for, first and last.
    pub unsearched_lines: Option<(u64, u64)>,
    /// The last lines, rendered, as far as the text has them.
    pub tail: Vec<String>,
}

/// Takes output in pieces of any size, and makes the digest at the end.
pub struct Digester {
    options: DigestOptions,
    scanner: Scanner,
    head: Vec<u8>,
    bytes: u64,
    /// Whether the last byte was not a newline.
    is_in_line: bool,
    gaps: Vec<(u64, u64, String)>,
    /// How many more, and of how many bytes.
    more_gaps: (u64, u64),
}

impl Digester {
    /// Begins before the first byte.
    pub fn new(options: DigestOptions) -> Self {
        let scanner = Scanner::new(Recogniser::new(false), options.columns, options.rows);
        Self { options, scanner, head: Vec::new(), bytes: 0, is_in_line: false, gaps: Vec::new(), more_gaps: (0, 0) }
    }

    /// With what hides secrets in what is shown, for bytes as they were written. What is painted on a terminal has to come
    /// with secrets hidden already.
    #[must_use]
    pub fn veiled(self, veil: Veil) -> Self {
        Self { scanner: self.scanner.veiled(veil), ..self }
    }

    /// Takes the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.is_in_line = bytes.last().map_or(self.is_in_line, |last| *last != b'\n');
        self.take(bytes);
    }

    fn take(&mut self, bytes: &[u8]) {
        let room = (HEAD_BYTES + self.scanner.margin()).saturating_sub(self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..room]);
        self.scanner.push(bytes);
    }

    /// The next bytes are missing.
    pub fn gap(&mut self, from: u64, to: u64, why: &str) {
        if self.gaps.len() < GAPS_MAX {
            self.gaps.push((from, to, why.to_owned()));
        } else {
            self.more_gaps.0 += 1;
            self.more_gaps.1 += to.saturating_sub(from);
        }
        if self.is_in_line {
            self.take(CUT);
        }
        self.bytes += to.saturating_sub(from);
    }

    /// Everything was given, and there are no report files.
    pub fn finish(self, verdict: &Verdict<'_>) -> Digest {
        self.finish_with(verdict, |_| Vec::new())
    }

    /// Everything was given. `reports` reads report files, for which it is given the names that the output mentions.
    pub fn finish_with(
        self,
        verdict: &Verdict<'_>,
        reports: impl FnOnce(&[Mention]) -> Vec<(String, Report)>,
    ) -> Digest {
        let Self { options, scanner, mut head, bytes, gaps, more_gaps, .. } = self;
        scanner.hide(&mut head);
        head.truncate(HEAD_BYTES);
        let scanned = scanner.finish();
        let edges = edges(&options, &scanned, &head);
        let mut found = scanned.recogniser.finish();
        let read = reports(&found.mentions);
        found.add_reports(read);
        found.note_contradictions(verdict.has_failed(), verdict.exit_code);
        let hints = hints::hints(verdict, &edges, bytes, options.calls);
        let facts = compose::Facts {
            verdict,
            bytes,
            lines: scanned.lines,
            found: &found,
            hints: &hints,
            gaps: &gaps,
            more_gaps,
            unseen: scanned.unseen,
            calls: options.calls,
        };
        let composed = compose::compose(&facts, &edges, options.budget);
        Digest {
            text: composed.text,
            summary: Summary {
                verdict: verdict.words.to_owned(),
                bytes,
                lines: scanned.lines,
                progress: edges.progress.filter(|_| !verdict.has_ended).map(|(percent, _)| percent),
                failed: found.tests.iter().filter(|test| test.is_bad()).take(SUMMARY_MAX).cloned().collect(),
                errors: found.diagnostics.iter().take(SUMMARY_MAX).cloned().collect(),
                tests: found.counts,
                suspects: found.suspects,
                notes: found.notes,
                hints,
                omitted_lines: composed.omitted,
                unsearched_lines: scanned.unseen,
                tail: composed.tail,
            },
        }
    }
}

/// The first and the last rendered lines.
fn edges(options: &DigestOptions, scanned: &Scanned, head: &[u8]) -> Edges {
    let render =
        |first_line| Options { columns: options.columns, rows: options.rows, first_line, ..Options::default() };
    let mut edges = Edges::default();
    if scanned.is_whole {
        edges.render(&scanned.tail, &render(1));
        return edges;
    }
    // Only whole lines, but for an endless one.
    let head_end = memchr::memrchr(b'\n', head).map_or(head.len(), |at| at + 1);
    edges.render_head(&head[..head_end], &render(1));
    let from = tail_start(&scanned.tail);
    let skipped = memchr::memchr_iter(b'\n', &scanned.tail[..from]).count() as u64;
    edges.render_tail(&scanned.tail[from..], &render(scanned.tail_line + skipped));
    edges
}

/// Where the last lines begin; in an endless line, where its last characters do.
fn tail_start(tail: &[u8]) -> usize {
    let from = tail.len().saturating_sub(TAIL_BYTES);
    match memchr::memchr(b'\n', &tail[from..]) {
        Some(at) if from + at + 1 < tail.len() => from + at + 1,
        _ => {
            let from = tail.len().saturating_sub(ENDLESS_BYTES);
            let is_inside = |byte: &u8| matches!(byte, 0x80..=0xbf);
            tail[from..].iter().position(|byte| !is_inside(byte)).map_or(from, |at| from + at)
        }
    }
}
