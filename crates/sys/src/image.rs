//! The keeper's own binary, embedded by `build.rs`, so that `cargo build` and `cargo install` bring one file.

/// The freestanding keeper, ready to be written to a file and executed; empty where there is none (see [`is_there`]).
pub fn bytes() -> &'static [u8] {
    include_bytes!(concat!(env!("OUT_DIR"), "/ringback-keeper"))
}

/// Whether there is a binary; else the main binary has to serve as keeper (`keeper::run`) at about thirty times the memory.
pub fn is_there() -> bool {
    !bytes().is_empty()
}
