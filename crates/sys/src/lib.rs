//! The machine: processes, files and sockets as ringback needs them. The only `unsafe` of the project.
//!
//! Verbs without policy: nothing here waits longer than it is told to, tries again, logs, or knows what a session is.
//! It answers or gives an [`std::io::Error`].

pub mod form;

pub mod identity;
pub mod pidfd;
pub mod reap;
pub mod signals;

pub mod files;
pub mod folder;
pub mod growth;
pub mod lock;
pub mod task_files;
pub mod watch;

#[cfg(all(test, target_os = "linux", target_arch = "x86_64"))]
#[expect(dead_code, reason = "it runs in bytes of its own; here its parts are tested")]
mod front;
pub mod image;
#[cfg(target_os = "linux")]
pub mod keeper;
#[cfg(target_os = "linux")]
mod raw;

pub mod birth;
pub mod cgroup;
pub mod entry;
pub mod launch;
pub mod process;
pub mod sandbox;
mod spawn;
pub mod terminal;

pub mod confine;
pub mod port;
pub mod socket;

#[cfg(test)]
mod scratch;
