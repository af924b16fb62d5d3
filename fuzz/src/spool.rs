//! The product's own reading of spool files, of which there is no library.
#![allow(dead_code, unused_imports, reason = "the product uses all of it, a target the reading alone")]

#[path = "../../crates/ringback/src/spool/name.rs"]
mod name;
#[path = "../../crates/ringback/src/spool/request.rs"]
mod request;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use name::Role;
use request::Record;

/// A file of the folder: its name up to the first newline, then what is in it.
pub(crate) fn read(data: &[u8]) {
    let end = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (file, bytes) = (OsStr::from_bytes(&data[..end]), data.get(end + 1..).unwrap_or_default());
    let (Role::Record(name) | Role::Stop(name)) = Role::of(file) else { return };
    // Whatever we make of a name lies in the folder and is no hidden file, but for the claim.
    for made in [name.record(), name.stop(), name.error(), name.stdout(), name.stderr()] {
        assert!(!made.as_bytes().contains(&b'/') && !made.as_bytes().starts_with(b"."), "{}", made.display());
        assert!(made.len() < 255, "{}", made.display());
    }
    assert!(!name.claim().as_bytes().contains(&b'/'));
    if let Ok(Record::Pending(request)) = Record::read(&name, bytes) {
        assert!(!request.cmd.trim().is_empty() && !request.cmd.contains('\0') && request.timeout_secs != Some(0));
    }
}
