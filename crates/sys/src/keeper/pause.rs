//! Pauses: how long the main process is stopped, during which it cannot be silent.
//!
//! The kernel tells a parent when its child is stopped or continued (SIGCHLD, waitid(2)). A keeper that took over is no
//! parent, so from then on nobody knows.

use super::Keeper;
use super::crash::crash;
use crate::raw::{process, time};

impl Keeper {
    /// Looks whether the main process was stopped or continued.
    pub(super) fn look_for_pause(&mut self) {
        if self.main_over || !self.hold.is_parent() {
            return;
        }
        let Some(stopped) = process::pause(self.ledger.record.main.pid) else { return };
        let now_ms = time::mono_ms();
        let before = self.ledger.record.stopped_mono_ms;
        if stopped && before == 0 {
            self.ledger.record.stopped_mono_ms = now_ms;
        } else if !stopped && before != 0 {
            // As silent as it was when it was stopped.
            self.idle_from_ms = self.idle_from_ms.max(self.capture.last_ms) + (now_ms - before);
            self.end_pause(now_ms);
        } else {
            return;
        }
        crash!("keeper.before-pause");
        self.ledger.write();
    }

    /// A pause ends with the process at the latest.
    pub(super) fn end_pause(&mut self, now_ms: u64) {
        let record = &mut self.ledger.record;
        if record.stopped_mono_ms != 0 {
            record.paused_ms += now_ms.saturating_sub(record.stopped_mono_ms);
            record.stopped_mono_ms = 0;
        }
    }
}
