//! `ringback daemon`: runs, stops, restarts and shows the daemon.

use std::io::{self, Write as _};

use clap::{Args, Subcommand};
use ringback_host::client::{Client, ClientError};
use ringback_host::config::Config;
use ringback_host::home::Home;
use ringback_host::quantity::size_text;
use ringback_host::wire::{Reply, Request, StatusObject};
use serde_json::json;

use super::door::{self, Door, caller};
use super::{collect, deliver, doctor, spoken};
use crate::explain::{Done, EXIT_FAILED, Failure};
use crate::render::json::document;
use crate::render::{age, clean};

/// Run, stop or restart the daemon, or show its status
///
/// It starts by itself when it is needed, and may die or be stopped at any time: tasks run on.
#[derive(Debug, Args)]
pub(crate) struct Daemon {
    #[command(subcommand)]
    act: Option<Act>,
}

#[derive(Clone, Copy, Debug, Subcommand)]
enum Act {
    /// Serve this home until stopped
    Run {
        /// Say `ready` or what is wrong on stdout, and leave the terminal
        #[arg(long)]
        background: bool,
    },
    /// Let it leave; its tasks run on
    Stop,
    /// Show what it serves
    Status,
    /// Hand one notice on (used by the daemon)
    #[command(hide = true)]
    Deliver,
    /// Keep what the report files of ended tasks say (used by the daemon)
    #[command(hide = true)]
    Collect,
    /// Replace it by one of this version, started from here; its tasks run on
    Restart,
}

impl Daemon {
    /// Does it.
    pub(crate) fn perform(self, door: Door) -> Done {
        match self.act.unwrap_or(Act::Status) {
            Act::Run { background } => run(door, background),
            Act::Stop => stop(door),
            Act::Status => status(door),
            Act::Restart => restart(door),
            Act::Deliver => deliver::perform(),
            Act::Collect => collect::perform(),
        }
    }
}

/// Becomes the daemon. In the background the starter reads one line: `ready`, or why not.
fn run(door: Door, background: bool) -> Done {
    let home = Home::find()?;
    let config = Config::load();
    let ready = || {
        // The starter may be gone already; then nobody needs the word.
        let word = if door.json && !background {
            document(json!({ "daemon": "running", "pid": std::process::id() })).to_string()
        } else {
            "ready".to_owned()
        };
        let _unheard = writeln!(io::stdout(), "{word}").and_then(|()| io::stdout().flush());
    };
    let failure = match config {
        Ok(config) => {
            if !background {
                warn_of_sinks(door, &config);
            }
            match ringback_host::daemon::run(&home, config, spoken::read, ready) {
                Ok(()) => return Ok(0),
                Err(error) => Failure::of("daemon", &error, error.hint()),
            }
        }
        Err(error) => error.into(),
    };
    if background {
        let hint = failure.hint.as_deref().map(|hint| format!(" ({hint})")).unwrap_or_default();
        let _unheard = writeln!(io::stdout(), "{}{hint}", clean::line(&failure.message));
        return Ok(EXIT_FAILED);
    }
    Err(failure)
}

fn stop(door: Door) -> Done {
    match Client::open_existing(&Home::find()?, caller(None)?) {
        Ok(mut client) => {
            client.dismiss_daemon()?;
            say(door, "stopped", "stopped; its tasks run on")
        }
        Err(ClientError::NoDaemon { .. }) => say(door, "not_running", "no daemon was running"),
        Err(error) => Err(error.into()),
    }
}

fn restart(door: Door) -> Done {
    match Client::open_existing(&Home::find()?, caller(None)?) {
        Ok(mut client) => client.replace_daemon()?,
        Err(ClientError::NoDaemon { .. }) => drop(door::client(None)?),
        Err(error) => return Err(error.into()),
    }
    warn_of_sinks(door, &Config::load()?);
    say(door, "running", "restarted; its tasks went on")
}

/// A daemon that has just read its config says what of it is in vain, if somebody is there to read it.
fn warn_of_sinks(door: Door, config: &Config) {
    if let Some(text) = doctor::undelivered(config) {
        door.warn(&text, doctor::UNDELIVERED_HINT);
    }
}

fn say(door: Door, state: &str, text: &str) -> Done {
    if door.json {
        door::document(&document(json!({ "daemon": state })))?;
    } else {
        door.note(text);
    }
    Ok(0)
}

/// Shows the status; exit code 1 if none runs, as `systemctl status` has 3 and `docker info` 1.
fn status(door: Door) -> Done {
    let home = Home::find()?;
    let mut client = match Client::open_existing(&home, caller(None)?) {
        Err(ClientError::NoDaemon { .. }) => {
            if door.json {
                let path = home.root().to_string_lossy();
                door::document(&document(json!({ "daemon": "not_running", "home": path })))?;
            } else {
                door.note(&format!("no daemon runs for {} (it starts when it is needed)", home.root().display()));
            }
            return Ok(1);
        }
        opened => opened?,
    };
    let Reply::Status(status) = client.call(Request::Status)? else { return Err(door::unexpected()) };
    if door.json {
        let mut fields = serde_json::to_value(&status).unwrap_or_default();
        fields["daemon"] = "running".into();
        door::document(&document(fields))?;
    } else if !door.quiet {
        say_status(&status)?;
    }
    Ok(0)
}

fn say_status(status: &StatusObject) -> Result<(), Failure> {
    let started = age::ago(&status.started_at, door::now());
    let head = format!(
        "running as {}, version {}, since {started}\n  home     {}\n  tasks    {} running, {} queued, {} ended, {} adopted\n  unheard  {}\n  memory   {}\n  keeper   {}\n  trees    {}: {}\n  durable  {}",
        status.pid,
        status.version,
        clean::line(&status.home),
        status.running,
        status.queued,
        status.ended,
        status.adopted,
        status.unheard,
        size_text(status.rss_bytes),
        clean::line(&status.keeper),
        clean::line(&status.trees),
        clean::line(&status.trees_note),
        match status.durability.as_str() {
            "process" => "whatever is killed; a power cut may take the last of it (durability = \"process\")",
            _ => "whatever is killed, and a power cut",
        },
    );
    let troubles = status.troubles.iter().map(|trouble| format!("  trouble  {}", clean::line(trouble)));
    door::out_lines(std::iter::once(head).chain(troubles))
}
