//! The output of a task that runs: while it is read, its keeper may free what is over its cap.

use std::io;
use std::path::{Path, PathBuf};

use ringback_sys::task_files;

use super::{Gap, Output};
use crate::daemon::gaps;
use crate::wire::TaskObject;

/// Where the keeper of a task that runs says what it has freed.
pub(super) struct Live {
    folder: PathBuf,
}

impl Live {
    /// Of the output of this task, unless it is one stream of it by itself or can no longer change.
    pub(super) fn of(task: &TaskObject) -> Option<Self> {
        let path = Path::new(&task.output.path);
        let is_live = !task.has_ended() && path.file_name().is_some_and(|name| name == "output");
        Some(Self { folder: path.parent().filter(|_| is_live)?.to_owned() })
    }

    /// What its keeper says is missing.
    fn gaps(&self) -> io::Result<Option<Vec<Gap>>> {
        let Some(record) = task_files::read_state(&self.folder)? else { return Ok(None) };
        Ok(Some(gaps(&record).into_iter().map(|(from, to, why)| Gap { from, to, why }).collect()))
    }
}

impl Output {
    /// How many of the bytes that were read from here on were there. What is freed or cut off stays so, reads as zeros, and is
    /// named before it is: so this is asked after the reading, and what is freed from then on was read before.
    pub(super) fn were_there(&mut self, at: u64, bytes: &[u8]) -> io::Result<usize> {
        let Some(live) = self.live.as_ref().filter(|_| bytes.contains(&0)) else { return Ok(bytes.len()) };
        let Some(gaps) = live.gaps()? else { return Ok(bytes.len()) };
        self.gaps = gaps;
        self.gaps.sort_by_key(|gap| gap.from);
        let place = |offset: u64| usize::try_from(offset.saturating_sub(at)).unwrap_or(bytes.len()).min(bytes.len());
        let zero = |gap: &Gap| {
            let (from, to) = (place(gap.from), place(gap.to));
            bytes.get(from..to)?.iter().position(|byte| *byte == 0).map(|zero| from + zero)
        };
        Ok(self.gaps.iter().find_map(zero).unwrap_or(bytes.len()))
    }
}
