//! `list`: what runs for the session and what it has not heard; with `ended` also what is over.

use std::collections::BTreeSet;

use ringback_host::wire::{Reply, Request};

use super::super::answer::Answer;
use super::super::args::Args;
use super::super::link::{Line, unexpected};
use super::super::speaker::Speaker;
use super::{Job, Work, count, ended_of};
use crate::explain::Failure;

/// How many rows a list has when nobody says otherwise.
const ROWS: u64 = 50;
/// How many rows a list has at most: about 25 tokens each.
const ROWS_MAX: u64 = 200;

struct List {
    ended: bool,
    all_sessions: bool,
    limit: u32,
    before: Option<u64>,
}

/// Reads the arguments.
pub(super) fn read(mut args: Args, speaker: &Speaker) -> Result<Job, Failure> {
    let limit = args.number("limit")?.unwrap_or(ROWS).clamp(1, ROWS_MAX);
    let list = List {
        ended: args.flag("ended")?,
        all_sessions: args.flag("all_sessions")?,
        limit: u32::try_from(limit).unwrap_or(u32::MAX),
        before: args.number("before")?,
    };
    Ok(Job { limit: speaker.limit(), work: Work::call(move |line| list.perform(line)) })
}

impl List {
    fn perform(&self, line: &mut Line) -> Result<Answer, Failure> {
        let session = (!self.all_sessions).then(|| line.session().to_owned());
        let request = Request::List { session, ended: self.ended, before: self.before, limit: self.limit };
        let Reply::Tasks { mut tasks, next, .. } = line.call(request)? else { return Err(unexpected()) };
        if !self.ended && self.before.is_none() {
            let known: BTreeSet<String> = tasks.iter().map(|task| task.id.clone()).collect();
            let (notices, _) = line.unheard(self.limit)?;
            tasks.extend(ended_of(notices).into_iter().filter(|task| !known.contains(&task.id)));
        }
        let running = tasks.iter().filter(|task| !task.has_ended()).count();
        let verdict = format!("{} not ended, {} ended", count(running, "task"), tasks.len() - running);
        let step = match next {
            Some(next) => format!("list {{\"before\":{next}}} shows older ones"),
            None if tasks.is_empty() && !self.ended => "list {\"ended\":true} shows old ones".to_owned(),
            None => "output {\"id\":…} shows what one printed".to_owned(),
        };
        let mut answer = Answer::of_tasks(verdict, &tasks, false, step);
        if let Some(next) = next {
            answer.field("cursor", next);
        }
        if self.all_sessions {
            answer = answer.with_sessions(&tasks);
        }
        Ok(answer.complete(line, &tasks))
    }
}
