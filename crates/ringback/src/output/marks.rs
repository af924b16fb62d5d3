//! Finds lines by their number and numbers by their offset, with marks that are kept beside the output.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ringback_host::client::output::{Output, Piece};
use ringback_host::wire::TaskObject;
use ringback_render::lines::{LineIndex, STEP_BYTES};
use ringback_sys::files;
use ringback_sys::task_files::LINES;

/// Fewer new marks than this are not worth a file: they are counted again in no time.
const NEW_MARKS_MIN: usize = 8;
/// A larger file of marks is of no output that we know, and not read.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// The marks of one output.
pub(crate) struct Marks {
    index: LineIndex,
    path: PathBuf,
    saved: usize,
}

impl Marks {
    /// The marks that are kept, as far as they belong to an output of this length.
    pub(crate) fn open(task: &TaskObject, output: &Output) -> io::Result<Self> {
        let path = Path::new(&task.output.path).with_file_name(LINES);
        let is_small = !task.output.packed.is && fs::metadata(&path).is_ok_and(|facts| facts.len() <= FILE_BYTES_MAX);
        let file = if is_small { files::read_regular(&path).unwrap_or_default() } else { Vec::new() };
        let kept = LineIndex::decode(&file);
        let index = if kept.counted().offset <= output.len()? { kept } else { LineIndex::default() };
        Ok(Self { saved: index.len(), index, path })
    }

    /// Where this line begins; nothing if the output does not have it (yet).
    pub(crate) fn offset_of(&mut self, output: &mut Output, line: u64) -> io::Result<Option<u64>> {
        let length = output.len()?;
        while self.index.counted().line < line && self.index.counted().offset < length {
            let from = self.index.counted().offset;
            self.count(output, from, length.min(from + STEP_BYTES))?;
        }
        self.save();
        let mark = self.index.before_line(line);
        let mut missing = usize::try_from(line.saturating_sub(mark.line)).unwrap_or(usize::MAX);
        let (mut at, mut found) = (mark.offset, (missing == 0).then_some(mark.offset));
        while found.is_none() && at < length {
            let next = length.min(at + STEP_BYTES);
            let done = output.scan(at..next, false, &mut |piece| {
                if let (Piece::Bytes { offset, bytes, .. }, None) = (piece, found) {
                    found = newlines(bytes).nth(missing - 1).map(|at| offset + at as u64 + 1);
                    missing -= if found.is_none() { newlines(bytes).count() } else { 0 };
                }
                Ok(())
            })?;
            if done == at {
                break;
            }
            at = done;
        }
        Ok(found.filter(|offset| *offset < length))
    }

    /// The number of the line in which this byte is.
    pub(crate) fn line_at(&mut self, output: &mut Output, offset: u64) -> io::Result<u64> {
        while self.index.counted().offset < offset {
            let from = self.index.counted().offset;
            self.count(output, from, offset.min(from + STEP_BYTES))?;
            if self.index.counted().offset == from {
                break;
            }
        }
        self.save();
        let mark = self.index.before_offset(offset);
        let mut line = mark.line;
        output.scan(mark.offset..offset, false, &mut |piece| {
            if let Piece::Bytes { bytes, .. } = piece {
                line += newlines(bytes).count() as u64;
            }
            Ok(())
        })?;
        Ok(line)
    }

    fn count(&mut self, output: &mut Output, from: u64, to: u64) -> io::Result<()> {
        output.scan(from..to, false, &mut |piece| {
            match piece {
                Piece::Bytes { bytes, .. } => self.index.count(bytes),
                Piece::Gap(gap) => self.index.skip(gap.to.saturating_sub(self.index.counted().offset)),
            }
            Ok(())
        })?;
        Ok(())
    }

    /// Keeps the marks. If that cannot be, they are counted again the next time.
    fn save(&mut self) {
        if self.index.len() >= self.saved + NEW_MARKS_MIN
            && files::write_whole(&self.path, &self.index.encode_from(0)).is_ok()
        {
            self.saved = self.index.len();
        }
    }
}

fn newlines(bytes: &[u8]) -> impl Iterator<Item = usize> {
    bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(task: &TaskObject) -> (Option<u64>, Option<u64>, u64) {
        let mut output = Output::open(task).unwrap().unwrap();
        let mut marks = Marks::open(task, &output).unwrap();
        let late = marks.offset_of(&mut output, 1_000_000).unwrap();
        (late, marks.offset_of(&mut output, 2_000_001).unwrap(), marks.line_at(&mut output, 7_999_999).unwrap())
    }

    #[test]
    fn lines_are_found_by_marks_that_may_be_lost_or_broken() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("output");
        let mut task = TaskObject::default();
        task.output.path = path.to_str().unwrap().to_owned();
        fs::write(&path, "n 34567\n".repeat(2_000_000)).unwrap();
        let expected = (Some(999_999 * 8), None, 1_000_000);
        assert_eq!(check(&task), expected);
        let kept = dir.path().join("output.lines");
        let marks = fs::read(&kept).unwrap();
        assert!(marks.len() > 24 * 8, "{}", marks.len());
        assert_eq!(check(&task), expected);
        fs::write(&kept, &marks[..100]).unwrap();
        assert_eq!(check(&task), expected);
        fs::write(&kept, b"nonsense").unwrap();
        assert_eq!(check(&task), expected);
        // A file of marks that does not belong to this output is not believed.
        fs::write(&kept, &marks).unwrap();
        fs::write(&path, "a\nb\nc\n").unwrap();
        let mut output = Output::open(&task).unwrap().unwrap();
        let mut marks = Marks::open(&task, &output).unwrap();
        assert_eq!(marks.offset_of(&mut output, 3).unwrap(), Some(4));
        assert_eq!(marks.offset_of(&mut output, 4).unwrap(), None);
    }
}
