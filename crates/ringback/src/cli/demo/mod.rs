//! `ringback demo`: the main job on real processes, in a home of its own, with the daemon killed in the middle.

mod stage;
mod story;

use clap::Args;
use serde_json::json;

use super::door::{self, Door};
use crate::explain::Done;
use crate::render::json::document;
use stage::Stage;

/// Something did not hold.
const EXIT_BROKEN: u8 = 1;

/// Show the main job on real processes, in a home of its own
///
/// Three tasks: one succeeds, one fails, one has a tree that refuses to go. The daemon is killed with SIGKILL in the
/// middle, more than once. Everything that is claimed is checked; exits 1 if anything does not hold.
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Keep the home afterwards
    #[arg(long)]
    keep: bool,
}

impl Demo {
    /// Plays it.
    pub(crate) fn perform(self, door: Door) -> Done {
        let mut stage = Stage::open(!door.json && !door.quiet)?;
        let played = story::play(&mut stage);
        let holds = played.is_ok() && stage.holds();
        let left = stage.close(self.keep || !holds);
        played?;
        left?;
        if door.json {
            let checks: Vec<_> =
                stage.checks().iter().map(|(what, held)| json!({ "check": what, "holds": held })).collect();
            door::document(&document(json!({ "holds": holds, "checks": checks })))?;
        } else {
            stage.say_verdict()?;
        }
        Ok(if holds { 0 } else { EXIT_BROKEN })
    }
}
