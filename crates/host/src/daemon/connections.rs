//! Connections: frames in, frames out. Never blocks, and all of them together hold a bounded number of bytes.
//!
//! A small frame is read as it comes. For a large one its whole length is set aside from a common budget before more of
//! it is read than fits a small one; where that is used up the client is told to ask again.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};

use mio::net::{UnixListener, UnixStream};
use mio::{Registry, Token};

use crate::wire::frame::{self, PREFIX_BYTES};
use crate::wire::{Answer, Call, Fault, PROTOCOL, Reply, VERSION, refusal};

/// How many bytes are read in one go, and how long a small frame is at most.
const READ_BYTES: usize = 16 << 10;
/// How much of all large frames may be half-way at once, bytes: two of the longest.
const LARGE_BYTES_MAX: usize = 64 << 20;
/// How much of all answers may wait for clients to read them, bytes.
const ANSWERS_BYTES_MAX: usize = 64 << 20;
/// How long a large frame may take to come, milliseconds: it is in somebody's memory already.
const LARGE_MS: u64 = 10_000;

/// All connections.
#[derive(Default)]
pub(super) struct Connections {
    /// Where clients connect.
    pub listener: Option<UnixListener>,
    conns: BTreeMap<Token, Conn>,
    /// How many bytes are set aside for large frames.
    granted: usize,
    /// How many bytes of answers were not read when they were last written out.
    unread: usize,
}

#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own, and none excludes another")]
/// One client.
pub(super) struct Conn {
    stream: UnixStream,
    input: Vec<u8>,
    output: Vec<u8>,
    /// It waits for an answer; what it sends meanwhile is read afterwards.
    pub waiting: bool,
    /// It was seen to be where the daemon is, and the daemon where it is: neither is in a sandbox that the other is not in.
    pub is_alike: bool,
    /// It is to be let go once its answer is written out.
    pub closing: bool,
    /// Something may be in the socket for which no further event will come.
    unread: bool,
    /// How many bytes are set aside for its frame, and until when.
    granted: Option<(usize, u64)>,
}

/// What a look into a socket has brought.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Filled {
    /// What there was, or as much as is read before it is looked at.
    Some,
    /// The client has left.
    Left,
    /// A large frame begins, and this many bytes are to be set aside.
    Large(usize),
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

    /// Somebody has connected.
    pub(super) fn add(&mut self, token: Token, stream: UnixStream) {
        self.conns.insert(token, Conn::new(stream));
    }

    /// Takes out those that are to be let go.
    pub(super) fn take_closing(&mut self, registry: &Registry) -> Vec<Token> {
        let closing: Vec<Token> = self.conns.iter().filter(|(_, conn)| conn.closing).map(|(token, _)| *token).collect();
        for token in &closing {
            if let Some(mut conn) = self.conns.remove(token) {
                self.granted -= conn.granted.map_or(0, |(bytes, _)| bytes);
                let _ = registry.deregister(&mut conn.stream);
            }
        }
        closing
    }

    /// Writes out what can be written. True if there was anything.
    pub(super) fn flush_all(&mut self) -> bool {
        let mut any = false;
        self.unread = 0;
        for conn in self.conns.values_mut().filter(|conn| !conn.output.is_empty()) {
            any = true;
            conn.flush();
            self.unread += conn.output.len();
        }
        any
    }

    /// Queues an answer. Where too many wait to be read already, it is only that.
    pub(super) fn answer(&mut self, token: Token, reply: Reply) -> bool {
        let full = self.unread > ANSWERS_BYTES_MAX;
        // A client that has left needs no answer.
        let Some(conn) = self.conns.get_mut(&token) else { return false };
        let before = conn.output.len();
        conn.answer(if full { Reply::Fault(unsaid()) } else { reply });
        self.unread += conn.output.len() - before;
        conn.has_input()
    }

    /// Reads what a client sent, as far as there is room for it.
    pub(super) fn fill(&mut self, token: Token, now_ms: u64) {
        loop {
            let Some(conn) = self.conns.get_mut(&token) else { return };
            match conn.fill() {
                Filled::Some => return,
                Filled::Left => {
                    conn.closing = true;
                    return;
                }
                Filled::Large(bytes) if self.granted + bytes <= LARGE_BYTES_MAX => {
                    conn.granted = Some((bytes, now_ms + LARGE_MS));
                    self.granted += bytes;
                }
                Filled::Large(_) => return conn.refuse(busy()),
            }
        }
    }

    /// Reads from everybody, to see who has left. Those who have said something instead: no event will come for that.
    pub(super) fn look_who_left(&mut self, now_ms: u64) -> Vec<Token> {
        let tokens: Vec<Token> = self.conns.keys().copied().collect();
        for token in &tokens {
            self.fill(*token, now_ms);
        }
        tokens
            .into_iter()
            .filter(|token| self.conns.get(token).is_some_and(|conn| conn.has_input() && !conn.waiting))
            .collect()
    }

    /// The next whole call of a client, if there is one.
    pub(super) fn next_call(&mut self, token: Token) -> Result<Option<Call>, frame::FrameError> {
        let Some(conn) = self.conns.get_mut(&token).filter(|conn| !conn.waiting && !conn.closing) else {
            return Ok(None);
        };
        let call = conn.next_call()?;
        if call.is_some() {
            self.granted -= conn.granted.take().map_or(0, |(bytes, _)| bytes);
        }
        Ok(call)
    }

    /// When the first of the large frames has to be there.
    pub(super) fn next_due(&self) -> Option<u64> {
        if self.granted == 0 {
            return None;
        }
        self.conns.values().filter_map(|conn| conn.granted).map(|(_, at_ms)| at_ms).min()
    }

    /// Lets go of clients whose large frame does not come.
    pub(super) fn drop_overdue(&mut self, now_ms: u64) {
        if self.next_due().is_none_or(|at_ms| at_ms > now_ms) {
            return;
        }
        let overdue = |conn: &&mut Conn| conn.granted.is_some_and(|(_, at_ms)| at_ms <= now_ms);
        for conn in self.conns.values_mut().filter(overdue) {
            conn.refuse(Fault {
                code: refusal::BAD_FRAME.into(),
                message: format!("cannot read the request: it did not come whole within {LARGE_MS} ms"),
                hint: Some("ask again".into()),
            });
        }
    }
}

/// Too many large requests are half-way.
fn busy() -> Fault {
    Fault {
        code: "daemon_busy".into(),
        message: "cannot take a request of this size now: too many others as large are on their way".into(),
        hint: Some("nothing was done; ask again in a moment".into()),
    }
}

/// Too many answers wait for somebody to read them.
fn unsaid() -> Fault {
    Fault {
        code: "daemon_busy".into(),
        message: "cannot send the answer now: too many others wait to be read".into(),
        hint: Some("what was asked for was done; look in a moment what came of it".into()),
    }
}

impl Conn {
    fn new(stream: UnixStream) -> Self {
        let (input, output) = (Vec::new(), Vec::new());
        let (waiting, is_alike, closing, unread) = (false, false, false, false);
        Self { stream, input, output, waiting, is_alike, closing, unread, granted: None }
    }

    /// Whether something it sent has not been read yet.
    fn has_input(&self) -> bool {
        self.unread || !self.input.is_empty()
    }

    /// Says why it is not served, and lets it go.
    pub(super) fn refuse(&mut self, fault: Fault) {
        self.answer(Reply::Fault(fault));
        self.flush();
        self.closing = true;
    }

    fn answer(&mut self, reply: Reply) {
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

    /// Writes out what can be written.
    pub(super) fn flush(&mut self) {
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

    /// Reads what is there, but no more than a small frame or what was set aside, and nothing while an answer is awaited
    /// or not read.
    fn fill(&mut self) -> Filled {
        let mut buffer = [0; READ_BYTES];
        self.unread = false;
        loop {
            let frame = self.frame_bytes().filter(|bytes| *bytes > READ_BYTES);
            if let Some(bytes) = frame.filter(|_| self.granted.is_none() && !self.waiting) {
                return Filled::Large(bytes);
            }
            let room = frame.unwrap_or(READ_BYTES).saturating_sub(self.input.len()).min(READ_BYTES);
            if self.waiting || !self.output.is_empty() || room == 0 {
                self.unread = true;
                return Filled::Some;
            }
            match self.stream.read(&mut buffer[..room]) {
                Ok(0) => return Filled::Left,
                Ok(length) => self.input.extend_from_slice(&buffer[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Filled::Some,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Filled::Left,
            }
        }
    }

    /// How long the frame is that begins here; nothing where that is not known, or where it is longer than any may be.
    fn frame_bytes(&self) -> Option<usize> {
        let prefix = self.input.first_chunk::<PREFIX_BYTES>()?;
        Some(PREFIX_BYTES + frame::body_length(*prefix).ok()?)
    }

    fn next_call(&mut self) -> Result<Option<Call>, frame::FrameError> {
        let Some(prefix) = self.input.first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
        let end = PREFIX_BYTES + frame::body_length(*prefix)?;
        if self.input.len() < end {
            return Ok(None);
        }
        let call = frame::decode(&self.input[PREFIX_BYTES..end])?;
        self.input.drain(..end);
        if self.input.is_empty() && self.input.capacity() > READ_BYTES {
            self.input = Vec::new();
        }
        Ok(Some(call))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection and the client's end of it.
    fn pair(connections: &mut Connections, number: usize) -> std::os::unix::net::UnixStream {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        connections.add(Token(number), UnixStream::from_std(ours));
        theirs
    }

    fn begin_large(client: &mut std::os::unix::net::UnixStream) {
        let length = u32::try_from(frame::FRAME_BYTES_MAX - PREFIX_BYTES).unwrap();
        client.write_all(&length.to_le_bytes()).unwrap();
        client.write_all(&[0; 5000]).unwrap();
    }

    #[test]
    fn large_frames_that_are_half_way_do_not_add_up() {
        let mut connections = Connections::default();
        let mut clients: Vec<_> = (0..10).map(|number| pair(&mut connections, number)).collect();
        for (number, client) in clients.iter_mut().enumerate() {
            begin_large(client);
            connections.fill(Token(number), 0);
        }
        assert_eq!(connections.granted, LARGE_BYTES_MAX);
        let refused = connections.conns.values().filter(|conn| conn.closing).count();
        assert_eq!(refused, 8, "and each of them was told");
        let mut prefix = [0; PREFIX_BYTES];
        clients[9].read_exact(&mut prefix).unwrap();
        let held: usize = connections.conns.values().map(|conn| conn.input.capacity()).sum();
        assert!(held < 1 << 20, "nothing is allocated for bytes that have not come: {held}");

        assert_eq!(connections.next_due(), Some(LARGE_MS));
        connections.drop_overdue(LARGE_MS);
        let registry = mio::Poll::new().unwrap();
        assert_eq!(connections.take_closing(registry.registry()).len(), 10);
        assert_eq!((connections.granted, connections.len()), (0, 0));
    }

    #[test]
    fn who_does_not_read_is_not_read_from() {
        let mut connections = Connections::default();
        let mut client = pair(&mut connections, 0);
        let long = Fault { message: "x".repeat(1 << 20), ..Fault::default() };
        connections.answer(Token(0), Reply::Fault(long));
        connections.flush_all();
        client.write_all(&[1; 3000]).unwrap();
        connections.fill(Token(0), 0);
        let conn = connections.get(Token(0)).unwrap();
        assert!(conn.input.is_empty() && conn.has_input() && !conn.output.is_empty());
    }
}
