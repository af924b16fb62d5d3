//! A client that asks for one short task after the other through the library, in a process of its own that may be killed.
//!
//! Ten tasks to each kill are too many for a whole program each: it would take longer to start than the task lives.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, Stdio};

use clap::Args;
use ringback_host::client::{Capture, Client, ClientError, Launcher};
use ringback_host::home::Home;
use ringback_host::wire::ByteBuf;
use ringback_host::wire::{Caller, Command as Words, Reply, Request, RunRequest};

use super::round::{Shared, lock};
use super::subject::Subject;
use super::zoo;
use crate::Done;

/// How many numbers after the last answer are let go when an asker dies: that one may have been asked for.
const IN_HAND: u64 = 1;

/// What an asker is told.
#[derive(Args)]
pub(crate) struct Asker {
    program: PathBuf,
    home: PathBuf,
    session: String,
    oracle: PathBuf,
    /// The first number, and the first that is not its own any more.
    first: u64,
    end: u64,
}

impl Asker {
    /// Asks, and prints a line for each answer: the number, and the id or `-` where there is none.
    pub(crate) fn run(&self) -> Done {
        let home = Home::at(self.home.clone())?;
        let mut capture = None;
        let mut client = None;
        let mut out = std::io::stdout();
        for number in self.first..self.end {
            if capture.is_none() {
                capture = Some(Capture::default().request(Words::default())?);
            }
            let Some(like) = &capture else { continue };
            let id = self.ask(&home, &mut client, like, number)?;
            // At once: what was printed is what a client was told.
            writeln!(out, "{number} {}", id.as_deref().unwrap_or("-"))?;
        }
        Ok(())
    }

    /// One task; nothing if it is not known whether it was begun, or if it was refused.
    fn ask(&self, home: &Home, client: &mut Option<Client>, like: &RunRequest, number: u64) -> Done<Option<String>> {
        let (at, kind) = zoo::choose_quick(number);
        let words =
            ["sh", "-c", &kind.script(number, &self.oracle)].map(|word| ByteBuf::from(word.as_bytes().to_vec()));
        let run =
            RunRequest { command: Words::Argv(words.to_vec()), name: Some(format!("{at}-{number}")), ..like.clone() };
        if client.is_none() {
            let caller = Caller { session: self.session.clone(), by: self.session.clone() };
            *client = Client::open_with(home, caller, Launcher::program(&self.program)).ok();
        }
        let Some(asking) = client else { return Ok(None) };
        match asking.call(Request::Run(Box::new(run))) {
            Ok(Reply::Task { task, .. }) => Ok(Some(task.id)),
            Ok(other) => Err(format!("a run was answered with {other:?}").into()),
            Err(ClientError::Fault(_)) => Ok(None),
            Err(_) => {
                *client = None;
                Ok(None)
            }
        }
    }
}

/// Has all of these numbers asked for, by one asker after the other as they are killed.
pub(crate) fn ask_quickly(
    subject: &Subject,
    session: &str,
    shared: &Shared,
    (mut first, end): (u64, u64),
) -> Result<(), String> {
    while first < end {
        let mut asker = begin(subject, session, (first, end))?;
        let pid = shared.expose(&asker);
        let mut next = first + IN_HAND;
        for line in asker.stdout.take().into_iter().flat_map(|out| BufReader::new(out).lines()) {
            let Ok(line) = line else { break };
            let Some((number, id)) = line.split_once(' ') else { continue };
            // A line that was cut off by its writer's death is not an answer.
            let Ok(number) = number.parse::<u64>() else { continue };
            next = number + 1 + IN_HAND;
            if id == "-" {
                shared.has_no_answer();
            } else {
                lock(&shared.begun).push(id.to_owned());
            }
        }
        let ended = asker.wait().map_err(|error| format!("cannot wait for a client: {error}"))?;
        shared.hide(pid);
        if ended.success() {
            return Ok(());
        }
        if ended.code().is_some() {
            return Err(format!("a client of the library ended with {ended}"));
        }
        shared.has_no_answer();
        first = next;
    }
    Ok(())
}

fn begin(subject: &Subject, session: &str, (first, end): (u64, u64)) -> Result<Child, String> {
    let own = std::env::current_exe().map_err(|error| format!("cannot find myself: {error}"))?;
    let mut command = subject.with_environment(own, session);
    command.arg("ask").arg(&subject.program).arg(subject.home()).arg(session).arg(subject.oracle());
    command.args([first.to_string(), end.to_string()]).stderr(Stdio::inherit());
    command.spawn().map_err(|error| format!("cannot start a client: {error}"))
}
