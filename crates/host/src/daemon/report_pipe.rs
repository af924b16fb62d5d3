//! Reports that a command writes to its descriptor: read as they come, bounded, the last line counts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsRawFd as _;

use mio::unix::SourceFd;
use mio::{Interest, Token};
use ringback_core::id::TaskId;
use ringback_core::report::Report;
use ringback_sys::{files, process};

use super::folder::REPORTS;
use super::{Daemon, Source};

/// How much is read at once, bytes: all that a pipe holds.
const PIPE_BYTES: usize = 64 << 10;
/// The longest line that is waited for, bytes.
const LINE_BYTES_MAX: usize = 4096;
/// A pipe is read at most this often, milliseconds: whoever writes without a pause is told that it is full (`EAGAIN`).
const READ_PAUSE_MS: u64 = 100;

/// The pipes that running tasks write reports to.
#[derive(Default)]
pub(super) struct ReportPipes {
    all: BTreeMap<TaskId, Pipe>,
    by_time: BTreeSet<(u64, TaskId)>,
}

struct Pipe {
    file: File,
    token: Token,
    /// A line that has no end yet.
    rest: Vec<u8>,
    read_ms: u64,
}

impl ReportPipes {
    /// When the next one has to be read.
    pub(super) fn next_due(&self) -> Option<u64> {
        self.by_time.first().map(|(due_ms, _)| *due_ms)
    }

    /// One has something to read.
    pub(super) fn came(&mut self, id: TaskId) {
        if let Some(pipe) = self.all.get(&id) {
            self.by_time.insert((process::monotonic_ms().max(pipe.read_ms + READ_PAUSE_MS), id));
        }
    }
}

impl Daemon {
    /// Begins to read the reports of a task that runs, if it has a pipe for them.
    pub(super) fn begin_reports(&mut self, id: TaskId) {
        let asked = self.lives.get(&id).is_some_and(|live| live.row.asked.progress_fd && live.row.facts.is_none());
        if !asked || self.reports.all.contains_key(&id) || !self.has_room() {
            return;
        }
        // Without it the task runs on, and its reports are not seen.
        let Ok(file) = files::open_fifo_idle(&self.dir(id).join(REPORTS)) else { return };
        let token = self.token(Source::Reports(id));
        if let Err(error) = self.poll.registry().register(&mut SourceFd(&file.as_raw_fd()), token, Interest::READABLE) {
            self.troubles.note(&format!("watch the reports of {id}"), &error);
        }
        self.witnesses += 1;
        self.reports.all.insert(id, Pipe { file, token, rest: Vec::new(), read_ms: 0 });
        self.reports.came(id);
    }

    /// Reads those whose time has come.
    pub(super) fn reports_due(&mut self, now_ms: u64) {
        while let Some((at_ms, id)) = self.reports.by_time.first().copied() {
            if at_ms > now_ms {
                return;
            }
            self.reports.by_time.pop_first();
            let Some(pipe) = self.reports.all.get_mut(&id) else { continue };
            pipe.read_ms = now_ms;
            let report = pipe.read();
            // Says it again if there is more.
            let fd = pipe.file.as_raw_fd();
            let again = self.poll.registry().reregister(&mut SourceFd(&fd), pipe.token, Interest::READABLE);
            if let Err(error) = again {
                self.troubles.note(&format!("watch the reports of {id}"), &error);
            }
            if let Some(report) = report {
                self.report(id, report);
            }
        }
    }

    /// A task reports no more.
    pub(super) fn end_reports(&mut self, id: TaskId) {
        let Some(pipe) = self.reports.all.remove(&id) else { return };
        self.witnesses -= 1;
        self.sources.remove(&pipe.token);
        let _ = self.poll.registry().deregister(&mut SourceFd(&pipe.file.as_raw_fd()));
        self.reports.by_time.retain(|(_, other)| *other != id);
    }
}

impl Pipe {
    /// Reads what is there; the last whole line counts.
    fn read(&mut self) -> Option<Report> {
        let mut bytes = vec![0; PIPE_BYTES];
        let count = match self.file.read(&mut bytes) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            // What cannot be read now is no report.
            Err(_) => 0,
        };
        self.take(&bytes[..count])
    }

    fn take(&mut self, bytes: &[u8]) -> Option<Report> {
        self.rest.extend_from_slice(bytes);
        let end = self.rest.iter().rposition(|byte| *byte == b'\n');
        let report = end.and_then(|end| {
            let lines = self.rest[..end].split(|byte| *byte == b'\n').rev();
            lines.map(String::from_utf8_lossy).find_map(|line| Report::parse(&line))
        });
        self.rest.drain(..end.map_or(0, |end| end + 1));
        if self.rest.len() > LINE_BYTES_MAX {
            self.rest.clear();
        }
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_whole_line_counts_and_nothing_grows() {
        let file = File::open("/dev/null").unwrap();
        let mut pipe = Pipe { file, token: Token(1), rest: Vec::new(), read_ms: 0 };
        let mut take = |bytes: &[u8]| pipe.take(bytes).map(|report| (report.percent, report.text));
        assert_eq!(take(b"1\n2 two\n3"), Some((Some(2), Some("two".into()))));
        assert_eq!(take(b"7%"), None);
        assert_eq!(take(b" x\n\n"), Some((Some(37), Some("x".into()))), "an empty line says nothing");
        assert_eq!(take(&vec![b'x'; 1 << 20]), None);
        assert_eq!(take(b"\xff 5\n"), Some((None, Some("\u{fffd} 5".into()))));
        assert!(pipe.rest.is_empty());
    }
}
