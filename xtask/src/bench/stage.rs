//! Where the bench plays: the program that is measured, and homes of its own on the disk that is measured.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ringback_host::client::{Capture, Client, Launcher};
use ringback_host::home::Home;
use ringback_host::wire::{ByteBuf, Caller, Command as Asked, Reply, Request, Until};
use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
use serde_json::Value;
use tempfile::TempDir;

use super::measure::proc_kib;
use crate::Done;
use crate::built;

/// The built program, and the folder for homes.
pub(crate) struct Stage {
    pub(crate) program: PathBuf,
    dir: PathBuf,
}

impl Stage {
    /// Builds the program as it is shipped.
    pub(crate) fn set(dir: Option<&Path>) -> Done<Self> {
        let program = built::release()?;
        Ok(Self { program, dir: grounds(dir.map_or_else(|| built::target().join("bench"), Path::to_owned))? })
    }

    /// This program, on the disk of the build folder.
    pub(crate) fn with(program: &Path) -> Done<Self> {
        Ok(Self { program: program.to_owned(), dir: grounds(built::target().join("bench"))? })
    }

    /// A home of its own, whose daemon and tasks are gone when it is dropped.
    pub(crate) fn home(&self) -> Done<Lodging<'_>> {
        let dir = tempfile::Builder::new().prefix("home-").tempdir_in(&self.dir)?;
        Ok(Lodging { stage: self, dir })
    }

    /// The same, for what is killed and not for a power cut: as the peers, which sync nothing.
    pub(crate) fn unsynced_home(&self) -> Done<Lodging<'_>> {
        let home = self.home()?;
        home.configure("durability = \"process\"\n")?;
        Ok(home)
    }

    /// A folder of its own.
    pub(crate) fn folder(&self) -> Done<TempDir> {
        Ok(tempfile::Builder::new().prefix("folder-").tempdir_in(&self.dir)?)
    }
}

/// Makes the folder for homes, each of which is to lie in another part of the disk.
///
/// An ext4 without a journal passes over every inode that was deleted in the last minutes when it makes one in the same part
/// (`recently_deleted`, fs/ext4/ialloc.c): the home of one row, deleted, would slow down the next row's files by up to a
/// millisecond each. Elsewhere this does nothing.
fn grounds(dir: PathBuf) -> Done<PathBuf> {
    fs::create_dir_all(&dir)?;
    let opened = fs::File::open(&dir)?;
    if let Ok(flags) = ioctl_getflags(&opened) {
        let _ = ioctl_setflags(&opened, flags | IFlags::TOPDIR);
    }
    Ok(dir)
}

/// A private home.
pub(crate) struct Lodging<'a> {
    stage: &'a Stage,
    dir: TempDir,
}

impl Lodging<'_> {
    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The program on this home, as a session of its own.
    pub(crate) fn ringback<const N: usize>(&self, arguments: [&str; N]) -> Command {
        let mut command = Command::new(&self.stage.program);
        command.args(arguments).env("RINGBACK_HOME", self.path()).env("RINGBACK_SESSION", "bench");
        command.env_remove("XDG_CONFIG_HOME").env("HOME", self.path());
        command
    }

    /// Writes the configuration that the program reads here, and has a daemon run with it.
    pub(crate) fn configure(&self, config: &str) -> Done {
        // The first one makes the home ours; only then may something else lie in it.
        self.json(["stats"])?;
        let folder = self.path().join(".config/ringback");
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("config.toml"), config)?;
        let mut stop = self.ringback(["daemon", "stop"]);
        stop.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        self.json(["stats"])?;
        Ok(())
    }

    /// What a verb answers as JSON.
    pub(crate) fn json<const N: usize>(&self, arguments: [&str; N]) -> Done<Value> {
        let answer = self.ringback(arguments).arg("--json").stdin(Stdio::null()).stderr(Stdio::null()).output()?;
        Ok(serde_json::from_slice(&answer.stdout)?)
    }

    /// The client library on this home.
    pub(crate) fn client(&self) -> Done<Client> {
        let caller = Caller { session: "bench".to_owned(), by: "bench".to_owned() };
        Ok(Client::open_with(&Home::at(self.path())?, caller, Launcher::program(&self.stage.program))?)
    }

    /// What the daemon has in memory, in MB.
    pub(crate) fn resident(&self) -> Done<f64> {
        Ok(proc_kib(&format!("/proc/{}/status", self.daemon()?), "VmRSS")? / 1024.0)
    }

    /// The daemon's process.
    pub(crate) fn daemon(&self) -> Done<i64> {
        self.json(["daemon", "status"])?["pid"].as_i64().ok_or_else(|| "no daemon".into())
    }
}

impl Drop for Lodging<'_> {
    fn drop(&mut self) {
        for arguments in [["session", "end", "bench"].as_slice(), &["daemon", "stop"]] {
            let mut command = self.ringback([]);
            command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            if let Err(error) = command.status() {
                eprintln!("{arguments:?}: {error}");
            }
        }
    }
}

/// Starts a command through the library; its id.
pub(crate) fn submit(client: &mut Client, argv: &[&str]) -> Done<String> {
    let words = argv.iter().map(|word| ByteBuf::from(word.as_bytes().to_vec())).collect();
    let run = Capture::default().request(Asked::Argv(words))?;
    match client.call(Request::Run(Box::new(run)))? {
        Reply::Task { task, .. } => Ok(task.id),
        other => Err(format!("a run was answered with {other:?}").into()),
    }
}

/// Waits until all of these have ended.
pub(crate) fn await_ends(client: &mut Client, ids: &[String]) -> Done {
    for some in ids.chunks(500) {
        let wait = Request::Wait { ids: some.to_vec(), any: false, timeout_ms: None, until: Until::End };
        client.call(wait)?;
    }
    Ok(())
}
