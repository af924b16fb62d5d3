//! Finding and executing the program, by the rules of execvp(3), in the task's own PATH.

use core::ffi::CStr;

use super::spec_file::Spec;
use crate::raw::{Errno, poll, process};

/// `PATH_MAX` of Linux.
const PATH_BYTES: usize = 4096;
/// Where programs are when the task has no PATH (execvp(3)).
const PATH_DEFAULT: &[u8] = b"/bin:/usr/bin";
/// How often a program is tried that somebody has open for writing: another thread's fork may hold it for a moment.
const BUSY_TRIES: u64 = 10;
/// What each such try waits longer than the one before, milliseconds.
const BUSY_WAIT_MS: u64 = 5;

/// Executes the program of `spec`; comes back only with the error. `pointers` are its argument pointers, to change.
pub(super) fn search(spec: &Spec, pointers: *mut usize) -> Errno {
    let program = spec.program();
    if program.is_empty() {
        return Errno::ENOENT;
    }
    if program.to_bytes().contains(&b'/') {
        return execute(spec, pointers, program);
    }
    let path = spec.variable(b"PATH").map_or(PATH_DEFAULT, CStr::to_bytes);
    let mut denied = false;
    for directory in path.split(|&b| b == b':') {
        let mut candidate = [0; PATH_BYTES];
        let Some(candidate) = join(&mut candidate, directory, program.to_bytes()) else { continue };
        match execute(spec, pointers, candidate) {
            Errno::EACCES => denied = true,
            Errno::ENOENT | Errno::ENOTDIR => {}
            error => return error,
        }
    }
    if denied { Errno::EACCES } else { Errno::ENOENT }
}

/// An empty directory in a PATH is the working directory.
fn join<'a>(buffer: &'a mut [u8; PATH_BYTES], directory: &[u8], program: &[u8]) -> Option<&'a CStr> {
    let slash: &[u8] = if directory.is_empty() { b"" } else { b"/" };
    let mut at = 0;
    for part in [directory, slash, program, b"\0"] {
        buffer.get_mut(at..at + part.len())?.copy_from_slice(part);
        at += part.len();
    }
    CStr::from_bytes_until_nul(buffer).ok()
}

fn execute(spec: &Spec, pointers: *mut usize, path: &CStr) -> Errno {
    let mut tries = 0;
    loop {
        // SAFETY: the spec's arrays end with 0, and its strings with NUL.
        let error = unsafe { process::execute(path, spec.arguments(), spec.environment()) };
        match error {
            Errno::ETXTBSY if tries < BUSY_TRIES => {
                tries += 1;
                let _ = poll::wait(&mut [], Some(tries * BUSY_WAIT_MS));
            }
            Errno::ENOEXEC => return execute_script(spec, pointers, path),
            error => return error,
        }
    }
}

/// A text without `#!` is a script of the shell: `sh PATH ARGUMENTS…`.
fn execute_script(spec: &Spec, pointers: *mut usize, path: &CStr) -> Errno {
    // SAFETY: the free place and the program's own place, which are there in every spec, now name the shell and the
    // script; `path` lives until execve(2) has read it.
    unsafe {
        pointers.write(c"sh".as_ptr() as usize);
        pointers.add(1).write(path.as_ptr() as usize);
        process::execute(c"/bin/sh", pointers, spec.environment())
    }
}
