//! The MCP server: seven tools over the daemon's client, for both generations of the protocol.
//!
//! A shim: it holds no task and no rule. Everything it says is in the daemon's store, so it may be killed at any time. It
//! answers before a daemon runs, finds a restarted one by itself, and leaves only when its stdin closes.

mod answer;
mod args;
mod courier;
mod excerpt;
mod heard;
mod link;
mod server;
mod speaker;
mod task;
mod tool;
mod tools;
mod window;

use std::sync::Arc;

use crate::explain::Done;
use server::Server;

/// How many calls may occupy a thread at once. A waiting call costs a sleeping thread (64 KiB of touched stack at most),
/// and an agent that waits for hundreds of tasks one by one should have named them in one call.
const CALLS_MAX: usize = 512;

/// Serves MCP on stdin and stdout until stdin closes.
pub(crate) fn serve() -> Done {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(CALLS_MAX)
        .thread_name("call")
        .build()?;
    runtime.block_on(courier::serve_stdio(Arc::new(Server::new())));
    // Calls that still wait are given up; the tasks run on.
    runtime.shutdown_background();
    Ok(0)
}
