//! When which bytes came: the index of an output, read by offset and by time without holding it in memory.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use ringback_sys::files;
use ringback_sys::form::index::{ENTRY_BYTES, Entry};

/// How many entries one read fetches.
const BLOCK_ENTRIES: usize = 256;

/// An open index. Without a file there are no entries, and everything is of the merged stream at an unknown time.
pub(super) struct Index {
    path: PathBuf,
    file: Option<File>,
    block: Vec<Entry>,
    block_at: u64,
}

impl Index {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut index = Self { path: path.to_owned(), file: None, block: Vec::new(), block_at: 0 };
        index.open_if_there()?;
        Ok(index)
    }

    /// The index in this file.
    pub(super) fn of(file: File) -> Self {
        Self { path: PathBuf::new(), file: Some(file), block: Vec::new(), block_at: 0 }
    }

    /// The keeper makes it with the first byte, so there may be an output without it.
    fn open_if_there(&mut self) -> io::Result<()> {
        if self.file.is_none() {
            self.file = match files::open_regular(&self.path) {
                Ok(file) => Some(file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(error),
            };
        }
        Ok(())
    }

    /// The number of the last entry at or before `offset`.
    pub(super) fn find_offset(&mut self, offset: u64) -> io::Result<Option<u64>> {
        Ok(self.partition(|entry| entry.offset <= offset)?.checked_sub(1))
    }

    /// Where the first byte at or after this time is; nothing if there is none.
    pub(super) fn offset_at(&mut self, wall_ms: u64) -> io::Result<Option<u64>> {
        let number = self.partition(|entry| entry.wall_ms < wall_ms)?;
        Ok(self.entry(number)?.map(|entry| entry.offset))
    }

    /// The entry of this number, if it is there by now.
    pub(super) fn entry(&mut self, number: u64) -> io::Result<Option<Entry>> {
        let within = number.checked_sub(self.block_at).and_then(|at| usize::try_from(at).ok());
        if let Some(entry) = within.and_then(|at| self.block.get(at)) {
            return Ok(Some(*entry));
        }
        self.load(number)?;
        Ok(self.block.first().copied())
    }

    /// How many entries satisfy `before`, which holds for the first ones and then for none.
    fn partition(&mut self, before: impl Fn(&Entry) -> bool) -> io::Result<u64> {
        self.open_if_there()?;
        let Some(file) = &self.file else { return Ok(0) };
        let (mut low, mut high) = (0, file.metadata()?.len() / ENTRY_BYTES as u64);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.entry(middle)? {
                Some(entry) if before(&entry) => low = middle + 1,
                _ => high = middle,
            }
        }
        Ok(low)
    }

    fn load(&mut self, number: u64) -> io::Result<()> {
        self.block.clear();
        self.block_at = number;
        let Some(file) = &self.file else { return Ok(()) };
        let mut bytes = [0; ENTRY_BYTES * BLOCK_ENTRIES];
        let mut filled = 0;
        while filled < bytes.len() {
            match file.read_at(&mut bytes[filled..], number * ENTRY_BYTES as u64 + filled as u64)? {
                0 => break,
                count => filled += count,
            }
        }
        // The last entry may still be on its way into the file.
        let whole = bytes[..filled].chunks_exact(ENTRY_BYTES);
        self.block.extend(whole.map_while(Entry::decode));
        Ok(())
    }
}
