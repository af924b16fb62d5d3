//! A file of somebody else's as agents may read it.

use std::io::{self, BufRead, Read};

use ringback_host::mask::Mask;

/// The longest line that is held together.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// A file as agents may read it: line by line, each secret in it starred.
pub(super) struct Masked<'a, R> {
    from: R,
    mask: &'a Mask,
    line: Vec<u8>,
    at: usize,
}

impl<'a, R: BufRead> Masked<'a, R> {
    pub(super) fn new(from: R, mask: &'a Mask) -> Self {
        Self { from, mask, line: Vec::new(), at: 0 }
    }
}

impl<R: BufRead> BufRead for Masked<'_, R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.at == self.line.len() {
            self.line.clear();
            self.at = 0;
            self.from.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut self.line)?;
            self.mask.hide(&mut self.line);
        }
        Ok(&self.line[self.at..])
    }

    fn consume(&mut self, count: usize) {
        self.at += count;
    }
}

impl<R: BufRead> Read for Masked<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_starred_whatever_the_size_of_a_read() {
        let text = "<failure message='Authorization: Bearer abcdef0123456789'/>\nnext";
        let mask = Mask::default();
        let mut read = String::new();
        Masked::new(text.as_bytes(), &mask).read_to_string(&mut read).unwrap();
        assert_eq!(read, text.replace("abcdef0123456789", &"*".repeat(16)));
        let mut lines = Masked::new(text.as_bytes(), &mask).lines();
        assert!(!lines.next().unwrap().unwrap().contains("abcdef"));
        assert_eq!(lines.next().unwrap().unwrap(), "next");
    }
}
