//! Reading notices: what a session has yet to hear, in order.

use ringback_core::id::TaskId;
use rusqlite::params;

use super::read::id_of;
use super::{Store, StoreError};

/// One unheard notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoticeRow {
    /// Rises by one per session.
    pub seq: u64,
    /// Of which task.
    pub task: TaskId,
    /// `tool_result`.
    pub kind: String,
    /// When, milliseconds after 1970.
    pub at_ms: i64,
    /// What to read.
    pub text: String,
}

impl Store {
    /// The oldest unheard notices of a session, at most `limit`.
    pub fn notices(&self, session: &str, limit: u32) -> Result<Vec<NoticeRow>, StoreError> {
        let mut statement = self.db.prepare_cached(
            "SELECT seq, task, kind, at_ms, text FROM notices WHERE session = ? ORDER BY seq LIMIT ?",
        )?;
        let rows = statement.query_map(params![session, limit], |line| {
            Ok(NoticeRow {
                seq: line.get::<_, i64>(0)?.unsigned_abs(),
                task: id_of(line.get(1)?),
                kind: line.get(2)?,
                at_ms: line.get(3)?,
                text: line.get(4)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// How many notices nobody has heard, of one session or of all.
    pub fn unheard(&self, session: Option<&str>) -> Result<u64, StoreError> {
        let count: i64 = self
            .db
            .prepare_cached("SELECT count(*) FROM notices WHERE ?1 IS NULL OR session = ?1")?
            .query_row([session], |line| line.get(0))?;
        Ok(count.unsigned_abs())
    }
}
