//! Durations and sizes as people write and read them: `90s`, `1h30m`, `3m 12s`, `512MiB`, `2G`.

use std::time::Duration;

/// Why a text is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Not a duration.
    #[error("`{0}` is not a duration (write it like 90s, 5m or 1h30m)")]
    Duration(String),
    /// Not a size.
    #[error("`{0}` is not a size (write it like 512MiB, 2G or 1000000)")]
    Size(String),
}

/// Reads a duration; a bare number is seconds, as for sleep(1).
pub fn duration(text: &str) -> Result<Duration, QuantityError> {
    let trimmed = text.trim();
    let wrong = || QuantityError::Duration(text.to_owned());
    if let Ok(seconds) = trimmed.parse::<f64>() {
        // Duration::try_from_secs_f64 refuses negative and endless numbers.
        return Duration::try_from_secs_f64(seconds).map_err(|_| wrong());
    }
    humantime::parse_duration(trimmed).map_err(|_| wrong())
}

/// Reads a size in bytes; `K`, `M`, `G` are powers of 1000, `KiB`, `MiB`, `GiB` powers of 1024.
pub fn size(text: &str) -> Result<u64, QuantityError> {
    let size = text.trim().parse::<bytesize::ByteSize>().ok().map(|size| size.0);
    // No file is longer (off_t); a text beyond it was cut off by the reading.
    size.filter(|bytes| i64::try_from(*bytes).is_ok()).ok_or_else(|| QuantityError::Size(text.to_owned()))
}

/// A duration in milliseconds, at most `u64::MAX`.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A duration for people, two units at most: `85ms`, `3.2s`, `3m 12s`, `2h 5m`, `4d 1h`.
pub fn duration_text(ms: u64) -> String {
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

/// The same in whole seconds, for what is told again and again: `3s`, `3m 12s`.
pub fn seconds_text(ms: u64) -> String {
    if ms < 60_000 { format!("{}s", ms / 1000) } else { duration_text(ms) }
}

/// A size for people, for example `1.5 MiB`.
pub fn size_text(bytes: u64) -> String {
    bytesize::ByteSize(bytes).display().iec().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_well_at_every_size() {
        let cases = [(0, "0ms"), (999, "999ms"), (3_250, "3.2s"), (60_000, "1m"), (192_000, "3m 12s")];
        let more = [(7_500_000, "2h 5m"), (90_000_000, "1d 1h"), (345_600_000, "4d")];
        for (ms, text) in cases.into_iter().chain(more) {
            assert_eq!(duration_text(ms), text);
        }
        assert_eq!([999, 3_250, 192_900].map(seconds_text), ["0s", "3s", "3m 12s"]);
    }

    #[test]
    fn durations_and_sizes_read_as_people_write_them() {
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("1h30m"), Ok(Duration::from_mins(90)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("1.5"), Ok(Duration::from_millis(1500)));
        assert!(duration("soon").is_err() && duration("-3").is_err() && duration("").is_err());
        assert_eq!(size("512MiB"), Ok(512 << 20));
        assert_eq!(size("2G"), Ok(2_000_000_000));
        for (text, bytes) in
            [("10kb", 10_000), ("10KiB", 10_240), ("1.5 GiB", 3 << 29), ("5T", 5_000_000_000_000), ("0", 0)]
        {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for wrong in ["lots", "", "-1", "1e400", "99999999999999999999G", "G"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
