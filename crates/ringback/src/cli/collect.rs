//! `ringback daemon collect`: keeps what the report files of ended tasks say, for the daemon, which never waits for others.

use std::io::{self, BufRead as _, Write as _};

use ringback_host::wire::TaskObject;
use ringback_sys::process;

use super::door;
use crate::explain::Done;
use crate::output;
use crate::render::clean;

/// Reads a task in each line of stdin. For each it says how many bytes were kept, or why nothing could be.
pub(super) fn perform() -> Done {
    // Whatever else the machine has to do is more urgent.
    process::be_nice();
    for line in io::stdin().lock().lines() {
        let line = line?;
        // One that cannot be read is not answered for, and the others are.
        let Ok(task) = serde_json::from_str::<TaskObject>(&line) else { continue };
        let answer = match output::keep(&task) {
            Ok(bytes) => bytes.unwrap_or(0).to_string(),
            Err(error) => clean::line(&error.to_string()),
        };
        // At once: of what was not said the daemon takes it that it was not done.
        writeln!(door::stdout(), "{} {answer}", task.id)?;
    }
    Ok(0)
}
