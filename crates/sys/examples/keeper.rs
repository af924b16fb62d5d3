//! The keeper as part of an ordinary program: what the main binary does where the keeper has no binary of its own.

use std::process::ExitCode;

fn main() -> ExitCode {
    let code = ringback_sys::launch::keep_if_called_keeper();
    code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}
