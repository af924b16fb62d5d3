//! How a caller that is more confined than whom it asks is told so: in the same words at every door.

use std::io;

use crate::wire::Fault;

/// Why a caller is not served, from what was seen of it: what confines it more than `asked` (for example "the daemon"), if
/// anything does. A caller that could not be seen is not served either.
pub fn refusal(seen: io::Result<Option<&'static str>>, asked: &str) -> Option<Fault> {
    let outside = || format!("ask from outside of the sandbox, or set `confined = \"allow\"` in the config of {asked}");
    let (message, hint) = match seen {
        Ok(None) => return None,
        Ok(Some(why)) => (format!("the caller is more confined than {asked} ({why})"), outside()),
        // What it sent is still there, and would be carried out for a caller that nobody has seen.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            ("the caller left before it could be seen".to_owned(), "ask again, and wait for the answer".to_owned())
        }
        Err(error) => (format!("cannot see how confined the caller is: {error}"), outside()),
    };
    Some(Fault { code: "confined_caller".into(), message, hint: Some(hint) })
}
