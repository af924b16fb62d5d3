//! The way to the daemon for as long as the client is there, and what is said where it leads nowhere.

use std::borrow::Cow;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::ErrorData;
use tokio::sync::watch;
use tokio::time::sleep;

use super::link::Link;
use crate::explain::Failure;
use crate::render::clean;

/// How long calls may still take once stdin has closed: enough for an answer to a client that closed it right away.
const CLOSING: Duration = Duration::from_secs(1);

/// The way to the daemon, for all calls of one client.
#[derive(Clone)]
pub(super) struct Reach {
    pub(super) link: Arc<Link>,
    closing: watch::Sender<bool>,
}

impl Default for Reach {
    fn default() -> Self {
        Self { link: Arc::default(), closing: watch::Sender::new(false) }
    }
}

impl Reach {
    /// The client has left: what still blocks comes to an end.
    pub(super) fn close(&self) {
        self.closing.send_replace(true);
    }

    /// When the client has left.
    pub(super) fn closed(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut closing = self.closing.subscribe();
        async move { drop(closing.wait_for(|closed| *closed).await) }
    }

    /// When a call has blocked long enough.
    pub(super) fn patience(&self, limit: Duration) -> impl Future<Output = ()> + Send + use<> {
        let closed = self.closed();
        async move {
            tokio::select! {
                () = sleep(limit) => {}
                () = async { closed.await; sleep(CLOSING).await; } => {}
            }
        }
    }
}

/// An error in the protocol's own terms.
pub(super) fn protocol_error(failure: &Failure) -> ErrorData {
    let hint = failure.hint.as_deref().map(|hint| format!("; {hint}")).unwrap_or_default();
    let message: Cow<'static, str> = format!("{}{hint}", clean::line(&failure.message)).into();
    if is_of_daemon(failure) {
        ErrorData::internal_error(message, None)
    } else {
        ErrorData::invalid_params(message, None)
    }
}

/// Whether the daemon could not be spoken to at all, so that asking it for more is in vain.
pub(super) fn is_of_daemon(failure: &Failure) -> bool {
    matches!(
        failure.code.as_str(),
        "home"
            | "config"
            | "connect"
            | "daemon_start"
            | "confined"
            | "daemon_confined"
            | "protocol"
            | "bad_answer"
            | "io"
    )
}
