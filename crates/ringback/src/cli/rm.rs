//! `ringback rm`: forgets ended tasks.

use clap::Args;
use ringback_host::quantity::size_text;
use ringback_host::wire::{Fault, Reply, Request};
use serde_json::json;

use super::door::{self, Door};
use crate::explain::Done;
use crate::render::count::count;
use crate::render::json::document;

/// Forget ended tasks and delete their output
///
/// Their ids answer "expired" from then on and are never used again.
#[derive(Debug, Args)]
pub(crate) struct Rm {
    /// Ids or unique prefixes
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
}

impl Rm {
    /// Forgets them.
    pub(crate) fn perform(self, door: Door) -> Done {
        let mut client = door::client(None)?;
        let Reply::Removed { ids, bytes, faults, .. } = client.call(Request::Remove { ids: self.ids })? else {
            return Err(door::unexpected());
        };
        say_removed(door, &ids, bytes, &faults, false)
    }
}

/// Says what was removed, or what would be.
pub(super) fn say_removed(door: Door, ids: &[String], bytes: u64, faults: &[Fault], dry_run: bool) -> Done {
    if door.json {
        let all = json!({ "removed": ids, "bytes": bytes, "dry_run": dry_run, "faults": faults });
        door::document(&document(all))?;
    } else {
        door::out_lines(ids.iter().cloned())?;
        let (what, freed) = if dry_run { ("would be removed", "would free") } else { ("removed", "freed") };
        door.note(&format!("{} {what}, {freed} {}", count(ids.len() as u64, "task"), size_text(bytes)));
    }
    door::faults(faults);
    Ok(door::exit_code(faults))
}
