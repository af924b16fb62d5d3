//! `ringback inbox`: the endings that a session has not heard.

use std::time::Duration;

use clap::Args;
use ringback_host::quantity::millis;
use ringback_host::wire::{Notice, Reply, Request};

use super::door::{self, Door};
use super::value;
use crate::explain::Done;
use crate::output::progress;
use crate::render::{age, clean, json};

/// Read the endings that this session has not heard
///
/// Reading alone acknowledges nothing: a notice is offered again until it is acknowledged. --after N acknowledges
/// everything up to N and returns what is newer; --take acknowledges what was printed, after it was printed.
#[derive(Debug, Args)]
pub(crate) struct Inbox {
    /// First acknowledge everything up to this number
    #[arg(long, value_name = "N")]
    after: Option<u64>,
    /// Acknowledge what was printed
    #[arg(long)]
    take: bool,
    /// Wait at most this long for a first notice
    #[arg(long, value_name = "DURATION", value_parser = value::duration)]
    wait: Option<Duration>,
    /// Print at most this many
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Read the inbox of this session
    #[arg(short, long)]
    session: Option<String>,
}

impl Inbox {
    /// Reads it.
    pub(crate) fn perform(self, door: Door) -> Done {
        let mut client = door::client(self.session.as_deref())?;
        let session = client.caller().session.clone();
        let request = Request::Inbox { after: self.after, wait_ms: self.wait.map(millis), limit: self.limit };
        let Reply::Notices { mut notices, more } = client.call(request)? else { return Err(door::unexpected()) };
        progress::look_all(notices.iter_mut().map(|notice| &mut notice.task));
        if door.json {
            door::document(&json::notices(&notices, &session, more))?;
        } else if door.quiet {
            door::out_lines(notices.iter().map(|notice| notice.task.id.clone()))?;
        } else {
            door::out_lines(notices.iter().map(page))?;
            match notices.last() {
                None => door.note(&format!("nothing unheard in session {}", clean::short(&session, 60))),
                Some(_) if more => door.note("there are more"),
                Some(last) if !self.take => {
                    let named = door::speaks_for(self.session.as_deref());
                    door.note(&format!("acknowledge with: ringback ack{named} --up-to {}", last.seq));
                }
                Some(_) => {}
            }
        }
        // Printed and flushed; a crash before this line offers them again, and that is right.
        if self.take && !notices.is_empty() {
            let seqs = notices.iter().map(|notice| notice.seq).collect();
            client.call(Request::Ack { up_to: None, seqs, tasks: Vec::new(), endings: Vec::new() })?;
        }
        Ok(0)
    }
}

fn page(notice: &Notice) -> String {
    let text = clean::block(notice.text.trim_end());
    format!("#{}  {}  {}\n{text}", notice.seq, clean::line(&notice.kind), age::ago(&notice.at, door::now()))
}
