//! `stop`: ends tasks with everything they started, sends them a signal, or lets go of them.

use ringback_host::quantity::millis;
use ringback_host::wire::{Reply, Request, TaskObject};
use ringback_sys::signals;

use super::super::answer::Answer;
use super::super::args::{Args, wrong};
use super::super::link::{Line, unexpected};
use super::super::speaker::Speaker;
use super::{Job, Work, count, ids};
use crate::explain::Failure;
use crate::render::{clean, receipt};

/// Reads the arguments.
pub(super) fn read(mut args: Args, speaker: &Speaker) -> Result<Job, Failure> {
    let ids = ids(&mut args)?;
    let all = args.flag("all")?;
    let grace_ms = args.span("grace")?.map(millis);
    let signal = args.text("signal")?.map(|name| signal(&name)).transpose()?;
    let releases = args.flag("release")?;
    if releases && (ids.is_empty() || signal.is_some() || grace_ms.is_some()) {
        return Err(wrong(
            "`release` stops nothing, and needs `ids`".to_owned(),
            "{\"ids\":[\"ID\"],\"release\":true}".to_owned(),
        ));
    }
    if ids.is_empty() != all {
        return Err(args.missing("`ids`, or `all`", "{\"ids\":[\"ID\"]}"));
    }
    let work = move |line: &mut Line| match signal {
        Some(_) if all => {
            Err(wrong("`signal` needs `ids`".to_owned(), "{\"ids\":[\"ID\"],\"signal\":\"INT\"}".to_owned()))
        }
        Some(signal) => send_signal(line, ids, signal),
        None if releases => release(line, ids),
        None => stop(line, &ids, all, grace_ms),
    };
    Ok(Job { limit: speaker.limit(), work: Work::call(work) })
}

fn signal(name: &str) -> Result<i32, Failure> {
    let number = name.parse().ok().or_else(|| signals::number(name)).or_else(|| signals::number(&format!("SIG{name}")));
    number.ok_or_else(|| {
        wrong(format!("`{}` is not a signal", clean::short(name, 20)), "for example INT, HUP, USR1".to_owned())
    })
}

fn stop(line: &mut Line, ids: &[String], all: bool, grace_ms: Option<u64>) -> Result<Answer, Failure> {
    let session = all.then(|| line.session().to_owned());
    let kill = Request::Kill { ids: ids.to_vec(), session, grace_ms };
    match line.call_until_stopped(kill)? {
        Some(Reply::Tasks { tasks, faults, .. }) => Ok(tell(&tasks).with_faults(faults).complete(line, &tasks)),
        Some(_) => Err(unexpected()),
        None => {
            let next = "the stop goes on; call stop again to wait for it";
            Ok(Answer::plain(format!("still stopping {}", ids.join(", ")), next).complete(line, &[]))
        }
    }
}

fn release(line: &mut Line, ids: Vec<String>) -> Result<Answer, Failure> {
    let Reply::Tasks { tasks, faults, .. } = line.call(Request::Release { ids })? else { return Err(unexpected()) };
    let verdict = format!("{} released: a service of its session now", count(tasks.len(), "task"));
    let answer =
        Answer::of_tasks(verdict, &tasks, false, "it runs until the session ends, or stop {\"ids\":…} ends it");
    Ok(answer.with_faults(faults).complete(line, &tasks))
}

fn send_signal(line: &mut Line, ids: Vec<String>, signal: i32) -> Result<Answer, Failure> {
    let Reply::Tasks { tasks, faults, .. } = line.call(Request::Signal { ids, signal })? else {
        return Err(unexpected());
    };
    // What had ended got none; a fault says so.
    let reached = tasks.iter().filter(|task| !task.has_ended()).count();
    if let (0, Some(fault)) = (reached, faults.first()) {
        return Err(fault.clone().into());
    }
    let verdict = format!("sent {} to {}", signals::name(signal), count(reached, "task"));
    let answer = Answer::of_tasks(verdict, &tasks, false, "output {\"id\":…} shows what it does");
    Ok(answer.with_faults(faults).complete(line, &tasks))
}

fn tell(tasks: &[TaskObject]) -> Answer {
    let gone = tasks.iter().filter(|task| task.is_seen_gone()).count();
    let all = count(tasks.len(), "task");
    let verdict =
        if gone == tasks.len() { format!("{all} stopped") } else { format!("{gone} of {all} seen to be gone") };
    let answer = match tasks {
        [] => Answer::plain("nothing ran, nothing was stopped", "list {\"ended\":true} shows old tasks"),
        [task] => Answer::of_ended(task),
        _ => Answer::of_tasks(verdict, tasks, false, "output {\"id\":…} shows what one printed"),
    };
    let unseen = tasks.iter().filter(|task| task.has_unseen_end());
    answer.with_lines(unseen.map(|task| format!("{}: {}", task.id, receipt::NONE)))
}
