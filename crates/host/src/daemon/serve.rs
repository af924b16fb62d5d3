//! Connections: who may speak, frames in, frames out. Never blocks, never holds more than a frame of a stranger's bytes.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};

use mio::net::{UnixListener, UnixStream};
use mio::{Interest, Token};
use ringback_sys::confine::Confinement;
use ringback_sys::{process, socket};

use super::{Daemon, Source};
use crate::config::Confined;
use crate::wire::frame::{self, FRAME_BYTES_MAX, PREFIX_BYTES};
use crate::wire::{Answer, Call, Fault, PROTOCOL, Reply, VERSION};

/// How many clients may be connected at once; more wait in the kernel's queue until one leaves.
const CLIENTS_MAX: usize = 4096;

/// How many bytes are read in one go.
const READ_BYTES: usize = 16 << 10;

/// All connections.
#[derive(Default)]
pub(super) struct Connections {
    /// Where clients connect.
    pub listener: Option<UnixListener>,
    conns: BTreeMap<Token, Conn>,
}

/// One client.
pub(super) struct Conn {
    stream: UnixStream,
    input: Vec<u8>,
    output: Vec<u8>,
    /// It waits for an answer; what it sends meanwhile is read afterwards.
    pub waiting: bool,
    /// Something may be in the socket for which no further event will come.
    unread: bool,
    closing: bool,
}

impl Connections {
    /// How many clients are connected.
    pub(super) fn len(&self) -> usize {
        self.conns.len()
    }

    /// Whether an answer has not been written out yet.
    pub(super) fn has_words_left(&self) -> bool {
        self.conns.values().any(|conn| !conn.closing && !conn.output.is_empty())
    }

    /// The connection with this token.
    pub(super) fn get(&mut self, token: Token) -> Option<&mut Conn> {
        self.conns.get_mut(&token)
    }

    /// Writes out what can be written. True if there was anything.
    pub(super) fn flush_all(&mut self) -> bool {
        let mut any = false;
        for conn in self.conns.values_mut().filter(|conn| !conn.output.is_empty()) {
            any = true;
            conn.flush();
        }
        any
    }
}

impl Conn {
    /// Whether something it sent has not been read yet.
    pub(super) fn has_input(&self) -> bool {
        self.unread || !self.input.is_empty()
    }

    /// Queues an answer.
    pub(super) fn answer(&mut self, reply: Reply) {
        let answer = Answer { proto: PROTOCOL, version: VERSION.to_owned(), reply };
        self.waiting = false;
        if let Err(error) = frame::encode(&answer, &mut self.output) {
            let reply = Reply::Fault(Fault {
                code: "answer_too_long".into(),
                message: format!("cannot send the answer: {error}"),
                hint: Some("ask for less at once, for example with `--limit`".into()),
            });
            let _ = frame::encode(&Answer { reply, ..answer }, &mut self.output);
        }
    }

    fn flush(&mut self) {
        let mut done = 0;
        while done < self.output.len() {
            match self.stream.write(&self.output[done..]) {
                Ok(0) => break,
                Ok(written) => done += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.closing = true;
                    break;
                }
            }
        }
        self.output.drain(..done);
        if self.output.is_empty() && self.output.capacity() > READ_BYTES {
            self.output = Vec::new();
        }
    }

    /// Reads what is there, but not more than one call may be long, and nothing while an answer is awaited. False when
    /// the client has left.
    fn fill(&mut self) -> bool {
        let mut buffer = [0; READ_BYTES];
        loop {
            if self.waiting || self.input.len() >= PREFIX_BYTES + FRAME_BYTES_MAX {
                self.unread = true;
                return true;
            }
            match self.stream.read(&mut buffer) {
                Ok(0) => return false,
                Ok(length) => self.input.extend_from_slice(&buffer[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
    }

    /// The next whole call, if there is one.
    fn next_call(&mut self) -> Result<Option<Call>, frame::FrameError> {
        let Some(prefix) = self.input.first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
        let end = PREFIX_BYTES + frame::body_length(*prefix)?;
        if self.input.len() < end {
            return Ok(None);
        }
        let call = frame::decode(&self.input[PREFIX_BYTES..end]);
        self.input.drain(..end);
        if self.input.is_empty() && self.input.capacity() > READ_BYTES {
            self.input = Vec::new();
        }
        call.map(Some)
    }
}

impl Daemon {
    /// Takes in everybody who wants to connect, unless we are about to leave.
    pub(super) fn accept_all(&mut self) {
        loop {
            if self.leaving || self.connections.len() >= CLIENTS_MAX {
                return;
            }
            let Some(listener) = &self.connections.listener else { return };
            match listener.accept() {
                Ok((stream, _)) => self.accept(stream),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return self.troubles.note("accept a client", &error),
            }
        }
    }

    fn accept(&mut self, mut stream: UnixStream) {
        let token = self.token(Source::Client);
        let refused = self.refusal(&stream);
        let interest = Interest::READABLE | Interest::WRITABLE;
        if let Err(error) = self.poll.registry().register(&mut stream, token, interest) {
            self.sources.remove(&token);
            return self.troubles.note("watch a client", &error);
        }
        let mut conn =
            Conn { stream, input: Vec::new(), output: Vec::new(), waiting: false, unread: false, closing: false };
        if let Some(fault) = refused {
            conn.answer(Reply::Fault(fault));
            conn.flush();
            conn.closing = true;
        }
        self.connections.conns.insert(token, conn);
        // Its first frame is often there already; the loop need not be asked for it.
        self.serve(token, false, false);
    }

    /// Why this client is not served: another user, or one that would gain by asking us (DESIGN 4.8).
    fn refusal(&self, stream: &UnixStream) -> Option<Fault> {
        let fault = |code: &str, message: String, hint: &str| {
            Some(Fault { code: code.into(), message, hint: Some(hint.into()) })
        };
        let peer = match socket::peer(stream) {
            Ok(peer) => peer,
            Err(error) => {
                let hint = "`ringback doctor` looks at the socket";
                return fault("unknown_caller", format!("cannot see who is calling: {error}"), hint);
            }
        };
        if peer.uid != process::effective_uid() {
            let message = format!("this daemon belongs to another user than {}", peer.uid);
            return fault("other_user", message, "use a home of your own: set RINGBACK_HOME");
        }
        if self.config.confined == Confined::Allow {
            return None;
        }
        let hint = "ask from outside of the sandbox, or set `confined = \"allow\"` in the config of the daemon";
        match Confinement::of_peer(&peer) {
            Ok(theirs) => {
                let why = theirs.beyond(&self.own)?;
                fault("confined_caller", format!("the caller is more confined than the daemon ({why})"), hint)
            }
            // What it sent is still there, and would be carried out for a caller that nobody has seen.
            Err(error) if error.kind() == io::ErrorKind::NotFound => fault(
                "confined_caller",
                "the caller left before it could be seen".into(),
                "ask again, and wait for the answer",
            ),
            Err(error) => fault("confined_caller", format!("cannot see how confined the caller is: {error}"), hint),
        }
    }

    /// A client sent something or can take more.
    pub(super) fn serve(&mut self, token: Token, writable: bool, left: bool) {
        let Some(conn) = self.connections.get(token) else { return };
        if writable {
            conn.flush();
        }
        conn.closing |= left && conn.waiting;
        conn.unread = false;
        if !conn.closing && !conn.fill() {
            conn.closing = true;
        }
        self.read_calls(token);
    }

    /// Carries out the calls that are there, one at a time.
    pub(super) fn read_calls(&mut self, token: Token) {
        loop {
            let Some(conn) = self.connections.get(token).filter(|conn| !conn.waiting) else { return };
            match conn.next_call() {
                Ok(Some(call)) => {
                    conn.waiting = true;
                    self.ask(token, call);
                }
                Ok(None) => return,
                Err(error) => {
                    conn.answer(Reply::Fault(Fault {
                        code: "bad_frame".into(),
                        message: format!("cannot read the request: {}", describe(&error)),
                        hint: Some("client and daemon may be of different versions: `ringback daemon restart`".into()),
                    }));
                    conn.flush();
                    conn.closing = true;
                    return;
                }
            }
        }
    }

    /// Lets go of clients that have left.
    pub(super) fn drop_closed_connections(&mut self) {
        let closed: Vec<Token> =
            self.connections.conns.iter().filter(|(_, conn)| conn.closing).map(|(token, _)| *token).collect();
        for token in closed {
            self.sources.remove(&token);
            self.waits.drop_client(token);
            self.changes.drop_client(token);
            self.drop_feeds(token);
            if let Some(mut conn) = self.connections.conns.remove(&token) {
                let _ = self.poll.registry().deregister(&mut conn.stream);
            }
            // Somebody may have been waiting for a free place.
            self.accept_all();
        }
    }
}

fn describe(error: &frame::FrameError) -> String {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    format!("{error}{cause}")
}
