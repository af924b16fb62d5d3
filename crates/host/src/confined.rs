//! How a caller that is more confined than whom it asks is told so: in the same words at every door.

use std::io;

use crate::wire::Fault;
use crate::wire::refusal::{CONFINED_CALLER, RESOURCES};

/// What serves whoever is in a sandbox that the daemon is not in.
pub(crate) const INSTEAD: &str = "ask from outside of the sandbox, as the tools of an MCP server there do, or write a request \
                                  into a folder that `ringback spool` serves";
/// No descriptor left, in this process or in the machine (errno(3)).
const EMFILE: i32 = 24;
const ENFILE: i32 = 23;

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
        Err(error) if matches!(error.raw_os_error(), Some(EMFILE | ENFILE)) => (
            RESOURCES,
            format!("{asked} has no descriptor left to see who is calling: {error}"),
            "raise the limit with `ulimit -n`, then `ringback daemon restart`; or wait until tasks have ended"
                .to_owned(),
        ),
        Err(error) => (CONFINED_CALLER, format!("cannot see how confined the caller is: {error}"), outside()),
    };
    Some(Fault { code: code.into(), message, hint: Some(hint) })
}
