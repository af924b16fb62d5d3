//! Room on the disk of the home: a reserve for what has to be recorded, and a floor below which nothing new begins.
//!
//! The reserve is a file that holds nothing. When a commit finds the disk full, the file is removed and the commit is
//! tried again; when there is space once more, it is made anew. So endings, stops and acknowledgements are recorded
//! long after the disk has no room for anything else.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use ringback_sys::files::{self, Disk};

use crate::quantity::size_text;
use crate::wire::Fault;

/// How large the reserve is: a thousand endings with their notices.
const RESERVE_BYTES: u64 = 4 << 20;
/// How much stays free when the config does not say: enough for a thousand tasks that end.
const FLOOR_BYTES: u64 = 64 << 20;
/// Of a small disk the reserve, and a floor that nobody has set, take no more than this part each.
const DISK_PART: u64 = 16;

/// The room on the disk of one home.
pub(super) struct Space {
    home: PathBuf,
    reserve: PathBuf,
    /// What the config says; 0 is no floor.
    floor: Option<u64>,
    /// Whether the reserve is there.
    reserved: bool,
    /// Whether the disk was full since it was last there.
    short: bool,
}

impl Space {
    /// The room of this home; takes the reserve, if there is space for it.
    pub(super) fn new(home: &Path, floor: Option<u64>) -> Self {
        let (home, reserve) = (home.to_owned(), home.join("reserve"));
        let mut space = Self { home, reserve, floor, reserved: false, short: false };
        space.reserved = fs::symlink_metadata(&space.reserve).is_ok();
        space.restore();
        space
    }

    /// Whether the disk was full, and has not been seen to have room since.
    pub(super) fn is_short(&self) -> bool {
        self.short
    }

    /// The disk is full: gives up the reserve, if there is one.
    pub(super) fn release(&mut self) {
        self.short = true;
        if std::mem::take(&mut self.reserved) {
            // If it cannot be removed, or is gone, the next commit says so.
            let _ = fs::remove_file(&self.reserve);
        }
    }

    /// Makes the reserve again, once the disk has room for it above the floor.
    pub(super) fn restore(&mut self) {
        if self.reserved {
            return;
        }
        let Some(disk) = self.disk() else { return };
        let bytes = RESERVE_BYTES.min(disk.size / DISK_PART);
        if disk.free >= self.floor_of(disk).saturating_add(bytes) {
            self.reserved = make(&self.reserve, bytes).is_ok();
            self.short &= !self.reserved;
        }
    }

    /// How many bytes of the disk stay free (0 for no floor), or why nothing new may begin now.
    pub(super) fn room(&self) -> Result<u64, Fault> {
        let Some(disk) = self.disk() else { return Ok(0) };
        let floor = self.floor_of(disk);
        if disk.free >= floor {
            return Ok(floor);
        }
        let (free, kept) = (size_text(disk.free), size_text(floor));
        let hint = "free some space, for example by `ringback prune`; the limit is `free_space_floor` in the config";
        Err(Fault {
            code: "store_full".into(),
            message: format!(
                "cannot begin a task: {free} are free on the disk of the home, and the last {kept} are for those that run"
            ),
            hint: Some(hint.into()),
        })
    }

    /// Whether so many bytes may be taken that nobody needs, only because they make something faster.
    pub(super) fn has_to_spare(&self, bytes: u64) -> bool {
        self.disk().is_some_and(|disk| {
            bytes <= disk.size / DISK_PART && disk.free >= self.floor_of(disk).saturating_add(bytes)
        })
    }

    fn floor_of(&self, disk: Disk) -> u64 {
        self.floor.unwrap_or_else(|| FLOOR_BYTES.min(disk.size / DISK_PART))
    }

    /// A disk that cannot be looked at, or has no size, refuses nothing.
    fn disk(&self) -> Option<Disk> {
        files::disk(&self.home).ok().flatten()
    }
}

/// Makes a file that holds its bytes on the disk, whole or not at all.
fn make(path: &Path, bytes: u64) -> io::Result<()> {
    let file = files::create_new(path)?;
    let made = match files::reserve(&file, bytes) {
        // A file system that cannot reserve (fallocate(2)) is given bytes to keep.
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {
            let zeros = [0; 4096];
            (0..bytes / zeros.len() as u64).try_for_each(|_| (&file).write_all(&zeros))
        }
        answer => answer,
    };
    if made.is_err() {
        let _ = fs::remove_file(path);
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt as _;

    #[test]
    fn the_reserve_is_on_the_disk_until_it_is_needed() {
        let dir = tempfile::tempdir().unwrap();
        let mut space = Space::new(dir.path(), Some(0));
        let there = || fs::metadata(dir.path().join("reserve")).map(|meta| meta.blocks() * 512).ok();
        assert!(there().is_some_and(|bytes| bytes > 0), "{:?}", there());
        assert!(!space.is_short() && space.room() == Ok(0));
        space.release();
        assert!(space.is_short() && there().is_none());
        space.restore();
        assert!(!space.is_short() && there().is_some());
        assert!(Space::new(dir.path(), Some(u64::MAX)).reserved, "one that is there is taken over");
    }

    #[test]
    fn below_the_floor_nothing_begins_and_no_reserve_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let space = Space::new(dir.path(), Some(u64::MAX));
        let fault = space.room().unwrap_err();
        assert_eq!(fault.code, "store_full");
        assert!(!space.reserved && fault.hint.unwrap().contains("free_space_floor"));
    }
}
