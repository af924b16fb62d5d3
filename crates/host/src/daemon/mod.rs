//! The daemon: one thread, one loop. What happened → the core decides → record, act, tell.
//!
//! It may die at any instruction. What it had told anybody is in the store; what runs is held by keepers; a new daemon
//! reads both. Start reading at `drive.rs`, then `round.rs`.

mod act;
mod adopt;
mod answer;
mod ask;
mod blank;
mod changes;
mod claim;
mod collect;
mod connections;
mod crash;
mod drive;
mod errand;
mod error;
mod folder;
mod go_on;
mod hand;
mod hear;
mod hold_back;
mod inherited;
mod live;
mod log_ahead;
mod outbox;
mod pack;
mod pattern;
mod places;
mod post;
mod prune;
mod report;
mod report_pipe;
mod round;
mod run;
mod serve;
mod sessions;
mod sight;
mod sighted;
mod space;
mod spoken;
mod start;
mod stdin;
mod sweep;
mod tell;
mod terminal;
mod troubles;
mod unread;
mod unwritten;
mod view;
mod wait;
mod watching;

pub use crash::CRASH_POINTS;
pub use error::DaemonError;
pub(crate) use sight::gaps;
pub use start::run;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;

use mio::{Poll, Token};
use ringback_core::board::Board;
use ringback_core::id::TaskId;
use ringback_sys::cgroup::Cgroups;
use ringback_sys::confine::Confinement;
use ringback_sys::form::record::Record;
use ringback_sys::growth::FilesWatch;
use ringback_sys::launch::KeeperImage;
use ringback_sys::signals::SignalFd;

use crate::config::Config;
use crate::home::Home;
use crate::spoken::Reader;
use crate::store::Store;
use blank::Blank;
use changes::Changes;
use collect::Collector;
use connections::Connections;
use inherited::{Inherited, Kept};
use live::{Live, Orphans};
use log_ahead::LogAhead;
use outbox::Outbox;
use places::Places;
use post::Post;
use prune::Prunes;
use report::Usual;
use report_pipe::ReportPipes;
use round::Round;
use sessions::Endings;
use space::Space;
use stdin::Feeds;
use sweep::Sweep;
use troubles::Troubles;
use wait::Waits;
use watching::Watches;

/// Everything the daemon has. One owner, no locks.
struct Daemon {
    home: Home,
    config: Config,
    store: Store,
    space: Space,
    board: Board,
    /// Every task that is not closed, by id: the same ones as on the board.
    lives: BTreeMap<TaskId, Live>,
    image: KeeperImage,
    /// Where tasks get cgroups, or why they get none.
    cgroups: Result<Cgroups, String>,
    poll: Poll,
    sources: BTreeMap<Token, Source>,
    next_token: usize,
    news: File,
    signals: SignalFd,
    connections: Connections,
    own: Confinement,
    /// Reads command lines.
    reader: Reader,
    waits: Waits,
    /// Running tasks that are to be spoken of before they end.
    watches: Watches,
    /// Notices on their way to sinks.
    outbox: Outbox,
    /// Reads the report files of ended tasks.
    collector: Collector,
    /// Tells which of their outputs have grown, and what becomes of the home.
    outputs: FilesWatch,
    post: Post,
    /// What is to be written to stdins.
    feeds: Feeds,
    /// The folder of the next task.
    blank: Blank,
    log_ahead: LogAhead,
    /// Folders that a crash may have left.
    sweep: Sweep,
    prunes: Prunes,
    /// When outputs are packed next.
    pack_at_ms: Option<u64>,
    /// Tells live views that there is something new.
    changes: Changes,
    /// Where commands report their progress.
    reports: ReportPipes,
    /// How long commands took.
    usual: Usual,
    endings: Endings,
    round: Round,
    /// The record that is looked at now.
    seen: Option<(TaskId, Record)>,
    /// Our children that are keepers.
    keepers: BTreeMap<i32, Kept>,
    inherited: Inherited,
    orphans: Orphans,
    troubles: Troubles,
    started_ms: i64,
    adopted: u64,
    /// For how many of each there are descriptors.
    places: Places,
    /// How many of them hold what outlasts a killed keeper.
    witnesses: usize,
    /// Given up to answer a client for whom there is no descriptor.
    spare: Option<File>,
    /// When clients are accepted again that could not be.
    accept_at_ms: Option<u64>,
    /// Tasks whose keeper is to be replaced, and when: not at once if it died just after its start.
    takeovers: BTreeSet<(u64, TaskId)>,
    /// What could not be handed to a keeper.
    unsent: hand::Unsent,
    /// Keepers that are to go on should somebody have stopped them.
    goings_on: go_on::GoingsOn,
    unread: unread::Unread,
    leaving: bool,
    leave_at_ms: Option<u64>,
}

/// What can wake the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// A client wants to connect.
    Listener,
    /// A client sent something, or can take more.
    Client,
    /// A keeper wrote a hint.
    News,
    /// A signal arrived.
    Signals,
    /// The output of a watched task has grown, or something has happened to the home.
    Outputs,
    /// The keeper of this task is gone.
    Keeper(TaskId),
    /// The main process of this task has ended.
    Main(TaskId),
    /// A process whose exit ends a session is gone.
    Watched,
    /// The stdin of a task can take more.
    Stdin,
    /// This task has reported its progress.
    Reports(TaskId),
}

impl Daemon {
    fn token(&mut self, source: Source) -> Token {
        let token = Token(self.next_token);
        self.next_token += 1;
        self.sources.insert(token, source);
        token
    }

    fn dir(&self, id: TaskId) -> std::path::PathBuf {
        self.home.task_dir(&id.to_string())
    }
}
