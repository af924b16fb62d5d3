//! Values of options: durations, sizes, pairs, ranges and JSON, each read once.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use ringback_host::quantity;

use crate::exact;
use crate::render::clean;

/// A duration that may be zero.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    quantity::duration(text).map_err(|error| error.to_string())
}

/// A limit: zero would end the task before it began.
pub(crate) fn limit(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        // Limits are kept in milliseconds.
        limit if limit < Duration::from_millis(1) => {
            Err("a limit of zero would end the task at once; leave the option away for no limit".to_owned())
        }
        limit => Ok(limit),
    }
}

/// Pauses between notices of progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pace {
    /// The first.
    pub(crate) first: Duration,
    /// The longest, where it was named.
    pub(crate) longest: Option<Duration>,
}

/// Reads `DURATION` or `DURATION..MAX`.
pub(crate) fn pace(text: &str) -> Result<Pace, String> {
    let (first, longest) = match text.split_once("..") {
        Some((first, longest)) => (duration(first)?, Some(duration(longest)?)),
        None => (duration(text)?, None),
    };
    match longest {
        Some(longest) if longest < first => Err("the longest pause is below the first".to_owned()),
        longest => Ok(Pace { first, longest }),
    }
}

/// A size in bytes.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    quantity::size(text).map_err(|error| error.to_string())
}

/// JSON of the caller.
pub(crate) fn json(text: &str) -> Result<serde_json::Value, String> {
    let value = serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))?;
    match exact::rounded(text.as_bytes()) {
        None => Ok(value),
        Some(number) => Err(format!("{}; {}", exact::why(number), exact::CURE)),
    }
}

/// A signal by name or number.
pub(crate) fn signal(text: &str) -> Result<i32, String> {
    let number = ringback_sys::signals::number(text).filter(|number| *number > 0);
    number.ok_or_else(|| "not a signal (write it like TERM, SIGUSR1 or 15)".to_owned())
}

/// `NAME=VALUE`, or `NAME` for the value that it has here.
pub(crate) fn pair(text: &OsStr) -> Result<(OsString, OsString), String> {
    let bytes = text.as_bytes();
    let part = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    match bytes.iter().position(|byte| *byte == b'=') {
        Some(0) => Err("a variable needs a name: NAME=VALUE".to_owned()),
        None if bytes.is_empty() => Err("a variable needs a name: NAME=VALUE".to_owned()),
        Some(at) => Ok((part(&bytes[..at]), part(&bytes[at + 1..]))),
        None => match std::env::var_os(text) {
            Some(value) => Ok((text.to_owned(), value)),
            None => Err(format!("{} is not set here; write NAME=VALUE", clean::line(&text.to_string_lossy()))),
        },
    }
}

/// The name of a variable.
pub(crate) fn name(text: &OsStr) -> Result<OsString, String> {
    if text.is_empty() || text.as_bytes().contains(&b'=') {
        return Err("a variable has a name, without `=`".to_owned());
    }
    Ok(text.to_owned())
}

/// [`name`] for clap, for bytes of any kind.
pub(crate) fn names() -> impl TypedValueParser<Value = OsString> {
    OsStringValueParser::new().try_map(|text| name(&text))
}

/// [`pair`] for clap, for bytes of any kind.
pub(crate) fn pairs() -> impl TypedValueParser<Value = (OsString, OsString)> {
    OsStringValueParser::new().try_map(|text| pair(&text))
}

/// Lines `A:B`, counted from 1, both included; an open end is the first or the last line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineRange {
    /// First line.
    pub(crate) from: u64,
    /// Last line.
    pub(crate) to: u64,
}

/// Reads `A:B`, `A:`, `:B` or `A`.
pub(crate) fn line_range(text: &str) -> Result<LineRange, String> {
    let wrong = || "write it like 10:20, 10: or :20 (lines count from 1)".to_owned();
    let number = |text: &str, open: u64| {
        if text.is_empty() { Ok(open) } else { text.parse().ok().filter(|number| *number > 0).ok_or_else(wrong) }
    };
    let (from, to) = match text.split_once(':') {
        Some((from, to)) => (number(from, 1)?, number(to, u64::MAX)?),
        None if text.is_empty() => return Err(wrong()),
        None => (number(text, 1)?, number(text, 1)?),
    };
    if from > to { Err(wrong()) } else { Ok(LineRange { from, to }) }
}

/// A number of lines, or all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tail {
    /// Everything.
    All,
    /// The last ones.
    Lines(u64),
}

/// Reads `N` or `all`.
pub(crate) fn tail(text: &str) -> Result<Tail, String> {
    match text {
        "all" => Ok(Tail::All),
        _ => text.parse().map(Tail::Lines).map_err(|_| "write a number of lines, or `all`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_or_explained() {
        assert_eq!(line_range("3:5"), Ok(LineRange { from: 3, to: 5 }));
        assert_eq!(line_range(":5"), Ok(LineRange { from: 1, to: 5 }));
        assert_eq!(line_range("7:"), Ok(LineRange { from: 7, to: u64::MAX }));
        assert_eq!(line_range("7"), Ok(LineRange { from: 7, to: 7 }));
        for wrong in ["", "0:1", "5:3", "a:b"] {
            assert!(line_range(wrong).is_err(), "{wrong}");
        }
        assert_eq!((tail("all"), tail("5")), (Ok(Tail::All), Ok(Tail::Lines(5))));
        let (first, longest) = (Duration::from_secs(2), Some(Duration::from_secs(30)));
        assert_eq!((pace("2s..30s"), pace("2s")), (Ok(Pace { first, longest }), Ok(Pace { first, longest: None })));
        assert!(pace("..").is_err() && pace("5s..2s").is_err());
        assert!(limit("0").unwrap_err().contains("no limit"));
        assert_eq!(signal("usr1"), Ok(ringback_sys::signals::SIGUSR1));
        assert!(signal("0").is_err() && signal("NOPE").is_err());
        assert_eq!(pair(OsStr::new("A=b=c")), Ok(("A".into(), "b=c".into())));
        assert!(pair(OsStr::new("")).is_err() && name(OsStr::new("A=b")).is_err() && name(OsStr::new("A")).is_ok());
        assert!(limit("100us").is_err() && limit("1ms").is_ok() && json("{").unwrap_err().contains("not JSON"));
        let long = json("{\"a\":[123456789012345678901]}").unwrap_err();
        assert_eq!(long, "123456789012345678901 would be rounded: a number has 64 bits; write it as a string");
        assert_eq!(json("18446744073709551615").unwrap(), u64::MAX);
        assert!(pair(OsStr::new("=b")).is_err() && pair(OsStr::new("SURELY_NOT_SET_1")).is_err());
    }
}
