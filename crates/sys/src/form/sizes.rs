//! `output.sizes`: how large the terminal of a task was from which byte of its output on, as 24-byte entries.
//!
//! The first entry is written before the command starts. Fewer than [`ENTRIES_MAX`] are kept: then the last one is
//! written over, so that a terminal that is dragged for hours does not fill the disk.

use super::bytes::{Reader, Writer};
use super::crc::crc32c;
use super::spec::Size;

/// The name of the file.
pub const NAME: &str = "output.sizes";
/// Length of one entry, in bytes.
pub const ENTRY_BYTES: usize = 24;
/// Most entries of one file.
pub const ENTRIES_MAX: u64 = 4096;

/// From `offset` on, since about `wall_ms`, the terminal had this size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Entry {
    /// Offset in `output`.
    pub offset: u64,
    /// Wall clock, milliseconds after 1970.
    pub wall_ms: u64,
    /// The size.
    pub size: Size,
}

impl Entry {
    /// The bytes of this entry.
    pub fn encode(&self) -> [u8; ENTRY_BYTES] {
        let mut entry = [0; ENTRY_BYTES];
        let mut w = Writer::new(&mut entry[4..]);
        w.u64(self.offset);
        w.u64(self.wall_ms);
        w.u16(self.size.columns);
        w.u16(self.size.rows);
        let crc = crc32c(&entry[4..]);
        entry[..4].copy_from_slice(&crc.to_le_bytes());
        entry
    }

    /// The entry in these bytes, or nothing if it is torn or foreign.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let entry = bytes.get(..ENTRY_BYTES)?;
        let mut r = Reader::new(entry);
        if r.u32() != crc32c(&entry[4..]) {
            return None;
        }
        let (offset, wall_ms) = (r.u64(), r.u64());
        Some(Self { offset, wall_ms, size: Size::new(r.u16(), r.u16())? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_comes_back_as_it_went_and_a_torn_one_does_not() {
        let entry = Entry { offset: 9, wall_ms: 1_700_000_000_000, size: Size { columns: 80, rows: 24 } };
        let mut bytes = entry.encode();
        assert_eq!(Entry::decode(&bytes), Some(entry));
        bytes[7] ^= 1;
        assert_eq!(Entry::decode(&bytes), None);
        assert_eq!(Entry::decode(&[0; ENTRY_BYTES]), None);
    }
}
