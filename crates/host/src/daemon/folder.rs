//! The folder of one task: what only the caller knows before it is recorded, the rest when it starts.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use ringback_core::id::TaskId;
use ringback_core::spec::{Leftovers, OutputPolicy, SandboxMode};
use ringback_sys::cgroup;
use ringback_sys::form::spec::{self, Head, LIMIT_KEEP, LIMITS};
use ringback_sys::task_files::{self, SpecIn};
use ringback_sys::{files, task_files::Spec};

use super::hold_back;
use crate::mask::Mask;
use crate::store::{Asked, StoredCommand};

/// What the folder needs beyond what the store keeps.
pub(super) struct Private {
    /// Program and arguments, or the words of the shell.
    pub words: Vec<Vec<u8>>,
    /// The whole script, also where the record has it.
    pub script: Option<Vec<u8>>,
    /// The whole environment.
    pub env: Vec<Vec<u8>>,
    /// File mode creation mask.
    pub umask: u32,
    /// Nice value.
    pub nice: i32,
    /// Soft resource limits by number.
    pub limits: Vec<u64>,
}

pub(super) use ringback_sys::task_files::{
    FINDINGS, INDEX, OUTPUT, REPORTS, REQUESTS, SCRIPT, SPEC, STATE, STDIN, STREAMS,
};

/// What a terminal is called whose owner does not say: nearly every program and system knows it.
const TERM: &str = "xterm-256color";
/// Where a task with a sandbox has its temporary files; its keeper lets it write there.
const TEMPORARY: &str = "tmp";

/// The FIFOs that the command writes to.
pub(super) fn pipes(split: bool) -> &'static [&'static str] {
    if split { &["io.out", "io.err"] } else { &["io"] }
}

/// What the daemon adds to it.
pub(super) struct About<'a> {
    /// The task.
    pub id: TaskId,
    /// Its session.
    pub session: &'a str,
    /// What was asked.
    pub asked: &'a Asked,
    /// How many bytes stay free on the disk; 0 for no floor.
    pub free_min: u64,
}

/// Writes what only the caller knows, before the task is recorded: a recorded task can always start. A folder that was made
/// ahead and is no more as it was made is [`io::ErrorKind::AlreadyExists`].
pub(super) fn prepare(dir: &Path, about: &About<'_>, private: &Private, ahead: Option<Ahead>) -> io::Result<()> {
    match &ahead {
        Some(ahead) if !ahead.is_untouched(dir) => return Err(io::ErrorKind::AlreadyExists.into()),
        Some(_) => {}
        None => files::private_dir(dir)?,
    }
    let mut args = private.words.clone();
    if let Some(script) = &private.script {
        let path = dir.join(SCRIPT);
        // Of any other the record has the whole, and a file more is a fifth of what a submission costs.
        if about.asked.command.cut {
            files::create_new(&path)?.write_all(script)?;
        }
        args.push(path.into_os_string().as_bytes().to_vec());
    }
    let mut vars = private.env.clone();
    set(&mut vars, "RINGBACK_ID", &about.id.to_string());
    set(&mut vars, "RINGBACK_SESSION", about.session);
    if about.asked.progress_fd {
        set(&mut vars, "RINGBACK_PROGRESS_FD", &spec::PROGRESS_FD.to_string());
    }
    if about.asked.pty.is_some() && !vars.iter().any(|var| var.starts_with(b"TERM=")) {
        set(&mut vars, "TERM", TERM);
    }
    if hold_back::is_sandboxed(about.asked) {
        set(&mut vars, "TMPDIR", &dir.join(TEMPORARY).to_string_lossy());
    }
    let head = Head { tree: hold_back::tree(&about.asked.limit), ..head(about, private) };
    let spec = SpecIn { head, cwd: &about.asked.cwd, args: &args, vars: &vars };
    match ahead {
        Some(ahead) => task_files::fill_spec(ahead.spec, &spec),
        None => task_files::write_spec(dir, &spec),
    }
}

/// A folder that was made ahead.
#[derive(Debug)]
pub(super) struct Ahead {
    /// Its `spec`, open and empty.
    spec: fs::File,
    /// As it was made; nothing where its times are too coarse to tell whether it still is.
    seen: Option<Seen>,
}

/// Which folder it was, and when somebody last made, renamed or removed anything in it, nanoseconds after 1970.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    device: u64,
    inode: u64,
    changed_ns: i128,
}

impl Seen {
    fn of(dir: &Path) -> Option<Self> {
        let found = fs::symlink_metadata(dir).ok().filter(fs::Metadata::is_dir)?;
        let changed_ns = i128::from(found.ctime()) * 1_000_000_000 + i128::from(found.ctime_nsec());
        Some(Self { device: found.dev(), inode: found.ino(), changed_ns })
    }
}

impl Ahead {
    /// Whether nobody has put anything into it or in its place. One look is enough where its time tells that; else each of its
    /// files is looked at.
    fn is_untouched(&self, dir: &Path) -> bool {
        let now = Seen::of(dir);
        now.is_some() && (now == self.seen || is_blank(dir, &self.spec))
    }
}

/// How many files a folder has that was made ahead.
const BLANK_FILES: usize = 4;

/// Makes a folder for a task that nobody has asked for yet, with all that does not depend on what it will be, and an empty
/// `spec`.
pub(super) fn make_blank(dir: &Path) -> io::Result<Ahead> {
    files::private_dir(dir)?;
    for pipe in pipes(false) {
        files::fifo(&dir.join(pipe))?;
    }
    task_files::init_requests(dir)?;
    let spec = files::create_new(&dir.join(SPEC))?;
    // Two changes within a tick of the clock have the same time before Linux 6.13, and on some file systems for ever.
    let before = Seen::of(dir);
    task_files::init_state(dir)?;
    Ok(Ahead { spec, seen: Seen::of(dir).filter(|seen| before.as_ref() != Some(seen)) })
}

/// Whether there is no `spec`, or an empty one: then the folder is of no task yet.
pub(super) fn lacks_spec(dir: &Path) -> bool {
    fs::symlink_metadata(dir.join(SPEC)).map_or(true, |found| found.is_file() && found.len() == 0)
}

/// Whether a folder that was made ahead is as it was made: nobody has put anything into it or in its place.
fn is_blank(dir: &Path, spec: &fs::File) -> bool {
    let is_spec =
        |found: &fs::Metadata| spec.metadata().is_ok_and(|ours| ours.ino() == found.ino()) && found.len() == 0;
    let is_ours = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        let is_pipe = name.to_str().is_some_and(|name| pipes(false).contains(&name));
        let is_file = name == STATE || name == REQUESTS;
        entry.metadata().is_ok_and(|found| {
            found.nlink() == 1
                && if is_pipe {
                    found.file_type().is_fifo()
                } else {
                    found.is_file() && (is_file || (name == SPEC && is_spec(&found)))
                }
        })
    };
    let Ok(entries) = fs::symlink_metadata(dir)
        .and_then(|found| if found.is_dir() { fs::read_dir(dir) } else { Err(io::ErrorKind::NotADirectory.into()) })
    else {
        return false;
    };
    let mut count = 0;
    let ours = entries.flatten().inspect(|_| count += 1).all(|entry| is_ours(&entry));
    ours && count == BLANK_FILES
}

/// Makes what else a keeper needs, when its time has come. What an earlier daemon made already stays.
pub(super) fn complete(dir: &Path, asked: &Asked) -> io::Result<()> {
    let stdin = asked.stdin.then_some(STDIN);
    let reports = asked.progress_fd.then_some(REPORTS);
    if asked.split {
        // A blank has the one pipe that most tasks need.
        for pipe in pipes(false) {
            unless_missing(fs::remove_file(dir.join(pipe)))?;
        }
    }
    for pipe in pipes(asked.split).iter().copied().chain(stdin).chain(reports) {
        fifo_unless_there(&dir.join(pipe))?;
    }
    if hold_back::is_sandboxed(asked) {
        files::private_dir(&dir.join(TEMPORARY))?;
    }
    if let (Some(script), false) = (&asked.command.script, asked.command.cut) {
        // A keeper that an earlier daemon launched may be about to have it read: a whole one stays. What else is there a daemon
        // that died here has left, or somebody.
        let path = dir.join(SCRIPT);
        if !files::read_regular(&path).is_ok_and(|there| there == **script) {
            unless_missing(fs::remove_file(&path))?;
            files::create_new(&path)?.write_all(script)?;
        }
    }
    task_files::init_requests(dir)?;
    // Last: a record means that everything else is there. One that is there may be a keeper's already.
    match fs::symlink_metadata(dir.join(STATE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => task_files::init_state(dir),
        Ok(found) if !found.is_file() => Err(io::ErrorKind::AlreadyExists.into()),
        other => other.map(drop),
    }
}

fn unless_missing(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// What somebody else has put into its place is not taken for it.
fn fifo_unless_there(path: &Path) -> io::Result<()> {
    match files::fifo(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            if fs::symlink_metadata(path)?.file_type().is_fifo() { Ok(()) } else { Err(error) }
        }
        other => other,
    }
}

/// Deletes a folder, and the task's cgroup if it is still there; a folder that is not there is no error.
pub(super) fn delete(dir: &Path) -> io::Result<()> {
    let id = dir.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    // One that somebody is in has to stay, and the next daemon looks again.
    let _ = cgroup::remove_noted(&dir.join("cgroup"), id);
    unless_missing(fs::remove_dir_all(dir))
}

/// Whether there is a folder for temporary files.
pub(super) fn has_temporary(dir: &Path) -> bool {
    fs::symlink_metadata(dir.join(TEMPORARY)).is_ok()
}

/// Deletes what a task with a sandbox has left in its folder for temporary files, and that folder.
pub(super) fn delete_temporary(dir: &Path) -> io::Result<()> {
    unless_missing(fs::remove_dir_all(dir.join(TEMPORARY)))
}

/// What the folder of a task takes beside its output: the folder, the record, the requests, each a block.
const FOLDER_BYTES: u64 = 3 * 4096;

/// How many bytes of disk the folder of an ended task takes, from the few files of it that may be large.
pub(super) fn ended_bytes(dir: &Path, split: bool) -> u64 {
    let streams = if split { &STREAMS[..] } else { &[] };
    let bytes = |name: &&str| fs::symlink_metadata(dir.join(name)).map_or(0, |meta| meta.blocks() * 512);
    FOLDER_BYTES + [OUTPUT, INDEX, SPEC, SCRIPT, FINDINGS].iter().chain(streams).map(bytes).sum::<u64>()
}

/// How many bytes of disk a folder takes, as far as that can be seen.
pub(super) fn disk_bytes(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    entries.flatten().filter_map(|entry| entry.metadata().ok()).map(|meta| meta.blocks() * 512).sum()
}

/// What a task of an earlier folder, with this command, needs to run again.
pub(super) fn private_of(dir: &Path, command: &StoredCommand) -> io::Result<Private> {
    let Spec { head, args, vars, .. } = task_files::read_spec(dir)?;
    let script = match &command.script {
        // It may never have started, and then there is no file.
        Some(whole) if !command.cut => Some(whole.to_vec()),
        Some(_) => Some(files::read_regular(&dir.join(SCRIPT))?),
        None => None,
    };
    let words = args.len() - usize::from(script.is_some() && args.len() > 1);
    Ok(Private {
        words: args.into_iter().take(words).collect(),
        script,
        env: vars,
        umask: head.umask,
        nice: head.nice,
        limits: head.limits.to_vec(),
    })
}

fn head(about: &About<'_>, private: &Private) -> Head {
    let asked = about.asked;
    let mut limits = [LIMIT_KEEP; LIMITS];
    for (place, limit) in limits.iter_mut().zip(&private.limits) {
        *place = *limit;
    }
    let leftovers = match Leftovers::parse(&asked.leftovers).unwrap_or_default() {
        Leftovers::Keep => spec::Leftovers::Keep,
        Leftovers::Kill => spec::Leftovers::Kill,
        Leftovers::Wait => spec::Leftovers::Wait,
    };
    let sandbox = hold_back::wanted(asked);
    let policy = OutputPolicy::parse(&asked.output_policy).unwrap_or_default();
    Head {
        task: about.id.bits(),
        leftovers,
        split: asked.split,
        stdin: asked.stdin && asked.pty.is_none(),
        pty: asked.pty.and_then(|size| spec::Size::new(size.columns, size.rows)),
        term_main_only: asked.term_main_only,
        umask: private.umask,
        nice: private.nice,
        wall_ms: asked.wall_ms.unwrap_or(0),
        idle_ms: asked.idle_ms.unwrap_or(0),
        grace_ms: asked.grace_ms,
        output_max: asked.output_max,
        limits,
        kill_at_output_max: policy == OutputPolicy::Kill,
        stop_at_output_max: policy == OutputPolicy::StopRecording,
        args: 0,
        vars: 0,
        strings: 0,
        free_min: about.free_min,
        tree: spec::TreeLimits::default(),
        sandbox: match sandbox.mode {
            SandboxMode::None => spec::Sandbox::None,
            SandboxMode::ReadOnly => spec::Sandbox::ReadOnly,
            SandboxMode::Directory => spec::Sandbox::Directory,
        },
        sandbox_optional: sandbox.is_optional,
    }
}

fn set(vars: &mut Vec<Vec<u8>>, key: &str, value: &str) {
    let start = format!("{key}=");
    vars.retain(|var| !var.starts_with(start.as_bytes()));
    vars.push([start.as_bytes(), value.as_bytes()].concat());
}

/// The last `limit` bytes of an output of `length` bytes; nothing if they cannot be read.
pub(super) fn tail(dir: &Path, length: u64, limit: usize) -> Vec<u8> {
    let want = usize::try_from(length).map_or(limit, |length| length.min(limit));
    if want == 0 {
        // Of nothing, no secret need be looked up.
        return Vec::new();
    }
    read(dir, &Mask::of_folder(dir), length - want as u64, want)
}

/// `length` bytes of an output from `from` on, as far as they are there, as agents may read them.
pub(super) fn read(dir: &Path, mask: &Mask, from: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let read = files::open_regular(&dir.join(OUTPUT)).and_then(|file| mask.read_at(&file, &mut bytes, from));
    bytes.truncate(read.unwrap_or(0));
    bytes
}
