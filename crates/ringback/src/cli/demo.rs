//! Not written yet.
use super::door::Door;
use crate::explain::Done;
use clap::Args;
/// Show the main job on real processes, in a home of its own
#[derive(Debug, Args)]
pub(crate) struct Demo {}
impl Demo {
    pub(crate) fn perform(self, _door: Door) -> Done {
        Ok(0)
    }
}
