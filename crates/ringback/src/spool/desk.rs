//! The folder as the server uses it: who may write there, who serves it, and what is written beside a request.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use ringback_sys::folder::{Folder, has_writer, read_at_most};
use ringback_sys::{files, lock, process};
use serde_json::{Map, Value};

use super::Options;
use super::name::{Name, refusal};
use super::record;
use crate::cli::door::Door;
use crate::explain::Failure;
use crate::render::clean;

/// The longest request that is read, bytes: a command is a page, not a data file.
const REQUEST_BYTES_MAX: u64 = 1 << 20;
/// How many refusals of names that cannot be used one server writes: a stranger must not fill the folder through us.
const HOSTILE_MAX: usize = 1000;
/// Held by the server that works in the folder.
const LOCK: &str = ".ringback-spool.lock";
/// A claim's word has this many characters.
const WORD_CHARS: usize = 16;

/// The folder, ours alone for as long as this lives.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) folder: Folder,
    /// Permissions of what we put there.
    pub(super) mode: u32,
    shared: bool,
    hostile: usize,
    _lock: File,
}

/// What was found under a name.
pub(super) enum Found {
    /// This.
    Bytes(Vec<u8>),
    /// Nothing, or nothing yet: it is being written.
    Nothing,
    /// Something that is not read.
    Refused(String),
}

/// A claim on a request.
pub(super) struct Claim {
    /// Stands in the binding of the task.
    pub(super) word: String,
    /// A predecessor made it, and may have asked for the task.
    pub(super) inherited: bool,
}

impl Desk {
    /// Opens the folder, makes it if it is missing, and waits until no other server works in it.
    pub(super) fn open(door: Door, options: &Options) -> Result<Self, Failure> {
        let shown = clean::line(&options.dir.to_string_lossy());
        let cannot = |error: io::Error| {
            let hint = Some("give a folder that you own and can write to".to_owned());
            Failure::new("spool_folder", format!("cannot use folder {shown}: {error}"), hint)
        };
        if !options.dir.exists() {
            files::private_dir(&options.dir).map_err(cannot)?;
        }
        let folder = Folder::open(&options.dir).map_err(cannot)?;
        let facts = folder.facts().map_err(cannot)?;
        let foreign = facts.owner != process::effective_uid();
        if !options.shared && (foreign || facts.mode & 0o022 != 0) {
            let why = if foreign { "belongs to another user" } else { "can be written to by other users" };
            let hint = format!("chmod go-w {shown}; or --shared, if all who can write there may run commands as you");
            return Err(Failure::new("spool_shared", format!("folder {shown} {why}"), Some(hint)));
        }
        let mask = files::umask(0o077);
        files::umask(mask);
        let mode = if options.shared { 0o666 & !mask } else { 0o600 };
        let held = folder.open_or_create(OsStr::new(LOCK), 0o600).map_err(cannot)?;
        if !lock::try_exclusive(&held).map_err(cannot)? {
            door.note(&format!("another server works in {shown}; standing by until it leaves"));
            lock::exclusive(&held).map_err(cannot)?;
        }
        Ok(Self { folder, mode, shared: options.shared, hostile: 0, _lock: held })
    }

    /// Reads a request. `whole` says that its writer has closed it, for file systems that cannot tell.
    pub(super) fn read(&self, name: &Name, whole: bool) -> Found {
        let (file, facts) = match self.folder.open_file(&name.record()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Found::Nothing,
            Err(error) => return Found::Refused(error.to_string()),
            Ok(opened) => opened,
        };
        let trusted = self.shared || facts.owner == process::effective_uid() || facts.owner == 0;
        if !trusted {
            return Found::Refused("it belongs to another user".to_owned());
        }
        // Asked before it is read: whoever writes from here on closes it, and we hear of that.
        match has_writer(&file) {
            Some(true) => return Found::Nothing,
            None if !whole => return Found::Nothing,
            Some(false) | None => {}
        }
        match read_at_most(&file, REQUEST_BYTES_MAX + 1) {
            Ok(bytes) if bytes.len() as u64 > REQUEST_BYTES_MAX => {
                Found::Refused(format!("it is longer than {REQUEST_BYTES_MAX} bytes"))
            }
            Ok(bytes) => Found::Bytes(bytes),
            Err(error) => Found::Refused(error.to_string()),
        }
    }

    /// Claims a request on disk, before anything is done for it.
    pub(super) fn claim(&self, name: &Name) -> io::Result<Claim> {
        let file = self.folder.open_or_create(&name.claim(), 0o600)?;
        let mut bytes = [0; WORD_CHARS];
        let is_word = file.read_exact_at(&mut bytes, 0).is_ok() && bytes.iter().all(u8::is_ascii_hexdigit);
        if is_word {
            return Ok(Claim { word: String::from_utf8_lossy(&bytes).into_owned(), inherited: true });
        }
        // New, or its maker died before the word was there, and so before it asked for anything.
        let word = format!("{:016x}", process::random_u64()?);
        file.write_all_at(word.as_bytes(), 0)?;
        file.sync_data()?;
        self.folder.sync()?;
        Ok(Claim { word, inherited: false })
    }

    /// The record says it now, so the claim need not.
    pub(super) fn unclaim(&self, name: &Name) {
        // One that stays is taken away when the folder is next looked through.
        let _stays = self.folder.remove(&name.claim());
    }

    /// Puts a record in the place of the request.
    pub(super) fn write(&self, name: &Name, record: &[u8]) -> io::Result<()> {
        self.folder.replace(&name.record(), record, self.mode)
    }

    /// Says why a request is refused: beside it, and in it if it waits for an answer.
    pub(super) fn refuse(&self, name: &Name, why: &str, fields: Option<&Map<String, Value>>) -> io::Result<()> {
        let hint = r#"write {"id": ID, "cmd": TEXT, "timeout_secs": N, "status": "pending"} to ID.json"#;
        let file = format!("{name}.json");
        self.folder.replace(&name.error(), &record::refusal(&file, why, hint), self.mode)?;
        match fields {
            Some(fields) => self.write(name, &record::interrupted(fields, name, why)),
            None => Ok(()),
        }
    }

    /// Says that a name cannot be used; false if that was said before or too often.
    pub(super) fn refuse_name(&mut self, file: &OsStr) -> io::Result<bool> {
        let error = refusal(file);
        if self.hostile >= HOSTILE_MAX || self.folder.open_file(&error).is_ok() {
            return Ok(false);
        }
        self.hostile += 1;
        let why = "the name of a request has letters, digits, `-`, `_` and `.`, at most 200, and starts with none of the last";
        let shown = clean::line(&file.to_string_lossy());
        self.folder.replace(&error, &record::refusal(&shown, why, "rename the file"), self.mode)?;
        Ok(true)
    }

    /// A request that was refused before is not any more.
    pub(super) fn unrefuse(&self, name: &Name) {
        // An old refusal that stays is only old.
        let _stays = self.folder.remove(&name.error());
    }
}
