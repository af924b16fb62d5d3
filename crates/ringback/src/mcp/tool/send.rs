//! `send`: writes to the stdin of a task.

use ringback_host::wire::{ByteBuf, Reply, Request};

use super::super::answer::Answer;
use super::super::args::Args;
use super::super::link::{Line, unexpected};
use super::super::speaker::Speaker;
use super::Job;
use crate::explain::Failure;

/// Reads the arguments.
pub(super) fn read(mut args: Args, speaker: &Speaker) -> Result<Job, Failure> {
    let Some(id) = args.text("id")? else { return Err(args.missing("`id`", "{\"id\":\"ID\",\"text\":\"yes\\n\"}")) };
    let (text, eof) = (args.text("text")?.unwrap_or_default(), args.flag("eof")?);
    if text.is_empty() && !eof {
        return Err(args.missing("`text` or `eof`", "{\"id\":\"ID\",\"text\":\"yes\\n\"}"));
    }
    let work = move |line: &mut Line| perform(line, &id, text, eof);
    Ok(Job { limit: speaker.limit(), work: Box::new(work) })
}

fn perform(line: &mut Line, id: &str, text: String, eof: bool) -> Result<Answer, Failure> {
    let whole = text.len();
    let request = Request::Send { id: id.to_owned(), data: ByteBuf::from(text.into_bytes()), eof };
    match line.call_until_stopped(request)? {
        Some(Reply::Sent { bytes }) => {
            let closed = if eof { ", and closed its stdin" } else { "" };
            let next = format!("wait {{\"ids\":[\"{id}\"]}} or output {{\"id\":\"{id}\"}} shows what it does with it");
            Ok(Answer::plain(format!("sent {bytes} bytes to {id}{closed}"), next).complete(line, &[]))
        }
        Some(_) => Err(unexpected()),
        None => {
            let next = format!("its pipe is full; output {{\"id\":\"{id}\"}} shows whether it reads at all");
            Ok(Answer::plain(format!("not all of {whole} bytes were read by {id}"), next)
                .mark_error(true)
                .complete(line, &[]))
        }
    }
}
