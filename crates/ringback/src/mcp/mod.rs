//! The MCP server: seven tools over the daemon's client, for both generations of the protocol.
//!
//! A shim: it holds no task and no rule. Everything it says is in the daemon's store, so it may be killed at any time. It
//! answers before a daemon runs, finds a restarted one by itself, and leaves only when its stdin closes.

mod ahead;
mod alive;
mod answer;
mod args;
#[cfg(feature = "mcp-http")]
mod batch;
mod bell;
mod courier;
mod excerpt;
#[cfg(feature = "mcp-http")]
mod flight;
mod heard;
#[cfg(feature = "mcp-http")]
mod http;
mod link;
mod message;
#[cfg(feature = "mcp-http")]
mod peer;
mod reach;
mod resource;
mod server;
mod speaker;
mod stdio;
mod subscribe;
mod task;
mod tool;
mod tools;
mod window;

use std::io;
#[cfg(feature = "mcp-http")]
use std::path::Path;
use std::sync::Arc;

use tokio::runtime::{Builder, Runtime};

use crate::explain::Done;
#[cfg(feature = "mcp-http")]
use crate::explain::Failure;
use server::Server;

/// How many calls may occupy a thread at once. Each has three descriptors, and a process often has 1024.
const CALLS_MAX: usize = 256;
/// How many of them may be waits, so that a stop always finds a thread. An agent that waits for more tasks than this one by
/// one should name them in one call.
const WAITS_MAX: usize = 200;

/// Serves MCP over HTTP for ever; `ready` is told the address and the file of the token.
#[cfg(feature = "mcp-http")]
pub(crate) fn serve_http(address: &str, ready: impl FnOnce(&str, &Path) -> Result<(), Failure>) -> Done {
    runtime()?.block_on(async {
        let door = http::Door::open(address).await?;
        ready(&door.url(), door.token_path())?;
        Err(door.serve(Arc::new(Server::new())).await)
    })
}

fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().max_blocking_threads(CALLS_MAX).thread_name("call").build()
}

/// Serves MCP on stdin and stdout until stdin closes.
pub(crate) fn serve() -> Done {
    let runtime = runtime()?;
    runtime.block_on(courier::serve_stdio(Arc::new(Server::new())));
    // Calls that still wait are given up; the tasks run on.
    runtime.shutdown_background();
    Ok(0)
}
