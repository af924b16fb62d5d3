//! The first line: how the task ended, from its recorded outcome and nothing else.

use std::fmt::Write as _;

use crate::text::shorten;

/// The longest command that is shown.
const COMMAND_BYTES_MAX: usize = 100;

/// What the record says of the task. The digest believes this, whatever the output claims.
#[derive(Clone, Debug, Default)]
pub struct Verdict<'a> {
    /// Its id.
    pub id: &'a str,
    /// The command, as one line.
    pub command: &'a str,
    /// The script, if it runs through a shell.
    pub script: Option<&'a str>,
    /// `queued`, `running`, `exited`, `signaled`, `timed_out`, `killed`, `start_failed` or `lost`.
    pub state: &'a str,
    /// Why it is in this state.
    pub reason: Option<&'a str>,
    /// Who ended it.
    pub by: Option<&'a str>,
    /// Its exit code, for `exited`.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<&'a str>,
    /// From start to end, or to now.
    pub duration_ms: Option<u64>,
    /// How long nothing was written, while it runs.
    pub silence_ms: Option<u64>,
    /// Whether it writes to a terminal.
    pub is_pty: bool,
}

impl Verdict<'_> {
    /// The verdict in a few words: `FAILED exit 101`.
    pub fn words(&self) -> String {
        let reason = self.reason.map_or(String::new(), |reason| format!(" ({reason})"));
        let signal = self.signal.map_or(String::new(), |signal| format!(" {signal}"));
        match (self.state, self.exit_code) {
            ("exited", Some(0)) => "OK exit 0".to_owned(),
            ("exited", Some(code)) => format!("FAILED exit {code}"),
            ("signaled", _) => format!("FAILED{signal}{reason}"),
            ("timed_out", _) => format!("TIMED OUT{reason}{signal}"),
            ("killed", _) => {
                let by = self.by.map_or(String::new(), |by| format!(" by {}", shorten(by, 60)));
                format!("KILLED{reason}{by}{signal}")
            }
            ("start_failed", _) => format!("NOT STARTED{reason}"),
            ("lost", _) => format!("LOST, outcome unknown{reason}"),
            ("running", _) => "RUNNING".to_owned(),
            ("queued", _) => "QUEUED".to_owned(),
            (state, _) => state.to_uppercase(),
        }
    }

    /// Whether it ended otherwise than with exit code 0.
    pub fn has_failed(&self) -> bool {
        !matches!(self.state, "queued" | "running") && self.exit_code != Some(0)
    }

    /// Whether it still runs.
    pub fn is_running(&self) -> bool {
        self.state == "running"
    }

    /// The whole line.
    pub(super) fn line(&self, bytes: u64, lines: u64) -> String {
        let mut line = self.words();
        // A String never refuses to grow.
        if let Some(duration) = self.duration_ms {
            let _ = write!(line, " · {}", duration_text(duration));
        }
        let command = one_line(self.command);
        let _ = write!(line, " · {} · id {}", shorten(&command, COMMAND_BYTES_MAX), self.id);
        let _ = write!(line, " · {bytes} B, {lines} lines (full: ringback logs {})", self.id);
        line
    }
}

/// Text of others on a line of ours: nothing in it can begin another line or paint.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if crate::character::width(c).is_some() { c } else { ' ' }).collect()
}

/// `320ms`, `1.4s`, `3m12s`, `2h05m`.
pub(super) fn duration_text(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0 => format!("{ms}ms"),
        1..60 => format!("{seconds}.{}s", ms % 1000 / 100),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(state: &str, exit_code: Option<i32>, signal: Option<&str>, reason: Option<&str>) -> String {
        Verdict { state, exit_code, signal, reason, by: Some("alice"), ..Verdict::default() }.words()
    }

    #[test]
    fn only_exit_zero_is_ok() {
        assert_eq!(words("exited", Some(0), None, None), "OK exit 0");
        assert_eq!(words("exited", Some(101), None, None), "FAILED exit 101");
        assert_eq!(words("signaled", None, Some("SIGSEGV"), None), "FAILED SIGSEGV");
        assert_eq!(words("timed_out", None, Some("SIGTERM"), Some("wall")), "TIMED OUT (wall) SIGTERM");
        assert_eq!(words("killed", None, Some("SIGKILL"), Some("request")), "KILLED (request) by alice SIGKILL");
        assert_eq!(words("start_failed", None, None, Some("not_found")), "NOT STARTED (not_found)");
        assert_eq!(words("lost", None, None, Some("reboot")), "LOST, outcome unknown (reboot)");
        assert_eq!(words("exited", None, None, None), "EXITED");
    }

    #[test]
    fn a_command_cannot_add_lines() {
        let verdict = Verdict { command: "sh -c 'a\nOK exit 0\x1b[1A'", state: "lost", ..Verdict::default() };
        let line = verdict.line(0, 0);
        assert!(!line.contains(['\n', '\x1b']), "{line}");
    }

    #[test]
    fn durations_are_short() {
        assert_eq!([320, 1400, 192_000, 7_500_000].map(duration_text), ["320ms", "1.4s", "3m12s", "2h05m"]);
    }
}
