//! What `run` holds a command to: how much its tree may use, and where it may write.

use clap::{Args, ValueEnum};
use ringback_host::client::Client;
use ringback_host::limits::Limits;
use ringback_host::wire::{Reply, Request, RunRequest, TaskObject};

use super::door::Door;
use crate::render::held;

/// The options.
#[derive(Debug, Default, Args)]
pub(super) struct HoldBack {
    /// Limit what it may use with all that it starts: by its cgroup, else by what the kernel has; `ringback show` says by what
    #[arg(long, value_name = "mem=SIZE,pids=N,cpu=N%", value_parser = limits)]
    limit: Option<Limits>,
    /// Where it may write
    #[arg(long, value_enum, default_value_t, value_name = "WHERE")]
    sandbox: Sandbox,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Sandbox {
    /// Everywhere that you may
    #[default]
    None,
    /// Nowhere but to its output and to $TMPDIR, a folder of its own that goes with its end (Landlock); else it is not started
    Ro,
    /// The same, and below the folder it runs in
    Cwd,
    /// As ro, but where the kernel cannot do that it runs all the same, which is said
    RoIfPossible,
    /// As cwd, but where the kernel cannot do that it runs all the same, which is said
    CwdIfPossible,
}

fn limits(text: &str) -> Result<Limits, String> {
    Limits::parse(text).map_err(|error| error.to_string())
}

impl HoldBack {
    /// Writes them into a request.
    pub(super) fn put(&self, request: &mut RunRequest) {
        request.limit = self.limit.unwrap_or_default();
        request.sandbox = super::run::word(&self.sandbox);
    }

    /// Says what of them does not hold, as far as that is known by now.
    pub(super) fn warn(door: Door, client: &mut Client, task: &TaskObject) {
        // The task may have limits of the config, too.
        if (task.limits.is_none() && task.sandbox.is_none()) || door.quiet {
            return;
        }
        let hint = format!("`ringback show {}` says what holds each limit; `ringback doctor` says why", task.id);
        if let Some(text) = held::shortfall(task) {
            door.warn(&text, &hint);
        } else if let (None, Some(limits)) = (&task.started_at, &task.limits) {
            let limits = Limits {
                mem_bytes: limits.mem.as_ref().map(|mem| mem.bytes),
                pids: limits.pids.as_ref().map(|pids| pids.max),
                cpu_percent: limits.cpu.as_ref().map(|cpu| cpu.percent),
            };
            let Ok(Reply::Status(status)) = client.call(Request::Status) else { return };
            if let Some(text) = held::foreseen(&limits, &status) {
                door.warn(&text, &hint);
            }
        }
    }
}
