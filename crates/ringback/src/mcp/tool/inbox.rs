//! `inbox`: what the session has not heard, in full; reading acknowledges nothing, the next `after` does.

use ringback_host::quantity::millis;
use ringback_host::wire::{Reply, Request};

use super::super::answer::Answer;
use super::super::args::Args;
use super::super::link::{Line, unexpected};
use super::super::speaker::Speaker;
use super::{Job, Work, count};
use crate::explain::Failure;

/// How many notices one answer holds when nobody says otherwise: each may have some 300 tokens.
const NOTICES: u64 = 10;
/// How many at most.
const NOTICES_MAX: u64 = 100;

/// Reads the arguments.
pub(super) fn read(mut args: Args, speaker: &Speaker) -> Result<Job, Failure> {
    let limit = speaker.limit();
    let after = args.number("after")?;
    let wait_ms = args.number("wait_ms")?.map(|ms| ms.min(millis(limit)));
    let most = args.number("limit")?.unwrap_or(NOTICES).clamp(1, NOTICES_MAX);
    let most = u32::try_from(most).unwrap_or(u32::MAX);
    let work = move |line: &mut Line| perform(line, after, wait_ms, most);
    Ok(Job { limit, work: Work::call(work) })
}

fn perform(line: &mut Line, after: Option<u64>, wait_ms: Option<u64>, limit: u32) -> Result<Answer, Failure> {
    let (notices, more) = match line.call_until_stopped(Request::Inbox { after, wait_ms, limit })? {
        Some(Reply::Notices { notices, more }) => (notices, more),
        Some(_) => return Err(unexpected()),
        None => line.unheard(limit)?,
    };
    let Some(last) = notices.last().map(|notice| notice.seq) else {
        return Ok(Answer::plain("nothing unheard", "wait {} blocks until something ends").complete(line, &[]));
    };
    let more = if more { "; there are more" } else { "" };
    let verdict = format!("{} unheard{more}", count(notices.len(), "notice"));
    let next = format!("inbox {{\"after\":{last}}} acknowledges these, so that they are not shown again");
    let mut answer = Answer::of_notices(verdict, &notices, next);
    answer.field("cursor", last);
    let shown: Vec<String> = notices.into_iter().map(|notice| notice.task.id).collect();
    Ok(answer.complete_without(line, &shown))
}
