//! `output.idx`: when which stream's bytes arrived, as 16-byte entries (offset, time and stream).
//!
//! An entry is written *before* its bytes and holds until the next one, so a crash between the two leaves a true index.
//! Within one stream a new entry is written at most every [`INTERVAL_MS`].

/// Length of one entry, in bytes.
pub const ENTRY_BYTES: usize = 16;
/// Two entries of one stream are at least this far apart, in milliseconds.
pub const INTERVAL_MS: u64 = 10;

/// Which stream a byte came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Stream {
    /// stdout and stderr in their true order (the default), not told apart.
    #[default]
    Merged = 0,
    /// stdout of a split task.
    Stdout = 1,
    /// stderr of a split task.
    Stderr = 2,
}

/// From `offset` on, bytes came from `stream` at about `wall_ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Entry {
    /// Offset in `output`.
    pub offset: u64,
    /// Wall clock, milliseconds after 1970.
    pub wall_ms: u64,
    /// The stream.
    pub stream: Stream,
}

impl Entry {
    /// The bytes of this entry: offset, then time with the stream in the top byte.
    pub fn encode(&self) -> [u8; ENTRY_BYTES] {
        let mut out = [0; ENTRY_BYTES];
        out[..8].copy_from_slice(&self.offset.to_le_bytes());
        let word = (self.stream as u64) << 56 | (self.wall_ms & 0x00ff_ffff_ffff_ffff);
        out[8..].copy_from_slice(&word.to_le_bytes());
        out
    }

    /// The entry in these bytes, or nothing if they are short or of an unknown stream.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let offset = u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?);
        let word = u64::from_le_bytes(bytes.get(8..ENTRY_BYTES)?.try_into().ok()?);
        let stream = match word >> 56 {
            0 => Stream::Merged,
            1 => Stream::Stdout,
            2 => Stream::Stderr,
            _ => return None,
        };
        Some(Self { offset, wall_ms: word & 0x00ff_ffff_ffff_ffff, stream })
    }
}
