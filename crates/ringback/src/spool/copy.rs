//! Copies a task's output into the folder as it grows, and cuts its tail.
//!
//! A copy and no link: the folder may lie on another file system, and whoever can write there must not be able to write
//! into what the keeper recorded.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use ringback_host::mask::Mask;
use ringback_sys::files;

use super::desk::Desk;

/// How much of an output's end stands in the record, bytes.
pub(super) const TAIL_BYTES_MAX: usize = 4096;
/// How much of one output is copied before the others have their turn, bytes.
const TURN_BYTES_MAX: u64 = 4 << 20;
/// Piece in which is copied, bytes.
const PIECE_BYTES: usize = 64 << 10;

/// One output on its way.
#[derive(Debug)]
pub(super) struct Copy {
    source: PathBuf,
    target: OsString,
    from: Option<File>,
    to: Option<File>,
    at: u64,
    cap: u64,
    /// A predecessor has begun it.
    resumed: bool,
}

impl Copy {
    /// Copies at most `cap` bytes; 0 is no cap.
    pub(super) fn new(source: PathBuf, target: OsString, cap: u64, resumed: bool) -> Self {
        let cap = if cap == 0 { u64::MAX } else { cap };
        Self { source, target, from: None, to: None, at: 0, cap, resumed }
    }

    /// Copies what has come, at most one turn of it; whether there is more.
    pub(super) fn pump(&mut self, desk: &Desk) -> io::Result<bool> {
        if self.to.is_none() {
            self.open_target(desk)?;
        }
        let end = self.source_bytes()?.min(self.cap);
        let stop = end.min(self.at.saturating_add(TURN_BYTES_MAX));
        let (Some(from), Some(to)) = (&self.from, &mut self.to) else { return Ok(false) };
        let mut piece = vec![0; PIECE_BYTES];
        while self.at < stop {
            let most = usize::try_from(stop - self.at).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
            let count = from.read_at(&mut piece[..most], self.at)?;
            if count == 0 {
                return Ok(false);
            }
            if let Err(error) = to.write_all(&piece[..count]) {
                // A full disk may have taken a part of it.
                self.at = to.metadata()?.len();
                return Err(error);
            }
            self.at += count as u64;
        }
        Ok(stop < end)
    }

    /// How long the output is so far.
    pub(super) fn source_bytes(&mut self) -> io::Result<u64> {
        if self.from.is_none() {
            match files::open_regular(&self.source) {
                // The keeper makes it when it starts.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
                opened => self.from = Some(opened?),
            }
        }
        self.from.as_ref().map_or(Ok(0), |file| Ok(file.metadata()?.len()))
    }

    /// How much of it is in the folder.
    pub(super) fn copied_bytes(&self) -> u64 {
        self.at
    }

    /// Its last bytes, from a character's beginning on.
    pub(super) fn tail(&mut self) -> io::Result<String> {
        let end = self.source_bytes()?;
        let Some(from) = &self.from else { return Ok(String::new()) };
        let start = end.saturating_sub(TAIL_BYTES_MAX as u64);
        let mut bytes = vec![0; usize::try_from(end - start).unwrap_or(TAIL_BYTES_MAX)];
        // The tail goes into the record, which the agent reads; the copy is as raw as the output.
        let mask = self.source.parent().map(Mask::of_folder).unwrap_or_default();
        let count = mask.read_at(from, &mut bytes, start)?;
        Ok(tail_text(&bytes[..count], start > 0))
    }

    /// What a predecessor has copied is not copied again, unless it cannot be a beginning of this output.
    fn open_target(&mut self, desk: &Desk) -> io::Result<()> {
        if self.resumed
            && let Ok((file, facts)) = desk.folder.open_append(&self.target)
            && facts.len <= self.source_bytes()?
        {
            (self.at, self.to) = (facts.len, Some(file));
            return Ok(());
        }
        desk.folder.remove(&self.target)?;
        self.to = Some(desk.folder.create_new(&self.target, desk.mode)?);
        self.at = 0;
        Ok(())
    }
}

/// Text of at most [`TAIL_BYTES_MAX`] bytes; where something was cut off before, no half character stays.
fn tail_text(bytes: &[u8], is_cut: bool) -> String {
    let is_inner = |byte: &&u8| **byte & 0b1100_0000 == 0b1000_0000;
    // A character has at most three bytes after its first (RFC 3629).
    let half = if is_cut { bytes.iter().take(3).take_while(is_inner).count() } else { 0 };
    let text = String::from_utf8_lossy(&bytes[half..]);
    // What is not UTF-8 takes more room as text.
    let mut from = text.len().saturating_sub(TAIL_BYTES_MAX);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    text[from..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_begins_with_a_whole_character_and_stays_within_its_limit() {
        let text = "x".repeat(5) + &"ü".repeat(3000);
        let bytes = &text.as_bytes()[text.len() - TAIL_BYTES_MAX - 1..];
        let tail = tail_text(&bytes[..TAIL_BYTES_MAX], true);
        assert!(tail.starts_with('ü') && tail.len() < TAIL_BYTES_MAX, "{}", tail.len());
        assert_eq!(tail_text(b"\x80ab", false), "\u{fffd}ab", "at the very beginning it is what the command wrote");
        let binary = tail_text(&[0xff; TAIL_BYTES_MAX], true);
        assert!(binary.len() <= TAIL_BYTES_MAX && binary.chars().all(|c| c == '\u{fffd}'));
        assert_eq!(tail_text(b"", false), "");
    }
}
