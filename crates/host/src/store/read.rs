//! Reading tasks: by id, by prefix, in pages.

use std::collections::BTreeSet;

use ringback_core::id::{Prefix, TaskId};
use rusqlite::{OptionalExtension, Row as Line, ToSql, params};
use serde::de::DeserializeOwned;

use super::row::Row;
use super::{Store, StoreError};

/// How many tasks an ambiguous prefix names in its error.
const CANDIDATES: i64 = 4;

/// What a prefix names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// This one.
    One(TaskId),
    /// None that ever was.
    Unknown,
    /// One that was removed.
    Expired(TaskId),
    /// More than one; the first few.
    Ambiguous(Vec<TaskId>),
}

/// Which tasks to list, newest first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Page<'a> {
    /// Only this session.
    pub session: Option<&'a str>,
    /// Ended tasks too.
    pub ended: bool,
    /// Only what was asked for before this position.
    pub before: Option<u64>,
    /// At most this many.
    pub limit: u32,
}

const COLUMNS: &str = "seq, id, session, lease, live, created_ms, asked, facts, stop, watch, disk_bytes, packed";

impl Store {
    /// One task.
    pub fn task(&self, id: TaskId) -> Result<Option<Row>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM tasks WHERE id = ?");
        self.db.prepare_cached(&sql)?.query_row([bits(id)], |line| Ok(row(line))).optional()?.transpose()
    }

    /// All tasks of which something may still live, oldest first.
    pub fn live(&self) -> Result<Vec<Row>, StoreError> {
        self.rows(&format!("SELECT {COLUMNS} FROM tasks WHERE live = 1 ORDER BY seq"), &[])
    }

    /// One page of tasks.
    pub fn page(&self, page: Page<'_>) -> Result<Vec<Row>, StoreError> {
        let before = page.before.map_or(i64::MAX, |seq| i64::try_from(seq).unwrap_or(i64::MAX));
        let sql = page_sql(page);
        match page.session {
            Some(session) => self.rows(&sql, &[&session, &before, &page.limit]),
            None => self.rows(&sql, &[&before, &page.limit]),
        }
    }

    /// What these characters name.
    pub fn find(&self, prefix: Prefix) -> Result<Found, StoreError> {
        let range = params![bits(prefix.low), bits(prefix.high), CANDIDATES];
        let ids: Vec<TaskId> = self
            .db
            .prepare_cached("SELECT id FROM tasks WHERE id BETWEEN ? AND ? ORDER BY id LIMIT ?")?
            .query_map(range, |line| line.get(0).map(id_of))?
            .collect::<Result<_, _>>()?;
        match ids.as_slice() {
            [id] => Ok(Found::One(*id)),
            [] => self.find_removed(prefix),
            _ => Ok(Found::Ambiguous(ids)),
        }
    }

    /// All tasks whose id begins so and that have a folder.
    pub fn ids(&self, prefix: Prefix) -> Result<BTreeSet<TaskId>, StoreError> {
        let mut statement = self.db.prepare_cached("SELECT id FROM tasks WHERE id BETWEEN ? AND ? AND packed <> 1")?;
        let ids = statement.query_map(params![bits(prefix.low), bits(prefix.high)], |line| line.get(0).map(id_of))?;
        Ok(ids.collect::<Result<_, _>>()?)
    }

    fn find_removed(&self, prefix: Prefix) -> Result<Found, StoreError> {
        let id: Option<i64> = self
            .db
            .prepare_cached("SELECT id FROM removed WHERE id BETWEEN ? AND ? LIMIT 1")?
            .query_row(params![bits(prefix.low), bits(prefix.high)], |line| line.get(0))
            .optional()?;
        Ok(id.map_or(Found::Unknown, |id| Found::Expired(id_of(id))))
    }

    /// Whether an id was never given.
    pub fn is_free(&self, id: TaskId) -> Result<bool, StoreError> {
        Ok(matches!(self.find(Prefix { low: id, high: id })?, Found::Unknown))
    }

    /// All tasks for which this holds, in the order that it says.
    pub(super) fn rows_where(&self, condition: &str, values: &[&dyn ToSql]) -> Result<Vec<Row>, StoreError> {
        self.rows(&format!("SELECT {COLUMNS} FROM tasks WHERE {condition}"), values)
    }

    fn rows(&self, sql: &str, values: &[&dyn ToSql]) -> Result<Vec<Row>, StoreError> {
        let mut statement = self.db.prepare_cached(sql)?;
        let mut lines = statement.query(values)?;
        let mut rows = Vec::new();
        while let Some(line) = lines.next()? {
            rows.push(row(line)?);
        }
        Ok(rows)
    }
}

/// Of a session's tasks most have ended, so those that live are looked for among all that live (`+`: not by the session).
fn page_sql(page: Page<'_>) -> String {
    let of_session = match (page.session, page.ended) {
        (None, _) => "",
        (Some(_), true) => "session = ? AND",
        (Some(_), false) => "+session = ? AND",
    };
    let running = if page.ended { "" } else { "AND live = 1 AND state IS NULL" };
    format!("SELECT {COLUMNS} FROM tasks WHERE {of_session} seq < ? {running} ORDER BY seq DESC LIMIT ?")
}

fn bits(id: TaskId) -> i64 {
    id.bits().cast_signed()
}

pub(super) fn id_of(bits: i64) -> TaskId {
    TaskId::from_bits(bits.cast_unsigned())
}

fn row(line: &Line<'_>) -> Result<Row, StoreError> {
    let seq: i64 = line.get(0)?;
    Ok(Row {
        seq: seq.unsigned_abs(),
        id: id_of(line.get(1)?),
        session: line.get(2)?,
        lease: line.get(3)?,
        live: line.get(4)?,
        created_ms: line.get(5)?,
        asked: unpack(&line.get::<_, Vec<u8>>(6)?)?,
        facts: line.get::<_, Option<Vec<u8>>>(7)?.as_deref().map(unpack).transpose()?,
        stop: line.get::<_, Option<Vec<u8>>>(8)?.as_deref().map(unpack).transpose()?,
        watch: line.get::<_, Option<Vec<u8>>>(9)?.as_deref().map(unpack).transpose()?.unwrap_or_default(),
        disk_bytes: line.get::<_, i64>(10)?.unsigned_abs(),
        packed: line.get::<_, i64>(11)? == 1,
    })
}

pub(super) fn unpack<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, StoreError> {
    Ok(rmp_serde::from_slice(bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lives_is_found_without_a_look_at_what_has_ended() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("db")).unwrap();
        let plan = |page: Page<'_>| -> String {
            let sql = format!("EXPLAIN QUERY PLAN {}", page_sql(page));
            let mut statement = store.db.prepare(&sql).unwrap();
            let given = statement.parameter_count();
            let steps =
                statement.query_map(rusqlite::params_from_iter(vec![1; given]), |line| line.get::<_, String>(3));
            steps.unwrap().map(Result::unwrap).collect::<Vec<_>>().join("; ")
        };
        for session in [None, Some("s")] {
            let live = plan(Page { session, ..Page::default() });
            assert!(live.contains("USING INDEX tasks_live") && !live.contains("TEMP B-TREE"), "{session:?}: {live}");
            let all = plan(Page { session, ended: true, ..Page::default() });
            assert!(all.contains("SEARCH") && !all.contains("TEMP B-TREE"), "{session:?}: {all}");
        }
    }
}
