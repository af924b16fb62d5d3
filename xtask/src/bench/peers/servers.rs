//! MCP servers of others that start commands in the background.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::Value;
use tempfile::TempDir;

use super::super::mcp::Server;
use super::super::measure::proc_kib;
use super::super::stage::Stage;
use super::folder;
use crate::Done;
use crate::prove::processes;

/// How one of them is called. In the words `{D}` is a folder of its own, and `{C}` the command.
struct Kind {
    name: &'static str,
    /// Below the folder of the peers.
    program: &'static str,
    arguments: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
    tool: &'static str,
    /// What the tool is called with, as JSON.
    call: &'static str,
}

const KINDS: [Kind; 5] = [
    Kind {
        name: "Desktop Commander",
        program: "npm/node_modules/.bin/desktop-commander",
        arguments: &["--no-onboarding"],
        environment: &[("DO_NOT_TRACK", "1")],
        tool: "start_process",
        call: r#"{"command": "{C}", "timeout_ms": 1}"#,
    },
    Kind {
        name: "bash-command-mcp",
        program: "npm/node_modules/.bin/bash-command-mcp",
        arguments: &[],
        environment: &[("OTEL_ENABLED", "false")],
        tool: "run_background",
        call: r#"{"command": "{C}", "cwd": "{D}"}"#,
    },
    Kind {
        name: "mcp-background-job",
        program: "py/mcp-background-job/bin/mcp-background-job",
        arguments: &[],
        environment: &[("MCP_BG_MAX_JOBS", "100")],
        tool: "execute_command",
        call: r#"{"command": "{C}"}"#,
    },
    Kind {
        name: "yieldshell",
        program: "py/mcp-yieldshell/bin/mcp-yieldshell",
        arguments: &[],
        environment: &[("YIELDSHELL_MAX_PROCESSES", "20000"), ("YIELDSHELL_MAX_RETAINED_PROCESSES", "20000")],
        tool: "execute",
        call: r#"{"command": "{C}", "side_effects": ["NONE"], "yield_ms": 0, "cwd": "{D}"}"#,
    },
    Kind {
        name: "backburner",
        program: "py/backburner-mcp/bin/backburner",
        arguments: &[],
        environment: &[("BACKBURNER_HOME", "{D}/b")],
        tool: "start_task",
        call: r#"{"command": "{C}", "cwd": "{D}"}"#,
    },
];

/// A server that runs.
pub(crate) struct Service {
    kind: &'static Kind,
    server: Option<Server>,
    dir: TempDir,
    mark: String,
}

/// Every server that is installed, started. The others are named on stderr.
pub(crate) fn start_servers(stage: &Stage) -> Done<Vec<Service>> {
    let mut started = Vec::new();
    for kind in &KINDS {
        let program = folder().join(kind.program);
        if !program.exists() {
            eprintln!("  {} is not installed (`--install-peers`): it is left out", kind.name);
            continue;
        }
        match Service::start(kind, &program, stage.folder()?) {
            Ok(service) => started.push(service),
            Err(error) => eprintln!("  {} does not serve: {error}", kind.name),
        }
    }
    Ok(started)
}

impl Service {
    fn start(kind: &'static Kind, program: &Path, dir: TempDir) -> Done<Self> {
        let mark = format!("bench-{}", dir.path().display());
        let mut service = Self { kind, server: None, dir, mark };
        let mut command = Command::new(program);
        command.args(kind.arguments).env("HOME", service.dir.path()).env("BENCH_PEER", &service.mark);
        command.current_dir(service.dir.path());
        for (name, value) in kind.environment {
            command.env(name, service.filled(value, ""));
        }
        service.server = Some(Server::start(&mut command)?);
        Ok(service)
    }

    pub(crate) fn name(&self) -> String {
        self.kind.name.to_owned()
    }

    /// How long the answer to a call takes that starts this command.
    pub(crate) fn submit(&mut self, command: &str) -> Done<Duration> {
        let arguments: Value = serde_json::from_str(&self.filled(self.kind.call, command))?;
        let begun = Instant::now();
        self.server.as_mut().ok_or("no server")?.call(self.kind.tool, &arguments)?;
        Ok(begun.elapsed())
    }

    /// Stopped while others are measured, as some are never at rest; or going on.
    pub(crate) fn rest(&self, signal: Signal) -> Done {
        let server = i32::try_from(self.server.as_ref().ok_or("no server")?.id())?;
        let held = pidfd_open(Pid::from_raw(server).ok_or("no process")?, PidfdFlags::empty())?;
        Ok(pidfd_send_signal(&held, signal)?)
    }

    /// What the server has in memory, in MB, without its commands.
    pub(crate) fn resident(&self) -> Done<f64> {
        let server = self.server.as_ref().ok_or("no server")?.id();
        Ok(proc_kib(&format!("/proc/{server}/status"), "VmRSS")? / 1024.0)
    }

    fn filled(&self, text: &str, command: &str) -> String {
        text.replace("{D}", &self.dir.path().to_string_lossy()).replace("{C}", command)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Some wait for their commands before they go, and some leave them behind.
        let entry = format!("BENCH_PEER={}", self.mark);
        for pid in processes::marked(&entry) {
            processes::kill(pid, |pid| processes::has_environment(pid, &entry));
        }
        drop(self.server.take());
    }
}
