//! `send`: writes to the stdin of a task, or types into its terminal.

use ringback_host::wire::{ByteBuf, Reply, Request};

use super::super::answer::Answer;
use super::super::args::{Args, wrong};
use super::super::link::{Line, unexpected};
use super::super::speaker::Speaker;
use super::{Job, Work};
use crate::explain::Failure;
use crate::terminal::{self, Key};

/// Reads the arguments.
pub(super) fn read(mut args: Args, speaker: &Speaker) -> Result<Job, Failure> {
    let Some(id) = args.text("id")? else { return Err(args.missing("`id`", "{\"id\":\"ID\",\"text\":\"yes\\n\"}")) };
    let (text, eof) = (args.text("text")?.unwrap_or_default(), args.flag("eof")?);
    let keys = keys(&args.texts("keys")?.unwrap_or_default())?;
    if text.is_empty() && keys.is_empty() && !eof {
        return Err(args.missing("`text`, `keys` or `eof`", "{\"id\":\"ID\",\"text\":\"yes\\n\"}"));
    }
    let work = move |line: &mut Line| perform(line, &id, text.into_bytes(), &keys, eof);
    Ok(Job { limit: speaker.limit(), work: Work::call(work) })
}

/// Each is one key, or some with commas between them.
fn keys(names: &[String]) -> Result<Vec<Key>, Failure> {
    let keys = names.iter().map(|name| terminal::parse(name)).collect::<Result<Vec<_>, _>>();
    keys.map(|keys| keys.concat()).map_err(|error| wrong(error, "for example [\"ctrl-c\"]".to_owned()))
}

fn perform(line: &mut Line, id: &str, mut data: Vec<u8>, keys: &[Key], eof: bool) -> Result<Answer, Failure> {
    if !keys.is_empty() {
        data.extend(terminal::encode(keys, &line.show(id)?)?);
    }
    let whole = data.len();
    let request = Request::Send { id: id.to_owned(), data: ByteBuf::from(data), eof };
    match line.call_until_stopped(request)? {
        Some(Reply::Sent { bytes }) => {
            let closed = match eof {
                true if line.show(id)?.pty.is_some() => ", and typed Ctrl-D",
                true => ", and closed its stdin",
                false => "",
            };
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
