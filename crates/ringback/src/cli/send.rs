//! `ringback send`: writes to the stdin of a task, or types into its terminal.

use std::ffi::OsString;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;

use clap::Args;
use ringback_host::client::Client;
use ringback_host::wire::{ByteBuf, Reply, Request, TaskObject, TerminalSize};
use serde_json::json;

use super::door::{self, Door};
use crate::explain::{Done, Failure};
use crate::render::count::count;
use crate::render::json::document;
use crate::terminal::{self, Key};

/// How much of our stdin goes into one request.
const BLOCK_BYTES: usize = 1 << 20;

const EXAMPLES: &str = "\
Examples:
  ringback send ID yes                      # a line
  ringback send ID --key ctrl-c             # as if typed at its terminal
  ringback send ID ':wq' --key enter
  ringback send ID --resize 120x40
  git diff | ringback send ID - --eof";

/// Write to the stdin of a task, or type into its terminal
///
/// The task must have been started with --stdin or --pty. Words are joined by spaces and end as a line does (at a terminal
/// with Enter, and not before keys); `-` sends what comes on our own stdin, as it is.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Send {
    /// Id or unique prefix
    id: String,
    /// What to write
    #[arg(required_unless_present_any = ["eof", "keys", "resize"])]
    text: Vec<OsString>,
    /// Press these keys of its terminal after the text: ctrl-c, enter, up, f5, alt-x, y … (can be repeated)
    #[arg(short, long = "key", value_name = "KEY[,KEY]", value_parser = terminal::parse)]
    keys: Vec<Vec<Key>>,
    /// Give its terminal this size
    #[arg(long, value_name = "COLSxROWS", value_parser = terminal::parse_size)]
    resize: Option<TerminalSize>,
    /// Close stdin afterwards; at a terminal, type Ctrl-D
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
        if let Some(size) = self.resize {
            client.call(Request::Resize { id: self.id.clone(), size })?;
        }
        let is_forward = self.text.len() == 1 && self.text[0] == "-";
        let mut bytes = if is_forward { self.forward(&mut client)? } else { 0 };
        let data = if is_forward { self.pressed(&mut client)? } else { self.words(&mut client)? };
        if !data.is_empty() || self.eof {
            bytes += write(&mut client, &self.id, data, self.eof)?;
        }
        if door.json {
            door::document(&document(json!({ "id": self.id, "bytes": bytes, "eof": self.eof, "size": self.resize })))?;
        } else if let Some(TerminalSize { columns, rows }) = self.resize {
            door.note(&format!("terminal resized to {columns}x{rows}, {bytes} bytes sent"));
        } else {
            let sent = format!("{} sent", count(bytes, "byte"));
            let ended = if self.eof { self.end_of_input(&mut client) } else { "" };
            door.note(&match (self.eof, bytes) {
                (true, 0) => ended.to_owned(),
                (true, _) => format!("{sent}, {ended}"),
                (false, _) => sent,
            });
        }
        Ok(0)
    }

    /// What `--eof` has done: a pipe is closed, a terminal stays open.
    fn end_of_input(&self, client: &mut Client) -> &'static str {
        let is_terminal = show(client, &self.id).is_ok_and(|task| task.pty.is_some());
        if is_terminal { "Ctrl-D typed" } else { "stdin closed" }
    }

    /// The text as it is typed: a line ends with a newline in a pipe, and with Enter at a terminal.
    fn words(&self, client: &mut Client) -> Result<Vec<u8>, Failure> {
        let mut data = self.text.iter().map(|word| word.as_bytes()).collect::<Vec<_>>().join(&b' ');
        if !self.text.is_empty() && !self.no_newline && self.keys.is_empty() {
            data.push(if show(client, &self.id)?.pty.is_some() { b'\r' } else { b'\n' });
        }
        data.extend(self.pressed(client)?);
        Ok(data)
    }

    /// The bytes of the keys.
    fn pressed(&self, client: &mut Client) -> Result<Vec<u8>, Failure> {
        if self.keys.is_empty() {
            return Ok(Vec::new());
        }
        terminal::encode(&self.keys.concat(), &show(client, &self.id)?)
    }

    fn forward(&self, client: &mut Client) -> Result<u64, Failure> {
        let (mut stdin, mut total) = (io::stdin().lock(), 0);
        loop {
            let mut block = Vec::new();
            stdin.by_ref().take(BLOCK_BYTES as u64).read_to_end(&mut block)?;
            if block.is_empty() {
                return Ok(total);
            }
            total += write(client, &self.id, block, false)?;
        }
    }
}

fn show(client: &mut Client, id: &str) -> Result<TaskObject, Failure> {
    match client.call(Request::Show { id: id.to_owned() })? {
        Reply::Task { task, .. } => Ok(*task),
        _ => Err(door::unexpected()),
    }
}

fn write(client: &mut Client, id: &str, data: Vec<u8>, eof: bool) -> Result<u64, Failure> {
    match client.call(Request::Send { id: id.to_owned(), data: ByteBuf::from(data), eof })? {
        Reply::Sent { bytes } => Ok(bytes),
        _ => Err(door::unexpected()),
    }
}
