//! Reads a long output by several threads, while what they have read is looked at in its order.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::{BLOCK_BYTES, Gap, Output, Piece, Stream};
use crate::mask::{Block, MARGIN_BYTES};

/// Of a shorter output threads would cost more than they gain.
const LONG_BYTES: u64 = 8 << 20;
/// How many threads read at most; more would wait for the memory that they read.
const READERS_MAX: usize = 4;
/// How many blocks there are for each: one is filled, and one is looked at or waits, so that neither side does.
const BLOCKS_EACH: usize = 2;
/// How much is glanced at as one block.
const GLANCE_BYTES: usize = 512 << 10;
/// How much of it is read before it is glanced at: all stays in a processor's cache.
const STEP_BYTES: usize = 128 << 10;

/// What comes next of an output.
pub enum Part<'a, T> {
    /// Bytes, and what was seen in them.
    Block(Block, T),
    /// Bytes that are not there.
    Gap(&'a Gap),
}

/// Reads so many bytes from this offset on into a block.
type Read<'a, T> = &'a (dyn Fn(&mut Block, usize, u64) -> io::Result<T> + Sync);
/// Takes what is next, and gives back a block that can be filled again.
type Take<'a, T> = &'a mut dyn FnMut(Part<'_, T>) -> io::Result<Option<Block>>;

/// Whose turn it is to read, and where.
struct Turn {
    number: u64,
    at: u64,
    empty: Receiver<Block>,
}

/// A part with the place where it begins, and its number.
type Numbered<'a, T> = (u64, u64, io::Result<Part<'a, T>>);

impl Output {
    /// As [`Output::scan`] without labels, for a sink that takes about as long for a piece as its reading does.
    pub fn scan_ahead(
        &mut self,
        range: Range<u64>,
        sink: &mut dyn FnMut(Piece<'_>) -> io::Result<()>,
    ) -> io::Result<u64> {
        self.scan_by(readers(&range), range, sink)
    }

    fn scan_by(
        &self,
        readers: usize,
        range: Range<u64>,
        sink: &mut dyn FnMut(Piece<'_>) -> io::Result<()>,
    ) -> io::Result<u64> {
        let read = |block: &mut Block, length: usize, at: u64| self.read_block(block, length, at);
        let mut next = range.start;
        self.read_by(readers, range, BLOCK_BYTES, &read, &mut |part| match part {
            Part::Gap(gap) => {
                next = gap.to;
                sink(Piece::Gap(gap)).map(|()| None)
            }
            Part::Block(block, ()) => {
                let (bytes, offset) = (block.bytes(), next);
                next += bytes.len() as u64;
                sink(Piece::Bytes { offset, bytes, stream: Stream::Merged, wall_ms: None }).map(|()| Some(block))
            }
        })
    }

    /// Gives every block of `range` to `take` with what `glance` saw in it, which is done by several threads. `glance` is given
    /// bytes, and how many of the first of them it has seen already, or are up to `back` bytes of the block before.
    ///
    /// The bytes come **as they were written**: who shows any of them hides in it what [`Output::hider`] hides.
    pub fn survey<T: Default + Send>(
        &self,
        range: Range<u64>,
        back: usize,
        glance: &(dyn Fn(&mut T, &[u8], usize) + Sync),
        take: Take<'_, T>,
    ) -> io::Result<u64> {
        let read = |block: &mut Block, length: usize, at: u64| {
            let mut seen = T::default();
            block.read_in_steps(&self.file, back, length, at, STEP_BYTES, &mut |bytes, before| {
                glance(&mut seen, bytes, before);
            })?;
            Ok(seen)
        };
        self.read_by(readers(&range), range, GLANCE_BYTES, &read, take)
    }

    /// How much before and after a text [`Output::hider`] has to see.
    pub const HIDER_BYTES: usize = MARGIN_BYTES;

    /// What hides the secrets of this output in a text; nothing where all may be shown. (Whether more may come after the
    /// text is its second argument.)
    pub fn hider(&self) -> Option<impl Fn(&mut [u8], bool) + 'static> {
        let mask = self.mask.clone()?;
        Some(move |text: &mut [u8], goes_on: bool| mask.hide_in(text, goes_on))
    }

    /// Reads by so many threads, or without any.
    fn read_by<T: Send>(
        &self,
        readers: usize,
        range: Range<u64>,
        size: usize,
        read: Read<'_, T>,
        take: Take<'_, T>,
    ) -> io::Result<u64> {
        let (give_back, empty) = mpsc::channel();
        // Two more than the readers have: who looks may hold the last one while another is filled.
        (0..readers * BLOCKS_EACH + 2).for_each(|_| drop(give_back.send(Block::default())));
        let turn = Mutex::new(Turn { number: 0, at: range.start, empty });
        let (full, parts) = mpsc::channel();
        thread::scope(|scope| {
            let mut has_readers = false;
            for _ in 0..readers {
                let (turn, full) = (&turn, full.clone());
                let work = move || while self.one(turn, range.end, size, read, &full) {};
                has_readers |= thread::Builder::new().spawn_scoped(scope, work).is_ok();
            }
            let mut look = Look { at: range.start, give_back, take };
            if has_readers {
                drop(full);
                return look.in_order(&parts);
            }
            // For a short output, and where no thread may be started, one does both.
            loop {
                let is_more = self.one(&turn, range.end, size, read, &full);
                for (_, at, part) in parts.try_iter() {
                    if !look.part(at, part)? {
                        return Ok(look.at);
                    }
                }
                if !is_more {
                    return Ok(look.at);
                }
            }
        })
    }

    /// Reads what is next. Says whether there may be more, and somebody who takes it.
    fn one<'a, T>(
        &'a self,
        turn: &Mutex<Turn>,
        end: u64,
        size: usize,
        read: Read<'_, T>,
        full: &Sender<Numbered<'a, T>>,
    ) -> bool {
        let mut mine = turn.lock().unwrap_or_else(PoisonError::into_inner);
        let (number, at) = (mine.number, mine.at);
        if at >= end {
            return false;
        }
        mine.number += 1;
        if let Some(gap) = self.gap_at(at) {
            mine.at = gap.to;
            return full.send((number, at, Ok(Part::Gap(gap)))).is_ok();
        }
        // Who has the turn has a block, so the part that is waited for is always being read.
        let Ok(mut block) = mine.empty.recv() else { return false };
        let want = self.bytes_from(at, end, size);
        mine.at += want as u64;
        drop(mine);
        let part = read(&mut block, want, at).map(|seen| Part::Block(block, seen));
        let is_error = part.is_err();
        full.send((number, at, part)).is_ok() && !is_error
    }
}

/// How many threads read this much.
fn readers(range: &Range<u64>) -> usize {
    let is_long = range.end.saturating_sub(range.start) >= LONG_BYTES;
    if is_long { thread::available_parallelism().map_or(1, usize::from).min(READERS_MAX) } else { 0 }
}

/// Who takes the parts.
struct Look<'a, T> {
    /// Up to where they were taken.
    at: u64,
    give_back: Sender<Block>,
    take: Take<'a, T>,
}

impl<T> Look<'_, T> {
    fn in_order(&mut self, parts: &Receiver<Numbered<'_, T>>) -> io::Result<u64> {
        let (mut early, mut next) = (BTreeMap::new(), 0);
        for (number, at, part) in parts {
            early.insert(number, (at, part));
            while let Some((at, part)) = early.remove(&next) {
                next += 1;
                if !self.part(at, part)? {
                    return Ok(self.at);
                }
            }
        }
        Ok(self.at)
    }

    /// Whether there is more after this part: not where the file ended before it, since somebody has cut it off.
    fn part(&mut self, at: u64, part: io::Result<Part<'_, T>>) -> io::Result<bool> {
        if at != self.at {
            return Ok(false);
        }
        let part = part?;
        let (end, is_empty) = match &part {
            Part::Gap(gap) => (gap.to, false),
            Part::Block(block, _) => (at + block.bytes().len() as u64, block.bytes().is_empty()),
        };
        if is_empty {
            return Ok(false);
        }
        let block = (self.take)(part)?;
        self.at = end;
        // Where nobody reads any more, nobody takes it.
        if let Some(block) = block {
            drop(self.give_back.send(block));
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    /// What each way of reading gives: bytes, gaps, and where it stopped.
    fn seen(
        bytes: &[u8],
        gaps: &[(u64, u64)],
        range: Range<u64>,
        readers: Option<usize>,
    ) -> (Vec<u8>, Vec<(u64, u64)>, u64) {
        let mut sample = sample(bytes, &[], gaps);
        sample.output.mask = Some(crate::mask::Mask::default());
        let (mut all, mut missing, mut next) = (Vec::new(), Vec::new(), range.start);
        let mut sink = |piece: Piece<'_>| {
            match piece {
                Piece::Gap(gap) => {
                    missing.push((gap.from, gap.to));
                    next = gap.to;
                }
                Piece::Bytes { offset, bytes, .. } => {
                    assert_eq!(offset, next, "in order");
                    all.extend_from_slice(bytes);
                    next = offset + bytes.len() as u64;
                }
            }
            Ok(())
        };
        let output = &mut sample.output;
        let end = match readers {
            Some(readers) => output.scan_by(readers, range, &mut sink),
            None => output.scan(range, false, &mut sink),
        };
        (all, missing, end.unwrap())
    }

    /// More than all blocks of two readers hold.
    fn long() -> Vec<u8> {
        let line = |n: u32| format!("{n} password=hunter22{n}\n").into_bytes();
        (0..).flat_map(line).take(9 * BLOCK_BYTES + 1).collect()
    }

    #[test]
    fn what_is_read_ahead_is_what_is_read() {
        let bytes = long();
        let length = bytes.len() as u64;
        for (gaps, range) in [
            (&[][..], 0..length),
            (&[], 7..length - 3),
            (&[], 0..length + 100),
            (&[(0, 5), (100, 70_000), (70_000, 70_001), (300_000, 900_000)], 3..length),
            (&[(length, length + 50)], 0..length + 50),
        ] {
            let plain = seen(&bytes, gaps, range.clone(), None);
            assert!(!plain.0.windows(6).any(|word| word == b"hunter"));
            for readers in [0, 3] {
                assert!(seen(&bytes, gaps, range.clone(), Some(readers)) == plain, "{gaps:?} {range:?} {readers}");
            }
        }
    }

    #[test]
    fn a_survey_gives_each_byte_and_glances_at_each_once() {
        let bytes = [long(), vec![b'x'; GLANCE_BYTES]].concat();
        let length = bytes.len() as u64;
        let (gap, back) = ((700_000, 800_000), 32);
        let sample = sample(&bytes, &[], &[gap]);
        for readers in 0..4 {
            let read = |block: &mut Block, length: usize, at: u64| {
                let mut seen: (u64, Vec<u8>) = (at, Vec::new());
                let mut glance = |text: &[u8], before: usize| {
                    assert!(before >= back.min(usize::try_from(at).unwrap()), "{before} before {at}");
                    seen.1.extend_from_slice(&text[before..]);
                };
                block.read_in_steps(&sample.output.file, back, length, at, 1000, &mut glance)?;
                Ok(seen)
            };
            let (mut all, mut missing, mut held) = (Vec::new(), Vec::new(), None);
            let end = sample.output.read_by(readers, 0..length, GLANCE_BYTES, &read, &mut |part| match part {
                Part::Gap(gap) => {
                    missing.push((gap.from, gap.to));
                    Ok(None)
                }
                Part::Block(block, (at, seen)) => {
                    let from = usize::try_from(at).unwrap();
                    assert!(block.bytes() == seen && bytes[from..].starts_with(&seen), "{at}");
                    all.extend_from_slice(block.bytes());
                    Ok(held.replace(block))
                }
            });
            assert_eq!((end.unwrap(), missing), (length, vec![gap]));
            assert!(all == [&bytes[..700_000], &bytes[800_000..]].concat());
        }
    }

    #[test]
    fn who_has_seen_enough_ends_the_reading() {
        let sample = sample(&long(), &[], &[]);
        for readers in 0..4 {
            let mut count = 0;
            let error = sample.output.scan_by(readers, 0..u64::MAX, &mut |_| {
                count += 1;
                if count == 3 { Err(io::Error::other("enough")) } else { Ok(()) }
            });
            assert_eq!((error.unwrap_err().to_string().as_str(), count), ("enough", 3));
        }
    }

    #[test]
    fn a_file_that_was_cut_off_ends_the_reading_where_it_ends() {
        let sample = sample(&long(), &[], &[]);
        let length = 3 * BLOCK_BYTES as u64 + 7;
        std::fs::OpenOptions::new().write(true).open(&sample.path).unwrap().set_len(length).unwrap();
        for readers in 0..4 {
            let mut count = 0;
            let end = sample.output.scan_by(readers, 0..20 * BLOCK_BYTES as u64, &mut |piece| {
                if let Piece::Bytes { bytes, .. } = piece {
                    count += bytes.len() as u64;
                }
                Ok(())
            });
            assert_eq!((end.unwrap(), count), (length, length));
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_is_told() {
        let mut sample = sample(b"", &[], &[]);
        sample.output.file = std::fs::File::open("/").unwrap();
        for readers in 0..4 {
            assert!(sample.output.scan_by(readers, 0..10, &mut |_| Ok(())).is_err());
        }
    }
}
