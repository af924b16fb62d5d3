//! Reads a long output in a thread of its own, while what it has read is looked at.

use std::io;
use std::ops::Range;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;

use super::{Gap, Next, Output, Piece, Stream};
use crate::mask::Block;

/// Of a shorter output the thread would cost more than it gains.
const LONG_BYTES: u64 = 8 << 20;
/// How many blocks there are: one is filled, one is looked at, and one waits, so that neither side does.
const BLOCKS: usize = 3;

/// What was read.
enum Part<'a> {
    Bytes { offset: u64, block: Block },
    Gap(&'a Gap),
}

impl Output {
    /// As [`Output::scan`] without labels, for a sink that takes about as long for a piece as its reading does.
    pub fn scan_ahead(
        &mut self,
        range: Range<u64>,
        sink: &mut dyn FnMut(Piece<'_>) -> io::Result<()>,
    ) -> io::Result<u64> {
        if range.end.saturating_sub(range.start) < LONG_BYTES {
            return self.scan(range, false, sink);
        }
        self.scan_beside(range, sink)
    }

    fn scan_beside(&mut self, range: Range<u64>, sink: &mut dyn FnMut(Piece<'_>) -> io::Result<()>) -> io::Result<u64> {
        let is_started = thread::scope(|scope| {
            let (filled, full) = mpsc::sync_channel(BLOCKS);
            let (give_back, empty) = mpsc::channel();
            (0..BLOCKS).for_each(|_| drop(give_back.send(Block::default())));
            let (output, range, start) = (&*self, range.clone(), range.start);
            let read = move || output.fill(range, &empty, &filled);
            thread::Builder::new().spawn_scoped(scope, read).ok()?;
            Some(look(start, full, &give_back, sink))
        });
        // Where no thread may be started, one does both.
        is_started.unwrap_or_else(|| self.scan(range, false, sink))
    }

    /// Fills blocks until the end, or until nobody takes them.
    fn fill<'a>(&'a self, range: Range<u64>, empty: &Receiver<Block>, full: &SyncSender<io::Result<Part<'a>>>) {
        let mut at = range.start;
        while at < range.end
            && let Ok(mut block) = empty.recv()
        {
            let part = match self.next(at, range.end, &mut block) {
                Ok(Next::Nothing) => return,
                Ok(Next::Gap(gap)) => {
                    at = gap.to;
                    Ok(Part::Gap(gap))
                }
                Ok(Next::Bytes) => {
                    let offset = at;
                    at += block.bytes().len() as u64;
                    Ok(Part::Bytes { offset, block })
                }
                Err(error) => Err(error),
            };
            let is_error = part.is_err();
            if full.send(part).is_err() || is_error {
                return;
            }
        }
    }
}

/// Gives everything to the sink; where it stopped.
fn look(
    start: u64,
    full: Receiver<io::Result<Part<'_>>>,
    give_back: &mpsc::Sender<Block>,
    sink: &mut dyn FnMut(Piece<'_>) -> io::Result<()>,
) -> io::Result<u64> {
    let mut at = start;
    for part in full {
        match part? {
            Part::Gap(gap) => {
                sink(Piece::Gap(gap))?;
                at = gap.to;
                // In place of the one that was taken for nothing.
                drop(give_back.send(Block::default()));
            }
            Part::Bytes { offset, block } => {
                let bytes = block.bytes();
                sink(Piece::Bytes { offset, bytes, stream: Stream::Merged, wall_ms: None })?;
                at = offset + bytes.len() as u64;
                // The reader has ended by itself.
                drop(give_back.send(block));
            }
        }
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::super::BLOCK_BYTES;
    use super::super::tests::sample;
    use super::*;

    /// What each way of reading gives: bytes, gaps, and where it stopped.
    fn seen(bytes: &[u8], gaps: &[(u64, u64)], range: Range<u64>, is_ahead: bool) -> (Vec<u8>, Vec<(u64, u64)>, u64) {
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
        let end = if is_ahead { output.scan_beside(range, &mut sink) } else { output.scan(range, false, &mut sink) };
        (all, missing, end.unwrap())
    }

    /// More than all blocks hold.
    fn long() -> Vec<u8> {
        let line = |n: u32| format!("{n} password=hunter22{n}\n").into_bytes();
        (0..).flat_map(line).take((BLOCKS + 1) * BLOCK_BYTES + 1).collect()
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
            let plain = seen(&bytes, gaps, range.clone(), false);
            assert!(!plain.0.windows(6).any(|word| word == b"hunter"));
            assert!(seen(&bytes, gaps, range.clone(), true) == plain, "{gaps:?} {range:?}");
        }
    }

    #[test]
    fn who_has_seen_enough_ends_the_reading() {
        let mut sample = sample(&long(), &[], &[]);
        let mut count = 0;
        let error = sample.output.scan_beside(0..u64::MAX, &mut |_| {
            count += 1;
            if count == 3 { Err(io::Error::other("enough")) } else { Ok(()) }
        });
        assert_eq!((error.unwrap_err().to_string().as_str(), count), ("enough", 3));
    }

    #[test]
    fn a_file_that_cannot_be_read_is_told() {
        let mut sample = sample(b"", &[], &[]);
        sample.output.file = std::fs::File::open("/").unwrap();
        assert!(sample.output.scan_beside(0..10, &mut |_| Ok(())).is_err());
    }
}
