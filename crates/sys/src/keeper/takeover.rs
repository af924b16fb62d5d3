//! Taking up a task whose keeper was killed: its output, its timers, and the status of a process that is not our child.

use core::ffi::CStr;

use super::Keeper;
use super::members::Hold;
use super::start::{EXIT_NOT_NEEDED, settle_in};
use crate::form::record::Witness;
use crate::raw::process::Usage;
use crate::raw::{Fd, poll};

/// Handles of processes that are not our children.
#[derive(Default)]
pub(super) struct Watched {
    main: Option<Fd>,
}

pub(super) fn begin(_id: &CStr) -> Result<Keeper, i32> {
    let _ = settle_in()?;
    Err(EXIT_NOT_NEEDED)
}

impl Keeper {
    pub(super) fn watch_slot(&self) -> poll::Slot {
        poll::Slot::new(self.watched.main.as_ref().map_or(-1, Fd::number), poll::IN)
    }

    pub(super) fn look_at_watched(&mut self) {}

    pub(super) fn hear_witness(&mut self, status: i32) {
        if !self.main_over && matches!(self.hold, Hold::Marks { .. }) {
            self.note_main_end(Witness::Daemon, status, Usage::default());
        }
    }
}
