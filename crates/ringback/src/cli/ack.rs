//! `ringback ack`: marks notices as heard.

use clap::Args;
use ringback_host::wire::{ACK_ALL, Reply, Request};
use serde_json::json;

use super::door::{self, Door};
use crate::explain::Done;
use crate::render::count::count as counted;
use crate::render::json::document;

/// The length of a whole id; shorter words of digits are numbers of notices.
const ID_CHARS: usize = 12;

/// Mark notices as heard
#[derive(Debug, Args)]
pub(crate) struct Ack {
    /// Numbers of notices, or ids of tasks
    #[arg(required_unless_present_any = ["up_to", "all"], value_name = "SEQ|ID")]
    which: Vec<String>,
    /// Everything up to this number
    #[arg(long, value_name = "N", conflicts_with = "all")]
    up_to: Option<u64>,
    /// Everything
    #[arg(long)]
    all: bool,
    /// In the inbox of this session
    #[arg(short, long)]
    session: Option<String>,
}

impl Ack {
    /// Marks them.
    pub(crate) fn perform(self, door: Door) -> Done {
        let (seqs, tasks) = sort(self.which);
        let up_to = if self.all { Some(ACK_ALL) } else { self.up_to };
        let mut client = door::client(self.session.as_deref())?;
        let Reply::Acknowledged { count, faults } =
            client.call(Request::Ack { up_to, seqs, tasks, endings: Vec::new() })?
        else {
            return Err(door::unexpected());
        };
        if door.json {
            door::document(&document(json!({ "acknowledged": count, "faults": faults })))?;
        } else {
            door.note(&format!("{} acknowledged", counted(count, "notice")));
        }
        door::faults(&faults);
        Ok(door::exit_code(&faults))
    }
}

/// Tells numbers of notices from ids of tasks.
fn sort(which: Vec<String>) -> (Vec<u64>, Vec<String>) {
    let (mut seqs, mut tasks) = (Vec::new(), Vec::new());
    for word in which {
        match word.trim_start_matches('#').parse() {
            Ok(seq) if word.len() < ID_CHARS => seqs.push(seq),
            _ => tasks.push(word),
        }
    }
    (seqs, tasks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_ids_are_told_apart() {
        let words = ["4", "#17", "123456789012", "k3f"].map(str::to_owned);
        assert_eq!(sort(words.to_vec()), (vec![4, 17], vec!["123456789012".to_owned(), "k3f".to_owned()]));
    }
}
