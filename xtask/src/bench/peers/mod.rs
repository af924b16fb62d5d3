//! The peers: programs of others that put a command into the background, measured where they are installed.

mod install;
mod programs;
mod servers;

use std::env;
use std::path::{Path, PathBuf};

use crate::built;

pub(crate) use install::install;
pub(crate) use programs::{Peer, start_all};
pub(crate) use servers::start_servers;

/// Where `--install-peers` puts those that are not in Debian: beside the build, or where `RINGBACK_PEERS` says.
pub(crate) fn folder() -> PathBuf {
    env::var_os("RINGBACK_PEERS").map_or_else(|| built::target().join("peers"), PathBuf::from)
}

/// The program as a path: without one, `posix_spawn` looks through the whole PATH in every sample.
fn find(program: &str) -> Option<PathBuf> {
    if program.starts_with('/') {
        return Some(program.into());
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let places = [folder().join("bin")].into_iter().chain(env::split_paths(&path).collect::<Vec<_>>());
    places.map(|dir| dir.join(program)).find(|path| Path::is_file(path))
}
