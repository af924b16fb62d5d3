//! `ringback mcp`: serves the Model Context Protocol to an agent.

use clap::Args;

use super::door::Door;
use crate::explain::Done;

/// Serve an agent over MCP on stdin and stdout
///
/// For example `claude mcp add ringback -- ringback mcp`. It leaves when its stdin closes; tasks run on.
#[derive(Debug, Args)]
pub(crate) struct Mcp {}

impl Mcp {
    /// Serves.
    #[expect(clippy::unused_self, reason = "every verb has the same shape")]
    pub(crate) fn perform(self, _door: Door) -> Done {
        crate::mcp::serve()
    }
}
