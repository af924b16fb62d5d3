//! How large the terminal of a task was, from which byte of its output on.

use std::io::Read as _;
use std::path::Path;

use ringback_host::wire::{TaskObject, TerminalSize};
use ringback_sys::files;
use ringback_sys::form::sizes::{ENTRIES_MAX, ENTRY_BYTES, Entry, NAME};

/// The sizes of one terminal, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sizes(Vec<Entry>);

impl Sizes {
    /// What was noted; nothing for a task without a terminal. What is torn is left out.
    pub(crate) fn of(task: &TaskObject) -> Self {
        let Some(now) = task.pty else { return Self::default() };
        let most = ENTRIES_MAX * ENTRY_BYTES as u64;
        let mut bytes = Vec::new();
        let file = files::open_regular(&Path::new(&task.output.path).with_file_name(NAME));
        let _none = file.and_then(|file| file.take(most).read_to_end(&mut bytes));
        let mut entries: Vec<Entry> = bytes.chunks(ENTRY_BYTES).filter_map(Entry::decode).collect();
        if entries.is_empty() {
            let TerminalSize { columns, rows } = now;
            let size = ringback_sys::form::spec::Size { columns, rows };
            entries.push(Entry { size, ..Entry::default() });
        }
        entries.sort_by_key(|entry| entry.offset);
        Self(entries)
    }

    /// The size at this byte of the output; nothing without a terminal.
    pub(crate) fn at(&self, offset: u64) -> Option<TerminalSize> {
        let count = self.0.partition_point(|entry| entry.offset <= offset);
        let entry = self.0.get(count.saturating_sub(1))?;
        Some(size_of(entry))
    }

    /// The changes from `from` up to, and without, `to`: where, when, and to what.
    pub(crate) fn changes(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, u64, TerminalSize)> {
        let within = self.0.iter().skip(1).filter(move |entry| from <= entry.offset && entry.offset < to);
        within.map(|entry| (entry.offset, entry.wall_ms, size_of(entry)))
    }
}

fn size_of(entry: &Entry) -> TerminalSize {
    TerminalSize { columns: entry.size.columns, rows: entry.size.rows }
}
