//! Becoming the daemon of a home.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Interest, Poll};
use ringback_core::board::Board;
use ringback_sys::cgroup::{self, Cgroups};
use ringback_sys::confine::Confinement;
use ringback_sys::growth::FilesWatch;
use ringback_sys::launch::KeeperImage;
use ringback_sys::signals::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SignalFd};
use ringback_sys::{files, image, lock, process, reap, signals, socket};

use super::collect::Collector;
use super::connections::Connections;
use super::crash::crash_point;
use super::error::{DaemonError, machine};
use super::inherited::Inherited;
use super::live::Orphans;
use super::log_ahead::LogAhead;
use super::outbox::Outbox;
use super::places::Places;
use super::post::Post;
use super::prune::Prunes;
use super::round::Round;
use super::serve::open_spare;
use super::sessions::Endings;
use super::space::Space;
use super::stdin::Feeds;
use super::sweep::Sweep;
use super::troubles::Troubles;
use super::wait::Waits;
use super::watching::Watches;
use super::{Daemon, Source};
use crate::config::{Cgroup, Config, Confined, Durability};
use crate::home::{Home, SOCKET_NAME};
use crate::spoken::Reader;
use crate::store::Store;

/// How many descriptors a daemon has that serves nobody, where that cannot be seen.
const OPEN_FDS: u64 = 16;
/// How many more it opens before it serves: the loop and its waker, what it watches files with, the socket, the spare one
/// and the reserve.
const FDS_TO_COME: u64 = 6;

/// How long what a dead daemon was starting may hold its lock: until it is executed, on a machine with much to do.
const HEIR: Duration = Duration::from_millis(500);

/// Serves `home` until somebody says stop. `reader` reads command lines; `ready` is called once clients can connect.
///
/// Everything that the caller left open above descriptor 2 is closed, so this is for a program that does nothing else.
pub fn run(home: &Home, config: Config, reader: Reader, ready: impl FnOnce()) -> Result<(), DaemonError> {
    process::close_above(2).map_err(machine("close what the caller left open"))?;
    // Whatever its program is called: by this name, too, a keeper tells the daemon from the tree that called it into being.
    process::go_by(c"ringback");
    files::umask(0o077);
    home.prepare()?;
    std::env::set_current_dir("/").map_err(machine("leave the caller's folder"))?;
    // The leader of a process group cannot make a session; then it has one of its own already, or a shell's.
    let _ = process::set_own_session();
    refuse_confined(&config)?;
    let lock = own(home)?;
    crash_point("daemon.after-lock");
    let mut daemon = Daemon::new(home, config, reader, &lock)?;
    daemon.adopt_all()?;
    crash_point("daemon.after-adopt");
    daemon.listen()?;
    crash_point("daemon.after-listen");
    ready();
    let ended = daemon.drive();
    if daemon.has_socket() {
        let _ = fs::remove_file(home.socket());
    }
    if daemon.has_lost_home() || daemon.has_foreign_log() {
        // SQLite removes files by their names when it closes, and there may be another of this name already.
        std::mem::forget(daemon);
    }
    ended
}

/// A daemon in a sandbox would serve everybody from inside it.
fn refuse_confined(config: &Config) -> Result<(), DaemonError> {
    match ringback_sys::confine::own_is_confined() {
        Some(why) if config.confined == Confined::Refuse => Err(DaemonError::Confined { why }),
        _ => Ok(()),
    }
}

/// The lock that makes us the one daemon of this home, for as long as it is held.
///
/// What a daemon was just starting when it was killed holds its lock until that is executed (vfork(2) shares descriptors), so
/// a lock that is held is waited for a moment before somebody is said to serve.
fn own(home: &Home) -> Result<File, DaemonError> {
    let lock = files::append(&home.daemon_lock()).map_err(machine("open the lock of this home"))?;
    let ours = lock::exclusive_within(&lock, &home.daemon_lock(), HEIR).map_err(machine("lock this home"))?;
    if ours { Ok(lock) } else { Err(DaemonError::AlreadyRunning) }
}

/// The variable that has a build for tests use the main program as keeper, as on a machine where none could be built.
const KEEPER_VARIABLE: &str = "RINGBACK_KEEPER";

/// The keeper of this build, put where it can be started from.
pub(super) fn keeper_image(home: &Home) -> io::Result<KeeperImage> {
    let refused = cfg!(debug_assertions) && std::env::var_os(KEEPER_VARIABLE).is_some_and(|how| how == "multi-call");
    if image::is_there() && !refused {
        KeeperImage::install(&home.bin(), image::bytes())
    } else {
        std::env::current_exe().map(KeeperImage::Program)
    }
}

fn open_store(home: &Home, durability: Durability) -> Result<Store, DaemonError> {
    let mut store = Store::open(&home.db())?;
    match durability {
        Durability::Power => {}
        Durability::Process => store.survive_processes_only()?,
    }
    Ok(store)
}

/// Looked for once: what is delegated to us does not change while we live.
fn cgroups(home: &Home, wanted: Cgroup) -> Result<Cgroups, String> {
    // Called into being by a command of a task we are not a part of that task. Where we cannot leave, its keeper spares us.
    let _ = cgroup::leave_task();
    match wanted {
        Cgroup::Auto => {
            let mut cgroups = Cgroups::find(home.root()).map_err(|error| error.to_string())?;
            // What cannot be switched on limits nothing, and each task says so.
            let _ = cgroups.switch_on_limits();
            Ok(cgroups)
        }
        Cgroup::Off => Err("switched off by the config".to_owned()),
    }
}

/// As many as there are descriptors for, which this raises to what may be had.
fn places(config: &Config) -> Places {
    let fds_max = process::raise_fd_limit();
    let open = process::open_fds().unwrap_or(OPEN_FDS) + FDS_TO_COME;
    Places::new(fds_max, open, config.max_running)
}

impl Daemon {
    fn new(home: &Home, config: Config, reader: Reader, lock: &File) -> Result<Self, DaemonError> {
        signals::block_all().map_err(machine("block signals"))?;
        let signals =
            SignalFd::block_and_open(&[SIGCHLD, SIGTERM, SIGINT, SIGHUP]).map_err(machine("receive signals"))?;
        reap::become_subreaper().map_err(machine("inherit orphans"))?;
        let troubles = Troubles::open(&home.log()).map_err(machine("open the log of this home"))?;
        let image = keeper_image(home).map_err(DaemonError::Keeper)?;
        let cgroups = cgroups(home, config.cgroup);
        let store = open_store(home, config.durability)?;
        // Before any record is read: what a keeper says while we read is not lost.
        let news = files::open_news_reader(&home.news()).map_err(machine("open the news of this home"))?;
        let prunes = Prunes::new(&config, store.kept()?);
        let places = places(&config);
        let mut daemon = Self {
            home: home.clone(),
            board: Board::new(places.running as usize),
            space: Space::new(home.root(), config.free_space_floor),
            log_ahead: LogAhead::of(config.durability, home.root()),
            config,
            store,
            lives: BTreeMap::new(),
            image,
            cgroups,
            poll: Poll::new().map_err(machine("open the event loop"))?,
            sources: BTreeMap::new(),
            next_token: 0,
            news,
            signals,
            connections: Connections::default(),
            reader,
            own: Confinement::own().map_err(machine("see how free this process is"))?,
            waits: Waits::default(),
            watches: Watches::default(),
            changes: super::changes::Changes::default(),
            reports: super::report_pipe::ReportPipes::default(),
            usual: super::report::Usual::default(),
            outbox: Outbox::default(),
            collector: Collector::default(),
            outputs: FilesWatch::new().map_err(machine("watch files"))?,
            post: Post::new(home, lock).map_err(machine("look at the lock of this home"))?,
            feeds: Feeds::default(),
            blank: super::blank::Blank::default(),
            sweep: Sweep::default(),
            prunes,
            pack_at_ms: None,
            endings: Endings::default(),
            round: Round::default(),
            seen: None,
            keepers: BTreeMap::new(),
            inherited: Inherited::default(),
            orphans: Orphans::default(),
            troubles,
            started_ms: process::wall_ms(),
            adopted: 0,
            places,
            witnesses: 0,
            spare: open_spare(),
            accept_at_ms: None,
            takeovers: BTreeSet::new(),
            unsent: super::hand::Unsent::default(),
            goings_on: super::go_on::GoingsOn::default(),
            unread: super::unread::Unread::default(),
            leaving: false,
            leave_at_ms: None,
        };
        daemon.watch_sources()?;
        daemon.watch_home();
        Ok(daemon)
    }

    /// Has the loop woken by what does not come and go with tasks and clients.
    fn watch_sources(&mut self) -> Result<(), DaemonError> {
        let wakers = [
            (self.news.as_raw_fd(), Source::News, "watch the news"),
            (self.signals.as_raw_fd(), Source::Signals, "watch signals"),
            (self.outputs.as_raw_fd(), Source::Outputs, "watch files"),
        ];
        for (fd, source, act) in wakers {
            let token = self.token(source);
            self.poll.registry().register(&mut SourceFd(&fd), token, Interest::READABLE).map_err(machine(act))?;
        }
        Ok(())
    }

    /// Opens the socket of this home, and lets go of the one before, if there was one.
    pub(super) fn listen(&mut self) -> Result<(), DaemonError> {
        let listener = socket::listen(self.home.socket_dir(), SOCKET_NAME).map_err(DaemonError::Listen)?;
        listener.set_nonblocking(true).map_err(DaemonError::Listen)?;
        let mut listener = mio::net::UnixListener::from_std(listener);
        self.sources.retain(|_, source| *source != Source::Listener);
        let token = self.token(Source::Listener);
        self.poll.registry().register(&mut listener, token, Interest::READABLE).map_err(DaemonError::Listen)?;
        self.connections.listener = Some(listener);
        self.post.listens_at(&self.home.socket());
        Ok(())
    }
}
