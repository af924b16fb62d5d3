//! What a command reports of its progress: one line, `37 epoch 2`, `37%`, `12/40 tests` or words alone.

use alloc::string::{String, ToString};

use crate::character::is_hostile;

/// The longest text of a report, bytes: it stands in one row of a list.
pub const TEXT_BYTES_MAX: usize = 160;

/// How far a command says that it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Hundredths done, 0 to 100.
    pub percent: Option<u8>,
    /// In its own words: one line, short, without control characters.
    pub text: Option<String>,
}

impl Report {
    /// A report with this text cleaned and shortened.
    pub fn new(percent: Option<u8>, text: &str) -> Self {
        Self { percent: percent.map(|percent| percent.min(100)), text: clean(text) }
    }

    /// Reads a line; nothing if there is nothing in it.
    pub fn parse(line: &str) -> Option<Self> {
        let line = line.trim();
        let (first, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let report = match measure(first) {
            Some(percent) => Self::new(Some(percent), rest),
            None => Self::new(None, line),
        };
        (report != Self::default()).then_some(report)
    }
}

/// Reads `37`, `37.5`, `37%` or `12/40`; a count beyond its total, or of nothing, is no measure.
pub fn measure(word: &str) -> Option<u8> {
    if let Some((done, all)) = word.split_once('/') {
        let (done, all) = (done.parse::<u64>().ok()?, all.parse::<u64>().ok()?);
        let percent = done.checked_mul(100).map_or_else(|| done / (all / 100).max(1), |times| times / all.max(1));
        return (all > 0 && done <= all).then(|| u8::try_from(percent).unwrap_or(100));
    }
    let number = word.strip_suffix('%').unwrap_or(word);
    let whole = match number.split_once('.') {
        Some((whole, part)) if part.bytes().all(|byte| byte.is_ascii_digit()) => whole,
        Some(_) => return None,
        None => number,
    };
    let digits = !whole.is_empty() && whole.bytes().all(|byte| byte.is_ascii_digit());
    whole.parse::<u8>().ok().filter(|percent| digits && *percent <= 100)
}

fn clean(text: &str) -> Option<String> {
    let line = text.trim().lines().next().unwrap_or_default();
    let shown: String = line.chars().map(|c| if c == '\t' { ' ' } else { c }).filter(|c| !is_hostile(*c)).collect();
    let mut end = shown.len().min(TEXT_BYTES_MAX);
    while !shown.is_char_boundary(end) {
        end -= 1;
    }
    let text = shown.get(..end).unwrap_or_default().trim();
    (!text.is_empty()).then(|| text.to_string())
}

/// The median of durations, milliseconds; nothing of none.
pub fn median(durations: &mut [u64]) -> Option<u64> {
    durations.sort_unstable();
    durations.get(durations.len() / 2).copied()
}

/// How much of its usual time has passed, in hundredths. One that takes longer than usual is not done for that.
pub fn percent_of_usual(elapsed_ms: u64, usual_ms: u64) -> u8 {
    let percent = elapsed_ms.saturating_mul(100) / usual_ms.max(1);
    u8::try_from(percent.min(99)).unwrap_or(99)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str) -> Option<(Option<u8>, Option<String>)> {
        Report::parse(line).map(|report| (report.percent, report.text))
    }

    #[test]
    fn a_line_is_a_measure_words_or_both() {
        let text = |text: &str| Some(text.to_string());
        assert_eq!(check("37 epoch 2\n"), Some((Some(37), text("epoch 2"))));
        assert_eq!(check(" 12/40\ttests"), Some((Some(30), text("tests"))));
        assert_eq!(check("99.9%"), Some((Some(99), None)));
        assert_eq!(check("linking"), Some((None, text("linking"))));
        assert_eq!(check("101 dalmatians"), Some((None, text("101 dalmatians"))));
        assert_eq!(check("7/3 x"), Some((None, text("7/3 x"))));
        assert_eq!((check(""), check(" \n"), check("\u{1b}")), (None, None, None));
        assert_eq!(check("0/0"), Some((None, text("0/0"))));
        assert_eq!(measure("18446744073709551615/18446744073709551615"), Some(100));
        assert_eq!(
            (measure("+5"), measure("-5"), measure("1.x"), measure("%"), measure(".5")),
            (None, None, None, None, None)
        );
    }

    #[test]
    fn a_text_is_one_short_harmless_line() {
        let report = Report::new(Some(200), "\u{1b}[31mred\u{202e}\nsecond");
        assert_eq!((report.percent, report.text.as_deref()), (Some(100), Some("[31mred")));
        let long = Report::new(None, &"ü".repeat(500)).text.unwrap();
        assert!(long.len() <= TEXT_BYTES_MAX && long.chars().all(|c| c == 'ü'));
    }

    #[test]
    fn what_takes_longer_than_usual_is_not_done() {
        assert_eq!((percent_of_usual(30, 60), percent_of_usual(90, 60), percent_of_usual(0, 0)), (50, 99, 0));
        assert_eq!((median(&mut [5, 1, 9]), median(&mut [])), (Some(5), None));
    }
}
