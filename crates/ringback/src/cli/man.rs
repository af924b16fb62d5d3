//! `ringback man`: man pages, from the command line itself.

use std::path::PathBuf;

use clap::Args;

use super::door::{self, Door};
use crate::explain::{Done, Failure};

/// Print the man page, or write one per verb
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Write ringback.1 and a page for each verb into this folder
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Man {
    /// Prints or writes them.
    pub(crate) fn perform(self, _door: Door) -> Done {
        let command = super::command();
        if let Some(dir) = self.dir {
            clap_mangen::generate_to(command, &dir).map_err(|error| {
                let message = format!("cannot write man pages to {}: {error}", dir.display());
                Failure::new("io", message, Some("is it a folder that you may write to?".to_owned()))
            })?;
            return Ok(0);
        }
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        door::out(&String::from_utf8_lossy(&page))?;
        Ok(0)
    }
}
