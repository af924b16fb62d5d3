//! How far a command says it is: by the terminal sequence OSC 9;4, or by `37%` and `12/40` in the line it redraws.

/// What a command says of its progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Hundredths done; nothing if it only says that it works.
    pub percent: Option<u8>,
    /// Whether it says that it has failed.
    pub is_error: bool,
}

/// What a sequence of progress does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// It takes away what was shown.
    Nothing,
    /// It shows this.
    Progress(Progress),
}

impl Progress {
    /// The meaning of an OSC, if it is one of progress: `9 ; 4 ; state ; percent` (of `ConEmu`, and by now of everybody).
    ///
    /// State 0 takes the progress away, 1 sets it, 2 is an error, 3 is work without a measure, 4 is a pause.
    pub(crate) fn of_osc(params: &[&[u8]]) -> Option<Said> {
        let [b"9", b"4", state, rest @ ..] = params else { return None };
        let percent = rest.first().and_then(|digits| std::str::from_utf8(digits).ok()?.parse::<u8>().ok());
        let percent = percent.map(|percent| percent.min(100));
        match *state {
            b"0" => Some(Said::Nothing),
            b"1" | b"4" => Some(Said::Progress(Self { percent, is_error: false })),
            b"2" => Some(Said::Progress(Self { percent, is_error: true })),
            b"3" => Some(Said::Progress(Self { percent: None, is_error: false })),
            _ => None,
        }
    }

    /// Reads the progress that a redrawn line shows: the last `n%`, else the last `n/N` where it is one.
    pub fn of_text(text: &str) -> Option<Self> {
        let percent = percents(text).last().or_else(|| fractions(text).last())?;
        Some(Self { percent: Some(percent), is_error: false })
    }
}

fn percents(text: &str) -> impl Iterator<Item = u8> {
    text.match_indices('%').filter_map(|(at, _)| {
        let before = text[..at].trim_end_matches(' ');
        let start = before.rfind(|c: char| !c.is_ascii_digit() && c != '.').map_or(0, |at| at + last_len(before, at));
        let whole = before[start..].split('.').next()?;
        whole.parse::<u8>().ok().filter(|percent| *percent <= 100)
    })
}

fn last_len(text: &str, at: usize) -> usize {
    text[at..].chars().next().map_or(1, char::len_utf8)
}

fn fractions(text: &str) -> impl Iterator<Item = u8> {
    text.match_indices('/').filter_map(|(at, _)| {
        let before = text[..at].trim_end_matches(' ');
        let after = text[at + 1..].trim_start_matches(' ');
        let start = before.rfind(|c: char| !c.is_ascii_digit()).map_or(0, |at| at + last_len(before, at));
        let end = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        // Parts of a path, a date or a version are no progress.
        let joined = |c: char| c.is_alphanumeric() || matches!(c, '/' | '.' | '-' | '_');
        if before[..start].ends_with(joined) || after[end..].starts_with('/') {
            return None;
        }
        let (done, all) = (before[start..].parse::<u64>().ok()?, after[..end].parse::<u64>().ok()?);
        // A small total may be a date or a grade; less than nothing is done by nobody.
        (all >= 2 && done <= all).then(|| u8::try_from(done.saturating_mul(100) / all).unwrap_or(100))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_read_from_a_redrawn_line() {
        let read = |text| Progress::of_text(text).and_then(|progress| progress.percent);
        assert_eq!(read("epoch 1/3:  98%|████▏| 197/200 [00:02<00:00, 78.16it/s]"), Some(98));
        assert_eq!(read("    Building [====>   ] 63/69: semver, semver(test)"), Some(91));
        assert_eq!(read(" 45.7 % of 3 files"), Some(45));
        assert_eq!(read("see src/2/3/lib.rs"), None);
        assert_eq!(read("on 12/31/2026"), None);
        assert_eq!(read("7/3 done"), None);
        assert_eq!(read("nothing"), None);
    }

    #[test]
    fn a_sequence_sets_and_takes_away() {
        let set = |percent| Some(Said::Progress(Progress { percent, is_error: false }));
        assert_eq!(Progress::of_osc(&[b"9", b"4", b"1", b"91"]), set(Some(91)));
        assert_eq!(Progress::of_osc(&[b"9", b"4", b"3"]), set(None));
        assert_eq!(Progress::of_osc(&[b"9", b"4", b"0", b"0"]), Some(Said::Nothing));
        assert_eq!(Progress::of_osc(&[b"9", b"hello"]), None);
        assert_eq!(Progress::of_osc(&[b"0", b"title"]), None);
    }
}
