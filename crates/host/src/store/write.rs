//! Everything that can be written, and the one place that writes it: a whole round in one transaction.

use std::io::{self, Read as _};

use ringback_core::id::TaskId;
use ringback_core::notice::Kind;
use ringback_sys::files;
use rusqlite::{Connection, params};
use serde::Serialize;

use super::claim::{self, Claim};
use super::ended::{self, Packed};
use super::open::LOG_BYTES;
use super::outbox::{self, Post};
use super::row::{Asked, Facts, StoredStop, StoredWatch};
use super::{Store, StoreError};
use crate::wire::Sighting;

/// One thing to write.
#[derive(Clone, Debug)]
pub enum Record {
    /// A task exists.
    Insert {
        /// Which.
        id: TaskId,
        /// Its session.
        session: String,
        /// How it is tied to it.
        lease: &'static str,
        /// When it was asked for.
        created_ms: i64,
        /// What was asked.
        asked: Box<Asked>,
    },
    /// A stop was asked for; only the first one is kept.
    Stop {
        /// Which.
        id: TaskId,
        /// How.
        stop: StoredStop,
    },
    /// A task has its outcome, and its session one notice of it.
    Conclude {
        /// Which.
        id: TaskId,
        /// Its session.
        session: String,
        /// The outcome.
        facts: Box<Facts>,
        /// When.
        at_ms: i64,
        /// The notice's text.
        text: String,
    },
    /// Something was seen of a task that has not ended.
    Notice(Box<NoticeIn>),
    /// Where the watches of a task stand.
    Watched {
        /// Which.
        id: TaskId,
        /// Where.
        watch: StoredWatch,
    },
    /// The outbox changes.
    Post(Post),
    /// A task's tree is gone.
    Close {
        /// Which.
        id: TaskId,
        /// The last facts; nothing if they stand already.
        facts: Option<Box<Facts>>,
        /// What its folder takes on the disk.
        disk_bytes: u64,
    },
    /// The folder of a task whose tree is gone takes this much of the disk now.
    Measured {
        /// Which.
        id: TaskId,
        /// How much.
        disk_bytes: u64,
    },
    /// The output of a task whose tree is gone moves into the database, or stays in its folder for good.
    Pack {
        /// Which.
        id: TaskId,
        /// The output.
        packed: Option<Box<Packed>>,
    },
    /// A task is a service now.
    Lease {
        /// Which.
        id: TaskId,
        /// The word.
        lease: &'static str,
    },
    /// Notices were heard.
    Ack {
        /// By which session.
        session: String,
        /// Which.
        which: Ack,
    },
    /// Somebody is about to speak of notices.
    Claim(Box<Claim>),
    /// A session ends when this process does; nothing takes the watch away.
    Watch {
        /// Which session.
        session: String,
        /// Process id, start ticks and boot id.
        process: Option<(i32, u64, [u8; 16])>,
    },
    /// A session ends at this time; nothing takes the lease away.
    SessionLease {
        /// Which session.
        session: String,
        /// Milliseconds after 1970.
        until_ms: Option<i64>,
    },
    /// A task is forgotten; its id stays given.
    Remove {
        /// Which.
        id: TaskId,
    },
}

/// One notice to write.
#[derive(Clone, Debug)]
pub struct NoticeIn {
    /// Of which task.
    pub id: TaskId,
    /// To which session.
    pub session: String,
    /// What it is about.
    pub kind: Kind,
    /// When.
    pub at_ms: i64,
    /// What to read.
    pub text: String,
    /// What was seen.
    pub sighting: Sighting,
    /// The unheard notice that says less than this one, and is taken back.
    pub replaces: Option<u64>,
}

/// Which notices were heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ack {
    /// All up to this one.
    UpTo(u64),
    /// This one.
    One(u64),
    /// Those of this task.
    Task(TaskId),
    /// Those of this task that its end makes old: all but the lines that it was watched for.
    Ending(TaskId),
}

impl Store {
    /// Writes all of `records` or none. Returns how many notices were acknowledged, per `Ack` record in order.
    pub fn write(&mut self, records: &[Record]) -> Result<Vec<u64>, StoreError> {
        // The last commit may have waited for nothing; where that cannot be set back, nothing is written.
        self.wait_for_disk(self.syncs)?;
        self.write_now(records)
    }

    fn write_now(&mut self, records: &[Record]) -> Result<Vec<u64>, StoreError> {
        let transaction = self.db.transaction()?;
        let mut acknowledged = Vec::new();
        for record in records {
            if let Some(count) = write_one(&transaction, record)? {
                acknowledged.push(count);
            }
        }
        transaction.commit()?;
        Ok(acknowledged)
    }

    /// The same, without waiting for the disk: what is killed loses nothing of it, and [`Store::sync`] keeps it from a power cut.
    pub fn write_unsynced(&mut self, records: &[Record]) -> Result<Vec<u64>, StoreError> {
        self.wait_for_disk(false)?;
        self.write_now(records)
    }

    /// Has what was written so far survive a power cut.
    pub fn sync(&self) -> io::Result<()> {
        if self.syncs { files::open_regular(&self.log)?.sync_data() } else { Ok(()) }
    }

    /// Makes the log `more` bytes longer, with nothing in them, but not longer than it becomes by itself. Whether it may become
    /// longer still.
    ///
    /// A commit into bytes that are there waits less for the disk than one that makes the file longer, which has the file
    /// system record its new length. What stands behind the last commit, `SQLite` does not look at (sqlite.org/walformat.html).
    pub fn lengthen_log(&self, more: u64) -> io::Result<bool> {
        let long = std::fs::symlink_metadata(&self.log)?.len();
        let more = more.min(LOG_BYTES.saturating_sub(long));
        let mut file = files::append(&self.log)?;
        io::copy(&mut io::repeat(0).take(more), &mut file)?;
        file.sync_data()?;
        Ok(long + more < LOG_BYTES)
    }

    /// Copies the log back into the database and frees its disk space, as far as there is room for that.
    pub fn shorten_log(&self) {
        // What cannot be copied now stays in the log, and is copied later.
        let _ = self.db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    }
}

fn pack<T: Serialize>(value: &T) -> Result<Vec<u8>, StoreError> {
    Ok(rmp_serde::to_vec_named(value)?)
}

fn bits(id: TaskId) -> i64 {
    id.bits().cast_signed()
}

fn write_one(db: &Connection, record: &Record) -> Result<Option<u64>, StoreError> {
    match record {
        Record::Insert { id, session, lease, created_ms, asked } => {
            db.prepare_cached(
                "INSERT INTO tasks (id, session, lease, live, created_ms, asked) VALUES (?, ?, ?, 1, ?, ?)",
            )?
            .execute(params![bits(*id), session, lease, created_ms, pack(asked)?])?;
        }
        Record::Stop { id, stop } => {
            db.prepare_cached("UPDATE tasks SET stop = ? WHERE id = ? AND stop IS NULL")?
                .execute(params![pack(stop)?, bits(*id)])?;
        }
        Record::Conclude { id, session, facts, at_ms, text } => conclude(db, *id, session, facts, *at_ms, text)?,
        Record::Notice(notice) => sighted(db, notice)?,
        Record::Post(post) => outbox::write(db, post)?,
        Record::Watched { id, watch } => {
            db.prepare_cached("UPDATE tasks SET watch = ? WHERE id = ?")?.execute(params![pack(watch)?, bits(*id)])?;
        }
        Record::Close { id, facts, disk_bytes } => {
            let facts = facts.as_ref().map(pack).transpose()?;
            let disk_bytes = i64::try_from(*disk_bytes).unwrap_or(i64::MAX);
            db.prepare_cached("UPDATE tasks SET live = 0, facts = coalesce(?, facts), disk_bytes = ? WHERE id = ?")?
                .execute(params![facts, disk_bytes, bits(*id)])?;
        }
        Record::Measured { id, disk_bytes } => {
            let disk_bytes = i64::try_from(*disk_bytes).unwrap_or(i64::MAX);
            db.prepare_cached("UPDATE tasks SET disk_bytes = ? WHERE id = ? AND live = 0 AND packed <> 1")?
                .execute(params![disk_bytes, bits(*id)])?;
        }
        Record::Pack { id, packed } => ended::pack(db, *id, packed.as_deref())?,
        Record::Lease { id, lease } => {
            db.prepare_cached("UPDATE tasks SET lease = ? WHERE id = ?")?.execute(params![lease, bits(*id)])?;
        }
        Record::Ack { session, which } => return ack(db, session, which).map(Some),
        Record::Claim(claim) => claim::write(db, claim)?,
        Record::Watch { session, process } => {
            let (pid, start, boot) = match process {
                Some((pid, start, boot)) => (Some(*pid), Some(start.cast_signed()), Some(boot.as_slice())),
                None => (None, None, None),
            };
            db.prepare_cached(
                "INSERT INTO sessions (name, watch_pid, watch_start, watch_boot) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (name) DO UPDATE SET watch_pid = ?2, watch_start = ?3, watch_boot = ?4",
            )?
            .execute(params![session, pid, start, boot])?;
        }
        Record::SessionLease { session, until_ms } => {
            db.prepare_cached(
                "INSERT INTO sessions (name, lease_ms) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET lease_ms = ?2",
            )?
            .execute(params![session, until_ms])?;
        }
        Record::Remove { id } => {
            db.prepare_cached("INSERT OR IGNORE INTO removed (id) VALUES (?)")?.execute([bits(*id)])?;
            db.prepare_cached("DELETE FROM tasks WHERE id = ? AND live = 0")?.execute([bits(*id)])?;
            db.prepare_cached("DELETE FROM packed WHERE id = ?")?.execute([bits(*id)])?;
        }
    }
    Ok(None)
}

/// One terminal state and one notice, or neither: a task that has its outcome is left alone.
fn conclude(
    db: &Connection,
    id: TaskId,
    session: &str,
    facts: &Facts,
    at_ms: i64,
    text: &str,
) -> Result<(), StoreError> {
    let changed = db
        .prepare_cached("UPDATE tasks SET state = ?, facts = ?, ended_ms = ? WHERE id = ? AND state IS NULL")?
        .execute(params![facts.outcome.state, pack(facts)?, facts.ended_ms.unwrap_or(at_ms), bits(id)])?;
    if changed == 0 {
        return Ok(());
    }
    // How it went on is of no interest once it has ended. What it was watched for is.
    db.prepare_cached("DELETE FROM notices WHERE task = ? AND kind IN (?, ?)")?.execute(params![
        bits(id),
        Kind::ToolProgress.word(),
        Kind::ToolStalled.word()
    ])?;
    let seq = next_seq(db, session)?;
    db.prepare_cached("INSERT INTO notices (session, seq, task, kind, at_ms, text) VALUES (?, ?, ?, ?, ?, ?)")?
        .execute(params![session, seq, bits(id), Kind::ToolResult.word(), at_ms, text])?;
    Ok(())
}

/// Nothing follows the outcome: a notice of a task that has one is not written.
fn sighted(db: &Connection, notice: &NoticeIn) -> Result<(), StoreError> {
    let NoticeIn { id, session, kind, at_ms, text, sighting, replaces } = notice;
    let runs = db.prepare_cached("SELECT 1 FROM tasks WHERE id = ? AND state IS NULL")?.exists([bits(*id)])?;
    if !runs {
        return Ok(());
    }
    if let Some(seq) = replaces {
        ack(db, session, &Ack::One(*seq))?;
    }
    let seq = next_seq(db, session)?;
    db.prepare_cached(
        "INSERT INTO notices (session, seq, task, kind, at_ms, text, sighting) VALUES (?, ?, ?, ?, ?, ?, ?)",
    )?
    .execute(params![session, seq, bits(*id), kind.word(), at_ms, text, pack(sighting)?])?;
    Ok(())
}

fn next_seq(db: &Connection, session: &str) -> Result<i64, StoreError> {
    let mut statement = db.prepare_cached(
        "INSERT INTO sessions (name, notices) VALUES (?, 1)
         ON CONFLICT (name) DO UPDATE SET notices = notices + 1 RETURNING notices",
    )?;
    Ok(statement.query_row([session], |row| row.get(0))?)
}

fn ack(db: &Connection, session: &str, which: &Ack) -> Result<u64, StoreError> {
    let count = match which {
        Ack::UpTo(seq) => db
            .prepare_cached("DELETE FROM notices WHERE session = ? AND seq <= ?")?
            .execute(params![session, i64::try_from(*seq).unwrap_or(i64::MAX)])?,
        Ack::One(seq) => db
            .prepare_cached("DELETE FROM notices WHERE session = ? AND seq = ?")?
            .execute(params![session, i64::try_from(*seq).unwrap_or(i64::MAX)])?,
        Ack::Task(id) => db
            .prepare_cached("DELETE FROM notices WHERE session = ? AND task = ?")?
            .execute(params![session, bits(*id)])?,
        Ack::Ending(id) => db
            .prepare_cached("DELETE FROM notices WHERE session = ? AND task = ? AND kind <> ?")?
            .execute(params![session, bits(*id), Kind::ToolMatch.word()])?,
    };
    Ok(count as u64)
}
