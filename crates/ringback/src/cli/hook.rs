//! `ringback hook`: what agents run at their own events.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use clap::Args;
use ringback_core::notice::Kind;

use super::door::Door;
use super::value;
use crate::explain::{Done, Failure};
use crate::hook::{self, Options, read_event};
use crate::render::clean;

/// What a hook that failed exits with: an agent tells it to the person at most. 2 would speak to the model.
const EXIT_HOOK_FAILED: u8 = 1;

/// Tell an agent of endings at its own events (installed by `ringback setup`)
///
/// Reads the event on stdin, and says nothing unless there is something to hear. What was said counts as heard.
#[derive(Debug, Args)]
pub(crate) struct Hook {
    // Any text is taken here: a wrong command line exits with 2, which would speak to the model.
    /// Which: claude-wait, claude-watch, claude-stop, claude-prompt, claude-start, claude-end, codex-stop, codex-prompt, codex-start,
    /// codex-end, gemini-after, gemini-before, opencode-wait or cursor-stop
    #[arg(value_name = "HOOK")]
    which: String,
    /// Speak for this session too (can be repeated)
    #[arg(short, long, value_name = "SESSION")]
    session: Vec<String>,
    /// How long after the agent's end its tasks are stopped, unless it comes back
    #[arg(long, value_name = "DURATION", value_parser = value::duration, default_value = "24h")]
    keep_for: Duration,
    /// What wakes an idle agent: kinds of notices (can be repeated), by default `tool_result`, `tool_match` and `tool_ready`
    #[arg(long, value_name = "KIND")]
    kind: Vec<String>,
}

impl Hook {
    /// Carries it out.
    pub(crate) fn perform(self, _door: Door) -> Done {
        self.act().map_err(|failure| Failure { exit: EXIT_HOOK_FAILED, ..failure })
    }

    fn act(self) -> Done {
        let Some(hook) = hook::Hook::find(&self.which) else {
            let names = hook::Hook::names().collect::<Vec<_>>().join(", ");
            let message = format!("there is no hook `{}`", clean::short(&self.which, 40));
            return Err(Failure::new("unknown_hook", message, Some(format!("it is one of {names}"))));
        };
        if let Some(kind) = self.kind.iter().find(|kind| Kind::parse(kind).is_none()) {
            let message = format!("there is no kind of notice `{}`", clean::short(kind, 40));
            let hint = format!("it is one of {}", Kind::WORDS.join(", "));
            return Err(Failure::new("unknown_kind", message, Some(hint)));
        }
        if io::stdin().is_terminal() {
            let hint = Some("`ringback setup` installs hooks; an agent runs them".to_owned());
            return Err(Failure::new("no_event", "a hook reads an event from stdin, which is a terminal", hint));
        }
        let event = read_event(io::stdin().lock())?;
        hook::perform(hook, &event, &Options { sessions: self.session, keep_for: self.keep_for, kinds: self.kind })
    }
}
