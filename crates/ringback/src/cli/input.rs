//! Our own stdin, handed on to that of a task: for `run -f --stdin` and `attach`.
//!
//! Bytes go into the task's pipe directly, as its output is read from the file: the daemon may die meanwhile. Only
//! that the command has started, and that no more will come, are matters of the daemon.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::mem;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};

use ringback_host::client::{Client, ClientError};
use ringback_host::wire::{ByteBuf, Request, TaskObject};
use ringback_sys::files;
use ringback_sys::task_files::STDIN;
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
    chord: Option<Chord>,
    /// Whether anything was read.
    has_read: bool,
    /// Whether its end was read while there was still something to write. A terminal says it only once.
    at_end: bool,
    /// Whether an end before the first byte is handed on: `/dev/null` has nothing to say about the task.
    hands_on_empty: bool,
}

/// Keys that mean us and not the task.
pub(super) struct Chord {
    keys: Vec<u8>,
    /// How many of them were pressed so far.
    held: usize,
}

impl Chord {
    /// These keys, in this order.
    pub(super) fn new(keys: Vec<u8>) -> Option<Self> {
        (!keys.is_empty()).then_some(Self { keys, held: 0 })
    }

    /// Takes the bytes that were typed, and leaves those that are the task's; whether the chord is complete.
    fn take(&mut self, typed: &mut Vec<u8>) -> bool {
        let mut own = Vec::with_capacity(typed.len());
        for byte in mem::take(typed) {
            if byte == self.keys[self.held] {
                self.held += 1;
                if self.held == self.keys.len() {
                    *typed = own;
                    return true;
                }
                continue;
            }
            own.extend_from_slice(&self.keys[..self.held]);
            self.held = usize::from(byte == self.keys[0]);
            if self.held == 0 {
                own.push(byte);
            } else if self.keys.len() == 1 {
                *typed = own;
                return true;
            }
        }
        *typed = own;
        false
    }
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
    /// The chord was pressed.
    Detached,
}

impl Input {
    /// Begins to hand our stdin on to a task that was started with a pipe.
    pub(super) fn start(task: &TaskObject, session: &str) -> Result<Self, Failure> {
        let pipe = Path::new(&task.output.path).with_file_name(STDIN);
        let stdin = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        let mut input = Self {
            id: task.id.clone(),
            session: session.to_owned(),
            pipe,
            stdin,
            step: Step::Over,
            chord: None,
            has_read: false,
            at_end: false,
            hands_on_empty: true,
        };
        input.step = Step::Starting(input.ask(false)?);
        Ok(input)
    }

    /// The same for somebody who looks on: a stdin with nothing in it is not handed on, and this chord is for us.
    pub(super) fn of_viewer(task: &TaskObject, session: &str, chord: Option<Chord>) -> Result<Self, Failure> {
        let hands_on_empty = io::stdin().is_terminal();
        Ok(Self { chord, hands_on_empty, ..Self::start(task, session)? })
    }

    /// Whether a task takes input at all.
    pub(super) fn is_taken_by(task: &TaskObject) -> bool {
        !task.has_ended() && Path::new(&task.output.path).with_file_name(STDIN).exists()
    }

    /// Whether the chord was pressed.
    pub(super) fn has_detached(&self) -> bool {
        matches!(self.step, Step::Detached)
    }

    /// Our stdin, while the task does not take what was typed: the chord is heard all the same.
    pub(super) fn awaited_besides(&self) -> Option<(BorrowedFd<'_>, For)> {
        match &self.step {
            Step::Writing { data, .. } if self.chord.is_some() && !self.at_end && data.len() < BLOCK_BYTES => {
                Some((self.stdin.as_fd(), For::Read))
            }
            _ => None,
        }
    }

    /// More was typed than the task takes.
    pub(super) fn read_besides(&mut self) -> Result<(), Failure> {
        let Step::Writing { pipe, mut data, done } = mem::replace(&mut self.step, Step::Over) else { return Ok(()) };
        let mut more = vec![0; BLOCK_BYTES];
        match self.stdin.read(&mut more) {
            Ok(count) => {
                self.at_end = count == 0;
                more.truncate(count);
            }
            Err(error) if may_come_later(&error) => more.clear(),
            Err(error) => return Err(unreadable(&error)),
        }
        let is_over = self.chord.as_mut().is_some_and(|chord| chord.take(&mut more));
        data.extend(more);
        self.step = if is_over { Step::Detached } else { Step::Writing { pipe, data, done } };
        Ok(())
    }

    /// What is waited for, if there is something to wait for.
    pub(super) fn awaited(&self) -> Option<(BorrowedFd<'_>, For)> {
        match &self.step {
            Step::Starting(client) | Step::Closing(client) => Some((client.as_fd(), For::Read)),
            Step::Reading(_) => Some((self.stdin.as_fd(), For::Read)),
            Step::Writing { pipe, .. } => Some((pipe.as_fd(), For::Write)),
            Step::Over | Step::Detached => None,
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
            Step::Writing { pipe, data, done } => match write(pipe, data, done) {
                Step::Reading(pipe) if self.at_end => self.close(pipe)?,
                step => step,
            },
            Step::Closing(mut client) => match client.finish() {
                Ok(None) => Step::Closing(client),
                Err(ClientError::Gone { .. }) => Step::Closing(self.ask(true)?),
                Ok(Some(_)) | Err(_) => Step::Over,
            },
            Step::Over => Step::Over,
            Step::Detached => Step::Detached,
        };
        Ok(())
    }

    fn read(&mut self, pipe: File) -> Result<Step, Failure> {
        let mut data = vec![0; BLOCK_BYTES];
        match self.stdin.read(&mut data) {
            // A pipe that we hold open has no end.
            Ok(0) if !self.has_read && !self.hands_on_empty => Ok(Step::Over),
            Ok(0) => self.close(pipe),
            Ok(count) => {
                self.has_read = true;
                data.truncate(count);
                let is_over = self.chord.as_mut().is_some_and(|chord| chord.take(&mut data));
                let step = write(pipe, data, 0);
                Ok(if is_over { Step::Detached } else { step })
            }
            Err(error) if may_come_later(&error) => Ok(Step::Reading(pipe)),
            Err(error) => Err(unreadable(&error)),
        }
    }

    /// Our stdin has ended, and all of it was written.
    fn close(&self, pipe: File) -> Result<Step, Failure> {
        drop(pipe);
        Ok(Step::Closing(self.ask(true)?))
    }

    /// Asks the daemon, over a connection of its own: it answers once the command has started.
    fn ask(&self, eof: bool) -> Result<Client, Failure> {
        let mut client = door::client(Some(&self.session))?;
        client.begin(Request::Send { id: self.id.clone(), data: ByteBuf::new(), eof })?;
        Ok(client)
    }
}

fn may_come_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

fn unreadable(error: &io::Error) -> Failure {
    Failure::of("io", error, Some("is stdin something that can be read?".to_owned()))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn pressed(keys: &[u8], typed: &[&[u8]]) -> (Vec<u8>, bool) {
        let mut chord = Chord::new(keys.to_vec()).unwrap();
        let mut own = Vec::new();
        for piece in typed {
            let mut piece = piece.to_vec();
            let is_over = chord.take(&mut piece);
            own.extend(piece);
            if is_over {
                return (own, true);
            }
        }
        (own, false)
    }

    #[test]
    fn an_end_that_comes_while_the_task_takes_nothing_is_read_once() {
        let (stdin, typing) = io::pipe().unwrap();
        let (_task, pipe) = io::pipe().unwrap();
        let mut input = Input {
            id: String::new(),
            session: String::new(),
            pipe: PathBuf::new(),
            stdin: File::from(std::os::fd::OwnedFd::from(stdin)),
            step: Step::Writing { pipe: File::from(std::os::fd::OwnedFd::from(pipe)), data: b"ab".to_vec(), done: 0 },
            chord: Chord::new(b"\x1d".to_vec()),
            has_read: true,
            at_end: false,
            hands_on_empty: true,
        };
        (&typing).write_all(b"c").unwrap();
        input.read_besides().unwrap();
        assert!(matches!(&input.step, Step::Writing { data, .. } if data == b"abc"));
        assert!(input.awaited_besides().is_some());
        drop(typing);
        input.read_besides().unwrap();
        assert!(input.awaited_besides().is_none(), "an end is always there to be read");
        assert!(matches!(input.awaited(), Some((_, For::Write))));
    }

    #[test]
    fn a_chord_is_heard_and_half_of_one_is_the_tasks() {
        assert_eq!(pressed(b"\x1d", &[b"ab", b"c\x1dd"]), (b"abc".to_vec(), true));
        assert_eq!(pressed(b"\x10\x11", &[b"a\x10", b"\x11"]), (b"a".to_vec(), true));
        assert_eq!(pressed(b"\x10\x11", &[b"\x10x\x10\x10\x11"]), (b"\x10x\x10".to_vec(), true));
        assert_eq!(pressed(b"\x10\x11", &[b"\x10y"]), (b"\x10y".to_vec(), false));
    }
}
