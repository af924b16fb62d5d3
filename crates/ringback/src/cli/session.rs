//! `ringback session`: ends sessions, and ties their end to a process or a lease.

use std::time::Duration;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use ringback_host::quantity::millis;
use ringback_host::wire::{Reply, Request, SessionObject};
use serde_json::json;

use super::door::{self, Door, tasks};
use super::{kill, value};
use crate::explain::{Done, Failure};
use crate::render::clean;
use crate::render::json::document;
use crate::render::table::{Cell, table};

/// End a session, or tie its end to a process or a lease
#[derive(Debug, Args)]
pub(crate) struct Session {
    #[command(subcommand)]
    act: Act,
}

#[derive(Debug, Subcommand)]
enum Act {
    /// Stop the awaited and service tasks of a session, and nobody else's
    ///
    /// Exits 0 when somebody looked and their trees are seen to be gone (also when there was nothing to stop), 1 when a process
    /// survived (it is named) or nobody looked what is left, 125 when the stop failed.
    End {
        /// Name of the session
        session: String,
    },
    /// End a session when a process exits
    Watch {
        /// Name of the session
        session: String,
        /// Process id
        #[arg(long, value_parser = clap::value_parser!(i32).range(1..))]
        pid: i32,
    },
    /// End a session when this long passes without another lease
    Lease {
        /// Name of the session
        session: String,
        /// How long; 0 takes the lease away
        #[arg(long = "for", value_name = "DURATION", value_parser = value::duration)]
        length: Duration,
    },
    /// List sessions with live tasks, unheard notices, a watch or a lease
    Ls,
}

impl Session {
    /// Does it.
    pub(crate) fn perform(self, door: Door) -> Done {
        let mut client = door::client(None)?;
        let request = match self.act {
            Act::End { session } => {
                let since = door::now();
                let found = tasks(client.call(Request::SessionEnd { session })?)?;
                return kill::say_stopped(door, &mut client, &found, since);
            }
            Act::Watch { session, pid } => Request::SessionWatch { session, pid },
            Act::Lease { session, length } => Request::SessionLease { session, for_ms: millis(length) },
            Act::Ls => Request::Sessions,
        };
        match client.call(request)? {
            Reply::Session(session) if door.json => {
                let fields = serde_json::to_value(&session).unwrap_or_default();
                door::document(&document(fields))?;
            }
            Reply::Session(session) => list(&[session], door.quiet)?,
            Reply::Sessions(sessions) if door.json => door::document(&document(json!({ "sessions": sessions })))?,
            Reply::Sessions(sessions) if sessions.is_empty() => door.note("no sessions"),
            Reply::Sessions(sessions) => list(&sessions, door.quiet)?,
            _ => return Err(door::unexpected()),
        }
        Ok(0)
    }
}

fn list(sessions: &[SessionObject], quiet: bool) -> Result<(), Failure> {
    if quiet {
        return door::out_lines(sessions.iter().map(|session| clean::line(&session.session)));
    }
    let row = |session: &SessionObject| {
        let lease = session.lease_until.as_deref().map(|until| {
            let holds = until.parse::<Timestamp>().is_ok_and(|until| until > door::now());
            if holds { format!("until {until}") } else { "lapsed".to_owned() }
        });
        vec![
            Cell::plain(clean::short(&session.session, 60)),
            Cell::plain(session.live.to_string()),
            Cell::plain(session.unheard.to_string()),
            Cell::plain(session.watched_pid.map(|pid| format!("pid {pid}")).unwrap_or_default()),
            Cell::plain(lease.unwrap_or_default()),
        ]
    };
    let rows: Vec<_> = sessions.iter().map(row).collect();
    door::out(&table(&["SESSION", "LIVE", "UNHEARD", "WATCHES", "LEASE"], &rows, door::style()))
}
