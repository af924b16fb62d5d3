//! Output as lines, each with the stream and the time of its first byte, while the pieces come in.

use std::io;

use super::{Gap, Piece, Stream};

/// The longest line that is held together; a longer one is given out in parts of this size, so that memory stays constant.
pub const LINE_BYTES_MAX: usize = 1 << 20;

/// One line, or a part of one: where it is endless, where the other stream came in between, or at a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Where it begins in the output.
    pub offset: u64,
    /// Its bytes, with the newline if it has one.
    pub bytes: &'a [u8],
    /// The stream of its first byte.
    pub stream: Stream,
    /// When its first byte came.
    pub wall_ms: Option<u64>,
}

/// Takes what [`Lines`] finds.
pub trait LineSink {
    /// One line.
    fn line(&mut self, line: Line<'_>) -> io::Result<()>;
    /// Bytes that are not there.
    fn gap(&mut self, gap: &Gap) -> io::Result<()>;
}

/// Puts pieces together to lines.
#[derive(Debug, Default)]
pub struct Lines {
    only: Option<Stream>,
    partial: Vec<u8>,
    offset: u64,
    stream: Stream,
    wall_ms: Option<u64>,
}

impl Lines {
    /// Lines of one stream, or of all.
    pub fn new(only: Option<Stream>) -> Self {
        Self { only, ..Self::default() }
    }

    /// Takes the next piece, and gives out the lines that it completes.
    pub fn push(&mut self, piece: Piece<'_>, sink: &mut dyn LineSink) -> io::Result<()> {
        match piece {
            Piece::Gap(gap) => {
                self.flush(sink)?;
                sink.gap(gap)
            }
            Piece::Bytes { stream, .. } if self.only.is_some_and(|only| only != stream) => Ok(()),
            Piece::Bytes { offset, bytes, stream, wall_ms } => {
                let mut at = 0;
                for part in bytes.split_inclusive(|byte| *byte == b'\n') {
                    self.take(offset + at as u64, part, stream, wall_ms, sink)?;
                    at += part.len();
                }
                Ok(())
            }
        }
    }

    /// Gives out what has no newline (yet).
    pub fn flush(&mut self, sink: &mut dyn LineSink) -> io::Result<()> {
        if self.partial.is_empty() {
            return Ok(());
        }
        let line = Line { offset: self.offset, bytes: &self.partial, stream: self.stream, wall_ms: self.wall_ms };
        sink.line(line)?;
        self.partial.clear();
        Ok(())
    }

    fn take(
        &mut self,
        offset: u64,
        part: &[u8],
        stream: Stream,
        wall_ms: Option<u64>,
        sink: &mut dyn LineSink,
    ) -> io::Result<()> {
        if !self.partial.is_empty() && self.stream != stream {
            // The other stream came in between: each part keeps the name of its own.
            self.flush(sink)?;
        }
        if self.partial.is_empty() {
            if part.last() == Some(&b'\n') {
                return sink.line(Line { offset, bytes: part, stream, wall_ms });
            }
            (self.offset, self.stream, self.wall_ms) = (offset, stream, wall_ms);
        }
        self.partial.extend_from_slice(part);
        if part.last() == Some(&b'\n') || self.partial.len() >= LINE_BYTES_MAX {
            self.flush(sink)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    #[derive(Default)]
    struct Seen(Vec<String>);

    impl LineSink for Seen {
        fn line(&mut self, line: Line<'_>) -> io::Result<()> {
            let text = String::from_utf8_lossy(line.bytes).replace('\n', "$");
            self.0.push(format!("{} {text} {:?}", line.offset, line.wall_ms.unwrap_or(0)));
            Ok(())
        }
        fn gap(&mut self, gap: &Gap) -> io::Result<()> {
            self.0.push(format!("gap {}..{}", gap.from, gap.to));
            Ok(())
        }
    }

    fn check(bytes: &[u8], entries: &[(u64, u64, Stream)], gaps: &[(u64, u64)], only: Option<Stream>) -> Vec<String> {
        let (mut sample, mut lines, mut seen) = (sample(bytes, entries, gaps), Lines::new(only), Seen::default());
        sample.output.scan(0..u64::MAX, true, &mut |piece| lines.push(piece, &mut seen)).unwrap();
        lines.flush(&mut seen).unwrap();
        seen.0
    }

    #[test]
    fn a_line_has_the_time_of_its_first_byte() {
        let entries = [(0, 10, Stream::Merged), (3, 20, Stream::Merged), (6, 30, Stream::Merged)];
        assert_eq!(check(b"a\nbb\ncc", &entries, &[], None), ["0 a$ 10", "2 bb$ 10", "5 cc 20"]);
    }

    #[test]
    fn one_stream_is_put_together_across_the_other() {
        let entries = [(0, 1, Stream::Stdout), (3, 2, Stream::Stderr), (7, 3, Stream::Stdout)];
        assert_eq!(check(b"outerr\nput\n", &entries, &[], Some(Stream::Stdout)), ["0 output$ 1"]);
        assert_eq!(check(b"outerr\nput\n", &entries, &[], Some(Stream::Stderr)), ["3 err$ 2"]);
    }

    #[test]
    fn a_line_that_the_other_stream_interrupts_comes_in_parts() {
        let entries = [(0, 1, Stream::Stdout), (3, 2, Stream::Stderr), (7, 3, Stream::Stdout)];
        assert_eq!(check(b"outerr\nput\n", &entries, &[], None), ["0 out 1", "3 err$ 2", "7 put$ 3"]);
    }

    #[test]
    fn a_gap_ends_a_line_and_an_endless_line_comes_in_parts() {
        assert_eq!(check(b"ab\0\0cd\n", &[], &[(2, 4)], None), ["0 ab 0", "gap 2..4", "4 cd$ 0"]);
        let long = vec![b'x'; LINE_BYTES_MAX + 5];
        let parts = check(&long, &[], &[], None);
        assert_eq!(parts.iter().map(String::len).max(), Some(LINE_BYTES_MAX + 4));
        assert_eq!(parts.len(), 2);
    }
}
