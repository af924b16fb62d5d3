//! One connection: frames out, frames in.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use super::error::ClientError;
use crate::wire::frame::{self, PREFIX_BYTES};
use crate::wire::{Answer, Caller, PROTOCOL, Request, VERSION};

/// How much of an answer is read at first: the answer to `run` is well below it. There is one answer at a time, so no
/// byte of a second one can be among them.
const FIRST_BYTES: usize = 8 << 10;

/// How an exchange ended without an answer.
#[derive(Debug)]
pub(super) enum Broken {
    /// The daemon has not read the whole request, so it was not carried out.
    BeforeSent,
    /// The daemon had the request and may have carried it out.
    AfterSent,
    /// The daemon is there, and takes or says nothing for as long as that is borne.
    Silent,
    /// Something else, that trying again does not mend.
    Error(ClientError),
}

pub(super) struct Conn {
    stream: UnixStream,
    /// Whether it was seen that the daemon is where its client is. Neither of them moves.
    pub(super) is_alike: bool,
    /// An answer that came before the request was sent: a daemon that serves nobody more says so and hangs up.
    early: Option<Answer>,
}

impl Conn {
    pub(super) fn new(stream: UnixStream) -> Self {
        Self { stream, is_alike: false, early: None }
    }

    pub(super) fn stream(&self) -> &UnixStream {
        &self.stream
    }

    pub(super) fn send(&mut self, caller: &Caller, request: &Request) -> Result<(), Broken> {
        let call = Outgoing { proto: PROTOCOL, version: VERSION, caller, request };
        let mut bytes = Vec::with_capacity(8 << 10);
        frame::encode(&call, &mut bytes).map_err(|error| Broken::Error(error.into()))?;
        match self.stream.write_all(&bytes) {
            Ok(()) => Ok(()),
            Err(error) if is_gone(&error) => {
                self.early = Some(self.receive().map_err(|_| Broken::BeforeSent)?);
                Ok(())
            }
            Err(error) => Err(broken(error)),
        }
    }

    /// Most answers come with one read: each read more is a system call at every command.
    pub(super) fn receive(&mut self) -> Result<Answer, Broken> {
        if let Some(answer) = self.early.take() {
            return Ok(answer);
        }
        let mut first = [0; FIRST_BYTES];
        let mut have = 0;
        while have < PREFIX_BYTES {
            have += self.read(&mut first[have..])?;
        }
        let prefix = first.first_chunk().copied().unwrap_or_default();
        let length = frame::body_length(prefix).map_err(|error| Broken::Error(error.into()))?;
        let mut body = first[PREFIX_BYTES..have].to_vec();
        let mut done = body.len();
        body.resize(length, 0);
        while done < length {
            done += self.read(&mut body[done..])?;
        }
        frame::decode(&body).map_err(|error| Broken::Error(error.into()))
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Broken> {
        loop {
            match self.stream.read(buffer) {
                Ok(0) => return Err(Broken::AfterSent),
                Ok(length) => return Ok(length),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The kernel says so where bytes of ours were not read, or the connection was never accepted
                // (`unix_release_sock`, `net/unix/af_unix.c`); whoever read all of them and left is at the end of the file.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Err(Broken::BeforeSent),
                Err(error) if is_gone(&error) => return Err(Broken::AfterSent),
                Err(error) => return Err(broken(error)),
            }
        }
    }
}

impl AsFd for Conn {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// [`crate::wire::Call`] with borrowed parts, so that an environment is not copied once more.
#[derive(serde::Serialize)]
struct Outgoing<'a> {
    proto: u16,
    version: &'a str,
    caller: &'a Caller,
    request: &'a Request,
}

/// A time that is over is `EAGAIN` (socket(7), `SO_RCVTIMEO`).
fn broken(error: io::Error) -> Broken {
    if error.kind() == io::ErrorKind::WouldBlock { Broken::Silent } else { Broken::Error(error.into()) }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionAborted
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Call, Fault, Reply, refusal};

    #[test]
    fn what_is_sent_reads_as_a_call() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let caller = Caller { session: "s1".to_owned(), by: "s1".to_owned() };
        Conn::new(ours).send(&caller, &Request::Show { id: "abc".to_owned() }).unwrap();
        let mut bytes = Vec::new();
        theirs.read_to_end(&mut bytes).unwrap();
        let call: Call = frame::decode(&bytes[PREFIX_BYTES..]).unwrap();
        assert_eq!((call.proto, call.version.as_str(), call.caller), (PROTOCOL, VERSION, caller));
        assert!(matches!(call.request, Request::Show { id } if id == "abc"));
    }

    #[test]
    fn a_refusal_that_comes_before_the_request_is_heard() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let fault = Fault { code: refusal::TOO_MANY_CLIENTS.to_owned(), ..Fault::default() };
        let answer = Answer { proto: PROTOCOL, version: VERSION.to_owned(), reply: Reply::Fault(fault) };
        let mut bytes = Vec::new();
        frame::encode(&answer, &mut bytes).unwrap();
        theirs.write_all(&bytes).unwrap();
        drop(theirs);
        let mut conn = Conn::new(ours);
        conn.send(&Caller::default(), &Request::Status).unwrap();
        assert!(matches!(conn.receive(), Ok(Answer { reply: Reply::Fault(_), .. })));
    }

    #[test]
    fn a_daemon_that_leaves_is_told_from_one_that_never_got_the_request() {
        for is_read in [false, true] {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            let mut conn = Conn::new(ours);
            conn.send(&Caller::default(), &Request::Status).unwrap();
            let mut request = [0; 4096];
            let length = if is_read { theirs.read(&mut request).unwrap() } else { 0 };
            assert!(length < request.len());
            drop(theirs);
            let broken = conn.receive().unwrap_err();
            assert!(if is_read { matches!(broken, Broken::AfterSent) } else { matches!(broken, Broken::BeforeSent) });
        }
        // One that never accepted the connection.
        let dir = tempfile::tempdir().unwrap();
        let listener = std::os::unix::net::UnixListener::bind(dir.path().join("s")).unwrap();
        let mut conn = Conn::new(UnixStream::connect(dir.path().join("s")).unwrap());
        conn.send(&Caller::default(), &Request::Status).unwrap();
        drop(listener);
        assert!(matches!(conn.receive(), Err(Broken::BeforeSent)));
        assert!(matches!(conn.send(&Caller::default(), &Request::Status), Err(Broken::BeforeSent)));
    }
}
