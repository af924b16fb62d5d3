//! The state record and its file: the lock that shows a keeper's life, and the only way a record is written.

use super::procfs;
use crate::form::record::{FILE_BYTES, Record};
use crate::raw::Fd;
use crate::raw::file::{self, Wait};

/// The newest record and the locked file that it is in.
pub(super) struct Ledger {
    /// What is known; the file has it after [`Ledger::write`].
    pub(super) record: Record,
    file: Fd,
}

impl Ledger {
    /// Takes the lock and reads the newest record; nothing if another keeper lives or the file is none of ours.
    pub(super) fn open() -> Option<Self> {
        let file = file::open(c"state", file::flag::RDWR | file::flag::NOFOLLOW).ok()?;
        if file::lock(&file, Wait::No).is_err() {
            let holder = newest(&file)?.keeper;
            let alive = procfs::stat(holder.pid).is_some_and(|s| s.start_ticks == holder.start_ticks && !s.is_dead());
            if holder.pid == 0 || alive {
                return None;
            }
            // The keeper is dead and its child has not yet gone through the gate; it holds the lock until it has.
            file::lock(&file, Wait::Yes).ok()?;
        }
        let record = newest(&file)?;
        Some(Self { record, file })
    }

    /// A record that is never written, for tests of those who write into one.
    #[cfg(test)]
    pub(super) fn of_file(file: Fd) -> Self {
        Self { record: Record::default(), file }
    }

    /// Reads the newest record again, after the child wrote one.
    pub(super) fn reload(&mut self) {
        if let Some(record) = newest(&self.file) {
            self.record = record;
        }
    }

    /// Writes the record as the next one; the slot before stays whole if this process dies in the middle.
    pub(super) fn write(&mut self) {
        self.record = self.write_as_next(self.record);
    }

    /// Writes `record` after the present one and gives it back as it went; for the child, which must not change our memory.
    pub(super) fn write_as_next(&self, mut record: Record) -> Record {
        record.seq += 1;
        // Both slots have their blocks since the daemon made the file, so a full disk does not matter here.
        let _ = file::write_at(&self.file, &record.encode(), record.slot_offset());
        record
    }
}

/// The newest whole record in a file.
pub(super) fn newest(file: &Fd) -> Option<Record> {
    let mut bytes = [0; FILE_BYTES];
    let length = file::read_at(file, &mut bytes, 0).ok()?;
    Record::newest(bytes.get(..length)?)
}
