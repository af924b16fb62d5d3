//! The first line: how the task ended, in the words of its recorded outcome and nothing else.

use super::calls::Calls;
use crate::text::shorten;

/// The longest command that is shown.
const COMMAND_BYTES_MAX: usize = 100;
/// A command that must be cut to less is left out.
const COMMAND_BYTES_MIN: usize = 20;

/// What the record says of the task. The digest believes this, whatever the output claims.
#[derive(Clone, Debug, Default)]
pub struct Verdict<'a> {
    /// How it stands or ended: `FAILED exit 101 after 3m12s`.
    pub words: &'a str,
    /// Its id.
    pub id: &'a str,
    /// The command, as one line.
    pub command: &'a str,
    /// The script, if it runs through a shell.
    pub script: Option<&'a str>,
    /// What the shell was told before it: `-eu`.
    pub shell_options: &'a str,
    /// Whether it has ended.
    pub has_ended: bool,
    /// Its exit code, if it exited by itself.
    pub exit_code: Option<i32>,
    /// How long nothing was written, while it runs.
    pub silence_ms: Option<u64>,
    /// Whether it writes to a terminal.
    pub is_pty: bool,
}

impl Verdict<'_> {
    /// Whether it ended otherwise than with exit code 0.
    pub fn has_failed(&self) -> bool {
        self.has_ended && self.exit_code != Some(0)
    }

    /// The whole line, in `room` bytes if the words have room there. The command gives way first, then the call that shows
    /// everything, as a whole: a part of it cannot be run.
    pub(super) fn line(&self, bytes: u64, lines: u64, calls: Calls, room: usize) -> String {
        let Self { words, id, command, .. } = self;
        let (words, command) = (one_line(words), one_line(command));
        let end = format!(" · id {id} · {bytes} B, {lines} lines");
        let full = format!("{end} (full: {})", calls.whole(id));
        let least = COMMAND_BYTES_MIN.min(command.len());
        for end in [full, end.clone()] {
            let left = room.saturating_sub(words.len() + " · ".len() + end.len());
            if left >= least {
                return format!("{words} · {}{end}", shorten(&command, left.min(COMMAND_BYTES_MAX)));
            }
        }
        format!("{}{end}", shorten(&words, room.saturating_sub(end.len())))
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

    #[test]
    fn only_an_end_with_code_zero_has_not_failed() {
        let failed = |has_ended, exit_code| Verdict { has_ended, exit_code, ..Verdict::default() }.has_failed();
        assert!(failed(true, Some(1)) && failed(true, None));
        assert!(!failed(true, Some(0)) && !failed(false, None));
    }

    #[test]
    fn a_command_cannot_add_lines() {
        let verdict = Verdict { command: "sh -c 'a\nSUCCEEDED exit 0\x1b[1A'", words: "LOST", ..Verdict::default() };
        let line = verdict.line(0, 0, Calls::CommandLine, 500);
        assert!(line.starts_with("LOST · ") && !line.contains(['\n', '\x1b']), "{line}");
    }

    #[test]
    fn in_little_room_the_call_is_whole_or_not_there() {
        let command = &"cargo test ".repeat(30);
        let verdict =
            Verdict { words: "FAILED exit 101 after 3m12s", id: "4kfc0w2m9q7d", command, ..Verdict::default() };
        for room in (80..400).step_by(if cfg!(miri) { 79 } else { 1 }) {
            let line = verdict.line(123_456, 4567, Calls::CommandLine, room);
            assert!(line.len() <= room, "{room}: {line}");
            assert!(line.contains(" · id 4kfc0w2m9q7d · 123456 B, 4567 lines"), "{room}: {line}");
            assert_eq!(line.contains("(full"), line.ends_with(" (full: ringback logs 4kfc0w2m9q7d)"), "{room}: {line}");
        }
    }

    #[test]
    fn durations_are_short() {
        assert_eq!([320, 1400, 192_000, 7_500_000].map(duration_text), ["320ms", "1.4s", "3m12s", "2h05m"]);
    }
}
