//! What a daemon asks of a keeper: fixed 64-byte entries, appended to `requests`, then a poke with `SIGUSR1`.
//!
//! The keeper reads on from where it stood; a poke without a new entry is harmless, an entry without a poke is found at
//! the next one (and at the keeper's start). Entries are numbered by their position.

use super::bytes::{Reader, Writer};
use super::crc::crc32c;
use super::record::{Cause, Who, from_byte};
use super::spec::Size;

/// Length of one entry, in bytes.
pub const ENTRY_BYTES: usize = 64;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Ask {
    /// End the tree: TERM, the grace, then freeze, kill and reap until it is empty; leave a receipt.
    /// A second stop skips the rest of the grace when its `grace_ms` is shorter.
    #[default]
    Stop = 0,
    /// Send `signal` to the main process group.
    Signal = 1,
    /// Close the write end of stdin, so that the command reads end-of-file.
    CloseStdin = 2,
    /// For a keeper that took over: the daemon saw the main process end with `status`.
    Witness = 3,
    /// For a keeper that took over: `who`, an orphan that the daemon has inherited, is of this tree.
    Adopt = 4,
    /// Give the terminal `size`. (Keepers before it pass it over.)
    Resize = 8,
}

from_byte!(Ask: Stop, Signal, CloseStdin, Witness, Adopt, Resize);

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Request {
    /// What is asked.
    pub ask: Ask,
    /// Why, for a stop.
    pub cause: Cause,
    /// Which signal, for a signal (1–64).
    pub signal: i32,
    /// How long TERM may take, for a stop; milliseconds.
    pub grace_ms: u64,
    /// The status word of wait(2), for a witness.
    pub status: i32,
    /// Which process is adopted.
    pub who: Who,
    /// How large the terminal is to be, for a resize.
    pub size: Size,
}

impl Request {
    /// The bytes of this entry.
    pub fn encode(&self) -> [u8; ENTRY_BYTES] {
        let mut entry = [0; ENTRY_BYTES];
        let mut w = Writer::new(&mut entry[4..]);
        w.u8(self.ask as u8);
        w.u8(self.cause as u8);
        w.i32(self.signal);
        w.u64(self.grace_ms);
        w.i32(self.status);
        w.i32(self.who.pid);
        w.u64(self.who.start_ticks);
        w.u16(self.size.columns);
        w.u16(self.size.rows);
        let crc = crc32c(&entry[4..]);
        entry[..4].copy_from_slice(&crc.to_le_bytes());
        entry
    }

    /// The request in `entry`, or nothing if it is torn or foreign.
    pub fn decode(entry: &[u8]) -> Option<Self> {
        let entry = entry.get(..ENTRY_BYTES)?;
        let mut r = Reader::new(entry);
        if r.u32() != crc32c(&entry[4..]) {
            return None;
        }
        Some(Self {
            ask: Ask::of(r.u8())?,
            cause: Cause::of(r.u8())?,
            signal: r.i32(),
            grace_ms: r.u64(),
            status: r.i32(),
            who: Who { pid: r.i32(), start_ticks: r.u64() },
            size: Size { columns: r.u16(), rows: r.u16() },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_comes_back_as_it_went() {
        let request = Request { ask: Ask::Stop, cause: Cause::SessionEnd, grace_ms: 10_000, ..Request::default() };
        assert_eq!(Request::decode(&request.encode()), Some(request));
        let who = Who { pid: 4, start_ticks: u64::MAX };
        let size = Size { columns: 132, rows: 50 };
        let request = Request { ask: Ask::Adopt, signal: 15, status: -1, who, size, ..Request::default() };
        assert_eq!(Request::decode(&request.encode()), Some(request));
        assert_eq!(Request::decode(&[0; ENTRY_BYTES]), None);
    }
}
