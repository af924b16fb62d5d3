//! What can go wrong between a client and its daemon, each with its next step.

use std::io;
use std::path::PathBuf;

use ringback_sys::confine::own_is_confined;
use ringback_sys::identity;

use super::silence::is_stopped;
use crate::config::ConfigError;
use crate::confined;
use crate::home::HomeError;
use crate::wire::{Fault, FrameError, VERSION};

/// Why a request got no answer, or an answer that is an error.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// There is no usable home.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The config cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Nobody listens, and we were asked not to start a daemon.
    #[error("no daemon is running for home {}", home.display())]
    NoDaemon {
        /// The home.
        home: PathBuf,
    },
    /// The socket is there and cannot be used.
    #[error("cannot reach the daemon at {}", socket.display())]
    Connect {
        /// The socket.
        socket: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Something else has the name of the socket.
    #[error("cannot reach the daemon: {} is not a socket", socket.display())]
    InTheWay {
        /// The name.
        socket: PathBuf,
    },
    /// The program that is to be the daemon cannot be found.
    #[error("cannot start the daemon: `ringback` is not on the PATH")]
    NoProgram,
    /// The program that is to be the daemon cannot be executed.
    #[error("cannot start the daemon with {}", program.display())]
    Spawn {
        /// The program.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Somebody has the turn to start the daemon, and comes to no end.
    #[error("cannot start the daemon: {} holds {} and does not let go", holder_text(holder.as_ref()), lock.display())]
    StartHeld {
        /// What each client holds while it starts a daemon.
        lock: PathBuf,
        /// Who has it, if that can be seen.
        holder: Option<Holder>,
    },
    /// The daemon said why it cannot serve, or left without a word.
    #[error("the daemon did not start: {message}")]
    Start {
        /// Its last words.
        message: String,
        /// Where it logs.
        log: PathBuf,
    },
    /// We are in a sandbox, and a daemon that we start would hold everybody's tasks in it.
    #[error("no daemon is running, and this process is too confined to start one for all ({what})")]
    Confined {
        /// What confines us.
        what: String,
    },
    /// The daemon is in a sandbox that we are not in.
    #[error("the daemon is more confined than this process ({what}), so tasks would not see what you see")]
    DaemonConfined {
        /// What confines it.
        what: String,
    },
    /// The other side speaks another protocol.
    #[error("the daemon is version {theirs}, this is {VERSION}, and they do not understand each other")]
    Protocol {
        /// The daemon's version.
        theirs: String,
        /// Whether the daemon is the older one.
        older: bool,
    },
    /// The other side's bytes are not what was agreed on.
    #[error("cannot understand the daemon")]
    Frame(#[from] FrameError),
    /// The daemon left in the middle of something that must not be asked twice.
    #[error("the daemon was gone before it answered `{what}`; it may have been done")]
    Gone {
        /// What was asked.
        what: &'static str,
    },
    /// The home was moved or removed, and its daemon left.
    #[error("the home is no longer at {}: it was moved or removed", home.display())]
    HomeMoved {
        /// Where it was.
        home: PathBuf,
    },
    /// The daemon leaves again and again.
    #[error("the daemon went away {tries} times in the middle of a request")]
    Unsteady {
        /// How often.
        tries: u32,
    },
    /// The daemon neither answers nor leaves.
    #[error("the daemon (pid {pid}) does not answer{}", if *stopped { ": it is stopped (state T)" } else { "" })]
    Silent {
        /// Its process.
        pid: i32,
        /// Whether somebody has stopped it.
        stopped: bool,
        /// What it was asked for that must not be asked twice.
        what: Option<&'static str>,
    },
    /// The connection broke in another way.
    #[error("the connection to the daemon broke")]
    Io(#[from] io::Error),
    /// The answer does not belong to the question.
    #[error("the daemon gave an answer to another question")]
    Unexpected,
    /// The daemon could not do it.
    #[error("{}", .0.message)]
    Fault(Fault),
}

/// The process that holds a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its id.
    pub pid: i32,
    /// The name of its program, harmless to print; empty if it is gone by now.
    pub program: String,
    /// Whether somebody has stopped it.
    pub stopped: bool,
}

impl Holder {
    /// The process with this id as it is now.
    pub(super) fn of(pid: i32) -> Self {
        let stat = identity::stat(pid);
        let program = stat.map(|stat| stat.comm.escape_debug().to_string()).unwrap_or_default();
        Self { pid, program, stopped: is_stopped(pid) }
    }
}

fn holder_text(holder: Option<&Holder>) -> String {
    match holder {
        None => "somebody".to_owned(),
        Some(Holder { pid, program, stopped }) => {
            let state = if *stopped { ", stopped (state T)" } else { "" };
            format!("`{program}` (pid {pid}{state})")
        }
    }
}

impl ClientError {
    /// A word that programs can compare.
    pub fn code(&self) -> &str {
        match self {
            Self::Home(_) => "home",
            Self::Config(_) => "config",
            Self::NoDaemon { .. } => "no_daemon",
            Self::HomeMoved { .. } => "home_moved",
            Self::Connect { .. } | Self::InTheWay { .. } => "connect",
            Self::NoProgram | Self::Spawn { .. } | Self::Start { .. } | Self::StartHeld { .. } => "daemon_start",
            Self::Confined { .. } => "confined",
            Self::DaemonConfined { .. } => "daemon_confined",
            Self::Protocol { .. } => "protocol",
            Self::Frame(_) | Self::Unexpected => "bad_answer",
            Self::Gone { .. } | Self::Unsteady { .. } => "daemon_gone",
            Self::Silent { .. } => "daemon_silent",
            Self::Io(_) => "io",
            Self::Fault(fault) => &fault.code,
        }
    }

    /// What can be run or changed next.
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Home(error) => error.hint(),
            Self::Config(error) => error.hint(),
            Self::HomeMoved { .. } => "set RINGBACK_HOME to where it is now; its tasks run on".to_owned(),
            Self::NoDaemon { .. } => "`ringback daemon run` starts one; so does `ringback run`".to_owned(),
            Self::Connect { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                match own_is_confined() {
                    None => "is the home yours? `ringback doctor` looks".to_owned(),
                    Some(why) => format!("this process is in a sandbox ({why}): {}", confined::INSTEAD),
                }
            }
            Self::InTheWay { socket } => format!("move {} away, and ask again", socket.display()),
            Self::NoProgram => "put `ringback` on the PATH".to_owned(),
            Self::StartHeld { holder: Some(Holder { pid, stopped: true, .. }), .. } => {
                format!("`kill -CONT {pid}` lets it go on")
            }
            Self::StartHeld { holder: Some(Holder { pid, .. }), .. } => format!("`kill {pid}` ends it; then ask again"),
            Self::StartHeld { lock, holder: None } => format!("`fuser -v {}` may name it", lock.display()),
            Self::Start { log, .. } => format!("see {}, and run `ringback doctor`", log.display()),
            Self::Confined { .. } => {
                "run `ringback daemon restart` once outside the sandbox, or set `confined = \"allow\"` in the config"
                    .to_owned()
            }
            Self::DaemonConfined { .. } => {
                "`ringback daemon restart` starts one from here; running tasks go on".to_owned()
            }
            Self::Protocol { older: true, .. } => "`ringback daemon restart`; running tasks go on".to_owned(),
            Self::Protocol { older: false, .. } => "use the newer ringback, which the daemon is of".to_owned(),
            Self::Silent { pid, stopped, what } => {
                let mend = if *stopped {
                    format!("`kill -CONT {pid}` lets it go on; tasks run on meanwhile")
                } else {
                    format!("kill -KILL {pid}: tasks run on, and the next client starts a daemon")
                };
                let open = what.map(|what| format!("; `{what}` may still be done: look with `ringback ps -a` first"));
                mend + &open.unwrap_or_default()
            }
            Self::Gone { .. } => "look with `ringback ps -a` before you ask again".to_owned(),
            Self::Fault(fault) => return fault.hint.clone(),
            Self::Connect { .. }
            | Self::Spawn { .. }
            | Self::Frame(_)
            | Self::Unsteady { .. }
            | Self::Io(_)
            | Self::Unexpected => "`ringback doctor` says more".to_owned(),
        };
        Some(text)
    }
}
