//! How far running tasks are: what their commands report, else what the time of earlier runs lets expect.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use mio::Token;
use ringback_core::id::TaskId;
use ringback_core::report::{self, Report};
use ringback_sys::process;

use super::Daemon;
use super::tell::{Say, Tell};
use crate::mask;
use crate::quantity::duration_text;
use crate::store::{Asked, Page, Record, Row, StoredReport};
use crate::wire::{Fault, ProgressObject, Reply};

/// A report is recorded at most this often for one task, milliseconds: a command may report each of a million steps. What
/// a killed daemon has not recorded, the next report says anew.
const SAVE_PAUSE_MS: u64 = 1_000;
/// How many ended tasks a new daemon looks at for the time that commands take.
const ROWS_MAX: u32 = 2_000;
/// How many runs of one command are remembered: the last ones say most.
const RUNS_MAX: usize = 8;
/// Of how many commands; beyond that the one that was met first is forgotten.
const COMMANDS_MAX: usize = 1_000;

/// How long commands took that succeeded, newest run last.
#[derive(Default)]
pub(super) struct Usual {
    is_read: bool,
    runs: BTreeMap<u64, VecDeque<u64>>,
    order: VecDeque<u64>,
}

impl Usual {
    /// A task has ended.
    pub(super) fn ended(&mut self, row: &Row) {
        let facts = row.facts.as_ref();
        let succeeded = facts.filter(|facts| facts.outcome.exit_code() == Some(0));
        let Some(took_ms) = succeeded.and_then(|facts| facts.duration_ms) else { return };
        let command = same(&row.asked);
        if !self.runs.contains_key(&command) {
            self.order.push_back(command);
            if self.order.len() > COMMANDS_MAX
                && let Some(first) = self.order.pop_front()
            {
                self.runs.remove(&first);
            }
        }
        let runs = self.runs.entry(command).or_default();
        runs.push_back(took_ms);
        if runs.len() > RUNS_MAX {
            runs.pop_front();
        }
    }

    /// How long this command usually takes, milliseconds.
    fn of(&self, asked: &Asked) -> Option<u64> {
        let mut runs: Vec<u64> = self.runs.get(&same(asked))?.iter().copied().collect();
        report::median(&mut runs)
    }
}

/// A number for the same command in the same folder.
fn same(asked: &Asked) -> u64 {
    let mut hasher = DefaultHasher::new();
    let words: Vec<&[u8]> = asked.command.words.iter().map(|word| word.as_slice()).collect();
    (words, asked.command.script.as_ref().map(|script| script.as_slice()), asked.cwd.as_slice()).hash(&mut hasher);
    hasher.finish()
}

impl Daemon {
    /// A command says how far it is.
    pub(super) fn ask_report(
        &mut self,
        to: Token,
        text: &str,
        percent: Option<u8>,
        words: Option<&str>,
    ) -> Result<(), Fault> {
        let id = self.resolve(text)?;
        if self.lives.get(&id).is_none_or(|live| live.row.facts.is_some()) {
            return Err(Fault {
                code: "already_ended".into(),
                message: format!("cannot report the progress of {id}: it has ended"),
                hint: Some(format!("`ringback show {id}` says how")),
            });
        }
        self.report(id, Report::new(percent, words.unwrap_or_default()));
        self.round.tells.push(Tell { to, say: Say::Reply(Reply::Done) });
        Ok(())
    }

    /// Takes a report in.
    pub(super) fn report(&mut self, id: TaskId, report: Report) {
        let now_ms = process::monotonic_ms();
        let Some(live) = self.lives.get_mut(&id) else { return };
        let Report { percent, text } = report;
        live.row.watch.report = Some(StoredReport { percent, text });
        if live.reported_ms.is_none_or(|at_ms| now_ms >= at_ms + SAVE_PAUSE_MS) {
            live.reported_ms = Some(now_ms);
            self.round.records.push(Record::Watched { id, watch: live.row.watch.clone() });
        }
        self.changes.note();
    }

    /// How far a running task is, as far as that is known without its output.
    pub(super) fn progress(&mut self, row: &Row, elapsed_ms: Option<u64>) -> Option<ProgressObject> {
        if let Some(StoredReport { percent, text }) = &row.watch.report {
            let source = ProgressObject::REPORTED.to_owned();
            let text = text.as_deref().map(|text| mask::line(text).into_owned());
            return Some(ProgressObject { percent: *percent, text, source, usual_ms: None });
        }
        self.read_usual();
        let (usual_ms, elapsed_ms) = (self.usual.of(&row.asked)?, elapsed_ms?);
        Some(ProgressObject {
            percent: Some(report::percent_of_usual(elapsed_ms, usual_ms)),
            text: Some(format!("usually {}", duration_text(usual_ms))),
            source: ProgressObject::USUAL_DURATION.to_owned(),
            usual_ms: Some(usual_ms),
        })
    }

    /// Earlier runs are read when somebody first asks: most daemons are started for something else.
    fn read_usual(&mut self) {
        if self.usual.is_read {
            return;
        }
        self.usual.is_read = true;
        let page = Page { session: None, ended: true, before: None, limit: ROWS_MAX };
        match self.store.page(page) {
            Ok(rows) => {
                self.usual = Usual { is_read: true, ..Usual::default() };
                rows.iter().rev().for_each(|row| self.usual.ended(row));
            }
            Err(error) => self.troubles.note("read how long commands took", &error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Facts, StoredCommand, StoredOutcome, StoredWatch};

    fn ended(command: &str, code: i32, took_ms: u64) -> Row {
        let command = StoredCommand { words: vec![command.as_bytes().to_vec().into()], ..StoredCommand::default() };
        let outcome = StoredOutcome { state: "exited".into(), code: Some(code), ..StoredOutcome::default() };
        Row {
            seq: 1,
            id: TaskId::from_bits(1),
            session: String::new(),
            lease: String::new(),
            live: false,
            created_ms: 0,
            asked: Asked { command, ..Asked::default() },
            facts: Some(Facts { outcome, duration_ms: Some(took_ms), ..Facts::default() }),
            stop: None,
            watch: StoredWatch::default(),
            disk_bytes: 0,
            packed: false,
        }
    }

    #[test]
    fn the_usual_time_is_that_of_the_last_runs_that_succeeded() {
        let mut usual = Usual::default();
        for (code, took_ms) in [(0, 1), (0, 2), (1, 1_000_000), (0, 30), (0, 40), (0, 50)] {
            usual.ended(&ended("a", code, took_ms));
        }
        assert_eq!(usual.of(&ended("a", 0, 0).asked), Some(30));
        assert_eq!(usual.of(&ended("b", 0, 0).asked), None);
        (0..20).for_each(|_| usual.ended(&ended("a", 0, 7)));
        assert_eq!(usual.of(&ended("a", 0, 0).asked), Some(7));
    }

    #[test]
    fn it_forgets_what_was_met_first() {
        let mut usual = Usual::default();
        (0..2 * COMMANDS_MAX).for_each(|n| usual.ended(&ended(&n.to_string(), 0, 5)));
        assert!(usual.runs.len() <= COMMANDS_MAX && usual.order.len() <= COMMANDS_MAX);
        assert_eq!(usual.of(&ended("0", 0, 0).asked), None);
    }
}
