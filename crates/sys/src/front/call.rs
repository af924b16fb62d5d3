//! The one request of the front and the answers that it knows, in the words of the wire (`wire/` of the host): `MessagePack` in a
//! frame with its length.
#![expect(clippy::cast_possible_truncation, reason = "lengths that are below what is said of them")]

use crate::form::spec::{LIMIT_KEEP, LIMITS};
use crate::raw::{Fd, caller, socket};

/// The protocol number of the wire; a test compares them.
const PROTOCOL: u8 = 1;
const VERSION: &[u8] = env!("CARGO_PKG_VERSION").as_bytes();
const _: () = assert!(VERSION.len() < 32, "the header of a short text");

/// What goes with the request.
pub(crate) struct Facts<'a> {
    pub(crate) words: &'a [u8],
    pub(crate) environment: &'a [u8],
    pub(crate) directory: &'a [u8],
    pub(crate) umask: u32,
    pub(crate) nice: i32,
}

/// Bytes that are written one after the other. They are always enough: what is written has a length that is known.
struct Written<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> Written<N> {
    fn new() -> Self {
        Self { bytes: [0; N], length: 0 }
    }

    fn put(&mut self, bytes: &[u8]) -> &mut Self {
        if let Some(place) = self.bytes.get_mut(self.length..).and_then(|rest| rest.get_mut(..bytes.len())) {
            place.copy_from_slice(bytes);
            self.length += bytes.len();
        }
        self
    }

    /// A text of less than 32 bytes.
    fn text(&mut self, text: &[u8]) -> &mut Self {
        self.put(&[0xa0 | text.len() as u8]).put(text)
    }

    /// The header of bytes.
    fn bin(&mut self, length: usize) -> &mut Self {
        self.put(&[0xc6]).put(&(length as u32).to_be_bytes())
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

/// Sends the request whole, or nothing comes of it.
pub(crate) fn send(connection: &Fd, facts: &Facts<'_>) -> Option<()> {
    let mut head = Written::<128>::new();
    head.put(&[0x84]).text(b"proto").put(&[PROTOCOL]).text(b"version").text(VERSION);
    head.text(b"caller").put(&[0x80]).text(b"request").put(&[0x81]).text(b"spoken").put(&[0x86]);
    head.text(b"words").bin(facts.words.len());
    let mut middle = Written::<16>::new();
    middle.text(b"env").bin(facts.environment.len());
    let mut end = Written::<16>::new();
    end.text(b"cwd").bin(facts.directory.len());
    let mut rest = Written::<200>::new();
    rest.text(b"umask").put(&[0xce]).put(&facts.umask.to_be_bytes());
    rest.text(b"nice").put(&[0xd2]).put(&facts.nice.to_be_bytes());
    rest.text(b"limits").put(&[0xdc, 0, LIMITS as u8]);
    for number in 0..LIMITS {
        rest.put(&[0xcf]).put(&caller::limit(number).unwrap_or(LIMIT_KEEP).to_be_bytes());
    }
    let body =
        [head.bytes(), facts.words, middle.bytes(), facts.environment, end.bytes(), facts.directory, rest.bytes()];
    let length: usize = body.iter().map(|piece| piece.len()).sum();
    let prefix = (length as u32).to_le_bytes();
    let mut pieces = [&prefix[..]; 8];
    for (place, piece) in pieces.iter_mut().skip(1).zip(body) {
        *place = piece;
    }
    let sent = socket::send(connection, pieces);
    (sent == Ok(prefix.len() + length)).then_some(())
}

/// An answer that the front knows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer<'a> {
    /// The task is there, and this is what is said of it.
    Said { stdout: &'a [u8], stderr: &'a [u8] },
    /// Nothing was done: the main program is to ask.
    OldWay,
}

impl<'a> Answer<'a> {
    /// Reads a whole frame; nothing if it is anything else, or of another version.
    pub(crate) fn read(frame: &'a [u8]) -> Option<Self> {
        let (prefix, body) = frame.split_first_chunk::<4>()?;
        let mut rest = (u32::from_le_bytes(*prefix) as usize == body.len()).then_some(body)?;
        let rest = &mut rest;
        skip(rest, &[0x83])?;
        text(rest, b"proto")?;
        skip(rest, &[PROTOCOL])?;
        text(rest, b"version")?;
        text(rest, VERSION)?;
        text(rest, b"reply")?;
        if text(rest, b"old_way").is_some() {
            return rest.is_empty().then_some(Self::OldWay);
        }
        skip(rest, &[0x81])?;
        text(rest, b"said")?;
        skip(rest, &[0x83])?;
        text(rest, b"id")?;
        let (header, after) = rest.split_first()?;
        *rest = after.get(usize::from(header.checked_sub(0xa0).filter(|length| *length < 32)?)..)?;
        text(rest, b"stdout")?;
        let stdout = bin(rest)?;
        text(rest, b"stderr")?;
        let stderr = bin(rest)?;
        rest.is_empty().then_some(Self::Said { stdout, stderr })
    }
}

fn skip(rest: &mut &[u8], bytes: &[u8]) -> Option<()> {
    *rest = rest.strip_prefix(bytes)?;
    Some(())
}

/// Exactly this text.
fn text(rest: &mut &[u8], text: &[u8]) -> Option<()> {
    *rest = rest.strip_prefix(&[0xa0 | text.len() as u8])?.strip_prefix(text)?;
    Some(())
}

fn bin<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (header, after) = rest.split_first()?;
    let (length, after) = match header {
        0xc4 => after.split_first_chunk::<1>().map(|([length], after)| (usize::from(*length), after))?,
        0xc5 => {
            after.split_first_chunk::<2>().map(|(length, after)| (usize::from(u16::from_be_bytes(*length)), after))?
        }
        _ => return None,
    };
    let (bytes, after) = after.split_at_checked(length)?;
    *rest = after;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(version: &[u8], reply: &[u8]) -> Vec<u8> {
        let mut body = Written::<200>::new();
        body.put(&[0x83]).text(b"proto").put(&[PROTOCOL]).text(b"version").text(version).text(b"reply").put(reply);
        [&u32::try_from(body.length).unwrap().to_le_bytes(), body.bytes()].concat()
    }

    #[test]
    fn only_a_whole_answer_of_this_version_is_known() {
        let said = frame(VERSION, b"\x81\xa4said\x83\xa2id\xa3abc\xa6stdout\xc4\x04abc\n\xa6stderr\xc5\x00\x02hi");
        assert_eq!(Answer::read(&said), Some(Answer::Said { stdout: b"abc\n", stderr: b"hi" }));
        let old_way = frame(VERSION, b"\xa7old_way");
        assert_eq!(Answer::read(&old_way), Some(Answer::OldWay));
        for frame in [&said, &old_way] {
            for cut in 0..frame.len() {
                assert_eq!(Answer::read(&frame[..cut]), None, "{cut}");
                let mut other = frame.clone();
                other[cut] ^= 0x40;
                let read = Answer::read(&other);
                assert!(!matches!(read, Some(Answer::OldWay)), "{cut}");
            }
            assert_eq!(Answer::read(&[frame.as_slice(), b"x"].concat()), None);
        }
        assert_eq!(Answer::read(&frame(b"0.0.1", b"\xa7old_way")), None);
    }
}
