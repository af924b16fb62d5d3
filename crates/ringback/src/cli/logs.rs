//! `ringback logs`: the output of a task, from the file itself.

use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use regex::bytes::Regex;
use ringback_host::client::Client;
use ringback_host::client::output::{Line, LineSink, Lines, Output, Piece, Stream};
use ringback_host::wire::{Reply, Request, TaskObject};
use ringback_render::digest::{BUDGET_BYTES, Calls};
use serde_json::{Value, json};

use super::asciicast;
use super::door::{self, Door};
use super::follow::{self, OnInterrupt};
use super::printer::{Choice, Printer};
use super::rendered::{Printed, Selection};
use super::value::{self, LineRange, Tail};
use crate::explain::{Done, EXIT_INTERRUPTED, Failure};
use crate::output::{self, Marks};
use crate::render::json::document;

/// How many lines -f begins with.
const FOLLOW_LINES: u64 = 50;
/// How much output one JSON document carries where nobody says.
const JSON_BYTES: u64 = 1 << 20;
/// How much is scanned before we look whether enough was printed.
const STRIDE_BYTES: u64 = 1 << 20;
/// A digest is of the whole output.
const DIGEST_ALONE: [&str; 11] =
    ["follow", "tail", "lines", "offset", "limit", "stdout", "stderr", "since", "grep", "raw", "rendered"];
/// In less no verdict has room, and without it a digest misleads.
const BUDGET_BYTES_MIN: u64 = 128;
/// In more there is room for the whole output, which a digest is not.
const BUDGET_BYTES_MAX: u64 = 16 << 20;
/// How many rendered lines one JSON document carries.
const JSON_LINES: usize = 5000;
/// How many line starts are remembered for -n with a filter.
const TAIL_LINES_MAX: u64 = 1 << 20;

#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
/// Print the output of a task
///
/// On a terminal and with --rendered: what a person would have seen, without colours and redraws, equal lines in a row as
/// one. Into a pipe: bytes as they were written, but for what looks like a secret, of which each byte is a star; only with
/// --raw it is there. Bytes that were not kept are marked with their exact range; with --raw the mark goes to stderr. Lines are counted in the raw output, whatever is printed of them, and keep their
/// numbers while the task runs.
#[derive(Debug, Args)]
pub(crate) struct Logs {
    /// Id or unique prefix
    id: String,
    /// Go on until the task ends, from its last 50 lines on; what is painted anew is printed anew
    #[arg(short, long)]
    follow: bool,
    /// Print the last N lines, or `all`
    #[arg(short = 'n', long, value_name = "N", value_parser = value::tail)]
    tail: Option<Tail>,
    /// Print lines A to B, counted from 1
    #[arg(long, value_name = "A:B", value_parser = value::line_range, conflicts_with_all = ["tail", "follow"])]
    lines: Option<LineRange>,
    /// Begin at this byte
    #[arg(long, value_name = "N", conflicts_with_all = ["tail", "lines", "since"])]
    offset: Option<u64>,
    /// Print at most this many bytes of the output
    #[arg(long, value_name = "N", conflicts_with_all = ["tail", "follow"])]
    limit: Option<u64>,
    /// Print what the task wrote to stdout (for a task run with --split)
    #[arg(long, conflicts_with = "stderr")]
    stdout: bool,
    /// Print what the task wrote to stderr (for a task run with --split)
    #[arg(long)]
    stderr: bool,
    /// Print what came in the last DURATION
    #[arg(long, value_name = "DURATION", value_parser = value::duration)]
    since: Option<Duration>,
    /// Print nothing of what came in the last DURATION
    #[arg(long, value_name = "DURATION", value_parser = value::duration,
        conflicts_with_all = ["tail", "lines", "limit", "follow", "digest", "screen", "asciicast"])]
    until: Option<Duration>,
    /// Print the lines that match
    #[arg(long, value_name = "REGEX", value_parser = ringback_host::pattern::of_line)]
    grep: Option<Regex>,
    /// Print N lines before and after each match too
    #[arg(short = 'C', long, value_name = "N", requires = "grep", conflicts_with_all = ["raw", "follow"])]
    context: Option<usize>,
    /// Print the number of the raw line before each rendered line
    #[arg(long, conflicts_with_all = ["raw", "follow", "timestamps", "stdout", "stderr"])]
    numbers: bool,
    /// Print what a person would have seen
    #[arg(long, conflicts_with = "raw")]
    rendered: bool,
    /// Print what matters in a few hundred words: verdict, tests, first errors, begin and end
    #[arg(long, conflicts_with_all = DIGEST_ALONE)]
    digest: bool,
    /// Print a digest of at most this many bytes
    #[arg(long, value_name = "N", requires = "digest", default_value_t = BUDGET_BYTES as u64,
        hide_default_value = true, value_parser = clap::value_parser!(u64).range(BUDGET_BYTES_MIN..=BUDGET_BYTES_MAX))]
    budget: u64,
    /// Print the screen of its terminal as it is now
    #[arg(long, conflicts_with_all = DIGEST_ALONE)]
    screen: bool,
    /// Print a recording for asciinema and its players (asciicast v3)
    #[arg(long, conflicts_with_all = DIGEST_ALONE)]
    asciicast: bool,
    /// Print the time before each line
    #[arg(long)]
    timestamps: bool,
    /// Print nothing but the bytes of the output
    #[arg(long, conflicts_with = "timestamps")]
    raw: bool,
    /// Exit with the code of the task (with -f)
    #[arg(long, requires = "follow")]
    exit_code: bool,
}

impl Logs {
    /// Prints it.
    pub(crate) fn perform(self, door: Door) -> Done {
        let mut client = door::client(None)?;
        let Reply::Task { task, .. } = client.call(Request::Show { id: self.id.clone() })? else {
            return Err(door::unexpected());
        };
        if self.digest {
            return self.print_digest(door, &task);
        }
        if self.screen {
            return print_screen(door, &task);
        }
        if self.asciicast {
            asciicast::write(&task, Output::open(&task)?.as_mut(), &mut BufWriter::new(door::stdout()))?;
            return Ok(0);
        }
        let choice = Choice { rendered: self.is_rendered(door), ..self.choice(&task)? };
        let mut output = if self.raw { Output::open_raw(&task)? } else { Output::open(&task)? };
        if self.follow {
            let from = output.as_mut().map_or(Ok(0), |output| self.start(output, &choice, output.len()?))?;
            let choice = Choice { events: door.json.then(|| task.id.clone()), ..choice };
            let mut out = BufWriter::new(door::stdout());
            let mut printer = Printer::new(choice, &mut out);
            let interrupt = follow::catch_interrupt()?;
            let leave = OnInterrupt::Leave(&interrupt);
            let ended = follow::stream(door, client, &task, from, &mut printer, &leave, None)?;
            return Ok(ended.map_or(EXIT_INTERRUPTED, |ended| self.exit_code(&ended)));
        }
        match output {
            None if door.json => door::document(&report(&task, &Part::default()))?,
            None => door.note("no output yet"),
            Some(ref mut output) if self.until.is_some() => {
                // A document is no longer for that.
                let most = if door.json && !self.is_rendered(door) { JSON_BYTES } else { u64::MAX };
                let limit = self.limit(output)?.map(|limit| limit.min(most));
                return Self { limit, until: None, ..self }.perform(door);
            }
            Some(mut output) if self.is_rendered(door) && !self.timestamps => {
                self.print_rendered(door, &task, &mut output, choice)?;
            }
            Some(mut output) if door.json => door::document(&self.json(&task, &mut output, choice)?)?,
            Some(mut output) => {
                let mut out = BufWriter::new(door::stdout());
                let printed = self.print(&task, &mut output, choice, &mut out, u64::MAX)?;
                if !task.has_ended() {
                    warn_of_new_gaps(door, &mut client, &task, printed)?;
                }
            }
        }
        Ok(0)
    }

    /// Whether what a person would have seen is printed: on a terminal anything else could do things to it.
    fn is_rendered(&self, door: Door) -> bool {
        let is_asked = self.rendered || self.numbers || self.context.is_some();
        is_asked || (!self.raw && !door.json && io::stdout().is_terminal())
    }

    fn print_digest(&self, door: Door, task: &TaskObject) -> Done {
        let digest = output::digest(task, usize::try_from(self.budget).unwrap_or(usize::MAX), Calls::CommandLine)?;
        if door.json {
            let summary = serde_json::to_value(&digest.summary).unwrap_or_default();
            door::document(&document(json!({
                "id": task.id, "state": task.state, "exit_code": task.exit_code, "text": digest.text, "summary": summary,
            })))?;
        } else {
            door::out(&digest.text)?;
        }
        Ok(0)
    }

    fn print_rendered(&self, door: Door, task: &TaskObject, output: &mut Output, choice: Choice) -> io::Result<()> {
        let tail = match self.tail {
            Some(Tail::Lines(count)) => Some(count.min(TAIL_LINES_MAX)),
            _ => None,
        };
        let from = self.begin(output)?;
        let Choice { only, grep, lines, .. } = choice;
        // A document has the number of each line.
        let (context, numbers) = (self.context.unwrap_or(0), self.numbers || door.json);
        let selection = Selection { only, grep, context, lines, tail, from, limit: self.limit, numbers };
        if !door.json {
            return selection.print(task, output, &mut BufWriter::new(door::stdout()));
        }
        let (mut list, mut next_line) = (Vec::new(), None);
        selection.each(task, output, &mut |line| {
            if list.len() < JSON_LINES {
                let Printed { number, last_number, repeats, text, is_match } = line;
                list.push(json!({
                    "line": number, "last_line": last_number, "repeats": repeats, "text": text, "match": is_match,
                }));
            } else if next_line.is_none() {
                next_line = Some(line.number);
            }
            Ok(())
        })?;
        let page = json!({ "id": task.id, "state": task.state, "lines": list, "next_line": next_line });
        writeln!(door::stdout(), "{}", document(page))
    }

    fn exit_code(&self, ended: &TaskObject) -> u8 {
        if self.exit_code { crate::render::task::exit_code(ended) } else { 0 }
    }

    fn choice(&self, task: &TaskObject) -> Result<Choice, Failure> {
        let only = match (self.stdout, self.stderr) {
            (true, _) => Some(Stream::Stdout),
            (_, true) => Some(Stream::Stderr),
            _ => None,
        };
        if only.is_some() && task.stdout_path.is_none() {
            let message = format!("stdout and stderr of {} were not told apart", task.id);
            return Err(Failure::new(
                "not_split",
                message,
                Some("start it with --split to tell them apart".to_owned()),
            ));
        }
        let (grep, lines, timestamps, raw) = (self.grep.clone(), self.lines, self.timestamps, self.raw);
        Ok(Choice { only, grep, lines, timestamps, raw, masked: !raw, ..Choice::default() })
    }

    /// The byte from which on there is something to choose from.
    fn begin(&self, output: &mut Output) -> io::Result<u64> {
        match (self.offset, self.since) {
            (Some(offset), _) => Ok(offset),
            (None, Some(age)) => output::offset_ago(output, age),
            (None, None) => Ok(0),
        }
    }

    /// How many bytes are printed at most.
    fn limit(&self, output: &mut Output) -> io::Result<Option<u64>> {
        let Some(age) = self.until else { return Ok(self.limit) };
        Ok(Some(output::offset_ago(output, age)?.saturating_sub(self.begin(output)?)))
    }

    /// Where printing begins.
    fn start(&self, output: &mut Output, choice: &Choice, end: u64) -> io::Result<u64> {
        let since = self.begin(output)?;
        if self.offset.is_some() {
            return Ok(since);
        }
        let tail = match self.tail.unwrap_or(if self.follow { Tail::Lines(FOLLOW_LINES) } else { Tail::All }) {
            Tail::All => 0,
            Tail::Lines(count) if choice.only.is_none() && choice.grep.is_none() => output.tail_start(count, end)?,
            Tail::Lines(count) => filtered_tail(output, choice, since..end, count)?,
        };
        Ok(since.max(tail))
    }

    /// Prints the chosen part, and stops soon after `budget` bytes were printed; says where it began and stopped.
    fn print(
        &self,
        task: &TaskObject,
        output: &mut Output,
        choice: Choice,
        out: &mut dyn Write,
        budget: u64,
    ) -> io::Result<(u64, u64)> {
        let length = output.len()?;
        let (from, line) = match (choice.lines, choice.only) {
            // What is before the first line is not read, if a mark is there.
            (Some(range), None) if self.since.is_none() => {
                let first = Marks::open(task, output)?.offset_of(output, range.from)?;
                (first.unwrap_or(length), range.from)
            }
            _ => (self.start(output, &choice, length)?.min(length), 1),
        };
        let end = from.saturating_add(self.limit.unwrap_or(u64::MAX)).min(length);
        let (labels, by_line) = (choice.needs_index(), choice.by_line());
        let (mut printer, mut at) = (Printer::starting_at(line, choice, out), from);
        while at < end && !printer.is_done() && printer.written() < budget {
            let stride = if by_line { STRIDE_BYTES } else { STRIDE_BYTES.min(budget - printer.written()) };
            at = match output.scan(at..end.min(at + stride), labels, &mut |piece| printer.piece(piece))? {
                same if same == at => break,
                next => next,
            };
        }
        // A line that we stopped in the middle of is left for the next reading.
        let stopped = if by_line && (at < end || printer.is_done()) { printer.seen() } else { at };
        if stopped == at {
            printer.finish()?;
        }
        printer.flush()?;
        Ok((from, stopped))
    }

    fn json(&self, task: &TaskObject, output: &mut Output, choice: Choice) -> Result<Value, Failure> {
        let mut bytes = Vec::new();
        let budget = self.limit.unwrap_or(JSON_BYTES);
        let choice = Choice { raw: true, ..choice };
        let gaps: Vec<_> = output.gaps().iter().map(|gap| json!([gap.from, gap.to, gap.why])).collect();
        let (from, stopped) = self.print(task, output, choice, &mut bytes, budget)?;
        Ok(report(task, &Part { from, stopped, total: output.len()?, bytes, gaps }))
    }
}

/// What a person would see at its terminal now.
fn print_screen(door: Door, task: &TaskObject) -> Done {
    let Some(size) = task.pty else {
        let hint = format!("`ringback logs --rendered {}` shows what it has written", task.id);
        return Err(Failure::new("no_terminal", format!("{} has no terminal", task.id), Some(hint)));
    };
    let picture = match Output::open(task)? {
        Some(mut output) => {
            let end = output.len()?;
            output::picture(task, &mut output, end)?
        }
        None => ringback_render::Picture::default(),
    };
    if door.json {
        let cursor = json!({ "row": picture.row, "column": picture.column });
        door::document(&document(json!({
            "id": task.id, "state": task.state, "columns": size.columns, "rows": size.rows, "screen": picture.rows,
            "cursor": cursor, "is_alternate": picture.is_alternate,
        })))?;
    } else {
        door::out_lines(picture.rows.into_iter())?;
    }
    Ok(0)
}

/// A capped output may have lost bytes while it was read; what was printed of them may be zeros, and that is said.
fn warn_of_new_gaps(door: Door, client: &mut Client, task: &TaskObject, printed: (u64, u64)) -> Result<(), Failure> {
    let Reply::Task { task: now, .. } = client.call(Request::Show { id: task.id.clone() })? else {
        return Err(door::unexpected());
    };
    for (from, to) in new_gaps(task, &now, printed) {
        let to = to - 1;
        let message =
            format!("bytes {from}-{to} were given up while they were read, and may have been printed as zeros");
        door.warn(&message, "`ringback logs` again marks them; --max-output keeps more");
    }
    Ok(())
}

/// The gaps of `now` that `before` does not have, as far as they were printed.
fn new_gaps(before: &TaskObject, now: &TaskObject, printed: (u64, u64)) -> Vec<(u64, u64)> {
    let known =
        |at: u64| before.output.gaps.iter().find(|(from, to, _)| *from <= at && at < *to).map_or(at, |gap| gap.1);
    let part = |(from, to, _): &(u64, u64, String)| (known(*from).max(printed.0), (*to).min(printed.1));
    now.output.gaps.iter().map(part).filter(|(from, to)| from < to).collect()
}

/// A part of an output.
#[derive(Default)]
struct Part {
    from: u64,
    stopped: u64,
    total: u64,
    bytes: Vec<u8>,
    gaps: Vec<Value>,
}

/// The document of `logs --json`. Text that is not UTF-8 is also given exactly, in base64.
fn report(task: &TaskObject, part: &Part) -> Value {
    let Part { from, stopped, total, bytes, gaps } = part;
    let exact = std::str::from_utf8(bytes).is_ok();
    let mut all = json!({
        "id": task.id, "state": task.state, "offset": from, "next_offset": stopped, "total_bytes": total,
        "text": String::from_utf8_lossy(bytes), "text_exact": exact, "gaps": gaps,
        "complete": task.output.complete && stopped >= total,
    });
    if !exact {
        all["base64"] = STANDARD.encode(bytes).into();
    }
    document(all)
}

/// Where the last `count` lines that match begin; at most [`TAIL_LINES_MAX`] are remembered.
fn filtered_tail(output: &mut Output, choice: &Choice, range: std::ops::Range<u64>, count: u64) -> io::Result<u64> {
    struct Starts<'a> {
        grep: Option<&'a Regex>,
        last: std::collections::VecDeque<u64>,
        count: usize,
    }
    impl LineSink for Starts<'_> {
        fn line(&mut self, line: Line<'_>) -> io::Result<()> {
            let text = line.bytes.strip_suffix(b"\n").unwrap_or(line.bytes);
            if self.grep.is_none_or(|grep| grep.is_match(text)) {
                if self.last.len() == self.count {
                    self.last.pop_front();
                }
                self.last.push_back(line.offset);
            }
            Ok(())
        }
        fn gap(&mut self, _gap: &ringback_host::client::output::Gap) -> io::Result<()> {
            Ok(())
        }
    }
    let end = range.end;
    if count == 0 {
        return Ok(end);
    }
    let count = usize::try_from(count.min(TAIL_LINES_MAX)).unwrap_or(usize::MAX);
    let mut starts = Starts { grep: choice.grep.as_ref(), last: std::collections::VecDeque::new(), count };
    let mut lines = Lines::new(choice.only);
    output.scan(range, choice.only.is_some(), &mut |piece: Piece<'_>| lines.push(piece, &mut starts))?;
    lines.flush(&mut starts)?;
    Ok(starts.last.front().copied().unwrap_or(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_went_while_they_were_read_are_known() {
        let with = |gaps: &[(u64, u64)]| {
            let mut task = TaskObject::default();
            task.output.gaps = gaps.iter().map(|(from, to)| (*from, *to, "output_limit".to_owned())).collect();
            task
        };
        assert_eq!(new_gaps(&with(&[(10, 20)]), &with(&[(10, 30)]), (0, 100)), [(20, 30)]);
        assert_eq!(new_gaps(&with(&[(10, 20)]), &with(&[(10, 20)]), (0, 100)), []);
        assert_eq!(new_gaps(&with(&[]), &with(&[(10, 30)]), (15, 25)), [(15, 25)]);
    }

    #[test]
    fn a_report_says_where_to_read_on() {
        let task = TaskObject { id: "k3".to_owned(), ..TaskObject::default() };
        let value = report(&task, &Part { from: 4, stopped: 6, total: 10, bytes: b"a\xff".to_vec(), gaps: Vec::new() });
        assert_eq!(
            (&value["offset"], &value["next_offset"], &value["complete"]),
            (&4.into(), &6.into(), &false.into())
        );
        assert_eq!((&value["text_exact"], &value["base64"]), (&false.into(), &"Yf8=".into()));
    }
}
