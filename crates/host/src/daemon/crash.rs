//! Named points at which a test may have the daemon killed: every boundary between two effects.

use std::ffi::OsString;
use std::sync::OnceLock;

/// The points, in the order in which a task passes them. A keeper's own points begin with `keeper.`.
pub const CRASH_POINTS: &[&str] = &[
    "daemon.after-lock",
    "daemon.after-adopt",
    "daemon.after-listen",
    "daemon.after-folder",
    "daemon.before-record",
    "daemon.after-record",
    "daemon.before-launch",
    "daemon.after-complete",
    "daemon.after-launch",
    "daemon.after-blank",
    "daemon.before-press",
    "daemon.before-request",
    "daemon.after-request",
    "daemon.after-press",
    "daemon.before-takeover",
    "daemon.after-takeover",
    "daemon.before-deliver",
    "daemon.before-collect",
    "daemon.before-delete",
    "daemon.after-delete",
    "daemon.before-tidy",
    "daemon.after-tidy",
    "daemon.before-tell",
    "daemon.after-tell",
];

/// The point that the environment names, in builds for tests.
pub(super) fn armed() -> Option<&'static OsString> {
    static ARMED: OnceLock<Option<OsString>> = OnceLock::new();
    ARMED
        .get_or_init(|| {
            let named = std::env::var_os(ringback_sys::launch::CRASH_VARIABLE);
            named.filter(|_| cfg!(debug_assertions))
        })
        .as_ref()
}

/// Dies here by SIGKILL if this is the armed point.
pub(super) fn crash_point(name: &'static str) {
    debug_assert!(CRASH_POINTS.contains(&name), "{name} is not listed");
    if armed().is_some_and(|point| point == name) {
        ringback_sys::process::die();
    }
}
