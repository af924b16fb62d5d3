//! What setup remembers of a file, so that undo leaves it as it was: what was made; and, only where taking
//! that out does not give the old text, the whole old text, secrets and all. It is private, and goes with the undo.

use std::fs;
use std::path::{Path, PathBuf};

use ringback_host::home::Home;
use ringback_sys::files;
use serde::{Deserialize, Serialize};

use crate::explain::Failure;

/// Where the notes of one home are.
pub(super) struct Notes(PathBuf);

/// What was done to one file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Note {
    /// Which file.
    pub(super) path: String,
    /// Whether it was there before.
    pub(super) existed: bool,
    /// Objects and lists in it that were made.
    pub(super) made: Vec<Vec<String>>,
    /// Folders that were made for it, the outer ones first.
    pub(super) folders: Vec<PathBuf>,
    /// The text before and a number of the text after, only where taking our entries out does not give the text before.
    pub(super) exact: Option<(String, u64)>,
}

impl Notes {
    /// Those of this home.
    pub(super) fn of(home: &Home) -> Self {
        Self(home.root().join("setup"))
    }

    /// The note of a file. One that cannot be read is none: undo then takes out what is ours.
    pub(super) fn load(&self, path: &Path) -> Option<Note> {
        let note: Note = serde_json::from_slice(&fs::read(self.file(path)).ok()?).ok()?;
        (note.path == path.to_string_lossy()).then_some(note)
    }

    pub(super) fn save(&self, path: &Path, note: &Note) -> Result<(), Failure> {
        files::private_dir(&self.0)?;
        let text = serde_json::to_vec(note).unwrap_or_default();
        Ok(files::write_whole(&self.file(path), &text)?)
    }

    pub(super) fn forget(&self, path: &Path) {
        // One that stays is only read for a file that is set up again.
        let _stays = fs::remove_file(self.file(path));
        let _not_empty = fs::remove_dir(&self.0);
    }

    fn file(&self, path: &Path) -> PathBuf {
        self.0.join(format!("{:016x}.json", number(&path.to_string_lossy())))
    }
}

/// FNV-1a: tells texts apart that nobody makes alike on purpose.
pub(super) fn number(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
