//! `output`: what a task has printed, by default as a digest.

use ringback_host::client::output::Stream;
use ringback_host::wire::TaskObject;
use ringback_render::digest::BUDGET_BYTES;

use super::super::answer::Answer;
use super::super::args::{Args, wrong};
use super::super::link::Line;
use super::super::speaker::Speaker;
use super::super::window::{self, Ages, Want, Window};
use super::{Job, Work, pattern};
use crate::explain::Failure;

/// Reads the arguments.
pub(super) fn read(mut args: Args, speaker: &Speaker) -> Result<Job, Failure> {
    let Some(id) = args.text("id")? else { return Err(args.missing("`id`", "{\"id\":\"ID\"}")) };
    let most = args.number("max_bytes")?.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    let stream = match args.word("stream", &["stdout", "stderr"])?.as_str() {
        "stdout" => Some(Stream::Stdout),
        "stderr" => Some(Stream::Stderr),
        _ => None,
    };
    let is_begun = stream.is_some() || args.has("since") || args.has("until");
    let is_digest = args.flag("digest")?;
    let want = if args.flag("screen")? { Want::Screen } else { want(&mut args, is_begun)? };
    if is_digest && !matches!(want, Want::Digest) {
        return Err(args.missing("`digest` alone", "{\"id\":\"ID\",\"digest\":true}"));
    }
    let usual = if matches!(want, Want::Digest) { BUDGET_BYTES } else { window::BYTES };
    let budget = most.unwrap_or(usual).clamp(1, window::BYTES_MAX);
    let ages = ages(&mut args, &want)?;
    let work = move |line: &mut Line| perform(line, &id, &want, ages, stream, budget);
    Ok(Job { limit: speaker.limit(), work: Work::call(work) })
}

/// When what is read came.
fn ages(args: &mut Args, want: &Want) -> Result<Ages, Failure> {
    let ages = Ages { since: args.span("since")?, until: args.span("until")? };
    match want {
        Want::From(0) | Want::Grep(_, 0, _) => Ok(ages),
        Want::From(_) | Want::Grep(..) if ages.since.is_none() => Ok(ages),
        _ if ages.since.is_none() && ages.until.is_none() => Ok(ages),
        _ => Err(args.missing("`since` and `until` alone, or with `grep`", "{\"id\":\"ID\",\"since\":\"5m\"}")),
    }
}

fn want(args: &mut Args, is_begun: bool) -> Result<Want, Failure> {
    let offset = args.number("offset")?;
    let (lines, tail, grep) = (args.text("lines")?, args.number("tail")?, args.text("grep")?);
    if usize::from(lines.is_some()) + usize::from(tail.is_some()) + usize::from(grep.is_some()) > 1 {
        return Err(args.missing("one of `lines`, `tail` and `grep`", "{\"id\":\"ID\",\"tail\":50}"));
    }
    let context = args.number("context")?.map_or(0, |lines| usize::try_from(lines).unwrap_or(usize::MAX));
    Ok(match (offset, lines, tail, grep) {
        (offset, _, _, Some(text)) => Want::Grep(pattern::compile(&text)?, offset.unwrap_or(0), context),
        _ if context > 0 => {
            return Err(args.missing("`context` with `grep`", "{\"id\":\"ID\",\"grep\":\"error\",\"context\":3}"));
        }
        (Some(offset), None, None, None) => Want::From(offset),
        (None, Some(text), _, _) => lines_of(&text)?,
        (None, _, Some(count), _) => Want::Tail(count.max(1)),
        (None, None, None, None) if is_begun => Want::From(0),
        (None, None, None, None) => Want::Digest,
        (Some(_), _, _, _) => {
            return Err(args.missing("`offset` alone, or with `grep`", "{\"id\":\"ID\",\"offset\":0}"));
        }
    })
}

/// `A:B`, `A:` or `:B`, from 1, both ends included.
fn lines_of(text: &str) -> Result<Want, Failure> {
    let number = |text: &str, default: u64| if text.is_empty() { Some(default) } else { text.trim().parse().ok() };
    let range = text.split_once(':').and_then(|(from, to)| Some((number(from, 1)?, number(to, u64::MAX)?)));
    match range {
        Some((from, to)) if from >= 1 && from <= to => Ok(Want::Lines(from, to)),
        _ => Err(wrong(
            "`lines` is not a range of lines".to_owned(),
            "for example \"100:150\"; the first line is 1".to_owned(),
        )),
    }
}

fn perform(
    line: &mut Line,
    id: &str,
    want: &Want,
    ages: Ages,
    stream: Option<Stream>,
    budget: usize,
) -> Result<Answer, Failure> {
    let task = line.show(id)?;
    if matches!(want, Want::Screen) && task.pty.is_none() {
        let hint = format!("output {{\"id\":\"{id}\",\"tail\":50}} shows what it has written last");
        return Err(Failure::new("no_terminal", format!("{} has no terminal", task.id), Some(hint)));
    }
    let window = window::read(&task, want, ages, stream, budget)?;
    let is_until = ages.until.is_some();
    let next = next(&task, want, &window, is_until);
    let Window { text, cursor, end, more } = window;
    let mut answer = Answer::of_output(&task, text, next);
    answer.field("cursor", cursor);
    answer.field("bytes", end);
    if let Want::From(_) | Want::Grep(..) = want {
        // At the end of a running task's output there is only nothing more so far.
        answer.field("eof", !more && task.has_ended() && (cursor >= end || !is_until));
    }
    Ok(answer.complete(line, std::slice::from_ref(&task)))
}

fn next(task: &TaskObject, want: &Want, window: &Window, is_until: bool) -> String {
    let read_on = |also: &str| format!("output {{\"id\":\"{}\",\"offset\":{}}}{also} reads on", task.id, window.cursor);
    let same = match (want, is_until) {
        (Want::Grep(..), true) => " with the same grep and until",
        (Want::Grep(..), false) => " with the same grep",
        (_, true) => " with the same until",
        (_, false) => "",
    };
    match (window.more, task.has_ended()) {
        (true, _) if matches!(want, Want::Screen) => "more `max_bytes` show the rest of the screen".to_owned(),
        (true, _) => read_on(same),
        (false, _) if is_until && window.cursor < window.end => {
            let same = if let Want::Grep(..) = want { " with the same grep" } else { "" };
            format!("{}; there is more, which came later", read_on(same))
        }
        (false, false) => format!("wait {{\"ids\":[\"{}\"]}} blocks until it ends", task.id),
        (false, true) => "nothing; this is all".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_lines_are_read_strictly() {
        assert!(matches!(lines_of("3:7").unwrap(), Want::Lines(3, 7)));
        assert!(matches!(lines_of("3:").unwrap(), Want::Lines(3, u64::MAX)));
        assert!(matches!(lines_of(":7").unwrap(), Want::Lines(1, 7)));
        for bad in ["", "5", "0:3", "7:3", "a:b"] {
            assert!(lines_of(bad).is_err(), "{bad}");
        }
    }
}
