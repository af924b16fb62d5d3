//! `ringback prune`: forgets old ended tasks that nobody has still to hear of.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use clap::Args;
use ringback_host::client::Client;
use ringback_host::config::Config;
use ringback_host::quantity::{duration_text, millis, size_text};
use ringback_host::wire::{Fault, Reply, Request};

use super::door::{self, Door};
use super::{rm, value};
use crate::explain::{Done, Failure};
use crate::render::count::count;

/// Forget old ended tasks that nobody has still to hear of
///
/// Asks first on a terminal; elsewhere it wants --yes. Past `quota`, `keep_tasks` or `forget_after` of the config the oldest go
/// by themselves.
#[derive(Debug, Args)]
pub(crate) struct Prune {
    /// Only tasks that ended at least this long ago [default: `keep` of the config, 7 days]
    #[arg(long, value_name = "DURATION", value_parser = value::duration)]
    older_than: Option<Duration>,
    /// Keep at least this many of the newest
    #[arg(long, value_name = "N", default_value_t = 0)]
    keep: u32,
    /// Only say what would go
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
}

impl Prune {
    /// Forgets them.
    pub(crate) fn perform(self, door: Door) -> Done {
        let age = match self.older_than {
            Some(age) => age,
            None => Config::load()?.keep,
        };
        let mut client = door::client(None)?;
        let (ids, bytes, faults, more) = self.ask(&mut client, age, true)?;
        if more && self.dry_run {
            door.warn("one answer does not name them all", "`ringback prune --yes` forgets the others too");
        }
        if self.dry_run || ids.is_empty() {
            return rm::say_removed(door, &ids, bytes, &faults, self.dry_run);
        }
        if !self.yes {
            let question = format!(
                "Forget {}{} that ended more than {} ago ({} on disk)?",
                if more { "more than " } else { "" },
                count(ids.len() as u64, "task"),
                duration_text(millis(age)),
                size_text(bytes)
            );
            if !confirm(&question)? {
                door.note("nothing was removed");
                return Ok(0);
            }
        }
        let (ids, bytes, faults, _) = self.ask(&mut client, age, false)?;
        rm::say_removed(door, &ids, bytes, &faults, false)
    }

    fn ask(
        &self,
        client: &mut Client,
        age: Duration,
        dry_run: bool,
    ) -> Result<(Vec<String>, u64, Vec<Fault>, bool), Failure> {
        let (mut all, mut freed) = (Vec::new(), 0);
        loop {
            let request = Request::Prune { older_than_ms: millis(age), keep: self.keep, dry_run };
            let Reply::Removed { ids, bytes, faults, more } = client.call(request)? else {
                return Err(door::unexpected());
            };
            all.extend(ids);
            freed += bytes;
            // One answer names a bounded number; what is only looked at would be named again.
            if !more || dry_run {
                return Ok((all, freed, faults, more));
            }
        }
    }
}

/// Asks on a terminal. Elsewhere nobody can answer, and silence is no yes.
fn confirm(question: &str) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        let hint = "pass --yes, or look first with --dry-run";
        return Err(Failure::usage("will not delete without a yes", hint));
    }
    door::talk(&format!("{question} [y/N]"));
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
