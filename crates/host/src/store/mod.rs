//! The store: tasks, notices and sessions in one `SQLite` file, written by one thread, one transaction per round.
//!
//! For a task that lives, its folder is the truth and the row only says that it lives. For one that has ended, the row is
//! the truth: its outcome and its notice came in one transaction. WAL with `synchronous = FULL`: what was committed
//! survives a power cut (sqlite.org/wal.html).

mod claim;
mod ended;
mod inbox;
mod open;
mod outbox;
mod read;
pub mod row;
mod sessions;
mod write;

pub use claim::{Claim, LEASE_MS_MAX};
pub use ended::{EndedRow, Packed};
pub use inbox::NoticeRow;
pub use open::{LOG_BYTES, VERSION};
pub use outbox::{OUTBOX_MAX, OutboxRow, Post};
pub use read::{Found, Page};
pub use row::{Asked, Facts, Row, StoredCommand, StoredHeld, StoredOutcome, StoredReport, StoredStop, StoredWatch};
pub use sessions::{LeaseRow, WatchRow};
pub use write::{Ack, NoticeIn, Record};

use std::path::PathBuf;

use rusqlite::Connection;

/// The database of one home.
#[derive(Debug)]
pub struct Store {
    db: Connection,
    /// The log.
    log: PathBuf,
    /// Whether what was written is to survive a power cut.
    syncs: bool,
    /// Whether the database makes a commit wait for the disk now.
    waits: bool,
}

/// Why the store could not do it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database answered with an error.
    #[error("the database failed")]
    Sqlite(#[from] rusqlite::Error),
    /// A newer ringback wrote this home.
    #[error("the database has version {found}, this ringback knows versions up to {known}")]
    TooNew {
        /// What the file says.
        found: i64,
        /// What we know.
        known: i64,
    },
    /// The file is no database of ours.
    #[error("{0} is not a ringback database")]
    Foreign(PathBuf),
    /// The file is ours, but not as anybody of us wrote it.
    #[error("the database {} is damaged: it says that its version is {found}", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What it says.
        found: i64,
    },
    /// Its file is one that somebody else may have put there.
    #[error("{} is not used: {why}", path.display())]
    Planted {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Its file has gone, or is another one: what is written to the one that is open, nobody would find.
    #[error("{} was removed or replaced while the daemon had it open", path.display())]
    Replaced {
        /// Which file.
        path: PathBuf,
    },
    /// A value cannot be read or written.
    #[error("a stored value cannot be read")]
    Value(#[from] rmp_serde::decode::Error),
    /// A value cannot be written.
    #[error("a value cannot be stored")]
    Unwritable(#[from] rmp_serde::encode::Error),
}

impl StoreError {
    /// Whether the disk is full or cannot be written now: the same write may succeed later.
    pub fn is_space(&self) -> bool {
        use rusqlite::ErrorCode::{DiskFull, ReadOnly, SystemIoFailure};
        match self {
            Self::Sqlite(rusqlite::Error::SqliteFailure(error, _)) => {
                matches!(error.code, DiskFull | SystemIoFailure | ReadOnly)
            }
            _ => false,
        }
    }
}
