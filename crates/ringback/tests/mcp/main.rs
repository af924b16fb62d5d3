//! The MCP door, seen from its other side: raw messages on stdin and stdout of the real program.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod agent;
mod ahead;
mod bad_input;
mod deaths;
mod heard;
#[cfg(feature = "mcp-http")]
mod http;
mod protocol;
#[cfg(feature = "mcp-http")]
mod real_clients;
mod resources;
mod tasks;
mod tools;
