//! Task ids: 60 random bits, written as 12 characters of lower-case Crockford base32.

use core::fmt;

/// How many characters an id has.
pub const ID_CHARS: usize = 12;
/// How many bits an id has.
pub const ID_BITS: u32 = 60;

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// The name of one task, for ever.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(u64);

/// All ids that start with the same characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// The first of them.
    pub low: TaskId,
    /// The last of them.
    pub high: TaskId,
}

/// Why a text is neither an id nor the beginning of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadId {
    /// No character at all.
    Empty,
    /// More than [`ID_CHARS`] characters.
    TooLong,
    /// A character outside Crockford's alphabet.
    BadChar(char),
}

impl fmt::Display for BadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "an id cannot be empty"),
            Self::TooLong => write!(f, "an id has {ID_CHARS} characters"),
            Self::BadChar(c) => write!(f, "an id has no character {c:?}"),
        }
    }
}

impl TaskId {
    /// The id with these bits; bits above the 60th are ignored.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits & ((1 << ID_BITS) - 1))
    }

    /// Its 60 bits.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The id that is written like this, whole.
    pub fn parse(text: &str) -> Result<Self, BadId> {
        if text.chars().count() < ID_CHARS && !text.is_empty() {
            return Err(BadId::TooLong);
        }
        Prefix::parse(text).map(|prefix| prefix.low)
    }

    /// Its 12 characters.
    pub fn chars(self) -> [u8; ID_CHARS] {
        let mut out = [0; ID_CHARS];
        let mut shift = ID_BITS;
        for slot in &mut out {
            shift -= 5;
            *slot = ALPHABET[(self.0 >> shift & 31) as usize];
        }
        out
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(core::str::from_utf8(&self.chars()).unwrap_or_default())
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Prefix {
    /// The ids that begin like `text`. Upper case, `i`/`l` for `1` and `o` for `0` are read as Crockford meant them.
    pub fn parse(text: &str) -> Result<Self, BadId> {
        let mut bits = 0;
        let mut free = ID_BITS;
        for c in text.chars() {
            if free == 0 {
                return Err(BadId::TooLong);
            }
            bits = bits << 5 | digit(c).ok_or(BadId::BadChar(c))?;
            free -= 5;
        }
        if free == ID_BITS {
            return Err(BadId::Empty);
        }
        let low = bits << free;
        Ok(Self { low: TaskId(low), high: TaskId(low | ((1 << free) - 1)) })
    }

    /// Whether it names exactly one possible id.
    pub fn is_whole(&self) -> bool {
        self.low == self.high
    }
}

fn digit(c: char) -> Option<u64> {
    let c = match c.to_ascii_lowercase() {
        'i' | 'l' => '1',
        'o' => '0',
        other => other,
    };
    ALPHABET.iter().position(|&a| char::from(a) == c).map(|p| p as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn an_id_is_read_back_as_it_is_written() {
        for bits in [0, 1, 31, 32, 0x0fed_cba9_8765_4321, (1 << 60) - 1] {
            let id = TaskId::from_bits(bits);
            assert_eq!(id.to_string().len(), ID_CHARS);
            assert_eq!(TaskId::parse(&id.to_string()), Ok(id));
        }
    }

    #[test]
    fn a_prefix_holds_exactly_the_ids_that_begin_with_it() {
        let prefix = Prefix::parse("A7").unwrap();
        assert_eq!(prefix.low.to_string(), "a70000000000");
        assert_eq!(prefix.high.to_string(), "a7zzzzzzzzzz");
        assert!(Prefix::parse("a7zzzzzzzzzz").unwrap().is_whole());
    }

    #[test]
    fn what_cannot_be_an_id_is_told_why() {
        assert_eq!(Prefix::parse(""), Err(BadId::Empty));
        assert_eq!(Prefix::parse("../x"), Err(BadId::BadChar('.')));
        assert_eq!(Prefix::parse("a70000000000a"), Err(BadId::TooLong));
        assert_eq!(TaskId::parse("a7"), Err(BadId::TooLong));
    }
}
