//! `ringback send`: writes to the stdin of a task.

use std::ffi::OsString;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;

use clap::Args;
use ringback_host::client::Client;
use ringback_host::wire::{ByteBuf, Reply, Request};
use serde_json::json;

use super::door::{self, Door};
use crate::explain::{Done, Failure};
use crate::render::count::count;
use crate::render::json::document;

/// How much of our stdin goes into one request.
const BLOCK_BYTES: usize = 1 << 20;

/// Write to the stdin of a task
///
/// The task must have been started with --stdin. Words are joined by spaces and end with a newline; `-` sends what
/// comes on our own stdin, as it is.
#[derive(Debug, Args)]
pub(crate) struct Send {
    /// Id or unique prefix
    id: String,
    /// What to write
    #[arg(required_unless_present = "eof")]
    text: Vec<OsString>,
    /// Close stdin afterwards
    #[arg(long)]
    eof: bool,
    /// Add no newline
    #[arg(long)]
    no_newline: bool,
}

impl Send {
    /// Writes it.
    pub(crate) fn perform(self, door: Door) -> Done {
        let mut client = door::client(None)?;
        let bytes = if self.text.len() == 1 && self.text[0] == "-" {
            self.forward(&mut client)?
        } else {
            let data = self.words();
            write(&mut client, &self.id, data, self.eof)?
        };
        if door.json {
            door::document(&document(json!({ "id": self.id, "bytes": bytes, "eof": self.eof })))?;
        } else {
            let sent = format!("{} sent", count(bytes, "byte"));
            door.note(&match (self.eof, bytes) {
                (true, 0) => "stdin closed".to_owned(),
                (true, _) => format!("{sent}, stdin closed"),
                (false, _) => sent,
            });
        }
        Ok(0)
    }

    fn words(&self) -> Vec<u8> {
        let mut data = self.text.iter().map(|word| word.as_bytes()).collect::<Vec<_>>().join(&b' ');
        if !self.text.is_empty() && !self.no_newline {
            data.push(b'\n');
        }
        data
    }

    fn forward(&self, client: &mut Client) -> Result<u64, Failure> {
        let (mut stdin, mut total) = (io::stdin().lock(), 0);
        loop {
            let mut block = Vec::new();
            stdin.by_ref().take(BLOCK_BYTES as u64).read_to_end(&mut block)?;
            if block.is_empty() {
                break;
            }
            total += write(client, &self.id, block, false)?;
        }
        if self.eof {
            total += write(client, &self.id, Vec::new(), true)?;
        }
        Ok(total)
    }
}

fn write(client: &mut Client, id: &str, data: Vec<u8>, eof: bool) -> Result<u64, Failure> {
    match client.call(Request::Send { id: id.to_owned(), data: ByteBuf::from(data), eof })? {
        Reply::Sent { bytes } => Ok(bytes),
        _ => Err(door::unexpected()),
    }
}
