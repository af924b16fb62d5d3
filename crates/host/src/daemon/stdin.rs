//! Writing to the stdin of a task: in the order in which it was asked, as much as its pipe takes now, the rest when it can
//! take more. Who asks is answered when his bytes are in the pipe, so a command that does not read holds up its senders.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;

use mio::unix::SourceFd;
use mio::{Interest, Token};
use ringback_core::id::TaskId;
use ringback_sys::files;
use ringback_sys::form::record::Phase;
use ringback_sys::form::request::{Ask, Request};

use super::folder::STDIN;
use super::round::Act;
use super::tell::{Say, Tell};
use super::{Daemon, Source};
use crate::wire::{Fault, Reply};

/// What ends the input at a terminal, unless its modes say otherwise (`VEOF`, termios(3)): `^D`.
const END_OF_INPUT: u8 = 4;
/// How many sends of one task may wait: more is a loop that does not look at its answers.
const SENDS_MAX: usize = 256;
/// How many bytes of all tasks may wait: two of the longest sends.
const BYTES_MAX: usize = 64 << 20;

/// What is to be written to all stdins.
#[derive(Default)]
pub(super) struct Feeds {
    queues: BTreeMap<TaskId, Queue>,
    tokens: BTreeMap<Token, TaskId>,
    bytes: usize,
}

/// What is to be written to one stdin; only the first of it is being written.
#[derive(Default)]
struct Queue {
    sends: VecDeque<Send>,
    /// Open and watched, while it takes no more.
    pipe: Option<(File, Token)>,
    /// The last of them closes it.
    ends: bool,
}

/// What one client wants to be written.
struct Send {
    to: Token,
    data: Vec<u8>,
    done: usize,
    eof: bool,
}

impl Feeds {
    /// How many pipes are open for writing.
    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }
}

impl Daemon {
    /// A client wants to write to the stdin of a task.
    pub(super) fn ask_send(&mut self, to: Token, text: &str, mut data: Vec<u8>, eof: bool) -> Result<(), Fault> {
        let id = self.resolve(text)?;
        let Some(live) = self.lives.get(&id).filter(|live| live.row.facts.is_none()) else {
            return Err(closed(id, "it has ended", format!("`ringback show {id}` says how")));
        };
        if !live.row.asked.stdin {
            let hint = "start it with `ringback run --stdin` or `--pty` to be able to send".to_owned();
            return Err(closed(id, "its stdin is not a pipe", hint));
        }
        let is_terminal = live.row.asked.pty.is_some();
        let ended = live.stdin_closed || self.feeds.queues.get(&id).is_some_and(|queue| queue.ends);
        if ended {
            return Err(closed(id, "its stdin was closed", "an earlier `ringback send --eof` was the last".into()));
        }
        let waiting = self.feeds.queues.get(&id).map_or(0, |queue| queue.sends.len());
        if waiting >= SENDS_MAX || (self.feeds.bytes > 0 && self.feeds.bytes + data.len() > BYTES_MAX) {
            let others = if waiting == 0 { "sends to other tasks wait" } else { "earlier sends wait until it reads" };
            return Err(Fault {
                code: "stdin_busy".into(),
                message: format!("cannot send to {id}: {others}, and no more may wait"),
                hint: Some(format!("nothing was sent; `ringback logs {id}` shows what it does")),
            });
        }
        if eof && is_terminal {
            data.push(END_OF_INPUT);
        }
        let eof = eof && !is_terminal;
        self.feeds.bytes += data.len();
        let queue = self.feeds.queues.entry(id).or_default();
        queue.ends = eof;
        queue.sends.push_back(Send { to, data, done: 0, eof });
        // A handle works at once: what is sent before the command has started waits for it.
        if self.record(id).is_some_and(|record| record.phase != Phase::New) {
            self.feed(id);
        }
        Ok(())
    }

    /// A pipe may take more.
    pub(super) fn feed_more(&mut self, token: Token) {
        if let Some(id) = self.feeds.tokens.get(&token).copied() {
            self.feed(id);
        }
    }

    /// Writes what waits for the stdin of a task, as far as its pipe takes it. Its command must have started.
    pub(super) fn feed(&mut self, id: TaskId) {
        while let Some(queue) = self.feeds.queues.get_mut(&id)
            && let Some(send) = queue.sends.front_mut()
        {
            if send.done == send.data.len() {
                let bytes = send.done as u64;
                self.end_send(id, Ok(Reply::Sent { bytes }));
                continue;
            }
            let written = match &mut queue.pipe {
                Some((pipe, _)) => pipe.write(&send.data[send.done..]),
                None => match files::open_fifo_writer(&self.dir(id).join(STDIN)) {
                    Ok(pipe) => {
                        self.watch_stdin(id, pipe);
                        continue;
                    }
                    Err(error) => {
                        let why = format!("its stdin is not open: {error}");
                        self.end_send(id, Err(closed(id, &why, "it may have been closed by `--eof`".into())));
                        continue;
                    }
                },
            };
            match written {
                Ok(count) => send.done += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let why = format!("{error}; {} of {} bytes were written", send.done, send.data.len());
                    self.end_send(id, Err(closed(id, &why, "the command no longer reads its stdin".into())));
                }
            }
        }
        self.drop_queue(id);
    }

    /// Watched before the first write, so that no room is missed that comes after it.
    fn watch_stdin(&mut self, id: TaskId, pipe: File) {
        let token = self.token(Source::Stdin);
        if let Err(error) = self.poll.registry().register(&mut SourceFd(&pipe.as_raw_fd()), token, Interest::WRITABLE) {
            self.troubles.note(&format!("watch the stdin of {id}"), &error);
        }
        self.feeds.tokens.insert(token, id);
        if let Some(queue) = self.feeds.queues.get_mut(&id) {
            queue.pipe = Some((pipe, token));
        }
    }

    /// What waits for the stdin of a task that has ended will never be read.
    pub(super) fn end_feeds_of(&mut self, id: TaskId) {
        while let Some(done) = self.feeds.queues.get(&id).and_then(|queue| queue.sends.front()).map(|send| send.done) {
            let why = format!("it ended after {done} bytes were written");
            self.end_send(id, Err(closed(id, &why, format!("`ringback show {id}` says how it ended"))));
        }
        self.drop_queue(id);
    }

    /// What a client that has left wanted to be written is not written on.
    pub(super) fn drop_feeds(&mut self, to: Token) {
        let Feeds { queues, bytes, .. } = &mut self.feeds;
        let mut touched = Vec::new();
        for (id, queue) in queues {
            let before = queue.sends.len();
            *bytes -= queue.sends.iter().filter(|send| send.to == to).map(|send| send.data.len()).sum::<usize>();
            queue.sends.retain(|send| send.to != to);
            queue.ends = queue.sends.back().is_some_and(|send| send.eof);
            if queue.sends.len() < before {
                touched.push(*id);
            }
        }
        for id in touched {
            // The next one was held up by it; without a pipe the command has not started.
            if self.feeds.queues.get(&id).is_some_and(|queue| queue.pipe.is_some() || queue.sends.is_empty()) {
                self.feed(id);
            }
        }
    }

    /// The first send is over, one way or another.
    fn end_send(&mut self, id: TaskId, reply: Result<Reply, Fault>) {
        let Some(send) = self.feeds.queues.get_mut(&id).and_then(|queue| queue.sends.pop_front()) else { return };
        self.feeds.bytes -= send.data.len();
        if send.eof && reply.is_ok() {
            if let Some(live) = self.lives.get_mut(&id) {
                live.stdin_closed = true;
            }
            self.round.act(Act::Request(id, Request { ask: Ask::CloseStdin, ..Request::default() }));
        }
        self.round.tells.push(Tell { to: send.to, say: Say::Reply(reply.unwrap_or_else(Reply::Fault)) });
    }

    /// A queue with nothing in it holds no pipe: as long as we have it open, the command sees no end of its stdin.
    fn drop_queue(&mut self, id: TaskId) {
        let Some(Queue { pipe: Some((pipe, token)), .. }) = self.feeds.queues.remove(&id) else { return };
        self.sources.remove(&token);
        self.feeds.tokens.remove(&token);
        let _ = self.poll.registry().deregister(&mut SourceFd(&pipe.as_raw_fd()));
    }
}

fn closed(id: TaskId, why: &str, hint: String) -> Fault {
    Fault { code: "stdin_closed".into(), message: format!("cannot send to {id}: {why}"), hint: Some(hint) }
}
