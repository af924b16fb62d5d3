//! A task's output as doors read it: by bytes, by lines, from the end, by stream and by time, in constant memory.

mod ahead;
mod facts;
mod follow;
mod index;
mod lines;
mod live;
mod unreadable;

use std::fs::File;
use std::io::{self, Write as _};
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

pub use ahead::Part;
pub use facts::{Facts, facts};
pub use follow::{Follow, Turn};
pub use lines::{LINE_BYTES_MAX, Line, LineSink, Lines};
use ringback_core::shape;
use ringback_sys::files;
pub use ringback_sys::form::index::Stream;
use serde_bytes::ByteBuf;
pub use unreadable::Unreadable;

pub use crate::mask::Block;
use crate::mask::Mask;
use crate::wire::TaskObject;
use index::Index;
use live::Live;

/// How much is read at once: what is read around it to hide secrets is a small part of it, and all stays in a processor's cache.
const BLOCK_BYTES: usize = 256 << 10;

/// A piece of output, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Bytes of one stream.
    Bytes {
        /// Where the first of them is in the output.
        offset: u64,
        /// The bytes.
        bytes: &'a [u8],
        /// Which stream they are of.
        stream: Stream,
        /// When they came, milliseconds after 1970; nothing if it was not noted.
        wall_ms: Option<u64>,
    },
    /// Bytes that are not there.
    Gap(&'a Gap),
}

/// Bytes of an output that were not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// First missing byte.
    pub from: u64,
    /// First byte that is there again.
    pub to: u64,
    /// Why.
    pub why: String,
}

impl Gap {
    /// The last byte that is missing: in words, ranges have both ends.
    pub fn last(&self) -> u64 {
        self.to.saturating_sub(1)
    }
}

/// What is read next.
enum Next<'a> {
    /// The block was filled.
    Bytes,
    /// These bytes are missing.
    Gap(&'a Gap),
    /// The file ends here.
    Nothing,
}

/// The open output of one task.
pub struct Output {
    file: File,
    index: Index,
    gaps: Vec<Gap>,
    /// What is hidden of it; nothing for the bytes as they were written.
    mask: Option<Mask>,
    live: Option<Live>,
}

impl Output {
    /// Opens the output of this task; nothing if it has none yet. What looks like a secret reads as stars.
    pub fn open(task: &TaskObject) -> io::Result<Option<Self>> {
        let Some(output) = Self::open_raw(task)? else { return Ok(None) };
        // An output that is packed has none of the task's own secrets in it: see the daemon's packing.
        let folder = Path::new(&task.output.path).parent().filter(|_| !task.output.packed.is);
        Ok(Some(Self { mask: Some(folder.map(Mask::of_folder).unwrap_or_default()), ..output }))
    }

    /// The same with every byte as it was written.
    pub fn open_raw(task: &TaskObject) -> io::Result<Option<Self>> {
        let gaps = task.output.gaps.iter().map(|(from, to, why)| Gap { from: *from, to: *to, why: why.clone() });
        let packed = &task.output.packed;
        if packed.is {
            return Self::unpack(packed.bytes.as_ref(), gaps.collect());
        }
        let (path, index_path) = (Path::new(&task.output.path), Path::new(&task.output.index_path));
        // The index is made after the output, with the first byte, and both stay.
        let was_there = |task: &TaskObject| index_path.exists() || (task.has_ended() && task.output.bytes > 0);
        match Self::open_at(path, index_path, gaps.collect()) {
            Ok(None) if was_there(task) => Err(Unreadable::error(
                io::ErrorKind::NotFound,
                format!("the output of {} is not there any more: {} was removed", task.id, path.display()),
                format!("`ringback show {}` says how the task stands, which does not depend on it", task.id),
            )),
            Ok(output) => Ok(output.map(|output| Self { live: Live::of(task), ..output })),
            Err(error) => Err(Unreadable::error(
                error.kind(),
                format!("cannot read the output of {}, {}: {error}", task.id, path.display()),
                Unreadable::look(task, path),
            )),
        }
    }

    /// The output that came with the task, as a file that is nowhere but in memory.
    fn unpack(bytes: Option<&(Option<ByteBuf>, ByteBuf)>, mut gaps: Vec<Gap>) -> io::Result<Option<Self>> {
        let Some((output, index)) = bytes else {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the output did not come with the task"));
        };
        let Some(output) = output else { return Ok(None) };
        let in_memory = |bytes: &[u8]| {
            let mut file = files::memory("output")?;
            file.write_all(bytes)?;
            Ok::<File, io::Error>(file)
        };
        gaps.sort_by_key(|gap| gap.from);
        Ok(Some(Self { file: in_memory(output)?, index: Index::of(in_memory(index)?), gaps, mask: None, live: None }))
    }

    fn open_at(path: &Path, index_path: &Path, mut gaps: Vec<Gap>) -> io::Result<Option<Self>> {
        let file = match files::open_regular(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        gaps.sort_by_key(|gap| gap.from);
        Ok(Some(Self { file, index: Index::open(index_path)?, gaps, mask: None, live: None }))
    }

    /// How many bytes there are now, gaps included. A file that ends in a gap is shorter.
    pub fn len(&self) -> io::Result<u64> {
        let missing = self.gaps.iter().map(|gap| gap.to).max().unwrap_or(0);
        Ok(self.file.metadata()?.len().max(missing))
    }

    /// Up to where a reader who keeps up may be shown what is there: before what may be the begin of a secret, until more
    /// has come. Not before `from`, and where nothing is hidden all.
    pub fn settled(&self, from: u64) -> io::Result<u64> {
        let end = self.len()?;
        let Some(mask) = &self.mask else { return Ok(end) };
        let start = end.saturating_sub(2 * shape::SECRET_BYTES_MAX as u64);
        let mut last = vec![0; usize::try_from(end - start).unwrap_or(0)];
        let length = self.read_some(&mut last, start)?;
        // A file that ends in a gap is shorter.
        let begun = if length == last.len() { mask.begun(&last) } else { 0 };
        Ok((end - begun as u64).max(from))
    }

    /// Whether there is nothing yet.
    pub fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Whether somebody has removed its file; one that is packed is in none.
    pub fn is_removed(&self) -> bool {
        self.file.metadata().is_ok_and(|facts| facts.nlink() == 0)
    }

    /// Takes over what the task now says about missing bytes.
    pub fn update_gaps(&mut self, task: &TaskObject) {
        self.live = Live::of(task);
        self.gaps.clear();
        self.gaps.extend(task.output.gaps.iter().map(|(from, to, why)| Gap { from: *from, to: *to, why: why.clone() }));
        self.gaps.sort_by_key(|gap| gap.from);
    }

    /// The missing bytes.
    pub fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    /// Where the first byte that came at or after this time is.
    pub fn offset_at(&mut self, wall_ms: u64) -> io::Result<u64> {
        match self.index.offset_at(wall_ms)? {
            Some(offset) => Ok(offset),
            None => self.len(),
        }
    }

    /// Gives every piece of `range` to `sink`, and says where it stopped: before the end where the file is
    /// shorter, after it where a gap goes on.
    ///
    /// With `labels`, pieces are split where the stream or the time changes; without, the index is not read.
    pub fn scan(
        &mut self,
        range: Range<u64>,
        labels: bool,
        sink: &mut dyn FnMut(Piece<'_>) -> io::Result<()>,
    ) -> io::Result<u64> {
        let (mut block, mut at) = (Block::default(), range.start);
        while at < range.end {
            match self.next(at, range.end, &mut block)? {
                Next::Gap(gap) => {
                    sink(Piece::Gap(gap))?;
                    at = gap.to;
                }
                Next::Bytes => {
                    let bytes = block.bytes();
                    let bytes = &bytes[..self.were_there(at, bytes)?];
                    if bytes.is_empty() {
                        // It was freed meanwhile, and is a gap now.
                        continue;
                    }
                    if labels {
                        self.label(at, bytes, sink)?;
                    } else {
                        sink(Piece::Bytes { offset: at, bytes, stream: Stream::Merged, wall_ms: None })?;
                    }
                    at += bytes.len() as u64;
                }
                Next::Nothing => break,
            }
        }
        Ok(at)
    }

    /// What there is at this place, as far as one reading into `block` goes.
    fn next(&self, at: u64, end: u64, block: &mut Block) -> io::Result<Next<'_>> {
        if let Some(gap) = self.gap_at(at) {
            return Ok(Next::Gap(gap));
        }
        self.read_block(block, self.bytes_from(at, end, BLOCK_BYTES), at)?;
        Ok(if block.bytes().is_empty() { Next::Nothing } else { Next::Bytes })
    }

    fn gap_at(&self, at: u64) -> Option<&Gap> {
        self.gaps.iter().find(|gap| gap.from <= at && at < gap.to)
    }

    /// How many bytes there are before the end and the next gap, at most so many.
    fn bytes_from(&self, at: u64, end: u64, most: usize) -> usize {
        let next_gap = self.gaps.iter().map(|gap| gap.from).filter(|from| *from > at).min().unwrap_or(u64::MAX);
        usize::try_from(end.min(next_gap) - at).unwrap_or(usize::MAX).min(most)
    }

    /// Reads these bytes as they may be shown.
    fn read_block(&self, block: &mut Block, length: usize, at: u64) -> io::Result<()> {
        match &self.mask {
            Some(mask) => mask.read_block(&self.file, block, length, at),
            None => block.read(&self.file, length, at),
        }
    }

    /// Splits bytes where the index does. An entry is written before its bytes, so what was read is in the index already.
    fn label(&mut self, at: u64, bytes: &[u8], sink: &mut dyn FnMut(Piece<'_>) -> io::Result<()>) -> io::Result<()> {
        let mut number = self.index.find_offset(at)?;
        let mut done = 0;
        while done < bytes.len() {
            let offset = at + done as u64;
            let entry = match number {
                Some(number) => self.index.entry(number)?,
                None => None,
            };
            let next = number.map_or(0, |number| number + 1);
            let until = self.index.entry(next)?.map_or(u64::MAX, |entry| entry.offset);
            let end = usize::try_from(until.saturating_sub(at)).unwrap_or(usize::MAX).min(bytes.len());
            if end > done {
                let stream = entry.map_or(Stream::Merged, |entry| entry.stream);
                let wall_ms = entry.map(|entry| entry.wall_ms);
                sink(Piece::Bytes { offset, bytes: &bytes[done..end], stream, wall_ms })?;
                done = end;
            }
            number = Some(next);
        }
        Ok(())
    }

    /// Where the last `count` lines before `end` begin, by reading backwards.
    pub fn tail_start(&self, count: u64, end: u64) -> io::Result<u64> {
        if count == 0 {
            return Ok(end);
        }
        let mut block = vec![0; BLOCK_BYTES];
        let (mut seen, mut high) = (0, end);
        while high > 0 {
            if let Some(gap) = self.gaps.iter().find(|gap| gap.from < high && high <= gap.to) {
                high = gap.from;
                continue;
            }
            let floor = self.gaps.iter().map(|gap| gap.to).filter(|to| *to < high).max().unwrap_or(0);
            let low = high.saturating_sub(BLOCK_BYTES as u64).max(floor);
            let length = usize::try_from(high - low).unwrap_or(BLOCK_BYTES);
            // Of a file that somebody has cut off less is there.
            let length = self.read_some(&mut block[..length], low)?;
            for (at, _) in block[..length].iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
                let after = low + at as u64 + 1;
                // The newline that ends the last line does not begin another one.
                if after < end {
                    seen += 1;
                    if seen == count {
                        return Ok(after);
                    }
                }
            }
            high = low;
        }
        Ok(0)
    }

    /// Fills the block from `at` on, as far as the file goes; how much that is.
    fn read_some(&self, block: &mut [u8], at: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < block.len() {
            match self.file.read_at(&mut block[done..], at + done as u64)? {
                0 => break,
                count => done += count,
            }
        }
        Ok(done)
    }

    /// Exactly these bytes, as far as they are there; a gap reads as nothing.
    pub fn read(&mut self, range: Range<u64>) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        self.scan(range, false, &mut |piece| {
            if let Piece::Bytes { bytes, .. } = piece {
                all.extend_from_slice(bytes);
            }
            Ok(())
        })?;
        Ok(all)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use ringback_sys::form::index::Entry;

    pub(super) struct Sample {
        _dir: tempfile::TempDir,
        pub(super) path: std::path::PathBuf,
        pub(super) output: Output,
    }

    /// An output of these bytes, with these index entries (offset, time, stream) and gaps.
    pub(super) fn sample(bytes: &[u8], entries: &[(u64, u64, Stream)], gaps: &[(u64, u64)]) -> Sample {
        let dir = tempfile::tempdir().unwrap();
        let (path, index_path) = (dir.path().join("output"), dir.path().join("output.idx"));
        std::fs::write(&path, bytes).unwrap();
        let mut index = File::create(&index_path).unwrap();
        for (offset, wall_ms, stream) in entries {
            index.write_all(&Entry { offset: *offset, wall_ms: *wall_ms, stream: *stream }.encode()).unwrap();
        }
        let gaps = gaps.iter().map(|(from, to)| Gap { from: *from, to: *to, why: "output_limit".to_owned() });
        let output = Output::open_at(&path, &index_path, gaps.collect()).unwrap().unwrap();
        Sample { _dir: dir, path, output }
    }

    fn pieces(sample: &mut Sample, range: Range<u64>, labels: bool) -> Vec<String> {
        let mut all = Vec::new();
        let mut sink = |piece: Piece<'_>| {
            all.push(match piece {
                Piece::Gap(gap) => format!("gap {}..{}", gap.from, gap.to),
                Piece::Bytes { offset, bytes, stream, wall_ms } => {
                    format!("{offset} {} {stream:?} {wall_ms:?}", String::from_utf8_lossy(bytes))
                }
            });
            Ok(())
        };
        sample.output.scan(range, labels, &mut sink).unwrap();
        all
    }

    #[test]
    fn bytes_are_told_apart_by_stream_and_time() {
        use Stream::{Stderr, Stdout};
        let entries = [(0, 100, Stdout), (3, 100, Stderr), (5, 120, Stdout)];
        let mut sample = sample(b"outerout", &entries, &[]);
        assert_eq!(
            pieces(&mut sample, 0..8, true),
            ["0 out Stdout Some(100)", "3 er Stderr Some(100)", "5 out Stdout Some(120)"]
        );
        assert_eq!(pieces(&mut sample, 4..6, true), ["4 r Stderr Some(100)", "5 o Stdout Some(120)"]);
        assert_eq!(pieces(&mut sample, 2..99, false), ["2 terout Merged None"]);
        assert_eq!(sample.output.offset_at(101).unwrap(), 5);
        assert_eq!(sample.output.offset_at(121).unwrap(), 8);
    }

    #[test]
    fn without_an_index_everything_is_merged() {
        let mut sample = sample(b"ab", &[], &[]);
        assert_eq!(pieces(&mut sample, 0..2, true), ["0 ab Merged None"]);
    }

    #[test]
    fn an_index_that_is_made_after_the_output_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let (path, index_path) = (dir.path().join("output"), dir.path().join("output.idx"));
        std::fs::write(&path, b"").unwrap();
        let output = Output::open_at(&path, &index_path, Vec::new()).unwrap().unwrap();
        let mut sample = Sample { _dir: dir, path: path.clone(), output };
        let entry = Entry { offset: 0, wall_ms: 7, stream: Stream::Stderr };
        std::fs::write(&index_path, entry.encode()).unwrap();
        std::fs::write(&path, b"ab").unwrap();
        assert_eq!(pieces(&mut sample, 0..2, true), ["0 ab Stderr Some(7)"]);
    }

    #[test]
    fn a_packed_output_reads_as_the_file_did_and_a_removed_one_is_missed() {
        let index = Entry { offset: 0, wall_ms: 7, stream: Stream::Stderr }.encode().to_vec();
        let mut task = TaskObject { state: "exited".to_owned(), ..TaskObject::default() };
        task.output.gaps = vec![(1, 3, "no_space".to_owned())];
        task.output.packed = crate::wire::task::Packed {
            is: true,
            bytes: Some((Some(ByteBuf::from(*b"a\0\0b\n")), ByteBuf::from(index))),
        };
        let wire = rmp_serde::to_vec_named(&task).unwrap();
        let task: TaskObject = rmp_serde::from_slice(&wire).unwrap();
        let json = serde_json::to_value(&task).unwrap();
        assert_eq!((&json["output"]["packed"], &json["output"]["path"]), (&true.into(), &serde_json::Value::Null));
        let mut output = Output::open(&task).unwrap().unwrap();
        assert_eq!((output.len().unwrap(), output.read(0..5).unwrap()), (5, b"ab\n".to_vec()));
        assert_eq!(output.offset_at(8).unwrap(), 5);

        let mut removed = TaskObject { state: "exited".to_owned(), id: "k3".to_owned(), ..TaskObject::default() };
        removed.output.path = "/nowhere/output".to_owned();
        assert!(Output::open(&removed).unwrap().is_none(), "it never wrote");
        removed.output.bytes = 1;
        let error = Output::open(&removed).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("k3 is not there any more"), "{error}");
    }

    #[test]
    fn a_gap_is_told_once_and_not_read() {
        let mut sample = sample(b"head\0\0\0\0tail", &[], &[(4, 8)]);
        assert_eq!(pieces(&mut sample, 0..12, false), ["0 head Merged None", "gap 4..8", "8 tail Merged None"]);
        assert_eq!(pieces(&mut sample, 5..12, false), ["gap 4..8", "8 tail Merged None"]);
        assert_eq!(sample.output.scan(0..6, false, &mut |_| Ok(())).unwrap(), 8, "a gap is not told in parts");
        assert_eq!(sample.output.read(0..12).unwrap(), b"headtail");
    }

    #[test]
    fn the_last_lines_are_found_from_behind() {
        let start = |text: &[u8], count| sample(text, &[], &[]).output.tail_start(count, text.len() as u64).unwrap();
        assert_eq!(start(b"a\nb\nc\n", 1), 4);
        assert_eq!(start(b"a\nb\nc", 1), 4);
        assert_eq!(start(b"a\nb\nc\n", 2), 2);
        assert_eq!(start(b"a\nb\nc\n", 3), 0);
        assert_eq!(start(b"a\nb\nc\n", 99), 0);
        assert_eq!(start(b"a\nb\n", 0), 4);
        assert_eq!(start(b"\n\n\n", 2), 1);
        // Found by chance: a file that is cut off before a gap.
        assert_eq!(sample(b"a\nb\n", &[], &[(50, 60)]).output.tail_start(2, 60).unwrap(), 2);
        let long = [vec![b'x'; 3 * BLOCK_BYTES], b"\nlast\n".to_vec()].concat();
        assert_eq!(start(&long, 1), 3 * BLOCK_BYTES as u64 + 1);
        assert_eq!(start(&long, 2), 0);
    }

    #[test]
    fn lines_before_a_gap_are_found_across_it() {
        let sample = sample(b"a\nb\n\0\0\0\0c\nd\n", &[], &[(4, 8)]);
        assert_eq!(sample.output.tail_start(2, 12).unwrap(), 4);
        assert_eq!(sample.output.tail_start(3, 12).unwrap(), 2);
    }
}
