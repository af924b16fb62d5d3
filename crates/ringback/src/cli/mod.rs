//! The command line: one file per verb.

mod ack;
mod asciicast;
mod attach;
mod bar;
mod collect;
mod completions;
mod daemon;
mod deliver;
mod demo;
mod diagnostics;
mod doctor;
pub(crate) mod door;
mod doubt;
mod env_file;
mod follow;
mod hold_back;
mod hook;
mod inbox;
mod input;
mod kill;
mod logs;
mod look;
mod man;
#[cfg(feature = "mcp")]
mod mcp;
mod news;
mod plain;
mod printer;
mod progress;
mod prune;
mod ps;
mod release;
mod rendered;
mod results;
mod retry;
mod rm;
mod run;
mod screen;
mod send;
mod session;
mod setup;
mod show;
mod spoken;
mod spool;
mod stats;
mod top;
mod usage;
mod value;
mod wait;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser, Subcommand};

use crate::explain::Done;
use crate::render::json::document;
use door::Door;
use serde_json::json;

/// What `ringback` alone shows; a test sees that no verb is missing.
const TEMPLATE: &str = "\
{about}

{usage-heading} {usage}

Start and look:
  run          Start a command in the background and print its id
  ps           List what this session has to see to: live tasks and unheard endings
  show         Show everything about a task
  logs         Print the output of a task
  wait         Wait until tasks have ended, and mirror their exit code
  kill         Stop tasks with everything they started
  inbox        Read the endings that this session has not heard
  send         Write to the stdin of a task, or type into its terminal
  attach       Go to the terminal of a task; leave it with ctrl-], and it runs on
  retry        Run the command of an ended task again
  doctor       Check the home, the daemon and the machine
  demo         Show the main job on real processes, in a home of its own

More:
  results      List the tests of a task and how they ended
  diagnostics  List what compilers and crashes said in the output of a task
  ack          Mark notices as heard
  progress     Report how far a task is, from inside it
  release      Turn awaited tasks into services of the session
  session      End a session, or tie its end to a process or a lease
  rm           Forget ended tasks and delete their output
  prune        Forget old ended tasks that nobody has still to hear of
  stats        Show counts of the daemon, or what tasks used
  top          Watch what this session has to see to, as it changes
  mcp          Serve an agent over MCP on stdin and stdout
  setup        Make agents use ringback: MCP server, hooks and plugins, in their own settings
  hook         Tell an agent of endings at its own events (installed by `ringback setup`)
  spool        Serve requests that are files in a folder, for agents that can only write files
  daemon       Run, stop or restart the daemon, or show its status
  completions  Print shell completions
  man          Print the man page, or write one per verb
  help         Print the help of a verb

Options:
{options}

The id of a task may be shortened to any unique prefix. stdout is data, stderr is talk.
Exit codes: the task's own (128+N for signal N), 124 wait timed out, 125 ringback failed or the task is lost,
126 not executable, 127 not found, 2 wrong usage.
";

/// Starts commands in the background and rings back, once, with the truth, when they end
#[derive(Debug, Parser)]
#[command(name = "ringback", version, help_template = TEMPLATE)]
struct Cli {
    /// Print one JSON document (one line per event for streams)
    #[arg(long, global = true, display_order = 900)]
    json: bool,
    /// Print ids only
    #[arg(short, long, global = true, display_order = 901)]
    quiet: bool,
    #[command(subcommand)]
    verb: Option<Verb>,
}

// The options of a verb are described when it is called: a command line pays for one verb, not for all.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
enum Verb {
    Run(Box<run::Run>),
    Ps(ps::Ps),
    Show(show::Show),
    Logs(logs::Logs),
    Wait(wait::Wait),
    Kill(kill::Kill),
    Inbox(inbox::Inbox),
    Send(send::Send),
    Attach(attach::Attach),
    Retry(retry::Retry),
    Doctor(doctor::Doctor),
    Demo(demo::Demo),
    Results(results::Results),
    Diagnostics(diagnostics::Diagnostics),
    Ack(ack::Ack),
    Progress(progress::Progress),
    Release(release::Release),
    Session(session::Session),
    Rm(rm::Rm),
    Prune(prune::Prune),
    Stats(stats::Stats),
    Top(top::Top),
    Setup(setup::Setup),
    Hook(hook::Hook),
    Spool(spool::Spool),
    Daemon(daemon::Daemon),
    Completions(completions::Completions),
    Man(man::Man),
    #[cfg(feature = "mcp")]
    Mcp(mcp::Mcp),
}

/// The command line, from the arguments of this process to its exit code.
pub(crate) fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    if let Some((door, run)) = plain::read(&args) {
        let done = spoken::finish().transpose().unwrap_or_else(|| run.perform(door));
        return ExitCode::from(done.unwrap_or_else(|failure| door.fail(&failure)));
    }
    let (door, done) = match Cli::try_parse_from(words_of_help(&args)) {
        Ok(cli) => {
            let door = Door { json: cli.json, quiet: cli.quiet };
            let done = match cli.verb {
                Some(verb) => perform(verb, door),
                None => door::text(door, "help", &Cli::command().render_help().to_string()),
            };
            (door, done)
        }
        Err(error) => {
            let json = args.iter().take_while(|arg| *arg != "--").any(|arg| arg == "--json");
            let door = Door { json, quiet: false };
            (door, explain_usage(door, &error, &args))
        }
    };
    ExitCode::from(done.unwrap_or_else(|failure| door.fail(&failure)))
}

/// The arguments; those of `ringback help` without the options of every verb, which the parser takes for names there.
fn words_of_help(args: &[OsString]) -> Vec<OsString> {
    let is_option = |word: &OsString| ["--json", "-q", "--quiet"].iter().any(|option| word == option);
    let is_help = args.iter().skip(1).find(|word| !is_option(word)).is_some_and(|word| word == "help");
    args.iter().filter(|word| !is_help || !is_option(word)).cloned().collect()
}

fn perform(verb: Verb, door: Door) -> Done {
    match verb {
        Verb::Run(run) => run.perform(door),
        Verb::Ps(ps) => ps.perform(door),
        Verb::Show(show) => show.perform(door),
        Verb::Logs(logs) => logs.perform(door),
        Verb::Wait(wait) => wait.perform(door),
        Verb::Kill(kill) => kill.perform(door),
        Verb::Inbox(inbox) => inbox.perform(door),
        Verb::Send(send) => send.perform(door),
        Verb::Attach(attach) => attach.perform(door),
        Verb::Retry(retry) => retry.perform(door),
        Verb::Doctor(doctor) => doctor.perform(door),
        Verb::Demo(demo) => demo.perform(door),
        Verb::Results(results) => results.perform(door),
        Verb::Diagnostics(diagnostics) => diagnostics.perform(door),
        Verb::Ack(ack) => ack.perform(door),
        Verb::Progress(progress) => progress.perform(door),
        Verb::Release(release) => release.perform(door),
        Verb::Session(session) => session.perform(door),
        Verb::Rm(rm) => rm.perform(door),
        Verb::Prune(prune) => prune.perform(door),
        Verb::Stats(stats) => stats.perform(door),
        Verb::Top(top) => top.perform(door),
        Verb::Setup(setup) => setup.perform(door),
        Verb::Hook(hook) => hook.perform(door),
        Verb::Spool(spool) => spool.perform(door),
        Verb::Daemon(daemon) => daemon.perform(door),
        Verb::Completions(completions) => completions.perform(door),
        Verb::Man(man) => man.perform(door),
        #[cfg(feature = "mcp")]
        Verb::Mcp(mcp) => mcp.perform(door),
    }
}

/// Help and version go to stdout and are no error; anything else is a wrong command line.
fn explain_usage(door: Door, error: &clap::Error, args: &[OsString]) -> Done {
    match error.kind() {
        ErrorKind::DisplayHelp => door::text(door, "help", &error.to_string()),
        ErrorKind::DisplayVersion if door.json => {
            door::document(&document(json!({ "name": "ringback", "version": env!("CARGO_PKG_VERSION") })))?;
            Ok(0)
        }
        ErrorKind::DisplayVersion => door::out(&error.to_string()).map(|()| 0),
        _ => Err(usage::explain(error, args)),
    }
}

/// The whole command line as clap knows it, for completions and man pages; its verbs have options once it is built.
fn command() -> clap::Command {
    Cli::command()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_is_in_the_first_help_and_the_first_block_is_short() {
        command().debug_assert();
        let mut all = command();
        all.build();
        for verb in all.get_subcommands().filter(|verb| !verb.is_hide_set()) {
            let listed = TEMPLATE.lines().any(|line| line.trim_start().split(' ').next() == Some(verb.get_name()));
            assert!(listed, "{} is not in the help", verb.get_name());
        }
        let first = TEMPLATE.split("More:").next().unwrap();
        assert!(first.lines().filter(|line| line.starts_with("  ")).count() <= 12);
    }

    #[test]
    fn a_verb_says_the_same_in_the_first_help_as_in_its_own() {
        let mut all = command().disable_help_subcommand(true);
        all.build();
        for verb in all.get_subcommands() {
            let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
            assert!(!about.is_empty() && TEMPLATE.contains(&about), "{}: `{about}`", verb.get_name());
        }
    }
}
