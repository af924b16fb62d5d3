//! The name of a request, checked once; every other name in the folder is made from it.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;

/// The longest name of a request, bytes: with a suffix and a number of ours it still fits a directory (`NAME_MAX` is 255).
const NAME_BYTES_MAX: usize = 200;
/// Where the request and its record are.
const RECORD: &str = ".json";
/// Asks for a stop.
const STOP: &str = ".stop";

/// A name that can do no harm: letters, digits, `-`, `_` and `.`, and it starts with a letter or digit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name(String);

/// What a file in the folder is to us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A request or its record.
    Record(Name),
    /// A wish to stop a request.
    Stop(Name),
    /// It would be a request, but its name cannot be used.
    Hostile,
    /// None of our business.
    Other,
}

impl Role {
    /// What a file of this name is.
    pub(super) fn of(file: &OsStr) -> Self {
        let bytes = file.as_bytes();
        // Hidden files are ours, or of a writer that will rename them.
        if bytes.starts_with(b".") {
            return Self::Other;
        }
        if let Some(stem) = bytes.strip_suffix(STOP.as_bytes()) {
            return Name::parse(stem).map_or(Self::Other, Self::Stop);
        }
        match bytes.strip_suffix(RECORD.as_bytes()) {
            Some(stem) => Name::parse(stem).map_or(Self::Hostile, Self::Record),
            None => Self::Other,
        }
    }
}

impl Name {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
        let sane = bytes.len() <= NAME_BYTES_MAX && bytes.iter().all(is_plain);
        let starts = bytes.first().is_some_and(u8::is_ascii_alphanumeric);
        String::from_utf8(bytes.to_vec()).ok().filter(|_| sane && starts).map(Self)
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn record(&self) -> OsString {
        self.with(RECORD)
    }

    pub(super) fn stop(&self) -> OsString {
        self.with(STOP)
    }

    pub(super) fn error(&self) -> OsString {
        self.with(".error")
    }

    pub(super) fn stdout(&self) -> OsString {
        self.with(".out")
    }

    pub(super) fn stderr(&self) -> OsString {
        self.with(".err")
    }

    pub(super) fn claim(&self) -> OsString {
        format!(".{}.claim", self.0).into()
    }

    fn with(&self, suffix: &str) -> OsString {
        format!("{}{suffix}", self.0).into()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where the refusal of a file stands whose own name cannot be used.
pub(super) fn refusal(file: &OsStr) -> OsString {
    // FNV-1a: the name has to be the same at every start, and nothing else.
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = file.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, mix);
    format!("refused-{hash:016x}.error").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_plain_or_refused() {
        for good in ["a.json", "0193f-00a1.json", "A_b.1.json", &format!("{}.json", "x".repeat(200))] {
            assert!(matches!(Role::of(OsStr::new(good)), Role::Record(_)), "{good}");
        }
        let long = format!("{}.json", "x".repeat(201));
        for bad in ["-a.json", "a b.json", "a\n.json", "ü.json", "a\\..\\b.json", "$(x).json", &long] {
            assert_eq!(Role::of(OsStr::new(bad)), Role::Hostile, "{bad}");
        }
        for other in [".a.json", "a.out", "a.error", "README", "json", ".json", "-x.stop"] {
            assert_eq!(Role::of(OsStr::new(other)), Role::Other, "{other}");
        }
        assert_eq!(Role::of(OsStr::new("a.stop")), Role::Stop(Name("a".to_owned())));
    }
}
