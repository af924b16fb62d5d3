//! Sees that the home is still the one that this daemon serves: a socket that somebody took away is made again, and a home
//! that was moved or removed is left. Who comes to where it is now starts a daemon there, which finds everything.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ringback_sys::process;

use super::Daemon;
use super::error::DaemonError;
use crate::home::Home;
use crate::store::StoreError;

/// How long after its socket has gone, and nothing else since, a daemon makes another, milliseconds: who removes a whole home
/// may begin with it.
const LISTEN_AGAIN_MS: u64 = 100;
/// How long if the database has gone as well, and when it is tried again if the machine refuses, milliseconds.
const LISTEN_RETRY_MS: u64 = 1_000;

/// What cannot be done without the database.
const RECORD: &str = "record anything";
/// How many files the database has.
const FILES: usize = 2;

/// Which file a name means: device and inode.
type Inode = (u64, u64);

/// What this daemon has to find in its home.
pub(super) struct Post {
    /// The lock that it holds.
    lock: Inode,
    /// The socket that it listens at.
    socket: Option<Inode>,
    /// The files of the database that is open; nothing where there was none when it was opened.
    files: [Option<Inode>; FILES],
    /// The file of it that is no longer there.
    gone: Option<PathBuf>,
    /// When another socket is made, by the monotonic clock.
    listen_at_ms: Option<u64>,
    /// The home is no longer here.
    lost: bool,
}

impl Post {
    /// Of a daemon that holds this lock, has opened the database, and does not listen yet.
    pub(super) fn new(home: &Home, lock: &fs::File) -> io::Result<Self> {
        let files = database(home).each_ref().map(|path| found(path));
        Ok(Self { lock: inode(&lock.metadata()?), socket: None, files, gone: None, listen_at_ms: None, lost: false })
    }

    /// When the home is looked at next without being asked to.
    pub(super) fn next_due(&self) -> Option<u64> {
        self.listen_at_ms
    }

    /// Whether the home was seen to be no longer here.
    pub(super) fn is_lost(&self) -> bool {
        self.lost
    }

    /// We listen at the socket that has this name now.
    pub(super) fn listens_at(&mut self, socket: &Path) {
        self.socket = found(socket);
        self.listen_at_ms = None;
    }
}

fn database(home: &Home) -> [PathBuf; FILES] {
    [home.db(), home.db_log()]
}

fn inode(meta: &fs::Metadata) -> Inode {
    (meta.dev(), meta.ino())
}

fn found(path: &Path) -> Option<Inode> {
    fs::symlink_metadata(path).ok().map(|meta| inode(&meta))
}

impl Daemon {
    /// Watches the home, and what it is in. Where the machine has no watch to give, only what fails is noticed.
    pub(super) fn watch_home(&mut self) {
        let root = self.home.root();
        if let Err(error) = self.outputs.names(root) {
            self.troubles.note("watch the home", &error);
        }
        for above in root.ancestors().skip(1) {
            // One that we may not read is moved by others.
            let _ = self.outputs.moves(above);
        }
    }

    /// Something has changed in the home, or it was moved.
    pub(super) fn look_at_home(&mut self) {
        if self.has_lost_home() {
            return;
        }
        self.look_at_database();
        if self.has_socket() {
            self.post.listen_at_ms = None;
        } else {
            let pause_ms = if self.post.gone.is_some() { LISTEN_RETRY_MS } else { LISTEN_AGAIN_MS };
            self.post.listen_at_ms = Some(process::monotonic_ms() + pause_ms);
        }
    }

    /// Sees whether the files of the database are those that are open. One that was put back is.
    fn look_at_database(&mut self) {
        let mut gone = None;
        for (path, file) in database(&self.home).into_iter().zip(&mut self.post.files) {
            let now = found(&path);
            // Made when it is first needed.
            let ours = *file.get_or_insert_with(|| now.unwrap_or_default());
            if now != Some(ours) {
                gone.get_or_insert(path);
            }
        }
        let was_gone = std::mem::replace(&mut self.post.gone, gone).is_some();
        if let Some(error) = self.lacks_database().filter(|_| !was_gone) {
            self.troubles.note(RECORD, &error);
        }
    }

    /// Why nothing is recorded, if a file of the database is not the one that is open: what is written goes nowhere then.
    pub(super) fn lacks_database(&self) -> Option<StoreError> {
        self.post.gone.clone().map(|path| StoreError::Replaced { path })
    }

    /// The troubles of late, and last what still goes on.
    pub(super) fn all_troubles(&self) -> Vec<String> {
        let goes_on = self.lacks_database().map(|error| format!("cannot {RECORD}: {error}"));
        let is_another = |line: &&String| goes_on.as_ref().is_none_or(|words| !line.ends_with(words));
        self.troubles.recent.iter().filter(is_another).chain(&goes_on).cloned().collect()
    }

    /// Whether somebody else's file has the name of one of the database that is removed by its name when it is closed.
    pub(super) fn has_foreign_log(&self) -> bool {
        found(&self.home.db_log()).is_some_and(|now| self.post.files[FILES - 1] != Some(now))
    }

    /// Whether the home is no longer where it was; then this daemon leaves. To be asked before anything is concluded from a
    /// file that is not there.
    pub(super) fn has_lost_home(&mut self) -> bool {
        if !self.post.lost && found(&self.home.daemon_lock()) != Some(self.post.lock) {
            self.post.lost = true;
            self.troubles.note("serve this home", &DaemonError::Moved { home: self.home.root().to_owned() });
        }
        self.post.lost
    }

    /// Whether the name of the socket is still that of ours.
    pub(super) fn has_socket(&self) -> bool {
        self.post.socket.is_some() && found(&self.home.socket()) == self.post.socket
    }

    /// Makes another socket, if it is time to.
    pub(super) fn post_due(&mut self, now_ms: u64) {
        if self.post.listen_at_ms.is_none_or(|at_ms| at_ms > now_ms) {
            return;
        }
        self.post.listen_at_ms = None;
        if self.has_lost_home() || self.has_socket() {
            return;
        }
        // Those who came through the old one are served.
        self.accept_all();
        if let Err(error) = self.listen() {
            self.troubles.note("listen again", &error_text(&error));
            // Of what is in the way we are told when it goes.
            let in_the_way =
                matches!(&error, DaemonError::Listen(cause) if cause.kind() == io::ErrorKind::AlreadyExists);
            self.post.listen_at_ms = (!in_the_way).then_some(now_ms + LISTEN_RETRY_MS);
        }
    }
}

fn error_text(error: &DaemonError) -> String {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    format!("{error}{cause}")
}
