//! stdin and stdout: where both ways are pipes, as most clients have them, no thread stands between them and the runtime.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, Stdin, Stdout};
use tokio::net::unix::pipe::{OpenOptions, Receiver, Sender};

/// What a pipe takes whole or not at all (pipe(7), `PIPE_BUF`).
const WHOLE_BYTES_MAX: usize = 4096;

/// stdin.
pub(super) enum Input {
    /// A pipe, by a description of our own: it waits in the reactor, and the client's own end keeps its flags.
    Pipe(Receiver),
    /// Something else, read by a thread.
    Other(Stdin),
}

/// stdout.
pub(super) enum Output {
    /// A pipe.
    Pipe(Sender),
    /// Something else, written by a thread.
    Other(Stdout),
}

/// Both, from within the runtime.
pub(super) fn open() -> (Input, Output) {
    let pipe = OpenOptions::new();
    let ends = (pipe.open_receiver("/proc/self/fd/0"), pipe.open_sender("/proc/self/fd/1"));
    match ends {
        (Ok(reader), Ok(writer)) => (Input::Pipe(reader), Output::Pipe(writer)),
        _ => (Input::Other(tokio::io::stdin()), Output::Other(tokio::io::stdout())),
    }
}

impl Output {
    /// Writes this whole and at once, or nothing of it: then false.
    pub(super) fn write_at_once(&self, bytes: &[u8]) -> bool {
        match self {
            Self::Pipe(pipe) if bytes.len() <= WHOLE_BYTES_MAX => pipe.try_write(bytes).is_ok(),
            _ => false,
        }
    }
}

impl AsyncRead for Input {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Pipe(pipe) => Pin::new(pipe).poll_read(cx, buffer),
            Self::Other(other) => Pin::new(other).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Output {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Pipe(pipe) => Pin::new(pipe).poll_write(cx, bytes),
            Self::Other(other) => Pin::new(other).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Pipe(pipe) => Pin::new(pipe).poll_flush(cx),
            Self::Other(other) => Pin::new(other).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Pipe(pipe) => Pin::new(pipe).poll_shutdown(cx),
            Self::Other(other) => Pin::new(other).poll_shutdown(cx),
        }
    }
}
