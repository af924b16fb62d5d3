//! What a client has to know of a request to ask it again, or not.

use std::time::{Duration, Instant};

use crate::quantity::millis;
use crate::wire::Request;

/// Takes the time that has passed off what a request may still wait.
pub(super) fn shorten(request: &mut Request, since: &mut Instant) {
    if let Request::Wait { timeout_ms: Some(left), .. }
    | Request::Inbox { wait_ms: Some(left), .. }
    | Request::News { wait_ms: left, .. } = request
    {
        let now = Instant::now();
        *left = left.saturating_sub(millis(now - *since));
        *since = now;
    }
}

/// How long a request waits for what may never come, where it says so itself.
pub(super) fn own_wait(request: &Request) -> Option<Duration> {
    match request {
        Request::Wait { timeout_ms: wait_ms, .. } | Request::Inbox { wait_ms, .. } => {
            wait_ms.map(Duration::from_millis)
        }
        Request::News { wait_ms, .. } => Some(Duration::from_millis(*wait_ms)),
        _ => None,
    }
}

/// Whether this begins a task, which has to run where its client is.
pub(super) fn starts_task(request: &Request) -> bool {
    matches!(request, Request::Run(_) | Request::Spoken(_) | Request::Retry { .. })
}

/// The verb of a request that is asked once only; nothing if asking twice does the same as asking once.
pub(super) fn asked_once(request: &Request) -> Option<&'static str> {
    match request {
        Request::List { .. }
        | Request::Show { .. }
        | Request::Wait { .. }
        | Request::Resize { .. }
        | Request::Kill { .. }
        | Request::Release { .. }
        | Request::Inbox { .. }
        | Request::News { .. }
        | Request::Ack { .. }
        | Request::Claim { .. }
        | Request::SessionEnd { .. }
        | Request::SessionWatch { .. }
        | Request::SessionLease { .. }
        | Request::Sessions
        | Request::Report { .. }
        | Request::Status => None,
        Request::Run(_) | Request::Spoken(_) => Some("run"),
        Request::Retry { .. } => Some("retry"),
        Request::Signal { .. } => Some("kill --signal"),
        Request::Send { .. } => Some("send"),
        Request::Remove { .. } => Some("rm"),
        Request::Prune { .. } => Some("prune"),
        // The numbers of another daemon are others.
        Request::Changes { .. } => Some("top"),
        Request::Stop => Some("daemon stop"),
    }
}

/// Whether it makes a difference if this is done after its client has given it up.
pub(super) fn leaves_traces(request: &Request) -> bool {
    asked_once(request).is_some() && !matches!(request, Request::Changes { .. } | Request::Stop)
}
