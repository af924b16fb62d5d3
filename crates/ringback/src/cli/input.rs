//! Our own stdin, handed on to that of a task: for `run -f --stdin`.
//!
//! Bytes go into the task's pipe directly, as its output is read from the file: the daemon may die meanwhile. Only
//! that the command has started, and that no more will come, are matters of the daemon.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::mem;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};

use ringback_host::client::{Client, ClientError};
use ringback_host::wire::{ByteBuf, Request, TaskObject};
use ringback_sys::files;
use ringback_sys::watch::For;

use super::door;
use crate::explain::Failure;

/// How much is read at once: as much as a pipe takes.
const BLOCK_BYTES: usize = 64 << 10;

/// Our stdin, on its way to a task.
pub(super) struct Input {
    id: String,
    session: String,
    pipe: PathBuf,
    stdin: File,
    step: Step,
}

/// How far it is.
enum Step {
    /// The answer says that the command has started.
    Starting(Client),
    /// More is read next.
    Reading(File),
    /// The pipe takes the rest when it can.
    Writing { pipe: File, data: Vec<u8>, done: usize },
    /// The answer says that the task's stdin is closed.
    Closing(Client),
    /// Nothing more is done.
    Over,
}

impl Input {
    /// Begins to hand our stdin on to a task that was started with a pipe.
    pub(super) fn start(task: &TaskObject, session: &str) -> Result<Self, Failure> {
        let pipe = Path::new(&task.output.path).with_file_name("stdin");
        let stdin = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        let mut input = Self { id: task.id.clone(), session: session.to_owned(), pipe, stdin, step: Step::Over };
        input.step = Step::Starting(input.ask(false)?);
        Ok(input)
    }

    /// What is waited for, if there is something to wait for.
    pub(super) fn awaited(&self) -> Option<(BorrowedFd<'_>, For)> {
        match &self.step {
            Step::Starting(client) | Step::Closing(client) => Some((client.as_fd(), For::Read)),
            Step::Reading(_) => Some((self.stdin.as_fd(), For::Read)),
            Step::Writing { pipe, .. } => Some((pipe.as_fd(), For::Write)),
            Step::Over => None,
        }
    }

    /// What was waited for has come. A task that ended or has closed its stdin takes no more, and that is no failure.
    pub(super) fn go_on(&mut self) -> Result<(), Failure> {
        self.step = match mem::replace(&mut self.step, Step::Over) {
            Step::Starting(mut client) => match client.finish() {
                Ok(None) => Step::Starting(client),
                Ok(Some(_)) => files::open_fifo_writer(&self.pipe).map_or(Step::Over, Step::Reading),
                // Nothing was written with it, so it may be asked again.
                Err(ClientError::Gone { .. }) => Step::Starting(self.ask(false)?),
                Err(_) => Step::Over,
            },
            Step::Reading(pipe) => self.read(pipe)?,
            Step::Writing { pipe, data, done } => write(pipe, data, done),
            Step::Closing(mut client) => match client.finish() {
                Ok(None) => Step::Closing(client),
                Err(ClientError::Gone { .. }) => Step::Closing(self.ask(true)?),
                Ok(Some(_)) | Err(_) => Step::Over,
            },
            Step::Over => Step::Over,
        };
        Ok(())
    }

    fn read(&mut self, pipe: File) -> Result<Step, Failure> {
        let mut data = vec![0; BLOCK_BYTES];
        match self.stdin.read(&mut data) {
            // A pipe that we hold open has no end.
            Ok(0) => drop(pipe),
            Ok(count) => {
                data.truncate(count);
                return Ok(write(pipe, data, 0));
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return Ok(Step::Reading(pipe));
            }
            Err(error) => {
                return Err(Failure::of("io", &error, Some("is stdin something that can be read?".to_owned())));
            }
        }
        Ok(Step::Closing(self.ask(true)?))
    }

    /// Asks the daemon, over a connection of its own: it answers once the command has started.
    fn ask(&self, eof: bool) -> Result<Client, Failure> {
        let mut client = door::client(Some(&self.session))?;
        client.begin(Request::Send { id: self.id.clone(), data: ByteBuf::new(), eof })?;
        Ok(client)
    }
}

fn write(mut pipe: File, data: Vec<u8>, mut done: usize) -> Step {
    while done < data.len() {
        match pipe.write(&data[done..]) {
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Step::Writing { pipe, data, done },
            // Nobody reads it any more.
            Err(_) => return Step::Over,
        }
    }
    Step::Reading(pipe)
}
