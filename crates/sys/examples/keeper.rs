//! The keeper as part of an ordinary program: what the main binary does where the keeper has no binary of its own.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<CString> = std::env::args_os().filter_map(|text| CString::new(text.as_bytes()).ok()).collect();
    let argument = |at: usize| arguments.get(at).map(CString::as_c_str);
    let crash = std::env::var_os("RINGBACK_CRASH").and_then(|text| CString::new(text.as_bytes()).ok());
    // The crash point is looked up for the whole life of the process.
    let crash = crash.map(|text| &*Box::leak(text.into_boxed_c_str()));
    let code = ringback_sys::keeper::run([argument(0), argument(1), argument(2)], crash);
    u8::try_from(code).map_or(ExitCode::FAILURE, ExitCode::from)
}
