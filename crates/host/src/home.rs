//! Where things lie on disk: the home, which everything of one daemon and its tasks is in.

use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// The name of the socket inside [`Home::socket_dir`].
pub const SOCKET_NAME: &str = "daemon.sock";

/// A file that only a home has; each marks a folder as ours.
const MARKS: [&str; 3] = ["daemon.lock", "start.lock", "db.sqlite"];

/// The folder of one daemon and its tasks. Only a path: nothing is read or made until asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    root: PathBuf,
}

/// Why there is no usable home.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// No variable says where it could be.
    #[error("cannot tell where the home is: RINGBACK_HOME, XDG_STATE_HOME and HOME are not set")]
    Nowhere,
    /// A relative path would mean another home in each folder.
    #[error("home {} is not an absolute path", path.display())]
    Relative {
        /// The path.
        path: PathBuf,
    },
    /// Something else is where the home, or a folder of it, should be.
    #[error("home {} is not a folder", path.display())]
    NotFolder {
        /// The path.
        path: PathBuf,
    },
    /// The folder is somebody else's.
    #[error("home {} belongs to user {owner}, not to us (user {us})", path.display())]
    Foreign {
        /// The path.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// Our user.
        us: u32,
    },
    /// Others may read the folder, and it holds things that are not ours, so its mode is not changed behind their back.
    #[error("home {} is open to other users and holds files that are not ringback's", path.display())]
    Shared {
        /// The path.
        path: PathBuf,
    },
    /// The system refused.
    #[error("cannot prepare home {}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl HomeError {
    /// What can be done next.
    pub fn hint(&self) -> String {
        match self {
            Self::Nowhere => "set RINGBACK_HOME to an absolute path of a private folder".to_owned(),
            Self::Relative { .. } => "set RINGBACK_HOME to an absolute path".to_owned(),
            Self::NotFolder { path } => format!("move {} away, or set RINGBACK_HOME to another path", path.display()),
            Self::Foreign { .. } | Self::Shared { .. } => {
                "set RINGBACK_HOME to a folder of your own, for example one that does not exist yet".to_owned()
            }
            Self::Io { source, .. } => match source.kind() {
                io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
                    "set RINGBACK_HOME to a folder that you may write to".to_owned()
                }
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    "free some space on that disk, for example by `ringback prune`".to_owned()
                }
                _ => "set RINGBACK_HOME to another folder; `ringback doctor` says more".to_owned(),
            },
        }
    }
}

impl Home {
    /// The user's home: `$RINGBACK_HOME`, else `$XDG_STATE_HOME/ringback`, else `~/.local/state/ringback`.
    pub fn find() -> Result<Self, HomeError> {
        if let Some(path) = env::var_os("RINGBACK_HOME").filter(|path| !path.is_empty()) {
            return Self::at(path);
        }
        if let Some(state) = absolute_var("XDG_STATE_HOME") {
            return Self::at(state.join("ringback"));
        }
        match env::var_os("HOME").filter(|home| !home.is_empty()) {
            Some(home) => Self::at(Path::new(&home).join(".local/state/ringback")),
            None => Err(HomeError::Nowhere),
        }
    }

    /// The home at this absolute path.
    pub fn at(path: impl Into<PathBuf>) -> Result<Self, HomeError> {
        let root = path.into();
        if root.is_absolute() { Ok(Self { root }) } else { Err(HomeError::Relative { path: root }) }
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder that holds the socket [`SOCKET_NAME`].
    pub fn socket_dir(&self) -> &Path {
        &self.root
    }

    /// The socket.
    pub fn socket(&self) -> PathBuf {
        self.root.join(SOCKET_NAME)
    }

    /// Locked by the daemon as long as it lives.
    pub fn daemon_lock(&self) -> PathBuf {
        self.root.join("daemon.lock")
    }

    /// The boot id in which a daemon last took everything up.
    pub fn boot(&self) -> PathBuf {
        self.root.join("boot")
    }

    /// Locked by the client that starts a daemon.
    pub fn start_lock(&self) -> PathBuf {
        self.root.join("start.lock")
    }

    /// What the daemon has to say for itself.
    pub fn log(&self) -> PathBuf {
        self.root.join("daemon.log")
    }

    /// The FIFO of the keepers' hints.
    pub fn news(&self) -> PathBuf {
        self.root.join("news")
    }

    /// The database.
    pub fn db(&self) -> PathBuf {
        self.root.join("db.sqlite")
    }

    /// What was last written to the database, until that is copied back into it.
    pub fn db_log(&self) -> PathBuf {
        self.root.join("db.sqlite-wal")
    }

    /// Where keeper programs are kept, one folder per version.
    pub fn bin(&self) -> PathBuf {
        self.root.join("bin")
    }

    /// Where the task folders are.
    pub fn tasks(&self) -> PathBuf {
        self.root.join("t")
    }

    /// The folder of one task: `t/<first two characters>/<id>`.
    pub fn task_dir(&self, id: &str) -> PathBuf {
        let shard = id.get(..2).unwrap_or(id);
        self.root.join("t").join(shard).join(id)
    }

    /// Makes the home if it is not there, and sees that it is a folder of ours that nobody else can look into.
    pub fn prepare(&self) -> Result<(), HomeError> {
        match fs::metadata(&self.root) {
            Ok(meta) => self.check(&meta)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.create()?,
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return Err(HomeError::NotFolder { path: self.first_non_folder() });
            }
            Err(source) => return Err(self.io(source)),
        }
        for folder in [self.tasks(), self.bin()] {
            private_folder(&folder)?;
        }
        Ok(())
    }

    fn create(&self) -> Result<(), HomeError> {
        let missing = self.root.ancestors().take_while(|path| fs::symlink_metadata(path).is_err());
        let missing: Vec<&Path> = missing.collect();
        if missing.is_empty() {
            // A link to nowhere.
            return Err(HomeError::NotFolder { path: self.root.clone() });
        }
        // One by one: the umask may take bits away from each, even ours.
        missing.into_iter().rev().try_for_each(private_folder)
    }

    fn check(&self, meta: &fs::Metadata) -> Result<(), HomeError> {
        if !meta.is_dir() {
            return Err(HomeError::NotFolder { path: self.root.clone() });
        }
        let us = ringback_sys::process::effective_uid();
        // Of a link, too, it counts who has put it there: in a folder like /tmp that may be anybody.
        let link = fs::symlink_metadata(&self.root).ok().filter(fs::Metadata::is_symlink).map(|link| link.uid());
        let strangers = link.filter(|owner| *owner != 0).into_iter().chain([meta.uid()]);
        if let Some(owner) = strangers.into_iter().find(|owner| *owner != us) {
            return Err(HomeError::Foreign { path: self.root.clone(), owner, us });
        }
        let open_bits = meta.mode() & 0o077;
        if open_bits == 0 {
            return Ok(());
        }
        let ours = MARKS.iter().any(|mark| fs::symlink_metadata(self.root.join(mark)).is_ok());
        let empty = || fs::read_dir(&self.root).is_ok_and(|mut entries| entries.next().is_none());
        if !ours && !empty() {
            return Err(HomeError::Shared { path: self.root.clone() });
        }
        fs::set_permissions(&self.root, fs::Permissions::from_mode(0o700)).map_err(|source| self.io(source))
    }

    /// The ancestor that is something else than a folder, for the message.
    fn first_non_folder(&self) -> PathBuf {
        let found = self.root.ancestors().find(|path| path.exists() && !path.is_dir());
        found.unwrap_or(&self.root).to_owned()
    }

    fn io(&self, source: io::Error) -> HomeError {
        HomeError::Io { path: self.root.clone(), source }
    }
}

/// Makes a folder that only we may enter, or sees that it is one.
fn private_folder(path: &Path) -> Result<(), HomeError> {
    let io = |source| HomeError::Io { path: path.to_owned(), source };
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => fs::set_permissions(path, fs::Permissions::from_mode(0o700)).map_err(io),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let is_folder = fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir());
            if is_folder { Ok(()) } else { Err(HomeError::NotFolder { path: path.to_owned() }) }
        }
        Err(source) => Err(io(source)),
    }
}

/// A variable that holds an absolute path; the XDG rules say that a relative one is to be ignored.
pub(crate) fn absolute_var(name: &str) -> Option<PathBuf> {
    env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn a_home_is_made_private_and_again_is_no_error() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path().join("a/b")).unwrap();
        home.prepare().unwrap();
        home.prepare().unwrap();
        for path in [home.root(), &home.tasks(), &home.bin()] {
            assert_eq!(mode(path), 0o700, "{}", path.display());
        }
        assert_eq!(home.task_dir("abcdefghjkmn"), home.root().join("t/ab/abcdefghjkmn"));
    }

    #[test]
    fn an_empty_open_folder_is_closed_but_one_with_strange_files_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let home = Home::at(dir.path()).unwrap();
        fs::write(dir.path().join("letter"), "").unwrap();
        assert!(matches!(home.prepare(), Err(HomeError::Shared { .. })));
        assert_eq!(mode(dir.path()), 0o755);
        fs::remove_file(dir.path().join("letter")).unwrap();
        home.prepare().unwrap();
        assert_eq!(mode(dir.path()), 0o700);
    }

    #[test]
    fn a_file_in_the_way_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        for path in [file.clone(), file.join("below")] {
            let error = Home::at(path).unwrap().prepare().unwrap_err();
            assert!(matches!(&error, HomeError::NotFolder { path } if *path == file), "{error}");
            assert!(error.hint().contains("RINGBACK_HOME"));
        }
        assert!(matches!(Home::at("here"), Err(HomeError::Relative { .. })));
    }
}
