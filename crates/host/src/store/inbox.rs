//! Reading notices: what a session has yet to hear, in order.

use ringback_core::id::TaskId;
use ringback_core::notice::Kind;
use rusqlite::{OptionalExtension as _, Row as Line, params};

use super::read::{id_of, unpack};
use super::{Store, StoreError};
use crate::wire::Sighting;

/// One unheard notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoticeRow {
    /// Rises by one per session.
    pub seq: u64,
    /// Of which task.
    pub task: TaskId,
    /// `tool_result`, …
    pub kind: String,
    /// When, milliseconds after 1970.
    pub at_ms: i64,
    /// What to read.
    pub text: String,
    /// What was seen of a running task.
    pub sighting: Sighting,
}

const COLUMNS: &str = "seq, task, kind, at_ms, text, sighting";

impl Store {
    /// The oldest unheard notices of a session after this number, at most `limit`.
    pub fn notices(&self, session: &str, newer_than: u64, limit: u32) -> Result<Vec<NoticeRow>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM notices WHERE session = ? AND seq > ? ORDER BY seq LIMIT ?");
        let mut statement = self.db.prepare_cached(&sql)?;
        let mut lines = statement.query(params![session, i64::try_from(newer_than).unwrap_or(i64::MAX), limit])?;
        let mut rows = Vec::new();
        while let Some(line) = lines.next()? {
            rows.push(notice(line)?);
        }
        Ok(rows)
    }

    /// One unheard notice of a session.
    pub fn notice(&self, session: &str, seq: u64) -> Result<Option<NoticeRow>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM notices WHERE session = ? AND seq = ?");
        let values = params![session, i64::try_from(seq).unwrap_or(i64::MAX)];
        self.db.prepare_cached(&sql)?.query_row(values, |line| Ok(notice(line))).optional()?.transpose()
    }

    /// The newest unheard notice of this kind that a session has of a task.
    pub fn unheard_of(&self, id: TaskId, session: &str, kind: Kind) -> Result<Option<NoticeRow>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM notices WHERE task = ? AND session = ? AND kind = ? ORDER BY seq DESC LIMIT 1"
        );
        let values = params![id.bits().cast_signed(), session, kind.word()];
        self.db.prepare_cached(&sql)?.query_row(values, |line| Ok(notice(line))).optional()?.transpose()
    }

    /// Whether nobody has heard this notice.
    pub fn is_unheard(&self, session: &str, seq: u64) -> Result<bool, StoreError> {
        let mut statement = self.db.prepare_cached("SELECT 1 FROM notices WHERE session = ? AND seq = ?")?;
        Ok(statement.exists(params![session, i64::try_from(seq).unwrap_or(i64::MAX)])?)
    }

    /// The highest number that a session was given, 0 for none; numbers of sessions are never given again.
    pub fn highest_seq(&self, session: &str) -> Result<u64, StoreError> {
        let mut statement = self.db.prepare_cached("SELECT notices FROM sessions WHERE name = ?")?;
        let highest: Option<i64> = statement.query_row([session], |line| line.get(0)).optional()?;
        Ok(highest.unwrap_or(0).unsigned_abs())
    }

    /// At most how many notices a session has that nobody has heard: from the first of them to the last that was given.
    pub fn unheard_at_most(&self, session: &str) -> Result<u64, StoreError> {
        let sql = "SELECT coalesce((SELECT notices + 1 FROM sessions WHERE name = ?1)
                       - (SELECT min(seq) FROM notices WHERE session = ?1), 0)";
        let count: i64 = self.db.prepare_cached(sql)?.query_row([session], |line| line.get(0))?;
        Ok(count.unsigned_abs())
    }

    /// How many notices nobody has heard, of one session or of all.
    pub fn unheard(&self, session: Option<&str>) -> Result<u64, StoreError> {
        let count: i64 = match session {
            Some(session) => self
                .db
                .prepare_cached("SELECT count(*) FROM notices WHERE session = ?")?
                .query_row([session], |line| line.get(0))?,
            None => self.db.prepare_cached("SELECT count(*) FROM notices")?.query_row([], |line| line.get(0))?,
        };
        Ok(count.unsigned_abs())
    }
}

/// A notice from the first columns of a line.
pub(super) fn notice(line: &Line<'_>) -> Result<NoticeRow, StoreError> {
    Ok(NoticeRow {
        seq: line.get::<_, i64>(0)?.unsigned_abs(),
        task: id_of(line.get(1)?),
        kind: line.get(2)?,
        at_ms: line.get(3)?,
        text: line.get(4)?,
        sighting: line.get::<_, Option<Vec<u8>>>(5)?.as_deref().map(unpack).transpose()?.unwrap_or_default(),
    })
}
