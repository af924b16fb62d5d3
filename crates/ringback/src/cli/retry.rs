//! `ringback retry`: the command of an ended task, once more.

use clap::Args;
use ringback_host::wire::{Reply, Request};

use super::door::{self, Door};
use super::{follow, run, wait};
use crate::explain::Done;

/// Run the command of an ended task again
///
/// It becomes a new task of this session with the same command, folder, environment and limits.
#[derive(Debug, Args)]
pub(crate) struct Retry {
    /// Id or unique prefix
    id: String,
    /// Tell this session of the end
    #[arg(short, long)]
    session: Option<String>,
    /// Stream the output and mirror the exit code
    #[arg(short, long, conflicts_with = "wait")]
    follow: bool,
    /// Wait for the end and mirror the exit code
    #[arg(long)]
    wait: bool,
}

impl Retry {
    /// Runs it again.
    pub(crate) fn perform(self, door: Door) -> Done {
        door::check_stdout()?;
        let interrupt = if self.follow || self.wait { Some(follow::catch_interrupt()?) } else { None };
        let mut client = door::client(self.session.as_deref())?;
        let Reply::Task { task, existing, .. } = client.call(Request::Retry { id: self.id })? else {
            return Err(door::unexpected());
        };
        match interrupt {
            // Whether it takes a stdin, and at what, the daemon knows.
            Some(interrupt) if self.follow => return run::follow_new(door, client, &task, &interrupt, !existing),
            Some(interrupt) => return wait::until_end(door, client, &task, &interrupt),
            None => {}
        }
        run::say_started(door, &task, self.session.as_deref(), existing, false)?;
        Ok(0)
    }
}
