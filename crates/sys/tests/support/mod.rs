//! A task folder and a keeper in it, made as the daemon makes them.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part")]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot set up its task has failed")]

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ringback_sys::cgroup::Cgroups;
use ringback_sys::form::news;
use ringback_sys::form::receipt;
use ringback_sys::form::record::{Cause, FILE_BYTES, Phase, Record};
use ringback_sys::form::request::{Ask, Request};
use ringback_sys::form::spec::Head;
use ringback_sys::launch::{Inherited, KeeperImage, Work};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tempfile::TempDir;

/// No test waits longer for anything.
pub const LIMIT: Duration = Duration::from_secs(30);
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// An id that no other test has, for a keeper that takes over looks for it in every process of the machine.
fn new_id() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = u64::from(std::process::id()) << 28 | NEXT.fetch_add(1, Ordering::Relaxed);
    (0..12).rev().map(|at| char::from(DIGITS[(number >> (5 * at) & 31) as usize])).collect()
}

/// The keeper as a file, written once per test process.
pub fn image() -> &'static KeeperImage {
    static IMAGE: OnceLock<(TempDir, KeeperImage)> = OnceLock::new();
    let (_, image) = IMAGE.get_or_init(|| {
        assert!(ringback_sys::image::is_there(), "the keeper was not compiled on its own");
        let folder = tempfile::tempdir().unwrap();
        let image = KeeperImage::install(folder.path(), ringback_sys::image::bytes()).unwrap();
        (folder, image)
    });
    image
}

/// What to run.
#[derive(Clone)]
pub struct Order {
    pub id: String,
    pub head: Head,
    pub directory: String,
    pub arguments: Vec<Vec<u8>>,
    pub variables: Vec<String>,
    pub crash: Option<String>,
    /// Where the home is made; else in the temporary directory.
    pub root: Option<PathBuf>,
    /// The tree is born in a cgroup.
    pub in_cgroup: bool,
    /// The daemon holds the FIFOs open for reading, so that a killed keeper loses nothing.
    pub hold_output: bool,
}

impl Order {
    /// A program with its arguments.
    pub fn new(arguments: &[&str]) -> Self {
        let path = std::env::var("PATH").unwrap_or_default();
        let id = new_id();
        let cookie = format!("RINGBACK_ID={id}");
        // As the daemon does: orphans of a killed keeper become children of this process.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
        Self {
            id,
            head: Head::default(),
            directory: "/tmp".into(),
            arguments: arguments.iter().map(|a| a.as_bytes().to_vec()).collect(),
            variables: vec![format!("PATH={path}"), cookie],
            crash: None,
            root: None,
            in_cgroup: false,
            hold_output: true,
        }
    }

    /// A script of a shell.
    pub fn shell(shell: &str, script: &str) -> Self {
        Self::new(&[shell, "-c", script])
    }

    /// A script of `sh`.
    pub fn sh(script: &str) -> Self {
        Self::shell("sh", script)
    }

    /// Changes the head.
    pub fn with(mut self, change: impl FnOnce(&mut Head)) -> Self {
        change(&mut self.head);
        self
    }

    /// In a cgroup of its own.
    pub fn in_cgroup(mut self) -> Self {
        self.in_cgroup = true;
        self
    }

    /// Dies at that point.
    pub fn crashing_at(mut self, point: &str) -> Self {
        self.crash = Some(point.into());
        self
    }

    /// Makes the folder and starts the keeper.
    pub fn start(self) -> Task {
        let task = self.prepare();
        task.started()
    }

    /// Makes the folder, without a keeper.
    pub fn prepare(mut self) -> Task {
        let home = self.root.as_ref().map_or_else(tempfile::tempdir, tempfile::tempdir_in).unwrap();
        let folder = home.path().join("t").join(&self.id[..2]).join(&self.id);
        fs::create_dir_all(&folder).unwrap();
        fifo(&home.path().join("news"));
        let pipes: &[&str] = if self.head.split { &["io.out", "io.err"] } else { &["io"] };
        for name in pipes {
            fifo(&folder.join(name));
        }
        if self.head.stdin || self.head.pty.is_some() {
            fifo(&folder.join("stdin"));
        }
        self.head.task = number(&self.id);
        fs::write(folder.join("spec"), self.spec()).unwrap();
        let mut state = vec![0; FILE_BYTES];
        let record = Record::default().encode();
        state[..record.len()].copy_from_slice(&record);
        fs::write(folder.join("state"), state).unwrap();
        fs::write(folder.join("requests"), b"").unwrap();
        let news = OpenOptions::new().read(true).write(true).custom_flags(NONBLOCK).open(home.path().join("news"));
        let held = if self.hold_output { pipes } else { &[] };
        let terminal = self.head.pty.map(|_| ringback_sys::terminal::open_master().unwrap());
        let held = held
            .iter()
            .chain(self.head.pty.map(|_| &"stdin"))
            .map(|name| OpenOptions::new().read(true).custom_flags(NONBLOCK).open(folder.join(name)).unwrap());
        let held = held.collect();
        let cgroup = self.in_cgroup.then(|| Cgroups::find(home.path()).unwrap().of_task(&self.id));
        Task { id: self.id, home, folder, news: news.unwrap(), held, terminal, keeper: None, crash: self.crash, cgroup }
    }

    fn spec(&mut self) -> Vec<u8> {
        let mut strings = Vec::new();
        let directory = [self.directory.clone().into_bytes()];
        let variables: Vec<_> = self.variables.iter().map(|v| v.clone().into_bytes()).collect();
        for text in directory.iter().chain(&self.arguments).chain(&variables) {
            strings.extend_from_slice(text);
            strings.push(0);
        }
        self.head.args = self.arguments.len().try_into().unwrap();
        self.head.vars = variables.len().try_into().unwrap();
        self.head.strings = strings.len() as u64;
        [self.head.encode().as_slice(), &strings].concat()
    }
}

const NONBLOCK: i32 = 0o4000;

fn fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

/// The id as a number.
fn number(id: &str) -> u64 {
    id.bytes().fold(0, |n, c| n << 5 | DIGITS.iter().position(|&d| d == c).unwrap() as u64)
}

/// A task folder with its keeper.
pub struct Task {
    pub id: String,
    home: TempDir,
    pub folder: PathBuf,
    news: File,
    held: Vec<File>,
    /// The master of its terminal, as the daemon holds it.
    pub terminal: Option<OwnedFd>,
    keeper: Option<i32>,
    crash: Option<String>,
    /// Where its cgroup is, if it is to have one.
    pub cgroup: Option<PathBuf>,
}

/// Whether tasks can have cgroups here; else a test says so and has nothing to show.
pub fn cgroups_are_there() -> bool {
    let folder = tempfile::tempdir().unwrap();
    let found = Cgroups::find(folder.path());
    if let Err(error) = &found {
        eprintln!("no cgroups here: {error}");
    }
    found.is_ok()
}

impl Task {
    /// Starts the keeper.
    pub fn started(mut self) -> Self {
        self.spawn(false);
        self
    }

    /// The daemon is killed: whatever it held is let go of.
    pub fn let_go(&mut self) {
        self.held.clear();
    }

    /// Starts a keeper that takes over from a dead one.
    pub fn take_over(&mut self) {
        self.crash = None;
        self.spawn(true);
    }

    /// Starts one more keeper.
    pub fn spawn(&mut self, takeover: bool) {
        self.spawn_from(image(), takeover);
    }

    /// Starts one more keeper of another image.
    pub fn spawn_from(&mut self, image: &KeeperImage, takeover: bool) {
        let crash = self.crash.as_deref().map(OsStr::new);
        let work = if takeover { Work::TakeOver { torn: false } } else { Work::Start(self.cgroup.as_deref()) };
        let pipes = [0, 1].map(|at| self.held.get(at).filter(|_| takeover).map(AsFd::as_fd));
        let inherited = Inherited { terminal: self.terminal.as_ref().map(AsFd::as_fd), pipes };
        self.keeper = Some(image.spawn_with(&self.folder, &self.id, work, crash, inherited).unwrap());
    }

    /// The newest record.
    pub fn record(&self) -> Record {
        Record::newest(&fs::read(self.folder.join("state")).unwrap()).expect("a whole record")
    }

    /// Waits until the record is as wanted.
    pub fn wait_for(&self, what: &str, wanted: impl Fn(&Record) -> bool) -> Record {
        let until = Instant::now() + LIMIT;
        loop {
            let record = self.record();
            if wanted(&record) {
                return record;
            }
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "waited in vain for {what}: {record:?}");
            let timeout = rustix::time::Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
            let mut slots = [PollFd::new(&self.news, PollFlags::IN)];
            if poll(&mut slots, Some(&timeout)).unwrap_or(0) > 0 {
                let mut frames = [0; 16 * 64];
                let length = (&self.news).read(&mut frames).unwrap();
                assert!(frames[..length].chunks(16).all(|f| news::task(f) == Some(number(&self.id))));
            }
        }
    }

    /// Waits until the keeper has nothing left to do.
    pub fn wait_closed(&self) -> Record {
        self.wait_for("the end", |r| matches!(r.phase, Phase::Closed | Phase::StartFailed))
    }

    /// Waits until the command runs.
    pub fn wait_started(&self) -> Record {
        self.wait_for("the start", |r| r.phase >= Phase::Started)
    }

    /// Waits until the end of the main process is told.
    pub fn wait_ended(&self) -> Record {
        self.wait_for("the end of the main process", |r| r.phase >= Phase::Ended)
    }

    /// Waits until the output is as wanted.
    pub fn wait_output(&self, wanted: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        let until = Instant::now() + LIMIT;
        let index = rustix::fs::inotify::init(rustix::fs::inotify::CreateFlags::CLOEXEC).unwrap();
        rustix::fs::inotify::add_watch(&index, &self.folder, rustix::fs::inotify::WatchFlags::MODIFY).unwrap();
        loop {
            let output = self.output();
            if wanted(&output) {
                return output;
            }
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "waited in vain for output, there is {:?}", String::from_utf8_lossy(&output));
            let timeout = rustix::time::Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
            let mut slots = [PollFd::new(&index, PollFlags::IN)];
            if poll(&mut slots, Some(&timeout)).unwrap() > 0 {
                let mut events = [0; 4096];
                let _ = rustix::io::read(&index, &mut events);
            }
        }
    }

    /// The output so far.
    pub fn output(&self) -> Vec<u8> {
        self.file("output")
    }

    /// How much output there is so far.
    pub fn output_length(&self) -> u64 {
        fs::metadata(self.folder.join("output")).map_or(0, |output| output.len())
    }

    /// A file of the folder.
    pub fn file(&self, name: &str) -> Vec<u8> {
        fs::read(self.folder.join(name)).unwrap_or_default()
    }

    /// The output as text.
    pub fn text(&self) -> String {
        String::from_utf8(self.output()).unwrap()
    }

    /// Sends to its stdin, as the daemon does.
    pub fn send(&self, bytes: &[u8]) {
        let mut stdin = OpenOptions::new().write(true).open(self.folder.join("stdin")).unwrap();
        stdin.write_all(bytes).unwrap();
    }

    /// Asks the keeper, without a poke.
    pub fn append(&self, request: Request) {
        let requests = self.folder.join("requests");
        OpenOptions::new().append(true).open(requests).unwrap().write_all(&request.encode()).unwrap();
    }

    /// Asks the keeper.
    pub fn ask(&self, request: Request) {
        self.append(request);
        if let Some(keeper) = self.keeper {
            kill(keeper, Signal::USR1);
        }
    }

    /// Asks for a stop.
    pub fn stop(&self, grace_ms: u64) {
        self.ask(Request { ask: Ask::Stop, cause: Cause::Request, grace_ms, ..Request::default() });
    }

    /// Stops and gives record and receipt.
    pub fn stop_and_wait(&self, grace_ms: u64) -> (Record, receipt::Head, Vec<receipt::Entry>) {
        self.stop(grace_ms);
        let record = self.wait_for("the receipt", |r| r.has_receipt);
        let (head, entries) = self.receipt();
        (record, head, entries)
    }

    /// The receipt.
    pub fn receipt(&self) -> (receipt::Head, Vec<receipt::Entry>) {
        let bytes = self.file("receipt");
        let head = receipt::Head::decode(&bytes).expect("a receipt");
        let entries: Vec<_> = bytes[receipt::HEAD_BYTES..]
            .chunks(receipt::ENTRY_BYTES)
            .map(|entry| receipt::Entry::decode(entry).unwrap())
            .collect();
        assert_eq!(entries.len(), head.entries as usize);
        (head, entries)
    }

    /// Process id of the keeper.
    pub fn keeper_pid(&self) -> i32 {
        self.keeper.unwrap()
    }

    /// Kills the keeper, and waits until it is gone.
    pub fn kill_keeper(&mut self) {
        kill(self.keeper_pid(), Signal::KILL);
        self.keeper_status();
    }

    /// Waits until the keeper is gone; its status word.
    pub fn keeper_status(&mut self) -> i32 {
        let keeper = self.keeper_pid();
        let handle = pidfd_open(Pid::from_raw(keeper).unwrap(), PidfdFlags::empty()).unwrap();
        let limit = rustix::time::Timespec { tv_sec: LIMIT.as_secs().try_into().unwrap(), tv_nsec: 0 };
        let gone = poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&limit)).unwrap();
        assert_eq!(gone, 1, "the keeper does not leave: {:?}", self.record());
        self.keeper = None;
        reap(keeper)
    }

    /// Where the next keeper dies.
    pub fn crash_next(&mut self, point: Option<&str>) {
        self.crash = point.map(Into::into);
    }

    /// The home.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// The hint that names this task.
    pub fn frame(&self) -> [u8; news::FRAME_BYTES] {
        news::frame(number(&self.id))
    }

    /// Writes to a file of the folder at an offset.
    pub fn write_at(&self, name: &str, bytes: &[u8], offset: u64) {
        OpenOptions::new().write(true).open(self.folder.join(name)).unwrap().write_all_at(bytes, offset).unwrap();
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if let Some(keeper) = self.keeper {
            let over = Record::newest(&self.file("state")).is_none_or(|record| record.phase >= Phase::Closed);
            if std::thread::panicking() || !over {
                self.kill_tree(keeper);
            }
            reap(keeper);
        }
        if let Some(cgroup) = &self.cgroup {
            // A killed keeper leaves it; one that a failed test leaves somebody in stays.
            let _ = fs::remove_dir(cgroup);
        }
    }
}

impl Task {
    /// For a test that has no use for the rest of its task.
    fn kill_tree(&self, keeper: i32) {
        kill(keeper, Signal::KILL);
        for pid in bearers(&self.id) {
            kill(pid, Signal::KILL);
        }
    }
}

/// Signals a process that this one has not yet waited for.
pub fn kill(pid: i32, signal: Signal) {
    if let Ok(handle) = pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()) {
        let _ = pidfd_send_signal(&handle, signal);
    }
}

/// The exit code in a status word.
pub fn code(record: &Record) -> Option<i32> {
    signal(record).is_none().then_some(record.wait_status >> 8 & 0xff)
}

/// The signal in a status word.
pub fn signal(record: &Record) -> Option<i32> {
    Some(record.wait_status & 0x7f).filter(|number| *number != 0)
}

/// Waits until there is a value. For what gives no event, so it asks again and again, but not for ever.
pub fn wait_until<T>(mut value: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + LIMIT;
    loop {
        if let Some(value) = value() {
            return value;
        }
        assert!(Instant::now() < until, "waited in vain");
        std::thread::yield_now();
    }
}

/// Waits for an orphan that this process has inherited; its status word.
pub fn reap(pid: i32) -> i32 {
    let pid = Pid::from_raw(pid).unwrap();
    let (_, status) = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty()).unwrap().unwrap();
    status.as_raw()
}

/// The living processes that have the task's cookie in their environment.
pub fn bearers(id: &str) -> Vec<i32> {
    let cookie = format!("RINGBACK_ID={id}");
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let bears = |pid: &i32| {
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.split(|&byte| byte == 0).any(|entry| entry == cookie.as_bytes()) && is_alive(*pid)
    };
    pids.filter(bears).collect()
}

/// Whether a process is there and not a zombie.
pub fn is_alive(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat[stat.rfind(')').unwrap()..].starts_with(") Z"))
}
