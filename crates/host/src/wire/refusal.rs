//! The codes with which a daemon refuses a client or its version, which the client acts on: nothing was done.

use super::reply::Fault;

/// Who is calling cannot be seen.
pub const UNKNOWN_CALLER: &str = "unknown_caller";
/// The caller is another user.
pub const OTHER_USER: &str = "other_user";
/// The caller is more confined than whom it asks.
pub const CONFINED_CALLER: &str = "confined_caller";
/// There is no descriptor left to see the caller with.
pub const RESOURCES: &str = "resources";
/// There is no descriptor left for another client.
pub const TOO_MANY_CLIENTS: &str = "too_many_clients";
/// The request cannot be read.
pub const BAD_FRAME: &str = "bad_frame";
/// The client is newer than the daemon, and may put one of its own version in its place.
pub const DAEMON_OLDER: &str = "daemon_older";

impl Fault {
    /// Whether it is about who asks, whatever that is.
    pub fn is_of_caller(&self) -> bool {
        matches!(self.code.as_str(), UNKNOWN_CALLER | OTHER_USER | CONFINED_CALLER)
    }

    /// Whether whoever is told this is let go: what he asks next would meet a connection that is about to close.
    pub fn is_farewell(&self) -> bool {
        self.is_of_caller() || matches!(self.code.as_str(), RESOURCES | TOO_MANY_CLIENTS | BAD_FRAME)
    }
}
