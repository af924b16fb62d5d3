//! Notices of a task that runs: what a session reads when something was seen.

use std::fs;
use std::path::Path;

use ringback_core::id::TaskId;
use ringback_core::notice::{self, Kind};
use ringback_core::watch::Say;
use ringback_sys::process;

use super::pattern::Hit;
use super::{Daemon, folder, view};
use crate::mask::{self, Mask};
use crate::quantity::duration_text;
use crate::store::{NoticeIn, NoticeRow, Record, Row};
use crate::wire::{ProgressObject, Sighting, Span};

/// How much of the new output stands in a notice of progress, in bytes.
const DELTA_BYTES_MAX: u64 = 1024;

/// How much of the last output stands in a notice of silence: a question that waits for an answer is short.
const SILENT_BYTES_MAX: u64 = 256;

/// Something that was seen and is to be told.
pub(super) enum Seen {
    /// A rule of time says so.
    Due(Say, Option<Hit>),
    /// A line matched.
    Match(Hit),
    /// It is ready.
    Ready {
        /// The line or the port that says so.
        hit: Hit,
        /// How long after its start.
        after_ms: u64,
    },
}

impl Daemon {
    /// Puts down the notices of what was seen of one task, to be recorded with this round.
    pub(super) fn tell_seen(&mut self, id: TaskId, seen: Vec<Seen>) {
        let dir = self.dir(id);
        for one in seen {
            let Some(live) = self.lives.get(&id) else { return };
            let (kind, older) = match &one {
                Seen::Due(Say::Progress { .. }, _) => (Kind::ToolProgress, self.older(&live.row, Kind::ToolProgress)),
                Seen::Due(Say::Stalled { .. }, _) => (Kind::ToolStalled, self.older(&live.row, Kind::ToolStalled)),
                Seen::Due(Say::Folded { .. }, _) => {
                    let older = self.older(&live.row, Kind::ToolMatch);
                    (Kind::ToolMatch, older.filter(|older| older.sighting.count.is_some()))
                }
                Seen::Match(_) => (Kind::ToolMatch, None),
                Seen::Ready { .. } => (Kind::ToolReady, None),
            };
            let far = self.how_far(id);
            let Some(live) = self.lives.get(&id) else { return };
            let (text, sighting) = words(&live.row, &dir, one, older.as_ref(), &mask::line(&far));
            let notice = NoticeIn {
                id,
                session: live.row.session.clone(),
                kind,
                at_ms: process::wall_ms(),
                text,
                sighting,
                replaces: older.map(|older| older.seq),
            };
            let session = notice.session.clone();
            self.round.records.push(Record::Notice(Box::new(notice)));
            self.post(id, &session, kind);
            self.round.sighted(id, kind);
        }
    }

    /// How far a task is, as words after its state; nothing where nobody knows.
    fn how_far(&mut self, id: TaskId) -> String {
        let started_ms = self.record(id).map(|record| record.started_mono_ms);
        let Some(row) = self.lives.get(&id).map(|live| live.row.clone()) else { return String::new() };
        let elapsed_ms = started_ms.map(|at_ms| process::monotonic_ms().saturating_sub(at_ms));
        self.progress(&row, elapsed_ms).map(|progress| format!(" · {}", far(&progress))).unwrap_or_default()
    }

    /// The notice that the next one of its kind makes old, if nobody has heard it.
    fn older(&self, row: &Row, kind: Kind) -> Option<NoticeRow> {
        self.store.unheard_of(row.id, &row.session, kind).ok().flatten()
    }
}

fn words(row: &Row, dir: &Path, seen: Seen, older: Option<&NoticeRow>, far: &str) -> (String, Sighting) {
    let line = |hit: &Hit| format!("\n  | {}", hit.line);
    let of_hit = |hit: Hit| Sighting {
        offset: Some(hit.offset),
        pattern: Some(hit.pattern),
        line: Some(hit.line),
        ..Sighting::default()
    };
    match seen {
        Seen::Due(Say::Progress { from, to, silence_ms }, _) => {
            let from = older.and_then(|older| older.sighting.delta).map_or(from, |delta| delta.from);
            progress(row, dir, Span { from, to }, silence_ms, far)
        }
        Seen::Due(Say::Stalled { at, silence_ms }, _) => stalled(row, dir, at, silence_ms, far),
        Seen::Due(Say::Folded { count }, last) => {
            let hit = last.unwrap_or_default();
            let text = format!("MATCHED {count} more lines, not told one by one; the last of them{}", which(row));
            (text + &line(&hit), Sighting { count: Some(count), ..of_hit(hit) })
        }
        Seen::Match(hit) => {
            let text = format!("MATCHED {:?} at byte {}{}{}", hit.pattern, hit.offset, which(row), line(&hit));
            (text, of_hit(hit))
        }
        Seen::Ready { hit, after_ms } if hit.line.is_empty() => {
            let text = format!("READY {} is open · {}{}", hit.pattern, duration_text(after_ms), which(row));
            (text, Sighting { pattern: Some(hit.pattern), ..Sighting::default() })
        }
        Seen::Ready { hit, after_ms } => {
            let text = format!("READY {:?} · {}{}{}", hit.pattern, duration_text(after_ms), which(row), line(&hit));
            (text, of_hit(hit))
        }
    }
}

fn progress(row: &Row, dir: &Path, delta: Span, silence_ms: u64, far: &str) -> (String, Sighting) {
    let (quoted, left_out) = quote(dir, delta, DELTA_BYTES_MAX);
    let new = match delta.to - delta.from {
        0 => "no new output".to_owned(),
        bytes => format!("{bytes} new bytes, {} in all", delta.to),
    };
    let left = left_out.map(|Span { from, to }| {
        let limit = to - from;
        format!("\nbytes {from}-{} left out: ringback logs {} --offset {from} --limit {limit}", to - 1, row.id)
    });
    let text = format!(
        "STILL RUNNING, not finished{far} · {new} · silent {}{}{}{quoted}",
        duration_text(silence_ms),
        which(row),
        left.unwrap_or_default()
    );
    let sighting = Sighting {
        offset: Some(delta.to),
        delta: Some(delta),
        left_out,
        stderr_bytes: stderr_bytes(row, dir),
        silence_ms: Some(silence_ms),
        ..Sighting::default()
    };
    (text, sighting)
}

fn stalled(row: &Row, dir: &Path, at: u64, silence_ms: u64, far: &str) -> (String, Sighting) {
    let tail = Span { from: at.saturating_sub(SILENT_BYTES_MAX), to: at };
    let (quoted, _) = quote(dir, tail, SILENT_BYTES_MAX);
    let text =
        format!("NO OUTPUT for {}, still running, not finished{far}{}{quoted}", duration_text(silence_ms), which(row));
    let stderr_bytes = stderr_bytes(row, dir);
    (text, Sighting { offset: Some(at), silence_ms: Some(silence_ms), stderr_bytes, ..Sighting::default() })
}

/// Progress in words: an estimate does not read like a report.
fn far(progress: &ProgressObject) -> String {
    let estimate = progress.source == ProgressObject::USUAL_DURATION;
    let about = if estimate { "about " } else { "" };
    let percent = progress.percent.map(|percent| format!("{about}{percent}%"));
    let text = progress.text.as_ref().map(|text| if estimate { format!("({text})") } else { text.clone() });
    percent.into_iter().chain(text).collect::<Vec<_>>().join(" ")
}

/// Which task is meant.
fn which(row: &Row) -> String {
    let name = row.asked.name.as_ref().map(|name| format!(" · {name}")).unwrap_or_default();
    format!("{name} · {} · id {}", view::display(&row.asked.command), row.id)
}

/// The end of these bytes as quoted data, from the beginning of a line on, and what is left out before it.
fn quote(dir: &Path, delta: Span, limit: u64) -> (String, Option<Span>) {
    let mut from = delta.from.max(delta.to.saturating_sub(limit));
    let length = usize::try_from(delta.to - from).unwrap_or(0);
    let mut bytes = folder::read(dir, &Mask::of_folder(dir), from, length);
    let whole_line = bytes.iter().position(|byte| *byte == b'\n').map(|at| at + 1).filter(|at| *at < bytes.len());
    if let Some(at) = whole_line.filter(|_| from > delta.from) {
        bytes.drain(..at);
        from += at as u64;
    }
    let left_out = (from > delta.from).then_some(Span { from: delta.from, to: from });
    // Room for the bar before each line, even if there is nothing but newlines: nothing more is left out here.
    (notice::quote_tail(&bytes, 8 * bytes.len() + 8), left_out)
}

fn stderr_bytes(row: &Row, dir: &Path) -> Option<u64> {
    row.asked.split.then(|| fs::metadata(dir.join(folder::STREAMS[1])).map_or(0, |meta| meta.len()))
}
