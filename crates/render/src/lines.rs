//! Where the lines of an output begin: a sparse index, so that line 9,000,000 is found without reading what is before it.
//!
//! A reader counts newlines once, notes a mark every [`STEP_BYTES`], and may keep the marks in a file beside the output.
//! The file is a convenience: each mark carries a checksum, what is not right is not used, and counting again makes it anew.

/// A mark is made for about every so many bytes: what has to be read to find a line from its mark.
pub const STEP_BYTES: u64 = 1 << 20;
/// How the file of marks begins: its name and version.
pub const MAGIC: [u8; 8] = *b"rb.lines";
/// The size of one mark in the file.
pub const MARK_BYTES: usize = 24;

/// A place at which a line begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Where it begins.
    pub offset: u64,
    /// The number of the line, from 1.
    pub line: u64,
}

impl Mark {
    /// The begin of the output.
    pub const FIRST: Self = Self { offset: 0, line: 1 };

    /// As it is kept in a file.
    pub fn encode(self) -> [u8; MARK_BYTES] {
        let mut bytes = [0; MARK_BYTES];
        bytes[..8].copy_from_slice(&self.offset.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.line.to_le_bytes());
        bytes[16..].copy_from_slice(&check_of(self.offset, self.line).to_le_bytes());
        bytes
    }

    /// From a file; nothing if it is torn or not a mark.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let (offset, line, check) = (word(0)?, word(8)?, word(16)?);
        (check == check_of(offset, line)).then_some(Self { offset, line })
    }
}

/// Tells a torn mark from a whole one (a multiplicative hash; nobody attacks a file that only its owner can write).
fn check_of(offset: u64, line: u64) -> u64 {
    let mixed = offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ line.rotate_left(32).wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) | 1
}

/// The marks of one output, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineIndex {
    marks: Vec<Mark>,
    /// Up to where newlines were counted, and the number of the line there.
    end: Mark,
}

impl Default for LineIndex {
    fn default() -> Self {
        Self { marks: vec![Mark::FIRST], end: Mark::FIRST }
    }
}

impl LineIndex {
    /// Reads a file of marks; what is not right, and all after it, is left out.
    pub fn decode(file: &[u8]) -> Self {
        let mut index = Self::default();
        let Some(marks) = file.strip_prefix(&MAGIC) else { return index };
        for mark in marks.chunks_exact(MARK_BYTES).map_while(Mark::decode) {
            if mark.offset <= index.end.offset || mark.line < index.end.line {
                break;
            }
            index.marks.push(mark);
            index.end = mark;
        }
        index
    }

    /// The marks after the first `known` ones, as they are appended to a file; with its begin if there are none.
    pub fn encode_from(&self, known: usize) -> Vec<u8> {
        let mut bytes = if known <= 1 { MAGIC.to_vec() } else { Vec::new() };
        self.marks.iter().skip(known.max(1)).for_each(|mark| bytes.extend_from_slice(&mark.encode()));
        bytes
    }

    /// How many marks there are.
    pub fn len(&self) -> usize {
        self.marks.len()
    }

    /// Whether there are no marks but the first.
    pub fn is_empty(&self) -> bool {
        self.marks.len() <= 1
    }

    /// Up to where newlines were counted, and the number of the line that is being read there.
    pub fn counted(&self) -> Mark {
        self.end
    }

    /// Counts the newlines of the bytes that follow what was counted.
    pub fn count(&mut self, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let last = self.marks.last().map_or(0, |mark| mark.offset);
            let until_mark = (last + STEP_BYTES).saturating_sub(self.end.offset);
            let step = usize::try_from(until_mark).unwrap_or(usize::MAX).min(bytes.len() - done);
            self.advance(&bytes[done..done + step]);
            done += step;
            if done == bytes.len() {
                break;
            }
            // A mark is made at the next begin of a line.
            let Some(at) = memchr::memchr(b'\n', &bytes[done..]) else { return self.advance(&bytes[done..]) };
            self.advance(&bytes[done..=done + at]);
            done += at + 1;
            self.marks.push(self.end);
        }
    }

    /// Goes over bytes that are missing: nobody knows how many lines they had.
    pub fn skip(&mut self, count: u64) {
        self.end.offset += count;
    }

    fn advance(&mut self, bytes: &[u8]) {
        self.end.offset += bytes.len() as u64;
        self.end.line += memchr::memchr_iter(b'\n', bytes).count() as u64;
    }

    /// The last mark at or before this line: from there, its begin is found by counting.
    pub fn before_line(&self, line: u64) -> Mark {
        let count = self.marks.partition_point(|mark| mark.line <= line);
        count.checked_sub(1).map_or(Mark::FIRST, |at| self.marks[at])
    }

    /// The last mark at or before this byte.
    pub fn before_offset(&self, offset: u64) -> Mark {
        let count = self.marks.partition_point(|mark| mark.offset <= offset);
        count.checked_sub(1).map_or(Mark::FIRST, |at| self.marks[at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output() -> Vec<u8> {
        (0..400_000).flat_map(|n| format!("line {n}\n").into_bytes()).collect()
    }

    fn index(bytes: &[u8], piece: usize) -> LineIndex {
        let mut index = LineIndex::default();
        bytes.chunks(piece).for_each(|piece| index.count(piece));
        index
    }

    #[test]
    #[cfg_attr(miri, ignore = "writes more than the most, which takes miri hours")]
    fn a_line_is_found_near_its_mark() {
        let bytes = output();
        let index = index(&bytes, 10_007);
        assert_eq!(index.counted(), Mark { offset: bytes.len() as u64, line: 400_001 });
        assert!(index.len() >= 4, "{}", index.len());
        for line in [1, 2, 150_000, 399_999, 400_000] {
            let mark = index.before_line(line);
            let from = usize::try_from(mark.offset).unwrap();
            let steps = usize::try_from(line - mark.line).unwrap();
            let text = bytes[from..].split(|byte| *byte == b'\n').nth(steps).unwrap();
            assert_eq!(text, format!("line {}", line - 1).as_bytes());
            assert!(steps as u64 * 8 < STEP_BYTES + 4096);
        }
        assert_eq!(index.before_offset(0), Mark::FIRST);
        assert!(index.before_offset(3 << 20).offset <= 3 << 20);
    }

    #[test]
    #[cfg_attr(miri, ignore = "writes more than the most, which takes miri hours")]
    fn marks_depend_on_the_bytes_only() {
        let bytes = output();
        assert_eq!(index(&bytes, 1000), index(&bytes, bytes.len()));
        assert_eq!(index(&bytes, 65_536), index(&bytes, 7));
    }

    #[test]
    #[cfg_attr(miri, ignore = "writes more than the most, which takes miri hours")]
    fn a_file_of_marks_is_taken_up_again_and_a_torn_one_as_far_as_it_is_right() {
        let bytes = output();
        let whole = index(&bytes, bytes.len());
        let mut file = whole.encode_from(0);
        assert_eq!(LineIndex::decode(&file).marks, whole.marks);
        let mut half = LineIndex::decode(&file[..file.len() - 5]);
        assert_eq!(half.len(), whole.len() - 1);
        let (known, from) = (half.len(), usize::try_from(half.counted().offset).unwrap());
        half.count(&bytes[from..]);
        assert_eq!(half, whole);
        file.truncate(MAGIC.len() + (known - 1) * MARK_BYTES);
        file.extend(half.encode_from(known));
        assert_eq!(LineIndex::decode(&file).marks, whole.marks);
        file[MAGIC.len() + 3] ^= 1;
        assert!(LineIndex::decode(&file).is_empty());
        assert!(LineIndex::decode(b"something else").is_empty());
        assert!(LineIndex::decode(b"").is_empty());
    }
}
