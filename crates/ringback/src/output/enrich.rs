//! What only the files of a task know, for its object.

use ringback_host::client::output;
use ringback_host::wire::TaskObject;

use super::progress;

/// Adds it: how far it is while it runs; line count and hash where the output is complete.
pub(crate) fn enrich(task: &mut TaskObject) {
    progress::look(task);
    if !task.has_ended() || task.output.sha256.is_some() {
        return;
    }
    // An output that cannot be read any more has no hash; the rest of the object is still true.
    if let Ok(Some(facts)) = output::facts(task) {
        task.output.lines = Some(facts.lines);
        task.output.sha256 = Some(facts.sha256);
    }
}
