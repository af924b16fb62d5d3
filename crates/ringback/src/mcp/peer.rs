//! Whether whoever is at the other end of an HTTP connection may ask: nobody leaves a sandbox through a server outside.
//!
//! The daemon judges its callers, and would see this server alone. So the server judges its own by the same measure, once
//! for each connection.

use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ringback_host::config::{Config, Confined};
use ringback_host::confined;
use ringback_sys::confine::Confinement;
use tokio::sync::{OnceCell, Semaphore};

use crate::explain::Failure;

/// How long one look at the sockets and processes of the machine may take. Seen: 0.1 s for two thousand processes on two
/// busy cores, in a debug build.
const LOOK_MAX: Duration = Duration::from_secs(5);

/// What callers are measured by.
pub(super) struct Measure {
    /// How free this server is; nothing if the config lets in whoever is less free.
    own: Option<Confinement>,
    /// For the one look at a time: who connects without end keeps one processor busy at most.
    turn: Semaphore,
}

/// One connection, and what the look at its other end has found.
pub(super) struct Peer {
    /// The connection once more, until it is looked at.
    stream: Mutex<Option<TcpStream>>,
    refusal: OnceCell<Option<Failure>>,
}

impl Peer {
    /// The other end of a TCP connection; nobody has looked yet.
    pub(super) fn new(stream: impl AsFd) -> io::Result<Self> {
        let stream = TcpStream::from(stream.as_fd().try_clone_to_owned()?);
        Ok(Self { stream: Mutex::new(Some(stream)), refusal: OnceCell::new() })
    }
}

impl Measure {
    /// What the config says, and how free this process is.
    pub(super) fn take() -> Result<Self, Failure> {
        let own = match Config::load()?.confined {
            Confined::Allow => None,
            Confined::Refuse => Some(Confinement::own().map_err(|error| {
                let hint = "`ringback doctor` says what is missing here".to_owned();
                Failure::of("http", &error, Some(hint))
            })?),
        };
        Ok(Self { own, turn: Semaphore::new(1) })
    }

    /// Why this peer is not served; it is looked at when it first asks.
    pub(super) async fn refusal<'a>(&self, peer: &'a Peer) -> Option<&'a Failure> {
        let own = self.own.as_ref()?;
        peer.refusal.get_or_init(|| self.look(own, peer)).await.as_ref()
    }

    async fn look(&self, own: &Confinement, peer: &Peer) -> Option<Failure> {
        // It is never closed; without a turn the look would only be one more.
        let _turn = self.turn.acquire().await;
        let (own, stream) = (own.clone(), peer.stream.lock().unwrap_or_else(PoisonError::into_inner).take());
        let look = tokio::task::spawn_blocking(move || {
            // It was taken by a look that nobody waited for.
            let stream = stream.ok_or(io::ErrorKind::NotFound)?;
            own.beyond_over_tcp(&stream, LOOK_MAX)
        });
        let seen = look.await.unwrap_or_else(|broken| Err(io::Error::other(broken)));
        confined::refusal(seen, "this server").map(Failure::from)
    }
}
