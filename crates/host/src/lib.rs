//! Keeps, serves and drives: the store, the wire, the daemon's loop and the client.

pub mod store;
pub mod wire;
