//! `ringback spool`: serves requests that are files in a folder.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use ringback_host::config::Config;

use super::door::Door;
use super::value;
use crate::explain::Done;
use crate::spool::{Options, serve};

/// The session of a spool that is given none.
const OWN_SESSION: &str = "spool";

/// Serve requests that are files in a folder, for agents that can only write files
///
/// A file `ID.json` with `{"id": ID, "cmd": TEXT, "timeout_secs": N, "status": "pending"}` becomes a task, and is replaced by
/// its record: `running`, then `done`, `timed_out` or `interrupted`, with `exit_code`, `stdout_tail` and `stderr_tail`.
/// `ID.out` and `ID.err` grow meanwhile; an empty `ID.stop` stops it; `ID.error` says why a request was refused. SIGTERM ends
/// the serving, not the tasks, and the next server takes them up. A second server on one folder stands by.
#[derive(Debug, Args)]
pub(crate) struct Spool {
    /// The folder (made if it is missing)
    dir: PathBuf,
    /// Tell this session of the ends too [default: a session `spool`, where the record is all the telling]
    #[arg(short, long)]
    session: Option<String>,
    /// Run commands in this folder, unless a request has a `cwd`
    #[arg(short = 'C', long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Stop commands after this long, unless a request has `timeout_secs`
    #[arg(long, value_name = "DURATION", value_parser = value::limit)]
    timeout: Option<Duration>,
    /// Keep at most this much of each output, 0 for all [default: as the config says]
    #[arg(long, value_name = "SIZE", value_parser = value::size)]
    max_output: Option<u64>,
    /// Serve the folder though others can write to it: they can then run commands as you
    #[arg(long)]
    shared: bool,
}

impl Spool {
    /// Serves until stopped.
    pub(crate) fn perform(self, door: Door) -> Done {
        let max_output = match self.max_output {
            Some(bytes) => bytes,
            None => Config::load()?.max_output,
        };
        let options = Options {
            dir: self.dir,
            hears: self.session.is_none(),
            session: self.session.unwrap_or_else(|| OWN_SESSION.to_owned()),
            shared: self.shared,
            cwd: self.cwd,
            timeout: self.timeout,
            max_output,
        };
        serve(door, options)
    }
}
