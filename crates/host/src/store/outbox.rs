//! Notices that are still to be sent to sinks: each a copy of its own, so that hearing it elsewhere does not lose it.

use ringback_core::id::TaskId;
use ringback_core::notice::Kind;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::inbox::{NoticeRow, notice};
use super::{Store, StoreError};

/// How many notices wait for one sink at most. One that has not taken so many is gone, and the inbox has them all.
pub const OUTBOX_MAX: i64 = 10_000;

/// One notice on its way to one sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxRow {
    /// Its place in the order.
    pub seq: i64,
    /// To which sink.
    pub sink: String,
    /// Whose notice.
    pub session: String,
    /// How often it was tried.
    pub tries: u32,
    /// The notice.
    pub notice: NoticeRow,
}

/// A change of the outbox.
#[derive(Clone, Debug)]
pub enum Post {
    /// The newest notice of this kind and task goes to this sink.
    Add {
        /// To which sink.
        sink: String,
        /// Of which task.
        id: TaskId,
        /// Whose notice.
        session: String,
        /// Of which kind.
        kind: Kind,
        /// When, by the wall clock.
        due_ms: i64,
    },
    /// It was delivered, or need not be any more.
    Done {
        /// Which.
        seq: i64,
    },
    /// It is tried again.
    Again {
        /// Which.
        seq: i64,
        /// How often it was tried.
        tries: u32,
        /// When, by the wall clock.
        due_ms: i64,
    },
    /// The config names these sinks; what waits for others is forgotten.
    Known {
        /// All of them.
        sinks: Vec<String>,
    },
}

impl Store {
    /// The first notice for this sink whose time has come.
    pub fn outbox_due(&self, sink: &str, now_ms: i64) -> Result<Option<OutboxRow>, StoreError> {
        let mut statement = self.db.prepare_cached(
            "SELECT notice, task, kind, at_ms, text, sighting, seq, sink, session, tries FROM outbox
             WHERE sink = ? AND due_ms <= ? ORDER BY seq LIMIT 1",
        )?;
        let row = |line: &rusqlite::Row<'_>| {
            let (seq, sink, session, tries) = (line.get(6)?, line.get(7)?, line.get(8)?, line.get(9)?);
            Ok(notice(line).map(|notice| OutboxRow { seq, sink, session, tries, notice }))
        };
        statement.query_row(params![sink, now_ms], row).optional()?.transpose()
    }

    /// When the next notice for this sink is due, by the wall clock.
    pub fn outbox_next(&self, sink: &str) -> Result<Option<i64>, StoreError> {
        let mut statement = self.db.prepare_cached("SELECT min(due_ms) FROM outbox WHERE sink = ?")?;
        Ok(statement.query_row([sink], |line| line.get(0))?)
    }
}

pub(super) fn write(db: &Connection, post: &Post) -> Result<(), StoreError> {
    match post {
        Post::Add { sink, id, session, kind, due_ms } => {
            let values = params![sink, due_ms, session, id.bits().cast_signed(), kind.word(), OUTBOX_MAX];
            db.prepare_cached(
                "INSERT OR IGNORE INTO outbox (sink, session, notice, task, kind, at_ms, text, sighting, due_ms)
                 SELECT ?1, session, seq, task, kind, at_ms, text, sighting, ?2 FROM notices
                 WHERE session = ?3 AND task = ?4 AND kind = ?5
                   AND (SELECT count(*) FROM outbox WHERE sink = ?1) < ?6
                 ORDER BY seq DESC LIMIT 1",
            )?
            .execute(values)?;
        }
        Post::Done { seq } => {
            db.prepare_cached("DELETE FROM outbox WHERE seq = ?")?.execute([seq])?;
        }
        Post::Again { seq, tries, due_ms } => {
            db.prepare_cached("UPDATE outbox SET tries = ?, due_ms = ? WHERE seq = ?")?
                .execute(params![tries, due_ms, seq])?;
        }
        Post::Known { sinks } => {
            let known = serde_json::to_string(sinks).unwrap_or_default();
            db.prepare("DELETE FROM outbox WHERE sink NOT IN (SELECT value FROM json_each(?))")?.execute([known])?;
        }
    }
    Ok(())
}
