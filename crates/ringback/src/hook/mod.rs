//! Hooks: what an agent runs at its own events, so that it hears of endings without asking.
//!
//! A hook reads one JSON object, and says nothing unless there is something to hear. Before it speaks it claims the
//! notices, after it has spoken it acknowledges them: two hooks never speak of one ending, and one that dies in between
//! leaves it to the next.

mod agent;
mod event;
mod session;
mod speech;
mod told;
mod wait;
mod watch;

use std::time::Duration;

pub(crate) use agent::Hook;
pub(crate) use event::read as read_event;

use crate::explain::Done;
use agent::Act;
use event::Event;

/// What a hook is told beside its event.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    /// Sessions that are spoken for beside the one that the event names.
    pub(crate) sessions: Vec<String>,
    /// How long the tasks of an agent's session outlive the agent.
    pub(crate) keep_for: Duration,
    /// The kinds of notices that wake an idle agent; none is the usual ones.
    pub(crate) kinds: Vec<String>,
}

/// Carries out one hook; the exit code is what the agent is to be told by it.
pub(crate) fn perform(hook: Hook, event: &Event, options: &Options) -> Done {
    match hook.act() {
        Act::Hold => told::hold(hook, event, options),
        Act::Add => told::add(hook, event, options),
        Act::Recap => session::recap(hook, event, options),
        Act::Leave => session::leave(event, options),
        Act::Await => wait::await_end(hook, event),
        Act::Watch => watch::watch(hook, event, options),
    }
}
