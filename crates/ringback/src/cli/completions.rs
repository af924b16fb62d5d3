//! `ringback completions`: shell completions.

use clap::Args;
use clap_complete::Shell;

use super::door::{self, Door};
use crate::explain::Done;

/// Print shell completions
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// Shell
    shell: Shell,
}

impl Completions {
    /// Prints them.
    pub(crate) fn perform(self, door: Door) -> Done {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut super::command(), "ringback", &mut text);
        door::text(door, "completions", &String::from_utf8_lossy(&text))
    }
}
