//! Puts the digest together within its budget: verdict, results, errors, hints, then as much of the output as fits.

use super::calls::Calls;
use super::edges::{Edges, Shown};
use super::verdict::Verdict;
use crate::recognise::{Findings, Severity, Test};
use crate::text::{clip, shorten};

/// Most lines of the begin, and of the end, where not all can be shown; fewer where all went well.
const HEAD_LINES_MAX: usize = 5;
const TAIL_LINES_MAX: usize = 30;
const GOOD_HEAD_LINES_MAX: usize = 3;
const GOOD_TAIL_LINES_MAX: usize = 12;
/// Most failed tests and errors.
const FAILED_MAX: usize = 6;
const ERRORS_MAX: usize = 3;
/// Most bytes of one line of ours, of one output line at the begin, and of one at the end.
const OUR_LINE_BYTES: usize = 260;
const HEAD_LINE_BYTES: usize = 160;
const TAIL_LINE_BYTES: usize = 400;
/// A line of the output that must be cut to less is left out.
const LINE_BYTES_MIN: usize = 40;
/// What the line that names left-out lines may take.
const MARK_BYTES: usize = 90;
/// The same without the call that shows them, up to a hundred million lines.
const SHORT_MARK_BYTES: usize = 36;
/// A range of bytes that are missing, without the reason; or how many there are in all.
const SHORT_GAP_BYTES: usize = 42;
/// What the verdict has in any case.
const VERDICT_BYTES: usize = 86;

/// What is known.
pub(super) struct Facts<'a> {
    pub(super) verdict: &'a Verdict<'a>,
    pub(super) bytes: u64,
    pub(super) lines: u64,
    pub(super) found: &'a Findings,
    pub(super) hints: &'a [String],
    pub(super) gaps: &'a [(u64, u64, String)],
    /// How many more there are, and of how many bytes.
    pub(super) more_gaps: (u64, u64),
    pub(super) unseen: Option<(u64, u64)>,
    pub(super) calls: Calls,
}

/// What was made of it.
pub(super) struct Composed {
    pub(super) text: String,
    pub(super) omitted: Option<(u64, u64)>,
    pub(super) tail: Vec<String>,
}

pub(super) fn compose(facts: &Facts<'_>, edges: &Edges, budget: usize) -> Composed {
    let mut page = Page { text: String::new(), limit: budget };
    // However little room there is: that the output is not there is said.
    let mark = if facts.bytes > 0 { SHORT_MARK_BYTES } else { 0 };
    let gap = if facts.gaps.is_empty() { 0 } else { SHORT_GAP_BYTES };
    page.limit = budget.saturating_sub(mark + gap).max(budget.min(VERDICT_BYTES));
    page.add(&facts.verdict.line(facts.bytes, facts.lines, facts.calls, page.line_room()));
    // What was found must not push out the output itself: its end is what people look at first.
    page.limit = budget;
    // Nor may the gaps, but for the first one.
    page.limit = page.text.len() + page.room().min(gap.max(page.room() * 6 / 10));
    gaps(&mut page, facts.gaps, facts.more_gaps);
    let room = budget.saturating_sub(page.text.len());
    page.limit = page.text.len() + (room.saturating_mul(6) / 10).min(room.saturating_sub(mark));
    if let (Some((percent, source)), false) = (edges.progress, facts.verdict.has_ended) {
        page.add(&format!("progress {percent}% ({source})"));
    }
    findings(&mut page, facts);
    page.limit = budget;
    output(page, facts, edges)
}

struct Page {
    text: String,
    limit: usize,
}

impl Page {
    fn room(&self) -> usize {
        self.limit.saturating_sub(self.text.len())
    }

    fn line_room(&self) -> usize {
        self.room().saturating_sub(1).min(2 * OUR_LINE_BYTES)
    }

    /// Adds a line that can be run, or that nobody can make use of a part of: as it is, or not at all.
    fn add_whole(&mut self, line: &str) {
        if line.len() <= self.line_room() {
            self.add(line);
        }
    }

    /// Adds a line, shortened if it must be; not at all if there is no room for something to read.
    fn add(&mut self, line: &str) -> bool {
        let room = self.line_room();
        if room < line.len().min(20) {
            return false;
        }
        self.text.push_str(&shorten(line, room));
        self.text.push('\n');
        true
    }
}

/// Names as many gaps as there is room for, and says of how many bytes the others are.
fn gaps(page: &mut Page, gaps: &[(u64, u64, String)], (mut more, mut bytes): (u64, u64)) {
    let mut is_first = true;
    for (at, (from, to, why)) in gaps.iter().enumerate() {
        let range = format!("missing: bytes {from}–{}", to.saturating_sub(1));
        let whole = format!("{range} of the output were not kept ({why})");
        let is_last = at + 1 == gaps.len() && more == 0;
        let room = page.line_room().saturating_sub(if is_last { 0 } else { SHORT_GAP_BYTES });
        let Some(line) = [&whole, &range].into_iter().find(|line| line.len() <= room) else {
            more += (gaps.len() - at) as u64;
            bytes += gaps[at..].iter().map(|(from, to, _)| to.saturating_sub(*from)).sum::<u64>();
            break;
        };
        page.add(line);
        is_first = false;
    }
    match (more, is_first) {
        (0, _) => {}
        (1, true) => page.add_whole(&format!("missing: {bytes} bytes")),
        (many, true) => page.add_whole(&format!("missing: {bytes} bytes in {many} gaps")),
        (many, false) => page.add_whole(&format!("missing: {many} more, {bytes} bytes")),
    }
}

fn findings(page: &mut Page, facts: &Facts<'_>) {
    let found = facts.found;
    for counts in &found.counts {
        page.add(&format!("tests {counts}"));
    }
    let bad: Vec<&Test> = found.tests.iter().filter(|test| test.is_bad()).collect();
    let mut shown = 0;
    for test in bad.iter().take(FAILED_MAX) {
        if !page.add(&shorten(&failed(test), OUR_LINE_BYTES)) {
            break;
        }
        shown += 1;
    }
    if shown < bad.len() {
        page.add_whole(&format!("  and {} more: ringback results {}", bad.len() - shown, facts.verdict.id));
    }
    errors(page, facts, &bad);
    for note in &found.notes {
        let place = note.output_line.map_or(String::new(), |line| format!(" (L{line})"));
        page.add(&format!("note: {}{place}", note.text));
    }
    if let Some((from, to)) = facts.unseen {
        page.add(&format!("note: errors and tests were not looked for in L{from}–L{to}"));
    }
    for hint in facts.hints {
        page.add_whole(&format!("hint: {hint}"));
    }
}

/// Errors of compilers and crashes, else lines that look like errors. What a failed test already says is not said twice.
fn errors(page: &mut Page, facts: &Facts<'_>, bad: &[&Test]) {
    let found = facts.found;
    let is_said = |message: &str| bad.iter().take(FAILED_MAX).any(|test| test.message.as_deref() == Some(message));
    let all = found.diagnostics.iter().filter(|said| said.severity == Severity::Error && !is_said(&said.message));
    let mut all = all.peekable();
    let has_errors = all.peek().is_some();
    let mut word = "first error";
    for said in all.by_ref().take(ERRORS_MAX) {
        let code = said.code.as_deref().map_or(String::new(), |code| format!("[{code}] "));
        let place = said.place().map_or(String::new(), |place| format!(" --> {place}"));
        let line = format!("{word} L{}: {code}{}", said.output_line, said.message);
        // The place is worth more than the end of the message.
        page.add(&format!("{}{place}", shorten(&line, OUR_LINE_BYTES.saturating_sub(place.len()))));
        word = "then";
    }
    let left = all.count() as u64 + found.diagnostics_left_out;
    if left > 0 {
        page.add_whole(&format!("  and {left} more: ringback diagnostics {}", facts.verdict.id));
    }
    let is_suspicious = facts.verdict.has_failed() || !facts.verdict.has_ended;
    if let (Some(first), true) = (found.suspects.first(), is_suspicious && !has_errors && bad.is_empty()) {
        let line = format!("looks like an error, L{}: {}", first.output_line, first.text);
        page.add(&shorten(&line, OUR_LINE_BYTES));
    }
}

fn failed(test: &Test) -> String {
    let place = test
        .path
        .as_deref()
        .map_or(String::new(), |path| test.line.map_or(format!("  {path}"), |line| format!("  {path}:{line}")));
    let message = test.message.as_deref().map_or(String::new(), |message| format!("  {message}"));
    let line = test.output_line.map_or(String::new(), |line| format!("L{line} "));
    format!("  {line}{}{place}{message}", shorten(&test.name, 120))
}

/// Adds the output: all of it, or its begin and its end with the range between them.
fn output(mut page: Page, facts: &Facts<'_>, edges: &Edges) -> Composed {
    let lines: Vec<&Shown> = edges.head.iter().chain(&edges.tail).collect();
    let cost = |line: &Shown, most: usize| cut_cost(line, most) + 3;
    let whole: usize = lines.iter().map(|line| cost(line, usize::MAX)).sum();
    if edges.is_complete() && whole <= page.room() {
        if lines.is_empty() && facts.bytes > 0 && facts.gaps.is_empty() {
            page.add("note: nothing of the output can be seen: it is control characters");
        }
        for line in &lines {
            add_output(&mut page.text, line, usize::MAX);
        }
        let tail = lines.iter().rev().take(TAIL_LINES_MAX).rev().map(|line| line.text.clone()).collect();
        return Composed { text: page.text, omitted: None, tail };
    }
    let room = page.room().saturating_sub(MARK_BYTES);
    let (head_max, tail_max) = match facts.verdict.exit_code {
        Some(0) => (GOOD_HEAD_LINES_MAX, GOOD_TAIL_LINES_MAX),
        _ => (HEAD_LINES_MAX, TAIL_LINES_MAX),
    };
    // The begin says what it was; the end says how it went, and is worth more.
    let (mut head, mut used) = (0, 0);
    for line in edges.head.iter().take(head_max) {
        if used + cost(line, HEAD_LINE_BYTES) > room / 5 {
            break;
        }
        used += cost(line, HEAD_LINE_BYTES);
        head += 1;
    }
    // Where everything is in the head, its rest is the tail.
    let mut last: Vec<&Shown> = edges.tail.iter().collect();
    let from_head = if edges.is_cut || edges.dropped.is_some() { edges.head.len() } else { head };
    let rest = &edges.head[from_head..];
    last.splice(0..0, rest.iter());
    // The last line comes in any case, and may be cut further for it.
    let most = TAIL_LINE_BYTES.min(room.saturating_sub(used + 3));
    let mut tail = 0;
    for line in last.iter().rev().take(tail_max) {
        if most < LINE_BYTES_MIN || used + cost(line, most) > room {
            break;
        }
        used += cost(line, most);
        tail += 1;
    }
    let shown: Vec<&Shown> = last.split_off(last.len() - tail);
    // Where nothing of what was rendered can be seen, all is left out.
    let all = (head + tail == 0).then_some((1, facts.lines));
    let omitted = omitted(edges, head, &last, &shown).or(all);
    write_output(page, facts, edges, (head, omitted, &shown), most)
}

/// The raw lines of what stands between the first `head` lines and `shown`.
fn omitted(edges: &Edges, head: usize, left: &[&Shown], shown: &[&Shown]) -> Option<(u64, u64)> {
    let from_tail = shown.len().min(edges.tail.len());
    if shown.len() <= edges.tail.len() {
        return edges.between(head, from_tail);
    }
    left.iter().map(|line| (line.number, line.last_number)).reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)))
}

fn write_output(
    mut page: Page,
    facts: &Facts<'_>,
    edges: &Edges,
    (head, omitted, shown): (usize, Option<(u64, u64)>, &[&Shown]),
    most: usize,
) -> Composed {
    for line in &edges.head[..head] {
        add_output(&mut page.text, line, HEAD_LINE_BYTES);
    }
    if let Some((from, to)) = omitted {
        let call = facts.calls.lines(facts.verdict.id, (from, to));
        let mark = format!("[L{from}–L{to} left out: {call}]");
        let short = format!("[L{from}–L{to} left out]");
        page.add_whole(if mark.len() <= page.line_room() { &mark } else { &short });
    }
    let mut tail = Vec::new();
    for line in shown {
        add_output(&mut page.text, line, most);
        tail.push(line.text.clone());
    }
    Composed { text: page.text, omitted, tail }
}

/// Lines of the output stand behind a bar, so that none can be taken for one of ours.
fn add_output(text: &mut String, line: &Shown, most: usize) {
    text.push('|');
    if !line.text.is_empty() {
        text.push(' ');
        text.push_str(&cut(line, most));
    }
    text.push('\n');
}

fn cut_cost(line: &Shown, most: usize) -> usize {
    if line.text.len() <= most { line.text.len() } else { cut(line, most).len() }
}

/// The line in at most this many bytes; what is cut names its number.
fn cut(line: &Shown, most: usize) -> String {
    if line.text.len() <= most {
        return line.text.clone();
    }
    let mark = format!("…[cut: L{}]", line.number);
    format!("{}{mark}", clip(&line.text, most.saturating_sub(mark.len())))
}
