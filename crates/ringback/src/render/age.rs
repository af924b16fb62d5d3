//! Ages for people: `3m 12s ago`.

use jiff::Timestamp;
use ringback_host::quantity::seconds_text;

/// How long ago this RFC 3339 time was, for example `3m 12s ago`; the text itself if it cannot be read.
pub(crate) fn ago(time: &str, now: Timestamp) -> String {
    match time.parse::<Timestamp>() {
        Ok(then) => match u64::try_from(now.as_millisecond() - then.as_millisecond()) {
            Ok(ms) if ms >= 1000 => format!("{} ago", seconds_text(ms)),
            _ => "just now".to_owned(),
        },
        Err(_) => super::clean::line(time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_relative() {
        let now: Timestamp = "2026-11-30T10:00:00Z".parse().unwrap();
        assert_eq!(ago("2026-11-30T09:56:48.123Z", now), "3m 11s ago");
        assert_eq!(ago("2026-11-30T09:59:55.000Z", now), "5s ago");
        assert_eq!(ago("2026-11-30T10:00:01Z", now), "just now");
        assert_eq!(ago("some day", now), "some day");
    }
}
