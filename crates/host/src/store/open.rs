//! Opening a home's database and bringing it up to date.

use std::io;
use std::path::{Path, PathBuf};

use ringback_sys::files;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::{Store, StoreError};

/// One step per version of the layout; step N brings a file from version N to N + 1. Steps are never changed.
const STEPS: &[&str] = &["
    CREATE TABLE tasks (
        seq        INTEGER PRIMARY KEY,      -- order of asking
        id         INTEGER NOT NULL UNIQUE,  -- 60 bits
        session    TEXT    NOT NULL,
        lease      TEXT    NOT NULL,
        live       INTEGER NOT NULL,         -- 1 until its tree is gone
        state      TEXT,                     -- the outcome's word; null until it has one
        created_ms INTEGER NOT NULL,
        ended_ms   INTEGER,
        asked      BLOB    NOT NULL,         -- row::Asked
        facts      BLOB,                     -- row::Facts; null until it has an outcome
        stop       BLOB,                     -- row::StoredStop; the first stop that was asked for
        watch      BLOB                      -- row::StoredWatch; null until there is something to remember
    );
    CREATE INDEX tasks_live ON tasks (seq) WHERE live = 1;
    CREATE INDEX tasks_session ON tasks (session, seq);
    CREATE INDEX tasks_ended ON tasks (ended_ms) WHERE live = 0;
    CREATE TABLE notices (
        session TEXT    NOT NULL,
        seq     INTEGER NOT NULL,
        task    INTEGER NOT NULL,
        kind    TEXT    NOT NULL,
        at_ms   INTEGER NOT NULL,
        text    TEXT    NOT NULL,
        sighting BLOB,                       -- wire::Sighting; null for an ending
        claimed_by TEXT,                     -- who is about to speak of it, for people
        claim      INTEGER,                  -- the word of that claim
        claimed_until_ms INTEGER,            -- wall clock at which it lapses
        PRIMARY KEY (session, seq)
    ) WITHOUT ROWID;
    CREATE INDEX notices_task ON notices (task);
    CREATE TABLE outbox (
        seq      INTEGER PRIMARY KEY,        -- order of delivery
        sink     TEXT    NOT NULL,           -- name in the config
        session  TEXT    NOT NULL,
        notice   INTEGER NOT NULL,           -- its seq in the inbox, where it may be heard meanwhile
        task     INTEGER NOT NULL,
        kind     TEXT    NOT NULL,
        at_ms    INTEGER NOT NULL,
        text     TEXT    NOT NULL,
        sighting BLOB,
        tries    INTEGER NOT NULL DEFAULT 0,
        due_ms   INTEGER NOT NULL,           -- wall clock of the next try
        UNIQUE (sink, session, notice)
    );
    CREATE INDEX outbox_due ON outbox (sink, due_ms);
    CREATE TABLE sessions (
        name        TEXT PRIMARY KEY,
        notices     INTEGER NOT NULL DEFAULT 0,  -- the last seq given
        watch_pid   INTEGER,
        watch_start INTEGER,
        watch_boot  BLOB,
        lease_ms    INTEGER                      -- wall clock at which the lease lapses
    ) WITHOUT ROWID;
    CREATE INDEX sessions_ending ON sessions (name) WHERE watch_pid IS NOT NULL OR lease_ms IS NOT NULL;
    CREATE TABLE removed (id INTEGER PRIMARY KEY);  -- ids that were given once and are never given again
", "
    ALTER TABLE tasks ADD COLUMN disk_bytes INTEGER NOT NULL DEFAULT 0;  -- of an ended task; 0 was never measured
    ALTER TABLE tasks ADD COLUMN packed INTEGER NOT NULL DEFAULT 0;  -- 1: its output is in `packed`; 2: stays in its folder
    DROP INDEX tasks_ended;
    CREATE INDEX tasks_ended ON tasks (ended_ms, seq, disk_bytes) WHERE live = 0;
    CREATE INDEX tasks_unpacked ON tasks (ended_ms) WHERE live = 0 AND packed = 0;
    CREATE TABLE packed (
        id         INTEGER PRIMARY KEY,      -- of the task
        output     BLOB,                     -- null if it never wrote
        entries    BLOB    NOT NULL          -- its index
    );
", "
    -- How much there is of ended tasks: counted as they come and go, since counting a million takes a start too long.
    CREATE TABLE kept (count INTEGER NOT NULL, bytes INTEGER NOT NULL);
    INSERT INTO kept SELECT count(*), coalesce(sum(disk_bytes), 0) FROM tasks WHERE live = 0;
    CREATE TRIGGER kept_more AFTER UPDATE OF live, disk_bytes ON tasks WHEN new.live = 0 BEGIN
        UPDATE kept SET count = count + old.live, bytes = bytes + new.disk_bytes - iif(old.live, 0, old.disk_bytes);
    END;
    CREATE TRIGGER kept_less AFTER DELETE ON tasks WHEN old.live = 0 BEGIN
        UPDATE kept SET count = count - 1, bytes = bytes - old.disk_bytes;
    END;
", "
    -- No table changed. A script that its record has is in the folder of a task from its start on, no longer from its asking on: an
    -- earlier program would start one that waits without it.
"];

/// The version of the layout that this ringback writes.
pub const VERSION: usize = STEPS.len();

/// `application_id` of our files: `RBCK`.
const APPLICATION: i64 = 0x5242_434b;

/// How many pages the log may have before a commit copies it back: 4 MB bounds both the file and a restart's work.
const CHECKPOINT_PAGES: i64 = 1000;
/// How long the log becomes by itself, bytes: those pages with their headers (sqlite.org/walformat.html), and what one more
/// commit writes.
pub const LOG_BYTES: u64 = 32 + (4096 + 24) * (CHECKPOINT_PAGES as u64 + 64);

impl Store {
    /// Opens the database at `path`, makes it if it is missing, and brings an older one up to date.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        refuse_planted(path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut db = Connection::open_with_flags(path, flags)?;
        let foreign = |error: rusqlite::Error| match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::NotADatabase) => StoreError::Foreign(path.to_path_buf()),
            _ => StoreError::Sqlite(error),
        };
        // One process has it (the home's lock), so the index of the log need not be shared memory. Said before the first
        // read, which would otherwise make a file for it, and a full disk has no room for one.
        db.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        let found: i64 = db.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(foreign)?;
        let application: i64 = db.query_row("PRAGMA application_id", [], |row| row.get(0))?;
        let tables: i64 = db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        if application != APPLICATION && (found != 0 || tables != 0) {
            return Err(StoreError::Foreign(path.to_path_buf()));
        }
        // Both numbers come with the first step, in one transaction.
        if application == APPLICATION && found < 1 {
            return Err(StoreError::Damaged { path: path.to_path_buf(), found });
        }
        // Defaults differ between builds of the library, so each is said.
        db.pragma_update(None, "journal_mode", "WAL")?;
        db.pragma_update(None, "synchronous", "FULL")?;
        db.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
        db.pragma_update(None, "cache_size", -1024)?;
        // A plan does not depend on what is bound: otherwise statements on partial indexes are planned anew at each call.
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        db.pragma_update(None, "temp_store", "MEMORY")?;
        migrate(&mut db, found)?;
        db.set_prepared_statement_cache_capacity(32);
        Ok(Self { db, log: beside(path, "-wal"), syncs: true, waits: true })
    }

    /// Commits no longer wait for the disk: a killed process loses nothing, a power cut the last of it
    /// (`PRAGMA synchronous`, NORMAL in WAL mode).
    pub fn survive_processes_only(&mut self) -> Result<(), StoreError> {
        self.syncs = false;
        self.wait_for_disk(false)
    }

    /// Whether commits from now on wait for the disk.
    pub(super) fn wait_for_disk(&mut self, waits: bool) -> Result<(), StoreError> {
        if waits != self.waits {
            self.db.pragma_update(None, "synchronous", if waits { "FULL" } else { "NORMAL" })?;
            self.waits = waits;
        }
        Ok(())
    }
}

/// A file of the database's, by what `SQLite` puts behind its name.
fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

/// `SQLite` follows a link that lies in the place of a file of its own, and would write into what it leads to.
fn refuse_planted(path: &Path) -> Result<(), StoreError> {
    for end in ["", "-wal", "-journal"] {
        let path = beside(path, end);
        match files::open_regular(&path) {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Err(StoreError::Planted { path, why: error.to_string() });
            }
            // What cannot be opened for another reason has words of its own.
            Ok(_) | Err(_) => {}
        }
    }
    Ok(())
}

fn migrate(db: &mut Connection, found: i64) -> Result<(), StoreError> {
    let known = i64::try_from(STEPS.len()).unwrap_or(i64::MAX);
    if found > known {
        return Err(StoreError::TooNew { found, known });
    }
    if found == known {
        return Ok(());
    }
    // All or none, and one wait for the disk.
    let transaction = db.transaction()?;
    for step in &STEPS[usize::try_from(found).unwrap_or(0)..] {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "user_version", known)?;
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    Ok(transaction.commit()?)
}

#[cfg(test)]
mod tests {
    use super::super::{Ack, Record};
    use super::*;

    #[test]
    fn only_an_acknowledgement_does_not_wait_for_the_disk() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(&dir.path().join("db")).unwrap();
        // 1 is NORMAL, 2 is FULL.
        let level = |store: &Store| store.db.query_row("PRAGMA synchronous", [], |row| row.get::<_, i64>(0)).unwrap();
        let ack = || [Record::Ack { session: "s".into(), which: Ack::UpTo(1) }];
        store.write_unsynced(&ack()).unwrap();
        assert_eq!(level(&store), 1);
        store.write(&ack()).unwrap();
        assert_eq!(level(&store), 2);
        store.survive_processes_only().unwrap();
        store.write(&ack()).unwrap();
        assert_eq!(level(&store), 1, "as the config says");
    }
}
