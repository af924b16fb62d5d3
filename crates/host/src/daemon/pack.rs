//! Small outputs of tasks that ended long ago move into the database: a folder with its files costs a task many times
//! what it has written. What else was in the folder goes, the environment of the command above all.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use ringback_core::retention::Kept;
use ringback_sys::{files, process};

use super::Daemon;
use super::folder::{FINDINGS, INDEX, OUTPUT};
use super::round::Act;
use crate::mask::Mask;
use crate::quantity::millis;
use crate::store::{Packed, Record, Row, StoreError};

/// The longest output, or index of one, that is packed, bytes: below the four blocks that two files and a folder take.
const PACKED_BYTES_MAX: u64 = 16 << 10;
/// What a row takes beside its bytes.
const ROW_BYTES: u64 = 512;
/// How many tasks are packed in one round.
const ROUND_MAX: u32 = 32;
/// How long others are served between two such rounds, milliseconds.
const PAUSE_MS: u64 = 20;

impl Daemon {
    /// When the next output is to be packed, by the monotonic clock, as the store has it.
    pub(super) fn plan_packing(&mut self) {
        let Some(after) = self.config.pack_after else { return };
        self.pack_at_ms = match self.store.oldest_unpacked() {
            Ok(oldest) => oldest.map(|ended_ms| {
                let due_ms = ended_ms.saturating_add(i64::try_from(millis(after)).unwrap_or(i64::MAX));
                let left_ms = u64::try_from(due_ms.saturating_sub(process::wall_ms())).unwrap_or(0);
                process::monotonic_ms().saturating_add(left_ms.max(PAUSE_MS))
            }),
            Err(error) => {
                self.troubles.note("look for outputs to pack", &error);
                None
            }
        };
    }

    /// A task was closed: it is packed when its time comes.
    pub(super) fn plan_packing_of_new(&mut self) {
        if let (None, Some(after)) = (self.pack_at_ms, self.config.pack_after) {
            self.pack_at_ms = Some(process::monotonic_ms().saturating_add(millis(after)));
        }
    }

    /// Packs some, if their time has come.
    pub(super) fn pack_due(&mut self, now_ms: u64) {
        let Some(after) = self.config.pack_after.filter(|_| self.pack_at_ms.is_some_and(|at_ms| at_ms <= now_ms))
        else {
            return;
        };
        if self.round.retry_at_ms.is_some() {
            return;
        }
        let before_ms = process::wall_ms().saturating_sub(i64::try_from(millis(after)).unwrap_or(i64::MAX));
        match self.store.unpacked(before_ms, ROUND_MAX) {
            Ok(rows) if rows.is_empty() => self.plan_packing(),
            Ok(rows) => {
                for row in rows {
                    // Its folder is still written into.
                    if !self.collector.has(row.id) && !self.collector.looks_again() {
                        self.pack(&row);
                    }
                }
                self.pack_at_ms = Some(now_ms + PAUSE_MS);
            }
            Err(error) => self.packing_failed(&error),
        }
    }

    fn packing_failed(&mut self, error: &StoreError) {
        self.troubles.note("look for outputs to pack", error);
        self.pack_at_ms = None;
    }

    fn pack(&mut self, row: &Row) {
        let dir = self.dir(row.id);
        let is_kept = |name| files::open_regular(&dir.join(name)).is_ok();
        let has_more = row.asked.split || row.asked.command.cut || row.asked.pty.is_some() || is_kept(FINDINGS);
        // Where one of the task's own secrets was printed, it stays beside the spec by which it is known as that.
        let shows = |(output, _): &(Option<Vec<u8>>, _)| {
            output.as_ref().is_some_and(|output| Mask::of_folder(&dir).finds_value(output))
        };
        let small = if has_more { None } else { read_small(&dir).filter(|small| !shows(small)) };
        let Some((output, index)) = small else {
            self.round.records.push(Record::Pack { id: row.id, packed: None });
            return;
        };
        let disk_bytes = ROW_BYTES + (output.as_ref().map_or(0, Vec::len) + index.len()) as u64;
        let freed = Kept { count: 0, bytes: row.disk_bytes.saturating_sub(disk_bytes) };
        let packed = Packed { output, index, disk_bytes };
        self.round.records.push(Record::Pack { id: row.id, packed: Some(Box::new(packed)) });
        self.round.act(Act::Delete(row.id, freed));
    }
}

/// Output and index, if both are small enough. A task that never started has neither, one that wrote nothing no index.
fn read_small(dir: &Path) -> Option<(Option<Vec<u8>>, Vec<u8>)> {
    let output = read(&dir.join(OUTPUT)).ok()?;
    let index = read(&dir.join(INDEX)).ok()?;
    Some((output, index.unwrap_or_default()))
}

fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let file: File = match files::open_regular(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    file.take(PACKED_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > PACKED_BYTES_MAX { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(Some(bytes)) }
}
