//! Reading sessions: how each may end, and how much each has open.

use super::{Store, StoreError};
use crate::wire::SessionObject;

/// A session that ends when a process does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchRow {
    /// Which session.
    pub session: String,
    /// Process id.
    pub pid: i32,
    /// Its start, in ticks after boot.
    pub start_ticks: u64,
    /// The boot it belongs to.
    pub boot: [u8; 16],
}

/// A session that ends at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRow {
    /// Which session.
    pub session: String,
    /// Milliseconds after 1970.
    pub until_ms: i64,
}

impl Store {
    /// All sessions with a watch.
    pub fn watches(&self) -> Result<Vec<WatchRow>, StoreError> {
        let mut statement = self
            .db
            .prepare("SELECT name, watch_pid, watch_start, watch_boot FROM sessions WHERE watch_pid IS NOT NULL")?;
        let rows = statement.query_map([], |line| {
            Ok(WatchRow {
                session: line.get(0)?,
                pid: line.get(1)?,
                start_ticks: line.get::<_, i64>(2)?.cast_unsigned(),
                boot: line.get(3)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// All sessions with a lease, the first to lapse first.
    pub fn leases(&self) -> Result<Vec<LeaseRow>, StoreError> {
        let mut statement =
            self.db.prepare("SELECT name, lease_ms FROM sessions WHERE lease_ms IS NOT NULL ORDER BY lease_ms")?;
        let rows = statement.query_map([], |line| Ok(LeaseRow { session: line.get(0)?, until_ms: line.get(1)? }))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// All sessions that have something open: live tasks, unheard notices, a watch or a lease.
    pub fn sessions(&self) -> Result<Vec<(SessionObject, Option<i64>)>, StoreError> {
        let mut statement = self.db.prepare(
            // Each of what is counted is gone through once, whatever has ended.
            "WITH open AS (
                SELECT session AS name, state IS NULL AS runs, 0 AS unheard FROM tasks WHERE live = 1
                UNION ALL SELECT session, 0, 1 FROM notices
                UNION ALL SELECT name, 0, 0 FROM sessions WHERE watch_pid IS NOT NULL OR lease_ms IS NOT NULL)
             SELECT o.name, sum(o.runs), sum(o.unheard), s.watch_pid, s.lease_ms
             FROM open o LEFT JOIN sessions s ON s.name = o.name GROUP BY o.name ORDER BY o.name",
        )?;
        let rows = statement.query_map([], |line| {
            let session = SessionObject {
                session: line.get(0)?,
                live: line.get::<_, i64>(1)?.unsigned_abs(),
                unheard: line.get::<_, i64>(2)?.unsigned_abs(),
                watched_pid: line.get(3)?,
                lease_until: None,
            };
            Ok((session, line.get(4)?))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}
