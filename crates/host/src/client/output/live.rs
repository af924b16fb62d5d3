//! The output of a task that runs: while it is read, its keeper may free what is over its cap.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use ringback_sys::{files, task_files};

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

    /// What its keeper says is missing, if something in this part of the file is.
    fn look(&self, file: &File, from: u64, length: usize) -> io::Result<Option<(u64, Vec<Gap>)>> {
        let Some(hole) = files::hole(file, from..from + length as u64)? else { return Ok(None) };
        let Some(record) = task_files::read_state(&self.folder)? else { return Ok(None) };
        let gaps = gaps(&record).into_iter().map(|(from, to, why)| Gap { from, to, why }).collect();
        Ok(Some((hole.start, gaps)))
    }
}

impl Output {
    /// How many of the bytes that were read from here on were there. What is freed stays so, and is named before it is: so
    /// this is asked after the reading, and what is freed from then on was read before.
    pub(super) fn were_there(&mut self, at: u64, length: usize) -> io::Result<usize> {
        let Some((hole, gaps)) = self.live.as_ref().map_or(Ok(None), |live| live.look(&self.file, at, length))? else {
            return Ok(length);
        };
        self.gaps = gaps;
        self.gaps.sort_by_key(|gap| gap.from);
        let is_named = self.gap_at(hole).is_some();
        Ok(if is_named { usize::try_from(hole - at).unwrap_or(length).min(length) } else { length })
    }
}
