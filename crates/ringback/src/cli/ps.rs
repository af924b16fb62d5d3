//! `ringback ps`: the loose ends of a session, or all tasks.

use clap::{Args, ValueEnum};
use ringback_host::client::Client;
use ringback_host::wire::{Request, TaskObject};

use super::door::{self, Door, Tasks, tasks};
use super::look::Look;
use crate::explain::{Done, Failure};
use crate::output::progress;
use crate::render::{json as documents, task as render};

/// How many tasks are listed where nobody says.
const LIMIT: u32 = 50;
/// How many live ones.
const LIVE_LIMIT: u32 = 1000;

/// List what this session has to see to: live tasks and unheard endings
///
/// With -a ended tasks too, newest first.
#[derive(Clone, Debug, Args)]
pub(crate) struct Ps {
    /// List ended tasks too, newest first
    #[arg(short, long)]
    all: bool,
    /// List the tasks of this session
    #[arg(short, long, conflicts_with = "all_sessions")]
    session: Option<String>,
    /// List the tasks of every session
    #[arg(long)]
    all_sessions: bool,
    /// List the tasks in this state (can be repeated)
    #[arg(long, value_enum, value_name = "STATE")]
    state: Vec<State>,
    /// List at most this many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Go on where an earlier list stopped
    #[arg(long, value_name = "N", requires = "all")]
    before: Option<u64>,
}

/// The states of a task, and two words for several of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
enum State {
    /// Waits for its turn
    Queued,
    /// Runs
    Running,
    /// Not live any more, however it ended
    Ended,
    /// Ended, but not with exit code 0
    Failed,
    /// Its main process returned
    Exited,
    /// Killed by a signal that was not ours
    Signaled,
    /// Stopped by a limit of time
    TimedOut,
    /// Stopped on request, or with its session
    Killed,
    /// Never ran
    StartFailed,
    /// How it ended cannot be known
    Lost,
}

impl State {
    fn is_ended(self) -> bool {
        !matches!(self, Self::Queued | Self::Running)
    }

    fn is_of(self, task: &TaskObject) -> bool {
        match self {
            Self::Ended => task.has_ended(),
            Self::Failed => task.has_ended() && task.exit_code != Some(0),
            exactly => task.state == super::run::word(&exactly),
        }
    }
}

impl Ps {
    /// Lists them.
    pub(crate) fn perform(self, door: Door) -> Done {
        let mut client = door::client(self.session.as_deref())?;
        if !self.all && !self.all_sessions && self.state.is_empty() {
            return say_loose_ends(door, &Look::at_session(&mut client, self.limit)?);
        }
        let all = self.all || self.state.iter().any(|state| state.is_ended());
        let mut found = Ps { all, ..self.clone() }.find(&mut client)?;
        progress::look_all(&mut found.list);
        say_list(door, &found, &Ps { all, ..self })
    }

    fn find(&self, client: &mut Client) -> Result<Tasks, Failure> {
        let session = (!self.all_sessions).then(|| client.caller().session.clone());
        let limit = self.limit.unwrap_or(if self.all { LIMIT } else { LIVE_LIMIT });
        let mut page = |before, limit| {
            let request = Request::List { session: session.clone(), ended: self.all, before, limit };
            tasks(client.call(request)?)
        };
        if self.state.is_empty() {
            return page(self.before, limit);
        }
        let (mut list, mut before) = (Vec::new(), self.before);
        loop {
            let Tasks { list: rows, next, faults, .. } = page(before, LIVE_LIMIT)?;
            for (at, task) in rows.into_iter().enumerate() {
                if list.len() == limit as usize {
                    // Asked for only as far as it was looked at, the daemon says where that is.
                    let next =
                        if at == 0 { before } else { page(before, u32::try_from(at).unwrap_or(LIVE_LIMIT))?.next };
                    return Ok(Tasks { list, timed_out: false, next, faults });
                }
                if self.state.iter().any(|state| state.is_of(&task)) {
                    list.push(task);
                }
            }
            if next.is_none() {
                return Ok(Tasks { list, timed_out: false, next, faults });
            }
            before = next;
        }
    }

    /// The command that goes on; of live tasks there is one page, so a longer one is asked for.
    fn more(&self, next: u64) -> String {
        let mut words = vec!["ringback ps".to_owned()];
        words.extend(self.all.then(|| "-a".to_owned()));
        words.extend(self.state.iter().map(|state| format!("--state {}", super::run::word(state))));
        words.extend(self.all_sessions.then(|| "--all-sessions".to_owned()));
        words.extend(self.session.iter().map(|name| format!("-s {}", shlex::try_quote(name).unwrap_or_default())));
        if self.all {
            words.extend(self.limit.map(|limit| format!("--limit {limit}")));
            words.push(format!("--before {next}"));
        } else {
            words.push(format!("--limit {}", self.limit.unwrap_or(LIVE_LIMIT).saturating_mul(10)));
        }
        words.join(" ")
    }
}

fn say_list(door: Door, found: &Tasks, asked: &Ps) -> Done {
    if door.json {
        door::document(&documents::tasks(&found.list, None, &found.faults).page(found.next))?;
    } else if door.quiet {
        door::out_lines(found.list.iter().map(|task| task.id.clone()))?;
    } else if found.list.is_empty() {
        door.note("no tasks");
    } else {
        door::out(&render::tasks_table(&found.list, asked.all_sessions, door::now(), door::style()))?;
        if let Some(next) = found.next {
            door.note(&format!("there are more: {}", asked.more(next)));
        }
    }
    Ok(0)
}

fn say_loose_ends(door: Door, look: &Look) -> Done {
    if door.json {
        door::document(&look.document())?;
    } else if door.quiet {
        door::out_lines(look.ids().into_iter())?;
    } else {
        let page = look.page();
        door::out(&page)?;
        if page.is_empty() {
            door.note(&look.nothing());
        }
    }
    Ok(0)
}
