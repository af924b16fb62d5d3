//! `ringback show`: everything about one task.

use clap::Args;
use ringback_host::wire::{Reply, Request};

use super::door::{self, Door, heard};
use crate::explain::Done;
use crate::output::enrich;
use crate::render::task as render;

/// Show everything about a task
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Id or unique prefix
    id: String,
    /// Speak for this session
    #[arg(short, long)]
    session: Option<String>,
}

impl Show {
    /// Shows it.
    pub(crate) fn perform(self, door: Door) -> Done {
        let mut client = door::client(self.session.as_deref())?;
        let Reply::Task { mut task, .. } = client.call(Request::Show { id: self.id })? else {
            return Err(door::unexpected());
        };
        enrich(&mut task);
        if door.json {
            door::document(&task)?;
        } else if door.quiet {
            door::out(&format!("{}\n", task.id))?;
        } else {
            door::out(&render::page(&task, door::now(), door::style()))?;
        }
        heard(&mut client, &[*task]);
        Ok(0)
    }
}
