//! What `run` foresees of a command that cannot start; it is recorded all the same.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use ringback_host::wire::{Command, RunRequest};

use crate::render::clean;

/// What decides whether a command can start at all.
pub(super) struct Doubt {
    cwd: PathBuf,
    /// Program and number of words; a script has those of its shell.
    program: Option<(Vec<u8>, usize)>,
    path: Vec<u8>,
}

impl Doubt {
    pub(super) fn about(request: &RunRequest) -> Self {
        let program = match &request.command {
            Command::Argv(argv) => argv.first().map(|program| (program.to_vec(), argv.len())),
            // Its words have been told apart already.
            Command::Script { shell, .. } => shell.first().map(|program| (program.to_vec(), usize::MAX)),
        };
        // Without a PATH the search is the system's own (execvp(3)).
        let path = request.env.iter().find_map(|pair| pair.strip_prefix(b"PATH=")).unwrap_or(b"/bin:/usr/bin");
        Self { cwd: PathBuf::from(OsStr::from_bytes(&request.cwd)), program, path: path.to_vec() }
    }

    /// Why the command will probably not start, and what to do. It is recorded all the same.
    pub(super) fn problem(&self) -> Option<(String, String)> {
        if !self.cwd.is_dir() {
            let folder = shown(self.cwd.as_os_str().as_bytes());
            let message = format!("folder {folder} does not exist or cannot be entered, so it cannot start");
            return Some((message, "pass -C a folder that exists".to_owned()));
        }
        let (program, words) = self.program.as_ref()?;
        let found = self.find(program);
        if found.iter().any(|path| is_executable(path)) {
            return None;
        }
        if let Some(path) = found.first() {
            let path = path.to_string_lossy();
            let hint = if Path::new(path.as_ref()).is_dir() {
                "name a program in it".to_owned()
            } else {
                format!("chmod +x {}", quoted(path.as_bytes()))
            };
            return Some((format!("{} may not be executed, so it cannot start", shown(program)), hint));
        }
        let hint = if *words == 1 && program.contains(&b' ') {
            format!("a whole command line goes through a shell: ringback run -c {}", quoted(program))
        } else if program.contains(&b'/') {
            "is the path right, seen from the folder it runs in?".to_owned()
        } else {
            format!("is {} on the PATH that was given to it?", shown(program))
        };
        Some((format!("program {} is not found, so it cannot start", shown(program)), hint))
    }

    /// The files that it may mean, in the order in which the system tries them.
    fn find(&self, program: &[u8]) -> Vec<PathBuf> {
        let name = Path::new(OsStr::from_bytes(program));
        if program.contains(&b'/') {
            return Some(self.cwd.join(name)).filter(|path| path.exists()).into_iter().collect();
        }
        let folders = self.path.split(|byte| *byte == b':');
        let paths = folders.map(|folder| self.cwd.join(OsStr::from_bytes(folder)).join(name));
        paths.filter(|path| path.is_file()).collect()
    }
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

fn shown(bytes: &[u8]) -> String {
    format!("`{}`", clean::short(&String::from_utf8_lossy(bytes), 80))
}

fn quoted(bytes: &[u8]) -> String {
    let text = clean::short(&String::from_utf8_lossy(bytes), 80);
    shlex::try_quote(&text).map_or_else(|_| "'…'".to_owned(), std::borrow::Cow::into_owned)
}
