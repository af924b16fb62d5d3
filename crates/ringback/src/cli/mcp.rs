//! `ringback mcp`: serves the Model Context Protocol to an agent.

use clap::Args;

use super::door::Door;
use crate::explain::Done;

/// Serve an agent over MCP on stdin and stdout
///
/// For example `claude mcp add ringback -- ringback mcp`. It leaves when its stdin closes; tasks run on.
#[derive(Debug, Args)]
pub(crate) struct Mcp {
    /// Serve over HTTP instead, on loopback, for clients that have the token: PORT (0 takes a free one) or ADDRESS:PORT
    #[cfg(feature = "mcp-http")]
    #[arg(long, value_name = "ADDR")]
    http: Option<String>,
}

impl Mcp {
    /// Serves.
    #[cfg(feature = "mcp-http")]
    pub(crate) fn perform(self, door: Door) -> Done {
        match self.http {
            Some(address) => serve_http(door, &address),
            None => crate::mcp::serve(),
        }
    }

    /// Serves.
    #[cfg(not(feature = "mcp-http"))]
    #[expect(clippy::unused_self, reason = "every verb has the same shape")]
    pub(crate) fn perform(self, _door: Door) -> Done {
        crate::mcp::serve()
    }
}

#[cfg(feature = "mcp-http")]
fn serve_http(door: Door, address: &str) -> Done {
    crate::mcp::serve_http(address, |url, token_path| {
        let token_file = token_path.to_string_lossy();
        door.note(&format!("serving with the token in {}", crate::render::clean::line(&token_file)));
        if door.json {
            let facts = serde_json::json!({ "url": url, "token_file": token_file });
            return super::door::document(&crate::render::json::document(facts));
        }
        super::door::out(&format!("{url}\n"))
    })
}
