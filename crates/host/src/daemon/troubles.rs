//! What went wrong and is nobody's answer: a few lines in memory for `daemon status`, and a log that does not grow for ever.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use ringback_sys::{files, process};

use super::view;

/// How many troubles are remembered: enough to see a pattern, not a log.
const RECENT_MAX: usize = 32;
/// How long one trouble that goes on is not told again, milliseconds: some of them come back with each try of something.
const QUIET_MS: u64 = 10_000;
/// How many troubles are known to have been told; of more at once the oldest is told again.
const TOLD_MAX: usize = 256;
/// How long the log may get before it starts anew, bytes. The one before is kept.
const LOG_BYTES_MAX: u64 = 1 << 20;

/// The troubles of one daemon.
pub(super) struct Troubles {
    path: PathBuf,
    log: File,
    length: u64,
    /// What was told last, and when, by the monotonic clock.
    told: VecDeque<(u64, String)>,
    /// The last few.
    pub recent: Vec<String>,
}

impl Troubles {
    /// Opens the log at `path` and writes that a daemon begins.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let log = files::append(path)?;
        let length = log.metadata()?.len();
        let mut troubles = Self { path: path.to_owned(), log, length, told: VecDeque::new(), recent: Vec::new() };
        troubles.write(&format!("{} serves as {}", view::time(process::wall_ms()), std::process::id()));
        Ok(troubles)
    }

    /// Notes that something could not be done; one and the same thing not too often.
    pub(super) fn note(&mut self, act: &str, error: &dyn std::fmt::Display) {
        let words = format!("cannot {act}: {error}");
        let now_ms = process::monotonic_ms();
        self.told.retain(|(at_ms, _)| at_ms + QUIET_MS > now_ms);
        if self.told.iter().any(|(_, told)| *told == words) {
            return;
        }
        let line = format!("{} {words}", view::time(process::wall_ms()));
        if self.told.len() == TOLD_MAX {
            self.told.pop_front();
        }
        self.told.push_back((now_ms, words));
        self.write(&line);
        if self.recent.len() == RECENT_MAX {
            self.recent.remove(0);
        }
        self.recent.push(line);
    }

    /// A log that cannot be written is no reason to stop serving.
    fn write(&mut self, line: &str) {
        if self.length > LOG_BYTES_MAX && fs::rename(&self.path, self.path.with_extension("log.old")).is_ok() {
            if let Ok(log) = files::append(&self.path) {
                self.log = log;
            }
            self.length = 0;
        }
        let line = format!("{line}\n");
        if self.log.write_all(line.as_bytes()).is_ok() {
            self.length += line.len() as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_is_long_begins_anew_while_it_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("daemon.log");
        let mut troubles = Troubles::open(&path).unwrap();
        let long = "x".repeat(100_000);
        for number in 0..30 {
            troubles.note(&format!("do {number}"), &long);
        }
        let length = |path: &Path| fs::metadata(path).unwrap().len();
        assert!(length(&path) <= LOG_BYTES_MAX + 101_000 && length(&dir.path().join("daemon.log.old")) > LOG_BYTES_MAX);
        assert!(fs::read_to_string(&path).unwrap().contains("cannot do 29: xxx"));
        assert_eq!(troubles.recent.len(), 30);
    }

    #[test]
    fn a_trouble_that_goes_on_is_told_once_for_a_while() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("daemon.log");
        let mut troubles = Troubles::open(&path).unwrap();
        for _ in 0..100 {
            troubles.note("write", &"no space");
            troubles.note("write", &"no room");
            troubles.note("read", &"no space");
        }
        assert_eq!(troubles.recent.len(), 3);
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 4);
        // Told a while ago, it is told again.
        troubles.told.iter_mut().for_each(|(at_ms, _)| *at_ms = at_ms.saturating_sub(QUIET_MS));
        troubles.note("write", &"no space");
        assert_eq!((troubles.recent.len(), troubles.told.len()), (4, 1));
    }
}
