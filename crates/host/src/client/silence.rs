//! A daemon that does not answer: how long that is borne, and what is said of it then.

use std::env;
use std::time::Duration;

use ringback_sys::identity;

use super::error::ClientError;

/// How long a daemon may take for what it answers at once: a disk that is busy holds it up for some seconds.
const ANSWER_WAIT: Duration = Duration::from_secs(10);
/// The variable that has a build for tests wait for another time, milliseconds.
const ANSWER_WAIT_VARIABLE: &str = "RINGBACK_ANSWER_WAIT_MS";

/// How long is waited for what a daemon answers at once.
pub(super) fn answer_wait() -> Duration {
    let asked = if cfg!(debug_assertions) { env::var(ANSWER_WAIT_VARIABLE).ok() } else { None };
    asked.and_then(|text| text.parse().ok()).map_or(ANSWER_WAIT, Duration::from_millis)
}

/// Whether somebody has stopped this process (SIGSTOP; state `T`, proc(5)).
pub(super) fn is_stopped(pid: i32) -> bool {
    identity::stat(pid).is_ok_and(|process| process.state == b'T')
}

/// The error of a daemon with this process, which has or may have `what` already.
pub(super) fn silent(pid: i32, what: Option<&'static str>) -> ClientError {
    ClientError::Silent { pid, stopped: is_stopped(pid), what }
}
