//! `wait`: blocks until tasks have ended, or until a pattern appears in an output.

use std::time::Duration;

use ringback_host::quantity::millis;
use ringback_host::wire::{Request, TaskObject, Until};

use super::super::answer::Answer;
use super::super::args::{Args, wrong};
use super::super::link::Line;
use super::super::speaker::Speaker;
use super::{Job, Work, count, ended_of, ids, pattern, tasks_of};
use crate::explain::Failure;

/// How many tasks one call waits for at most; the session's list is as long.
const IDS_MAX: usize = 200;

/// Reads the arguments.
pub(super) fn read(mut args: Args, speaker: &Speaker) -> Result<Job, Failure> {
    let limit = speaker.limit();
    let limit = args.number("timeout_ms")?.map_or(limit, |ms| limit.min(Duration::from_millis(ms)));
    let ids = ids(&mut args)?;
    if ids.len() > IDS_MAX {
        return Err(wrong(
            format!("{} ids, at most {IDS_MAX} are taken", ids.len()),
            "wait for fewer at a time".to_owned(),
        ));
    }
    let any = is_any(&mut args)?.unwrap_or(ids.is_empty());
    let until = match args.word("until", &["end", "ready", "match"])?.as_str() {
        "ready" => Until::Ready,
        "match" => Until::Match,
        _ => Until::End,
    };
    let offset = args.number("offset")?;
    if let Some(text) = args.text("pattern")? {
        let [id] = ids.as_slice() else {
            return Err(args.missing("exactly one id with `pattern`", "{\"ids\":[\"ID\"],\"pattern\":\"ready\"}"));
        };
        return pattern::job(id.clone(), &text, offset.unwrap_or(0), limit);
    }
    let work = move |line: &mut Line| {
        if ids.is_empty() { wait_for_session(line, any, until, limit) } else { wait_for(line, &ids, any, until, limit) }
    };
    // The daemon keeps the time; ours is only there in case it does not.
    Ok(Job { limit: limit + Duration::from_secs(1), work: Work::call(work) })
}

/// Whether one end is enough: `mode`, or `any` or `all` by itself.
fn is_any(args: &mut Args) -> Result<Option<bool>, Failure> {
    let mode = args.word("mode", &["any", "all"])?;
    match (args.flag("any")? || mode == "any", args.flag("all")? || mode == "all") {
        (true, true) => Err(args.missing("`any` or `all`, not both", "{\"ids\":[\"ID\"],\"any\":true}")),
        (false, false) => Ok(None),
        (any, _) => Ok(Some(any)),
    }
}

fn wait_for(line: &mut Line, ids: &[String], any: bool, until: Until, limit: Duration) -> Result<Answer, Failure> {
    let tasks = line.wait(ids, any, until, millis(limit))?;
    Ok(tell(&tasks, until).complete(line, &tasks))
}

/// Without ids: whatever this session has not heard, else what runs for it.
fn wait_for_session(line: &mut Line, any: bool, until: Until, limit: Duration) -> Result<Answer, Failure> {
    let (notices, _) = line.unheard(u32::try_from(IDS_MAX).unwrap_or(u32::MAX))?;
    let unheard = ended_of(notices);
    if any && !unheard.is_empty() {
        return Ok(tell(&unheard, until).complete(line, &unheard));
    }
    let limit_count = u32::try_from(IDS_MAX).unwrap_or(u32::MAX);
    let session = Some(line.session().to_owned());
    let list = Request::List { session, ended: false, before: None, limit: limit_count };
    let running = tasks_of(line.call(list)?)?;
    let ids: Vec<String> =
        running.into_iter().filter(|task| !task.has_ended() && task.lease == "awaited").map(|task| task.id).collect();
    if ids.is_empty() {
        let next = "nothing to wait for; run starts a task, list {\"ended\":true} shows old ones";
        return Ok(Answer::plain("nothing awaited runs in this session", next).complete(line, &[]));
    }
    wait_for(line, &ids, any, until, limit)
}

fn tell(tasks: &[TaskObject], until: Until) -> Answer {
    let running: Vec<&TaskObject> = tasks.iter().filter(|task| !task.has_ended()).collect();
    if let [task] = tasks {
        return tell_one(task, until);
    }
    let verdict = format!("{} ended, {} still running", tasks.len() - running.len(), running.len());
    let next = if running.is_empty() { "output {\"id\":…} shows more of one".to_owned() } else { again(&running) };
    Answer::of_tasks(verdict, tasks, true, next)
}

fn tell_one(task: &TaskObject, until: Until) -> Answer {
    if task.has_ended() {
        return Answer::of_ended(task);
    }
    let came = match until {
        Until::End => None,
        Until::Ready => task.ready.filter(|ready| *ready).map(|_| "it is ready".to_owned()),
        Until::Match => task.matches.filter(|matches| *matches > 0).map(|matches| format!("{matches} lines matched")),
    };
    let Some(came) = came else { return Answer::of_task(task, again(&[task])) };
    let mut answer = Answer::of_task(task, "inbox {} shows what was noticed");
    answer.line(came);
    answer.field("matched", true);
    answer
}

fn again(running: &[&TaskObject]) -> String {
    let ids: Vec<String> = running.iter().map(|task| format!("\"{}\"", task.id)).collect();
    format!("still running ({}); wait {{\"ids\":[{}]}} again", count(running.len(), "task"), ids.join(","))
}
