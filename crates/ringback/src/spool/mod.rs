//! The spool: requests as files in a folder, for agents that can only write files.
//!
//! `ID.json` asks (`pending`) and is replaced by what became of it; `ID.out` and `ID.err` grow meanwhile; `ID.error` says
//! why a request was refused; `ID.stop` stops it. Claims and the server's lock are hidden files. One server at a time
//! works in a folder, any other stands by. A request is claimed on disk before its task is asked for, and the claim's
//! word stands in the task, so that whoever comes after a crash finds the task instead of starting it again.

mod asking;
mod copy;
mod desk;
mod name;
mod record;
mod request;
mod server;

use std::path::PathBuf;
use std::time::Duration;

pub(crate) use server::serve;

/// Whom a server serves, and how.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// The folder.
    pub(crate) dir: PathBuf,
    /// The session of the tasks.
    pub(crate) session: String,
    /// Whether the record in the folder is all the telling there is: a session of our own has no other reader.
    pub(crate) hears: bool,
    /// Whether others may write to the folder.
    pub(crate) shared: bool,
    /// Where commands run that name no folder.
    pub(crate) cwd: Option<PathBuf>,
    /// Limit of a request that names none.
    pub(crate) timeout: Option<Duration>,
    /// Most bytes that are kept of an output.
    pub(crate) max_output: u64,
}
