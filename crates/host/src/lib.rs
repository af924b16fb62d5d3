//! Keeps, serves and drives: the store, the wire, the daemon's loop and the client.

pub mod client;
pub mod config;
pub mod confined;
pub mod daemon;
pub mod home;
pub mod limits;
pub mod mask;
pub mod pattern;
pub mod quantity;
pub mod sink;
pub mod spoken;
pub mod store;
pub mod wire;
