//! Durations and ages for people: `85ms`, `3.2s`, `3m 12s`, `2h 5m`, `4d 1h`.

use jiff::Timestamp;

/// A duration, two units at most.
pub(crate) fn duration(ms: u64) -> String {
    let seconds = ms / 1000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let two = |big: u64, big_unit: &str, small: u64, small_unit: &str| {
        if small == 0 { format!("{big}{big_unit}") } else { format!("{big}{big_unit} {small}{small_unit}") }
    };
    match ms {
        0..1000 => format!("{ms}ms"),
        1000..60_000 => format!("{}.{}s", seconds, ms % 1000 / 100),
        60_000..3_600_000 => two(minutes, "m", seconds % 60, "s"),
        3_600_000..86_400_000 => two(hours, "h", minutes % 60, "m"),
        _ => two(days, "d", hours % 24, "h"),
    }
}

/// How long ago this RFC 3339 time was, for example `3m 12s ago`; the text itself if it cannot be read.
pub(crate) fn ago(time: &str, now: Timestamp) -> String {
    match time.parse::<Timestamp>() {
        Ok(then) => match u64::try_from(now.as_millisecond() - then.as_millisecond()) {
            Ok(ms) if ms >= 1000 => format!("{} ago", duration(ms - ms % 1000).replace(".0s", "s")),
            _ => "just now".to_owned(),
        },
        Err(_) => super::clean::line(time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_well_at_every_size() {
        let cases = [(0, "0ms"), (999, "999ms"), (3_250, "3.2s"), (60_000, "1m"), (192_000, "3m 12s")];
        let more = [(7_500_000, "2h 5m"), (90_000_000, "1d 1h"), (345_600_000, "4d")];
        for (ms, text) in cases.into_iter().chain(more) {
            assert_eq!(duration(ms), text);
        }
    }

    #[test]
    fn ages_are_relative() {
        let now: Timestamp = "2026-11-30T10:00:00Z".parse().unwrap();
        assert_eq!(ago("2026-11-30T09:56:48.123Z", now), "3m 11s ago");
        assert_eq!(ago("2026-11-30T09:59:55.000Z", now), "5s ago");
        assert_eq!(ago("2026-11-30T10:00:01Z", now), "just now");
        assert_eq!(ago("some day", now), "some day");
    }
}
