//! Named places at which a debug build kills itself when `RINGBACK_CRASH` names them, so that tests can try them all.

/// Every crash point of the keeper, in the order of a task's life.
pub const CRASH_POINTS: &[&str] = &[
    "keeper.locked",
    "keeper.before-child",
    "child.before-started",
    "child.after-started",
    "child.before-start-failed",
    "keeper.after-child",
    "keeper.before-index",
    "keeper.after-index-made",
    "keeper.before-splice",
    "keeper.before-shown",
    "keeper.before-typed",
    "keeper.before-stream-copy",
    "keeper.before-punch",
    "keeper.before-pause",
    "keeper.main-ended",
    "keeper.before-ended",
    "keeper.after-ended",
    "keeper.before-closed",
    "keeper.after-closed",
    "keeper.request-read",
    "keeper.cause-recorded",
    "keeper.after-term",
    "keeper.after-cgroup-kill",
    "keeper.after-freeze",
    "keeper.after-kill",
    "keeper.before-receipt",
    "keeper.before-receipt-rename",
    "keeper.after-receipt",
    "keeper.takeover",
    "keeper.takeover-repaired",
];

/// Dies here if the environment says so. Nothing at all in release builds.
macro_rules! crash {
    ($point:literal) => {
        #[cfg(crash_points)]
        $crate::keeper::crash::here($point);
    };
}
pub(super) use crash;

#[cfg(crash_points)]
mod armed {
    use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::Relaxed};

    static NAME: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());
    static LENGTH: AtomicUsize = AtomicUsize::new(0);

    /// Remembers the wanted point, for the life of the process.
    pub(in super::super) fn arm(wanted: &'static [u8]) {
        NAME.store(wanted.as_ptr().cast_mut(), Relaxed);
        LENGTH.store(wanted.len(), Relaxed);
    }

    pub(in super::super) fn here(point: &str) {
        let name = NAME.load(Relaxed);
        if name.is_null() {
            return;
        }
        // SAFETY: `arm` stored a slice that lives as long as the process.
        let wanted = unsafe { core::slice::from_raw_parts(name, LENGTH.load(Relaxed)) };
        if wanted == point.as_bytes() {
            let _ = crate::raw::process::kill(crate::raw::process::id(), crate::raw::signal::KILL);
        }
    }
}
#[cfg(crash_points)]
pub(super) use armed::{arm, here};
