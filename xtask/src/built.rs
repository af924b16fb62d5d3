//! What cargo builds for the tasks, and where it lies.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Done;

/// The workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(PathBuf::new, Path::to_owned)
}

/// The folder of the build.
pub(crate) fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Cargo, in the workspace, as it was called.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// Builds the program as it is shipped; its path.
pub(crate) fn release() -> Done<PathBuf> {
    let built = cargo().args(["build", "--release", "--quiet", "--package", "ringback"]).status()?;
    if built.success() { Ok(target().join("release/ringback")) } else { Err("ringback was not built".into()) }
}
