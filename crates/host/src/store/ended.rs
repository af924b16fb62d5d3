//! Ended tasks as retention and packing see them: how much there is, the oldest first, and outputs that are kept in rows.

use ringback_core::id::TaskId;
use ringback_core::retention::Kept;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::read::id_of;
use super::row::Row;
use super::{Store, StoreError};

/// An ended task whose tree is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedRow {
    /// Position in the order of asking.
    pub seq: u64,
    /// Which.
    pub id: TaskId,
    /// When, milliseconds after 1970.
    pub ended_ms: i64,
    /// What it takes on the disk; 0 if that was never measured.
    pub disk_bytes: u64,
    /// Whether a notice of it was not heard.
    pub unheard: bool,
}

/// An output that moves into the database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    /// Its bytes; nothing if there never was one.
    pub output: Option<Vec<u8>>,
    /// Its index.
    pub index: Vec<u8>,
    /// What the task takes on the disk from then on.
    pub disk_bytes: u64,
}

impl Store {
    /// How much there is of ended tasks whose tree is gone.
    pub fn kept(&self) -> Result<Kept, StoreError> {
        let sql = "SELECT count, bytes FROM kept";
        let (count, bytes): (i64, i64) = self.db.query_row(sql, [], |line| Ok((line.get(0)?, line.get(1)?)))?;
        Ok(Kept { count: count.unsigned_abs(), bytes: bytes.unsigned_abs() })
    }

    /// Ended tasks whose tree is gone, those that ended first before the others, after this time and position.
    pub fn oldest(&self, after: (i64, u64), limit: u32, only_heard: bool) -> Result<Vec<EndedRow>, StoreError> {
        let mut statement = self.db.prepare_cached(
            "SELECT seq, id, ended_ms, disk_bytes, EXISTS (SELECT 1 FROM notices n WHERE n.task = t.id) AS unheard
             FROM tasks t WHERE live = 0 AND (ended_ms, seq) > (?1, ?2) AND NOT (?3 AND unheard)
             ORDER BY ended_ms, seq LIMIT ?4",
        )?;
        let values = params![after.0, i64::try_from(after.1).unwrap_or(i64::MAX), only_heard, limit];
        let rows = statement.query_map(values, |line| {
            Ok(EndedRow {
                seq: line.get::<_, i64>(0)?.unsigned_abs(),
                id: id_of(line.get(1)?),
                ended_ms: line.get(2)?,
                disk_bytes: line.get::<_, i64>(3)?.unsigned_abs(),
                unheard: line.get(4)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Tasks that ended at this time or later and whose output is not packed, the last ones first.
    pub fn ended_since(&self, from_ms: i64, limit: u32) -> Result<Vec<Row>, StoreError> {
        self.rows_where(
            "live = 0 AND ended_ms >= ? AND packed <> 1 ORDER BY ended_ms DESC LIMIT ?",
            &[&from_ms, &limit],
        )
    }

    /// When the first of the tasks ended whose output may still be packed.
    pub fn oldest_unpacked(&self) -> Result<Option<i64>, StoreError> {
        let sql = "SELECT min(ended_ms) FROM tasks WHERE live = 0 AND packed = 0";
        Ok(self.db.query_row(sql, [], |line| line.get(0))?)
    }

    /// Tasks that ended before this time and whose output may still be packed, the oldest first.
    pub fn unpacked(&self, before_ms: i64, limit: u32) -> Result<Vec<Row>, StoreError> {
        self.rows_where("live = 0 AND packed = 0 AND ended_ms <= ? ORDER BY ended_ms LIMIT ?", &[&before_ms, &limit])
    }

    /// The output of a task that was packed.
    pub fn packed(&self, id: TaskId) -> Result<Option<Packed>, StoreError> {
        let mut statement = self.db.prepare_cached("SELECT output, entries FROM packed WHERE id = ?")?;
        let row = statement.query_row([id.bits().cast_signed()], |line| {
            Ok(Packed { output: line.get(0)?, index: line.get(1)?, disk_bytes: 0 })
        });
        Ok(row.optional()?)
    }
}

/// Keeps an output in a row, or notes that it stays in its folder.
pub(super) fn pack(db: &Connection, id: TaskId, packed: Option<&Packed>) -> Result<(), StoreError> {
    let id = id.bits().cast_signed();
    let Some(packed) = packed else {
        db.prepare_cached("UPDATE tasks SET packed = 2 WHERE id = ?")?.execute([id])?;
        return Ok(());
    };
    let disk_bytes = i64::try_from(packed.disk_bytes).unwrap_or(i64::MAX);
    let changed = db
        .prepare_cached("UPDATE tasks SET packed = 1, disk_bytes = ? WHERE id = ? AND live = 0")?
        .execute(params![disk_bytes, id])?;
    if changed == 1 {
        db.prepare_cached("INSERT OR REPLACE INTO packed (id, output, entries) VALUES (?, ?, ?)")?.execute(params![
            id,
            packed.output,
            packed.index
        ])?;
    }
    Ok(())
}
