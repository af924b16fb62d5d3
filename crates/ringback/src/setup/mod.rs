//! Setup: makes agents use ringback, by edits of their own settings that keep everything else as it is, and can be undone.

mod agents;
mod difference;
mod jsonc;
mod note;
mod place;
mod tables;
mod work;

pub(crate) use agents::{AGENTS, Agent, snippets};
pub(crate) use place::Places;
pub(crate) use work::{Outcome, State, Wish, carry_out};

/// What AGENTS.md is to say.
pub(crate) const AGENTS_MD: &str = include_str!("assets/agents.md");
