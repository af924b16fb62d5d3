//! `ringback progress`: how far a task is, told from inside it.

use std::env;

use clap::Args;
use ringback_core::report::measure;
use ringback_host::wire::{Reply, Request};
use serde_json::json;

use super::door::{self, Door};
use crate::explain::{Done, Failure};
use crate::render::json::document;

/// The variable that every task finds its id in.
const ID_VARIABLE: &str = "RINGBACK_ID";

/// Report how far a task is, from inside it
///
/// The last report counts. It stands in `ps`, `show`, notices and bars until the task ends. A task that was started with
/// --progress-fd can write the same words as lines to the descriptor that `$RINGBACK_PROGRESS_FD` names.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ringback progress 37 -m 'epoch 2'\n  ringback progress 12/40\n  ringback progress -m linking"
)]
pub(crate) struct Progress {
    /// How much is done: 37, 37% or 12/40
    #[arg(value_name = "PERCENT|N/M", value_parser = percent, required_unless_present = "message")]
    percent: Option<u8>,
    /// In words, one line
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
    /// Of this task [default: `$RINGBACK_ID`, the one this runs in]
    #[arg(long, value_name = "ID")]
    task: Option<String>,
}

fn percent(text: &str) -> Result<u8, String> {
    measure(text).ok_or_else(|| "write it like 37, 37% or 12/40, at most 100%".to_owned())
}

impl Progress {
    /// Reports it.
    pub(crate) fn perform(self, door: Door) -> Done {
        let inside = || env::var(ID_VARIABLE).ok().filter(|id| !id.is_empty());
        let id = self.task.or_else(inside).ok_or_else(|| {
            let message = format!("this is no task: {ID_VARIABLE} is not set");
            Failure::usage(message, "name the task: ringback progress 37 --task ID")
        })?;
        let mut client = door::client(None)?;
        let request = Request::Report { id: id.clone(), percent: self.percent, text: self.message.clone() };
        let Reply::Done = client.call(request)? else { return Err(door::unexpected()) };
        if door.json {
            door::document(&document(json!({ "id": id, "percent": self.percent, "text": self.message })))?;
        }
        Ok(0)
    }
}
