//! The seven tools: each reads its arguments and gives a job, for a thread of its own or with a first question that needs none.

mod inbox;
mod list;
mod output;
mod pattern;
mod run;
mod send;
mod stop;
mod wait;

use std::collections::BTreeSet;
use std::time::Duration;

use ringback_host::wire::{Notice, Reply, Request, TaskObject};

use super::answer::Answer;
use super::args::{Args, wrong};
use super::link::{Line, unexpected};
use super::speaker::Speaker;
use crate::explain::Failure;

/// How long an end is left to the client that has the task, before anybody else may speak of it: it asks every five
/// seconds at the latest, and the answer takes its time too.
const CLAIM: Duration = Duration::from_secs(12);
/// The name of this door among those who may speak of an end.
const RUNG: &str = "mcp-task";
/// What is done, and after what time it comes back with what is known by then.
pub(super) struct Job {
    pub(super) limit: Duration,
    pub(super) work: Work,
}

/// The work of a job.
pub(super) enum Work {
    /// It may block.
    Call(Call),
    /// It begins with a question that the daemon mostly answers at once.
    Ask(Box<Request>, Then),
}

/// Work for a thread.
pub(super) type Call = Box<dyn FnOnce(&mut Line) -> Result<Answer, Failure> + Send>;

/// What follows from the answer to the first question, for this session.
pub(super) type Then = Box<dyn FnOnce(&str, Reply) -> Result<Step, Failure> + Send>;

/// What there is to do after an answer of the daemon.
pub(super) enum Step {
    /// Nothing.
    Done(Box<Answer>),
    /// This.
    Call(Call),
}

impl Work {
    pub(super) fn call(work: impl FnOnce(&mut Line) -> Result<Answer, Failure> + Send + 'static) -> Self {
        Self::Call(Box::new(work))
    }
}

/// The job of a call to this tool.
pub(super) fn read(tool: &'static str, args: Args, speaker: &Speaker) -> Result<Job, Failure> {
    match tool {
        "run" => run::read(args, speaker),
        "wait" => wait::read(args, speaker),
        "output" => output::read(args, speaker),
        "list" => list::read(args, speaker),
        "stop" => stop::read(args, speaker),
        "send" => send::read(args, speaker),
        "inbox" => inbox::read(args, speaker),
        other => Err(wrong(format!("there is no tool `{other}`"), "list the tools".to_owned())),
    }
}

/// The tasks that are named: models write `id` for one, as other tools want it.
fn ids(args: &mut Args) -> Result<Vec<String>, Failure> {
    let mut ids = args.texts("ids")?.unwrap_or_default();
    ids.extend(args.text("id")?.filter(|id| !ids.contains(id)));
    Ok(ids)
}

/// The result of a task that has ended, as the one who ran it gets it: what did not succeed is an error.
pub(super) fn ended(task: &TaskObject) -> Answer {
    Answer::of_ended(task).mark_error(task.exit_code != Some(0))
}

/// The client that has this task will tell its end: whoever else would speak of it is held off. No answer hangs on this.
pub(super) fn claim(line: &mut Line, task: &TaskObject) {
    if task.session == line.session() {
        let _held_by_others = line.foretell(RUNG, CLAIM, &task.id);
    }
}

/// The ended tasks of these notices, each once: one may have a result and lines that matched.
fn ended_of(notices: Vec<Notice>) -> Vec<TaskObject> {
    let mut seen = BTreeSet::new();
    let tasks = notices.into_iter().map(|notice| notice.task).filter(TaskObject::has_ended);
    tasks.filter(|task| seen.insert(task.id.clone())).collect()
}

fn tasks_of(reply: Reply) -> Result<Vec<TaskObject>, Failure> {
    match reply {
        Reply::Tasks { tasks, .. } => Ok(tasks),
        _ => Err(unexpected()),
    }
}

fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_with_two_notices_is_one_task() {
        let notice = |id: &str, state: &str| {
            let task = TaskObject { id: id.to_owned(), state: state.to_owned(), ..TaskObject::default() };
            Notice { task, ..Notice::default() }
        };
        let tasks = ended_of(vec![notice("a", "exited"), notice("b", "running"), notice("a", "exited")]);
        assert_eq!(tasks.iter().map(|task| task.id.as_str()).collect::<Vec<_>>(), ["a"]);
    }
}
