//! Not written yet.
use super::door::Door;
use crate::explain::Done;
use clap::Args;
/// Check the home, the daemon and the machine
#[derive(Debug, Args)]
pub(crate) struct Doctor {}
impl Doctor {
    pub(crate) fn perform(self, _door: Door) -> Done {
        Ok(0)
    }
}
