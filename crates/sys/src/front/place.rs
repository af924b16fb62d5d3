//! Where the socket of the home is, and whether a program is where it is looked for: as the main program sees it (`home.rs` of the
//! host, `doubt.rs` of the doors), as far as that is plain.

use core::ffi::CStr;

use crate::raw::caller::{Follow, Kind, kind};

/// The path of the daemon's socket.
pub(crate) fn socket<'a>(environment: &[u8], path: &'a mut [u8]) -> Option<&'a CStr> {
    let given = |name: &[u8]| variable(environment, name).filter(|value| !value.is_empty());
    if let Some(home) = given(b"RINGBACK_HOME") {
        return joined(path, [home, b"daemon.sock"]);
    }
    // The XDG rules say that a relative one is to be ignored.
    if let Some(state) = given(b"XDG_STATE_HOME").filter(|state| state.starts_with(b"/")) {
        return joined(path, [state, b"ringback/daemon.sock"]);
    }
    joined(path, [given(b"HOME")?, b".local/state/ringback/daemon.sock"])
}

/// Sees that this program would be found; nothing if that is in doubt.
pub(crate) fn find(program: &[u8], environment: &[u8], path: &mut [u8]) -> Option<()> {
    #[expect(
        clippy::manual_contains,
        reason = "`contains` is a function of `core` that was compiled with addresses in it"
    )]
    if program.iter().any(|byte| *byte == b'/') {
        return is_program(terminated(path, program)?);
    }
    // Without a PATH the search is the system's own (execvp(3)).
    let folders = variable(environment, b"PATH").unwrap_or(b"/bin:/usr/bin");
    folders.split(|byte| *byte == b':').find_map(|folder| is_program(joined(path, [folder, program])?))
}

fn is_program(path: &CStr) -> Option<()> {
    (kind(path, Follow::Yes) == Ok(Kind::Program)).then_some(())
}

/// The first value of a variable, as getenv(3) finds it.
fn variable<'a>(environment: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut entries = environment.split(|byte| *byte == 0);
    entries.find_map(|entry| entry.strip_prefix(name)?.strip_prefix(b"="))
}

/// A path below an absolute folder.
fn joined<'a>(path: &'a mut [u8], [folder, name]: [&[u8]; 2]) -> Option<&'a CStr> {
    if !folder.starts_with(b"/") {
        return None;
    }
    let slash: &[u8] = if folder.ends_with(b"/") { b"" } else { b"/" };
    written(path, [folder, slash, name, b"\0"])
}

fn terminated<'a>(path: &'a mut [u8], name: &[u8]) -> Option<&'a CStr> {
    written(path, [name, b"\0"])
}

fn written<'a, const N: usize>(path: &'a mut [u8], pieces: [&[u8]; N]) -> Option<&'a CStr> {
    let mut length = 0;
    for piece in pieces {
        path.get_mut(length..)?.get_mut(..piece.len())?.copy_from_slice(piece);
        length += piece.len();
    }
    let path = path.get(..length)?;
    let is_one = path.iter().position(|byte| *byte == 0) == length.checked_sub(1);
    // SAFETY: it ends with its only NUL.
    is_one.then(|| unsafe { CStr::from_bytes_with_nul_unchecked(path) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_socket_is_in_the_home_that_the_variables_name() {
        let check = |environment: &str| {
            let mut path = [0; 100];
            socket(environment.replace(' ', "\0").as_bytes(), &mut path).map(|path| path.to_str().unwrap().to_owned())
        };
        let found = |path: &str| Some(format!("{path}/daemon.sock"));
        assert_eq!(check("A=b RINGBACK_HOME=/r RINGBACK_HOME=/s HOME=/h"), found("/r"));
        assert_eq!(check("XDG_STATE_HOME=/x/ HOME=/h"), found("/x/ringback"));
        assert_eq!(check("RINGBACK_HOME= XDG_STATE_HOME=x HOME=/h"), found("/h/.local/state/ringback"));
        for nowhere in ["", "RINGBACK_HOME=r HOME=/h", "HOME=", "HOME=h"] {
            assert_eq!(check(nowhere), None, "{nowhere}");
        }
        assert_eq!(check(&format!("HOME=/{}", "x".repeat(100))), None, "there is no room for it");
    }

    #[test]
    fn a_program_is_looked_for_as_the_system_does() {
        let check = |program: &str, environment: &str| {
            find(program.as_bytes(), environment.as_bytes(), &mut [0; 4096]).is_some()
        };
        assert!(check("sh", "") && check("sh", "PATH=/nowhere::/bin") && check("/bin/sh", "PATH=/nowhere"));
        assert!(!check("sh", "PATH=/nowhere") && !check("sh", "PATH=bin") && !check("surely-not-a-program", ""));
        assert!(!check("/etc/passwd", "") && !check("/", "") && !check("etc", "PATH=/"));
    }
}
