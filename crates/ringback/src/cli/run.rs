//! `ringback run`: starts a command, prints its id, and returns at once.

mod request;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use ringback_host::client::Client;
use ringback_host::spoken::Said;
use ringback_host::wire::{Reply, Request, TaskObject, TerminalSize};
use ringback_sys::birth;
use ringback_sys::signals::SignalFd;

use super::door::{self, Door};
use super::doubt::Doubt;
use super::env_file::EnvFiles;
use super::hold_back::HoldBack;
use super::{attach, follow, value, wait};
use crate::explain::{Done, Failure};
use crate::render::{clean, json, task as render};
use crate::terminal;

const EXAMPLES: &str = "\
Examples:
  ringback run -- cargo test
  ringback run --wait --timeout 10m -c 'npm ci && npm test'
  ringback run --lease service --key dev -c 'npm run dev'
  ringback run -f -- make -j8";
/// What of our own command line stays visible to others: `ringback run`.
pub(super) const VISIBLE_ARGUMENTS: usize = 2;
/// How many tasks are looked at for one of the same name.
const SAME_NAME_LIMIT: u32 = 200;

#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
/// Start a command in the background and print its id
///
/// The task is recorded before the id is printed, runs on whatever happens to this process or to the daemon, and its
/// end is told to the session's inbox. Environment, folder, umask, nice value and soft limits are those of the caller.
#[derive(Debug, Default, Args)]
#[command(
    override_usage = "ringback run [OPTIONS] [--] PROGRAM [ARG]...\n       ringback run [OPTIONS] -c SCRIPT",
    after_help = EXAMPLES
)]
pub(crate) struct Run {
    /// Label the task
    #[arg(short, long)]
    pub(super) name: Option<String>,
    /// Tell this session of the end [default: `$RINGBACK_SESSION`, else the agent's own, else `default`]
    #[arg(short, long)]
    pub(super) session: Option<String>,
    /// Run in this folder
    #[arg(short = 'C', long, value_name = "DIR")]
    pub(super) cwd: Option<PathBuf>,
    /// Set a variable; NAME alone takes the value from here (can be repeated)
    #[arg(short, long, value_name = "NAME=VALUE", value_parser = value::pairs())]
    env: Vec<(OsString, OsString)>,
    #[command(flatten)]
    env_files: EnvFiles,
    /// Take a variable away (can be repeated)
    #[arg(long, value_name = "NAME", value_parser = value::names())]
    env_remove: Vec<OsString>,
    /// Pass the environment on as it is, without names that look secret, or not at all
    #[arg(long, value_enum, default_value_t, value_name = "MODE")]
    env_mode: Mode,
    /// Stop it after this long
    #[arg(long, value_name = "DURATION", value_parser = value::limit)]
    pub(super) timeout: Option<Duration>,
    /// Stop it after this long without output
    #[arg(long, value_name = "DURATION", value_parser = value::limit)]
    idle_timeout: Option<Duration>,
    /// Let TERM take this long before KILL [default: 10s]
    #[arg(long, value_name = "DURATION", value_parser = value::duration)]
    grace: Option<Duration>,
    /// Whom TERM is sent to at a stop or a limit; after the grace all that is left is killed
    #[arg(long, value_enum, default_value_t, value_name = "WHOM")]
    term: Term,
    #[command(flatten)]
    hold_back: HoldBack,
    /// Make stdin a pipe for `ringback send` instead of /dev/null; with -f it is fed from here
    #[arg(long)]
    stdin: bool,
    /// Give it a terminal [default size: that of this one, else 80x24]; `ringback attach` and `send` reach it
    #[arg(long, value_name = "COLSxROWS", value_parser = terminal::parse_size, num_args = 0..=1, require_equals = true)]
    #[arg(conflicts_with = "split")]
    #[expect(clippy::option_option, reason = "clap reads an option whose value may be left out as this")]
    pty: Option<Option<TerminalSize>>,
    /// Tell stdout and stderr apart (their order is then by arrival)
    #[arg(long)]
    split: bool,
    /// What happens to processes that outlive the main process
    #[arg(long, value_enum, default_value_t, value_name = "POLICY")]
    leftovers: Leftovers,
    /// How the task is tied to its session
    #[arg(long, value_enum, default_value_t, value_name = "LEASE")]
    lease: Lease,
    /// Echo this JSON in everything that is said of the task
    #[arg(long, value_name = "JSON", value_parser = value::json, allow_negative_numbers = true)]
    binding: Option<serde_json::Value>,
    /// Tell how it goes on after this long, then after pauses that double up to MAX [default MAX: 30s]
    #[arg(long, value_name = "DURATION[..MAX]", value_parser = value::pace)]
    progress: Option<value::Pace>,
    /// Give it a descriptor to report its progress to, by lines like `37 epoch 2`, named by `$RINGBACK_PROGRESS_FD`
    #[arg(long)]
    progress_fd: bool,
    /// Tell each line of output that matches this regular expression (can be repeated)
    #[arg(long, value_name = "REGEX")]
    watch: Vec<String>,
    /// Tell each line of output that contains this text (can be repeated)
    #[arg(long, value_name = "TEXT")]
    watch_literal: Vec<String>,
    /// Tell when a line matches, or when it listens at this port itself; `ringback wait --ready` waits for it
    #[arg(long, value_name = "REGEX|tcp:[HOST:]PORT")]
    ready: Option<String>,
    /// Keep at most this much output on disk, 0 for all [default: 1 GiB]
    #[arg(long, value_name = "SIZE", value_parser = value::size)]
    max_output: Option<u64>,
    /// What happens when the output reaches --max-output
    #[arg(long, value_enum, default_value_t, value_name = "POLICY")]
    output_policy: OutputPolicy,
    /// Name the work: a live task of the same key and session is not started twice
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// What happens if a task of that key is live
    #[arg(long, value_enum, default_value_t, requires = "key", value_name = "POLICY")]
    if_running: IfRunning,
    /// Stream the output, mirror the exit code; Ctrl-C goes to the task
    #[arg(short, long, conflicts_with = "wait")]
    follow: bool,
    /// Wait for the end and mirror the exit code
    #[arg(long)]
    wait: bool,
    /// Run this text through a shell; `-` reads it from stdin, however long it is
    #[arg(short = 'c', value_name = "SCRIPT", conflicts_with = "argv")]
    pub(super) script: Option<OsString>,
    /// Use these words as the shell of SCRIPT [default: sh]
    #[arg(long, value_name = "WORDS", requires = "script")]
    shell: Option<String>,
    /// Program and its arguments, as they are
    #[arg(trailing_var_arg = true, required_unless_present = "script", value_name = "PROGRAM [ARG]")]
    pub(super) argv: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Mode {
    #[default]
    Inherit,
    Clean,
    Replace,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Term {
    /// Everything it started
    #[default]
    Tree,
    /// The main process alone, which stops its own workers in order
    Main,
}

/// The words of the wire, as choices with help.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Leftovers {
    /// They run on, named in the task
    #[default]
    Keep,
    /// They are stopped at once
    Kill,
    /// The task ends when they have ended
    Wait,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum OutputPolicy {
    /// Head and tail are kept, the middle is freed
    #[default]
    HeadTail,
    /// The task is stopped: state `killed`, reason `output_limit`
    Kill,
    /// Nothing more is kept, and the task runs on
    StopRecording,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Lease {
    /// Its end is waited for, and a long silence is told; the end of the session stops it
    #[default]
    Awaited,
    /// Runs until the session ends, as silent as it likes
    Service,
    /// Outlives the session
    Detached,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum IfRunning {
    /// Answer with the live task
    #[default]
    Reuse,
    /// Stop the live task first
    Replace,
    /// Refuse
    Reject,
}

/// Streams a task that was just started. With `feeds` our stdin is its, if it takes one.
pub(super) fn follow_new(door: Door, client: Client, task: &TaskObject, interrupt: &SignalFd, feeds: bool) -> Done {
    match attach::to_new(door, client, task)? {
        Ok(code) => Ok(code),
        Err(client) => follow::run(door, client, task, interrupt, feeds),
    }
}

impl Run {
    /// Starts the command.
    pub(crate) fn perform(self, door: Door) -> Done {
        // A task whose id nobody has seen would be started a second time.
        door::check_stdout()?;
        // The command may look for itself by its text (`pkill -f`), and what is in it is nobody else's business.
        birth::hide_arguments(VISIBLE_ARGUMENTS);
        let request = self.request()?;
        let doubt = Doubt::about(&request);
        let interrupt = if self.follow || self.wait { Some(follow::catch_interrupt()?) } else { None };
        let mut client = door::client(self.session.as_deref())?;
        client.begin(Request::Run(Box::new(request)))?;
        // Looked up while the daemon works.
        let problem = doubt.problem();
        let Reply::Task { task, existing, .. } = client.answer()? else { return Err(door::unexpected()) };
        if interrupt.is_some() {
            HoldBack::warn(door, &mut client, &task);
        }
        if let (Some((message, hint)), true) = (&problem, interrupt.is_some()) {
            door.warn(message, hint);
        }
        match interrupt {
            Some(interrupt) if self.follow => follow_new(door, client, &task, &interrupt, self.stdin && !existing),
            Some(interrupt) => wait::until_end(door, client, &task, &interrupt),
            None => {
                say_started(door, &task, self.session.as_deref(), existing, problem.is_some())?;
                HoldBack::warn(door, &mut client, &task);
                self.warn_of_same_name(door, &mut client, &task);
                if let Some((message, hint)) = problem {
                    door.warn(&message, &hint);
                }
                Ok(0)
            }
        }
    }

    /// Models start the same thing twice when they believe that the first has finished.
    fn warn_of_same_name(&self, door: Door, client: &mut Client, task: &TaskObject) {
        let (Some(name), false) = (&self.name, door.quiet) else { return };
        let session = Some(task.session.clone());
        let list = Request::List { session, ended: false, before: None, limit: SAME_NAME_LIMIT };
        let Ok(Reply::Tasks { tasks, .. }) = client.call(list) else { return };
        let same = tasks.iter().find(|other| other.id != task.id && other.name.as_ref() == Some(name));
        if let Some(other) = same {
            let message = format!("another task named `{}` is live: {}", clean::short(name, 40), other.id);
            door.warn(&message, "--key starts the same work only once");
        }
    }
}

pub(super) fn word(choice: &impl ValueEnum) -> String {
    choice.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// Says that a task was started, as [`started`] has it.
pub(super) fn say_started(
    door: Door,
    task: &TaskObject,
    named: Option<&str>,
    existing: bool,
    doubtful: bool,
) -> Result<(), Failure> {
    let Said { stdout, stderr } = started(door, task, named, existing, doubtful);
    put_started(&task.id, stdout.as_bytes(), stderr.as_bytes())
}

/// Writes what is said of a task that was started.
pub(super) fn put_started(id: &str, stdout: &[u8], stderr: &[u8]) -> Result<(), Failure> {
    door::put(stdout).map_err(|failure| Failure {
        // Who does not see the id may start the work a second time.
        hint: Some(format!("it is recorded all the same, as {id}; to stop it: ringback kill {id}")),
        ..failure
    })?;
    // A stderr that is gone is no reason to fail.
    let _unheard = io::stderr().lock().write_all(stderr);
    Ok(())
}

/// The id alone on stdout, and one line for the reader, who must not mistake it for an end. With the session that was `named`,
/// for which a wait has to speak as well: what another session waited for is told again.
pub(super) fn started(door: Door, task: &TaskObject, named: Option<&str>, existing: bool, doubtful: bool) -> Said {
    if door.json {
        let mut object = json::task(task);
        if existing {
            object["existing"] = true.into();
        }
        return Said { stdout: format!("{object}\n"), stderr: String::new() };
    }
    let session = clean::short(&task.session, 60);
    let wait = format!("wait for it with: ringback wait{} {}", door::speaks_for(named), task.id);
    let note = if task.has_ended() {
        render::verdict(task)
    } else if existing {
        format!("already {} under this key; {wait}", task.state)
    } else {
        let so_far = if doubtful { "recorded" } else { "running" };
        format!("{so_far}, NOT finished; its end will be told to session {session}; {wait}")
    };
    Said { stdout: format!("{}\n", task.id), stderr: if door.quiet { String::new() } else { format!("{note}\n") } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use ringback_host::wire::{Command, RunRequest};

    #[derive(Debug, Parser)]
    struct Only {
        #[command(flatten)]
        run: Run,
    }

    fn request(args: &[&str]) -> RunRequest {
        Only::try_parse_from([&["run"], args].concat()).unwrap().run.request().unwrap()
    }

    fn words(command: &Command) -> Vec<String> {
        let Command::Argv(argv) = command else { panic!("{command:?}") };
        argv.iter().map(|word| String::from_utf8(word.to_vec()).unwrap()).collect()
    }

    #[test]
    fn arguments_of_the_program_are_its_own() {
        assert_eq!(
            words(&request(&["-n", "x", "cargo", "test", "--json", "-q"]).command),
            ["cargo", "test", "--json", "-q"]
        );
        assert_eq!(words(&request(&["--", "--odd", "-f"]).command), ["--odd", "-f"]);
        assert!(Only::try_parse_from(["run", "--tiemout", "5s", "true"]).is_err());
        assert!(Only::try_parse_from(["run"]).is_err());
        assert!(Only::try_parse_from(["run", "-c", "true", "arg"]).is_err());
    }

    #[test]
    fn a_script_has_its_shell_as_words() {
        let script = |args: &[&str]| match request(args).command {
            Command::Script { text, shell } => (text.into_vec(), shell.len()),
            Command::Argv(argv) => panic!("{argv:?}"),
        };
        assert_eq!(script(&["-c", "a && b"]), (b"a && b".to_vec(), 0));
        assert_eq!(script(&["--shell", "bash -e", "-c", "x"]), (b"x".to_vec(), 2));
        assert!(Only::try_parse_from(["run", "-c", "x", "--shell", "'"]).unwrap().run.request().is_err());
    }

    #[test]
    fn options_reach_the_request() {
        let all = request(&[
            "--timeout",
            "1m",
            "--idle-timeout",
            "2s",
            "--grace",
            "0",
            "--max-output",
            "1KiB",
            "--output-policy",
            "stop-recording",
            "--split",
            "--stdin",
            "--term",
            "main",
            "--leftovers",
            "kill",
            "--lease",
            "service",
            "--key",
            "k",
            "--if-running",
            "reject",
            "--binding",
            "{\"a\":1}",
            "--progress",
            "1s..5s",
            "--watch",
            "error",
            "--watch",
            "warning",
            "--ready",
            "tcp:80",
            "-e",
            "A=b",
            "--limit",
            "mem=1MiB,cpu=50%",
            "--sandbox",
            "cwd-if-possible",
            "true",
        ]);
        assert_eq!((all.limit.mem_bytes, all.limit.pids, all.limit.cpu_percent), (Some(1 << 20), None, Some(50)));
        assert_eq!(all.sandbox, "cwd-if-possible");
        assert_eq!((all.progress_ms, all.progress_max_ms), (Some(1_000), Some(5_000)));
        assert_eq!((all.watch.join(","), all.ready.as_deref()), ("error,warning".to_owned(), Some("tcp:80")));
        assert_eq!(
            (all.timeout_ms, all.idle_timeout_ms, all.grace_ms, all.output_max),
            (Some(60_000), Some(2_000), Some(0), Some(1024))
        );
        assert_eq!(
            (all.leftovers.as_str(), all.lease.as_str(), all.if_running.as_str()),
            ("kill", "service", "reject")
        );
        assert_eq!(all.output_policy, "stop-recording");
        assert!(all.term_main_only && all.split && all.stdin && all.env.iter().any(|pair| **pair == *b"A=b"));
        assert_eq!(all.binding.unwrap()["a"], 1);
    }

    #[test]
    fn what_cannot_start_is_foreseen_with_a_hint() {
        let hint = |args: &[&str]| Doubt::about(&request(args)).problem().map(|(_, hint)| hint);
        assert_eq!(hint(&["true"]), None);
        assert!(hint(&["echo a && echo b"]).unwrap().contains("ringback run -c 'echo a && echo b'"));
        assert!(hint(&["surely-not-a-program"]).unwrap().contains("PATH"));
        assert!(hint(&["./surely-not-here"]).unwrap().contains("path right"));
        assert!(hint(&["-C", "/surely/not/here", "true"]).unwrap().contains("-C"));
        assert_eq!(hint(&["-C", "/", "./etc/passwd"]).as_deref(), Some("chmod +x /./etc/passwd"));
        assert!(hint(&["/"]).unwrap().contains("a program in it"));
    }
}
