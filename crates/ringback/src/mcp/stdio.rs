//! stdin and stdout: where they are pipes or sockets, as all clients have them, no thread stands between them and the runtime.
//!
//! Others may have the same description of either, so its flags stay as they are: a pipe is opened once more, a socket is asked not to
//! wait at each call.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use ringback_sys::socket;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, Stdin, Stdout};
use tokio::net::unix::pipe::{OpenOptions, Receiver, Sender};

/// What a pipe takes whole or not at all (pipe(7), `PIPE_BUF`), and a socket, too ([`socket::send_now`]).
const WHOLE_BYTES_MAX: usize = 4096;

/// stdin.
pub(super) enum Input {
    /// A pipe, by a description of our own: it waits in the reactor.
    Pipe(Receiver),
    /// A socket, as programs of Node give to their children.
    Socket(Socket),
    /// Something else, read by a thread.
    Other(Stdin),
}

/// stdout.
pub(super) enum Output {
    /// A pipe.
    Pipe(Sender),
    /// A socket.
    Socket(Socket),
    /// Something else, written by a thread.
    Other(Stdout),
}

/// A socket of bytes.
pub(super) struct Socket(AsyncFd<OwnedFd>);

/// Both, from within the runtime.
pub(super) fn open() -> (Input, Output) {
    let pipe = OpenOptions::new();
    let input = match (pipe.open_receiver("/proc/self/fd/0"), Socket::of(io::stdin())) {
        (Ok(pipe), _) => Input::Pipe(pipe),
        (_, Some(socket)) => Input::Socket(socket),
        _ => Input::Other(tokio::io::stdin()),
    };
    let output = match (pipe.open_sender("/proc/self/fd/1"), Socket::of(io::stdout())) {
        (Ok(pipe), _) => Output::Pipe(pipe),
        (_, Some(socket)) => Output::Socket(socket),
        _ => Output::Other(tokio::io::stdout()),
    };
    (input, output)
}

impl Socket {
    #[expect(
        deprecated,
        reason = "meant for what may lose its descriptor; an `OwnedFd` has it for as long as it is there"
    )]
    fn of(end: impl AsFd) -> Option<Self> {
        let own = end.as_fd().try_clone_to_owned().ok().filter(|own| socket::is_stream(own))?;
        AsyncFd::new(own).ok().map(Self)
    }

    fn poll_read(&self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut ready = ready!(self.0.poll_read_ready(cx))?;
            let room = buffer.initialize_unfilled();
            if let Ok(answer) = ready.try_io(|end| socket::receive_now(end, room)) {
                return Poll::Ready(answer.map(|length| buffer.advance(length)));
            }
        }
    }

    fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            let mut ready = ready!(self.0.poll_write_ready(cx))?;
            if let Ok(answer) = ready.try_io(|end| socket::send_now(end, bytes)) {
                return Poll::Ready(answer);
            }
        }
    }
}

impl Output {
    /// Writes this whole and at once, or nothing of it: then false.
    pub(super) fn write_at_once(&self, bytes: &[u8]) -> bool {
        match self {
            Self::Pipe(pipe) if bytes.len() <= WHOLE_BYTES_MAX => pipe.try_write(bytes).is_ok(),
            Self::Socket(socket) if bytes.len() <= WHOLE_BYTES_MAX => socket::send_now(&socket.0, bytes).is_ok(),
            _ => false,
        }
    }
}

impl AsyncRead for Input {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Pipe(pipe) => Pin::new(pipe).poll_read(cx, buffer),
            Self::Socket(socket) => socket.poll_read(cx, buffer),
            Self::Other(other) => Pin::new(other).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Output {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Pipe(pipe) => Pin::new(pipe).poll_write(cx, bytes),
            Self::Socket(socket) => socket.poll_write(cx, bytes),
            Self::Other(other) => Pin::new(other).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Pipe(pipe) => Pin::new(pipe).poll_flush(cx),
            Self::Socket(_) => Poll::Ready(Ok(())),
            Self::Other(other) => Pin::new(other).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Pipe(pipe) => Pin::new(pipe).poll_shutdown(cx),
            Self::Socket(_) => Poll::Ready(Ok(())),
            Self::Other(other) => Pin::new(other).poll_shutdown(cx),
        }
    }
}
