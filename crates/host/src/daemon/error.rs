//! Why a daemon cannot start or go on.

use std::io;
use std::path::PathBuf;

use crate::home::HomeError;
use crate::store::StoreError;
use crate::wire::Fault;

/// Why a daemon cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// Another daemon serves this home.
    #[error("another daemon serves this home")]
    AlreadyRunning,
    /// This process is in a sandbox.
    #[error("this process is confined ({why}), so it cannot serve everybody")]
    Confined {
        /// In which way.
        why: &'static str,
    },
    /// The home cannot be used.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The store cannot be used.
    #[error("cannot open the database")]
    Store(#[from] StoreError),
    /// The keeper program cannot be put anywhere it could be executed from.
    #[error("cannot install the keeper program")]
    Keeper(#[source] io::Error),
    /// The socket cannot be opened.
    #[error("cannot listen on the socket of this home")]
    Listen(#[source] io::Error),
    /// The home was moved or removed while we served it.
    #[error("the home is no longer at {}: it was moved or removed", home.display())]
    Moved {
        /// Where it was.
        home: PathBuf,
    },
    /// The machine refused something else.
    #[error("cannot {act}")]
    Machine {
        /// What was tried.
        act: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl DaemonError {
    /// What can be done next.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Moved { .. } => Some("set RINGBACK_HOME to where it is now; its tasks run on".into()),
            Self::AlreadyRunning => Some("`ringback daemon status` shows it".into()),
            Self::Confined { .. } => {
                Some("start it outside of the sandbox, or set `confined = \"allow\"` in the config".into())
            }
            Self::Home(error) => Some(error.hint()),
            Self::Store(StoreError::TooNew { .. }) => {
                Some("install the ringback that wrote this home, or a newer one".into())
            }
            Self::Store(
                StoreError::Foreign(path) | StoreError::Damaged { path, .. } | StoreError::Planted { path, .. },
            ) => Some(format!("move {} away, or set RINGBACK_HOME to another folder", path.display())),
            Self::Store(error) if error.is_space() => Some("free some space on the disk of the home".into()),
            Self::Store(_) | Self::Keeper(_) | Self::Listen(_) | Self::Machine { .. } => {
                Some("`ringback doctor` looks at the home and the machine".into())
            }
        }
    }
}

/// Names the act of a failed call.
pub(super) fn machine(act: &'static str) -> impl Fn(io::Error) -> DaemonError {
    move |source| DaemonError::Machine { act, source }
}

/// A fault; an empty hint is none.
pub(super) fn fault(code: &str, message: String, hint: String) -> Fault {
    Fault { code: code.into(), message, hint: Some(hint).filter(|hint| !hint.is_empty()) }
}

/// The store failed where a client waits for an answer.
pub(super) fn store_fault(error: &StoreError) -> Fault {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    Fault {
        code: "store_failed".into(),
        message: format!("cannot read the database: {error}{cause}"),
        hint: Some("`ringback doctor` looks at the home".into()),
    }
}
