//! Who may speak: clients are accepted, looked at, served, refused and let go.

use std::fs::File;
use std::io::{self, Write as _};

use mio::net::{UnixListener, UnixStream};
use mio::{Interest, Token};
use ringback_sys::confine::Confinement;
use ringback_sys::{process, socket};

use super::{Daemon, Source};
use crate::config::Confined;
use crate::confined;
use crate::wire::{Answer, Fault, PROTOCOL, Reply, VERSION, frame, refusal};

/// When the machine had no descriptor to give, somebody is accepted after this long, milliseconds.
const ACCEPT_PAUSE_MS: u64 = 100;

impl Daemon {
    /// Takes in everybody who wants to connect, unless we are about to leave. Nobody is left waiting in the queue.
    pub(super) fn accept_all(&mut self) {
        self.accept_at_ms = None;
        if self.is_full() {
            // Somebody may have left whose end has not been seen yet.
            for client in self.connections.look_who_left(process::monotonic_ms()) {
                self.round.resume(client);
            }
            self.drop_closed_connections();
        }
        while !self.leaving {
            let Some(listener) = &self.connections.listener else { return };
            let full = self.is_full();
            match listener.accept() {
                Ok((mut stream, _)) if full => refuse(&mut stream, self.places.clients),
                Ok((stream, _)) => self.accept(stream),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if socket::is_shortage(&error) && self.spare.take().is_some() => {
                    let (said, clients) = (self.refuse_one(), self.places.clients);
                    self.spare = open_spare();
                    if !said {
                        return self.accept_later(&error);
                    }
                    self.troubles.note(&format!("serve more than {clients} clients"), &error);
                }
                Err(error) => return self.accept_later(&error),
            }
        }
    }

    fn is_full(&self) -> bool {
        self.connections.len() + self.feeds.len() >= self.places.clients
    }

    /// Answers one client with the descriptor that is kept back for that.
    fn refuse_one(&mut self) -> bool {
        let accepted = self.connections.listener.as_ref().map(UnixListener::accept);
        let Some(Ok((mut stream, _))) = accepted else { return false };
        refuse(&mut stream, self.connections.len());
        true
    }

    /// The machine has nothing left to accept anybody with, and tells nobody when it has.
    fn accept_later(&mut self, error: &io::Error) {
        self.troubles.note("accept a client", error);
        self.spare = self.spare.take().or_else(open_spare);
        self.accept_at_ms = Some(process::monotonic_ms() + ACCEPT_PAUSE_MS);
    }

    fn accept(&mut self, mut stream: UnixStream) {
        let token = self.token(Source::Client);
        let (refused, is_alike) = match self.judge(&stream) {
            Ok(is_alike) => (None, is_alike),
            Err(fault) => (Some(fault), false),
        };
        let interest = Interest::READABLE | Interest::WRITABLE;
        if let Err(error) = self.poll.registry().register(&mut stream, token, interest) {
            self.sources.remove(&token);
            return self.troubles.note("watch a client", &error);
        }
        self.connections.add(token, stream);
        if let Some(conn) = self.connections.get(token) {
            conn.is_alike = is_alike;
            if let Some(fault) = refused {
                return conn.refuse(fault);
            }
        }
        // Its first frame is often there already; the loop need not be asked for it.
        self.serve(token, false, false);
    }

    /// Whether this client was seen to be where we are, or why it is not served: another user, or one that would gain by asking us.
    fn judge(&self, stream: &UnixStream) -> Result<bool, Fault> {
        let fault = |code: &str, message: String, hint: &str| {
            Err(Fault { code: code.into(), message, hint: Some(hint.into()) })
        };
        let peer = match socket::peer(stream) {
            Ok(peer) => peer,
            Err(error) => {
                let hint = "`ringback doctor` looks at the socket";
                return fault(refusal::UNKNOWN_CALLER, format!("cannot see who is calling: {error}"), hint);
            }
        };
        if peer.uid != process::effective_uid() {
            let message = format!("this daemon belongs to another user than {}", peer.uid);
            return fault(refusal::OTHER_USER, message, "use a home of your own: set RINGBACK_HOME");
        }
        if self.config.confined == Confined::Allow {
            return Ok(false);
        }
        let mut is_alike = false;
        let seen = Confinement::of_peer(&peer).map(|theirs| {
            // That it is no more confined than we are comes out below.
            is_alike = self.own.apart(&theirs).is_none();
            theirs.beyond(&self.own)
        });
        confined::refusal(seen, "the daemon").map_or(Ok(is_alike), Err)
    }

    /// A client sent something or can take more.
    pub(super) fn serve(&mut self, token: Token, writable: bool, left: bool) {
        let Some(conn) = self.connections.get(token) else { return };
        if writable {
            conn.flush();
        }
        conn.closing |= left && conn.waiting;
        if !conn.closing {
            self.connections.fill(token, process::monotonic_ms());
        }
        self.read_calls(token);
    }

    /// Carries out the calls that are there, one at a time.
    fn read_calls(&mut self, token: Token) {
        loop {
            match self.connections.next_call(token) {
                Ok(Some(call)) => {
                    if let Some(conn) = self.connections.get(token) {
                        conn.waiting = true;
                    }
                    self.ask(token, call);
                }
                Ok(None) => return,
                Err(error) => {
                    let Some(conn) = self.connections.get(token) else { return };
                    return conn.refuse(Fault {
                        code: refusal::BAD_FRAME.into(),
                        message: format!("cannot read the request: {}", describe(&error)),
                        hint: Some("client and daemon may be of different versions: `ringback daemon restart`".into()),
                    });
                }
            }
        }
    }

    /// Lets go of clients that have left.
    pub(super) fn drop_closed_connections(&mut self) {
        for token in self.connections.take_closing(self.poll.registry()) {
            self.sources.remove(&token);
            self.waits.drop_client(token);
            self.changes.drop_client(token);
            self.drop_feeds(token);
        }
    }
}

/// A descriptor that can be given up to answer a client for whom there is none.
pub(super) fn open_spare() -> Option<File> {
    File::open("/dev/null").ok()
}

/// Says that there is no place, and hangs up. An answer of some hundred bytes fits into any socket.
fn refuse(stream: &mut UnixStream, clients: usize) {
    let fault = Fault {
        code: refusal::TOO_MANY_CLIENTS.into(),
        message: format!("cannot serve another client: {clients} are connected, and the daemon may open no more files"),
        hint: Some("end some that wait, or raise `ulimit -n` and `ringback daemon restart`; tasks run on".into()),
    };
    let mut bytes = Vec::new();
    let answer = Answer { proto: PROTOCOL, version: VERSION.to_owned(), reply: Reply::Fault(fault) };
    if frame::encode(&answer, &mut bytes).is_ok() {
        // A client that has left needs no answer.
        let _ = stream.write(&bytes);
    }
}

fn describe(error: &frame::FrameError) -> String {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    format!("{error}{cause}")
}
