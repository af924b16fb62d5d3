//! Writing to the stdin of a task: as much as its pipe takes now, the rest when it can take more.

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
use super::{Daemon, Source};
use crate::wire::{Fault, Reply};

/// Something that is being written to a stdin.
pub(super) struct Feed {
    to: Token,
    id: TaskId,
    /// Nothing until the command has started: only then somebody reads.
    pipe: Option<File>,
    data: Vec<u8>,
    done: usize,
    eof: bool,
}

impl Daemon {
    /// A client wants to write to the stdin of a task.
    pub(super) fn ask_send(&mut self, to: Token, text: &str, data: Vec<u8>, eof: bool) -> Result<(), Fault> {
        let id = self.resolve(text)?;
        let Some(live) = self.lives.get(&id).filter(|live| live.row.facts.is_none()) else {
            return Err(closed(id, "it has ended", format!("`ringback show {id}` says how")));
        };
        if !live.row.asked.stdin {
            let hint = "start it with `ringback run --stdin` to be able to send".to_owned();
            return Err(closed(id, "its stdin is not a pipe", hint));
        }
        let token = self.token(Source::Stdin);
        self.feeds.insert(token, Feed { to, id, pipe: None, data, done: 0, eof });
        // A handle works at once: what is sent before the command has started waits for it.
        if self.record(id).is_some_and(|record| record.phase != Phase::New) {
            self.begin_feed(token);
        }
        Ok(())
    }

    /// The command of a task has started, so what waited for that can be written.
    pub(super) fn begin_feeds_of(&mut self, id: TaskId) {
        let waiting = self.feeds.iter().filter(|(_, feed)| feed.id == id && feed.pipe.is_none());
        let tokens: Vec<Token> = waiting.map(|(token, _)| *token).collect();
        for token in tokens {
            self.begin_feed(token);
        }
    }

    fn begin_feed(&mut self, token: Token) {
        let Some(id) = self.feeds.get(&token).map(|feed| feed.id) else { return };
        match files::open_fifo_writer(&self.dir(id).join(STDIN)) {
            Ok(pipe) => {
                if let Some(feed) = self.feeds.get_mut(&token) {
                    feed.pipe = Some(pipe);
                }
            }
            Err(error) => {
                let why = format!("its stdin is not open: {error}");
                return self.end_feed(token, Err(closed(id, &why, "it may have been closed by `--eof`".into())));
            }
        }
        self.feed(token);
        // Only one that has to wait is watched.
        if let Some(fd) = self.feeds.get(&token).and_then(|feed| feed.pipe.as_ref()).map(File::as_raw_fd) {
            if let Err(error) = self.poll.registry().register(&mut SourceFd(&fd), token, Interest::WRITABLE) {
                self.troubles.note(&format!("watch the stdin of {id}"), &error);
            }
            self.feed(token);
        }
    }

    /// The pipe may take more.
    pub(super) fn feed(&mut self, token: Token) {
        let Some(feed) = self.feeds.get_mut(&token) else { return };
        let Some(pipe) = &mut feed.pipe else { return };
        let reply = loop {
            if feed.done == feed.data.len() {
                break Ok(Reply::Sent { bytes: feed.done as u64 });
            }
            match pipe.write(&feed.data[feed.done..]) {
                Ok(written) => feed.done += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let why = format!("{error}; {} of {} bytes were written", feed.done, feed.data.len());
                    break Err(closed(feed.id, &why, "the command no longer reads its stdin".into()));
                }
            }
        };
        self.end_feed(token, reply);
    }

    /// Feeds of a task that has ended will never be read.
    pub(super) fn end_feeds_of(&mut self, id: TaskId) {
        let tokens: Vec<Token> = self.feeds.iter().filter(|(_, feed)| feed.id == id).map(|(token, _)| *token).collect();
        for token in tokens {
            let done = self.feeds.get(&token).map_or(0, |feed| feed.done);
            let why = format!("it ended after {done} bytes were written");
            self.end_feed(token, Err(closed(id, &why, format!("`ringback show {id}` says how it ended"))));
        }
    }

    /// Feeds of a client that has left are not written on.
    pub(super) fn drop_feeds(&mut self, to: Token) {
        let tokens: Vec<Token> = self.feeds.iter().filter(|(_, feed)| feed.to == to).map(|(token, _)| *token).collect();
        for token in tokens {
            self.take_feed(token);
        }
    }

    fn end_feed(&mut self, token: Token, reply: Result<Reply, Fault>) {
        let Some(feed) = self.take_feed(token) else { return };
        if feed.eof && reply.is_ok() {
            self.request(feed.id, &Request { ask: Ask::CloseStdin, ..Request::default() });
        }
        self.reply(feed.to, reply);
    }

    fn take_feed(&mut self, token: Token) -> Option<Feed> {
        self.sources.remove(&token);
        let feed = self.feeds.remove(&token)?;
        if let Some(pipe) = &feed.pipe {
            let _ = self.poll.registry().deregister(&mut SourceFd(&pipe.as_raw_fd()));
        }
        Some(feed)
    }
}

fn closed(id: TaskId, why: &str, hint: String) -> Fault {
    Fault { code: "stdin_closed".into(), message: format!("cannot send to {id}: {why}"), hint: Some(hint) }
}
