//! How a caller that is more confined than whom it asks is told so: in the same words at every door.

use std::io;

use ringback_sys::socket::is_shortage;

use crate::wire::Fault;
use crate::wire::refusal::{CONFINED_CALLER, RESOURCES};

/// What serves whoever is in a sandbox that the daemon is not in.
pub(crate) const INSTEAD: &str = "ask from outside of the sandbox, as the tools of an MCP server there do, or write a request \
                                  into a folder that `ringback spool` serves";

/// Why a caller is not served, from what was seen of it: what confines it more than `asked` (for example "the daemon"), if
/// anything does. A caller that could not be seen is not served either.
pub fn refusal(seen: io::Result<Option<&'static str>>, asked: &str) -> Option<Fault> {
    let outside = || format!("{INSTEAD}; or set `confined = \"allow\"` in the config of {asked}");
    let (code, message, hint) = match seen {
        Ok(None) => return None,
        Ok(Some(why)) => (CONFINED_CALLER, format!("the caller is more confined than {asked} ({why})"), outside()),
        // What it sent is still there, and would be carried out for a caller that nobody has seen.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let hint = "ask again, and wait for the answer".to_owned();
            (CONFINED_CALLER, "the caller left before it could be seen".to_owned(), hint)
        }
        // Not the caller is at fault (open(2)).
        Err(error) if is_shortage(&error) => (
            RESOURCES,
            format!("{asked} has no descriptor left to see who is calling: {error}"),
            format!("raise the limit with `ulimit -n` and start {asked} again, or ask again when it is less busy"),
        ),
        Err(error) => (CONFINED_CALLER, format!("cannot see how confined the caller is: {error}"), outside()),
    };
    Some(Fault { code: code.into(), message, hint: Some(hint) })
}
