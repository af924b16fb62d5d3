//! Speaking to the daemon without the client: frames of our own making, good and bad.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use ringback_host::wire::frame::PREFIX_BYTES;
use ringback_host::wire::{
    Answer, Call, Caller, Command, PROTOCOL, Reply, Request, RunRequest, VERSION, decode, encode,
};
use serde_bytes::ByteBuf;

use super::{HANG, MINE, World};

/// How long a story waits for one answer of a daemon whose keepers are made to die again and again.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(8);

/// A connection to the daemon of a world, which must run.
#[track_caller]
pub(crate) fn connect(world: &World) -> UnixStream {
    let stream = UnixStream::connect(world.home().join("daemon.sock")).expect("a daemon that listens");
    stream.set_read_timeout(Some(HANG)).expect("a deadline");
    stream
}

/// A call as the owner of a test's tasks makes it.
pub(crate) fn call(request: Request) -> Call {
    let caller = Caller { session: MINE.into(), by: MINE.into() };
    Call { proto: PROTOCOL, version: VERSION.into(), caller, request }
}

/// Asks on a new connection.
#[track_caller]
pub(crate) fn ask(world: &World, request: Request) -> Reply {
    let mut stream = connect(world);
    say(&mut stream, &call(request));
    hear(&mut stream).expect("an answer").reply
}

/// Asks on a new connection; nothing if nobody listens, or the daemon hung up before it answered.
pub(crate) fn try_ask(world: &World, call: &Call) -> Option<Reply> {
    let mut stream = UnixStream::connect(world.home().join("daemon.sock")).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).expect("a deadline");
    let mut bytes = Vec::new();
    encode(call, &mut bytes).expect("a frame");
    stream.write_all(&bytes).ok()?;
    hear(&mut stream).map(|answer| answer.reply)
}

/// Writes one frame.
#[track_caller]
pub(crate) fn say<T: serde::Serialize>(stream: &mut UnixStream, value: &T) {
    let mut bytes = Vec::new();
    encode(value, &mut bytes).expect("a frame");
    stream.write_all(&bytes).expect("a daemon that reads");
}

/// Reads one answer; nothing if the daemon hung up.
#[track_caller]
pub(crate) fn hear(stream: &mut UnixStream) -> Option<Answer> {
    let mut prefix = [0; PREFIX_BYTES];
    stream.read_exact(&mut prefix).ok()?;
    let mut body = vec![0; u32::from_le_bytes(prefix) as usize];
    stream.read_exact(&mut body).ok()?;
    Some(decode(&body).expect("an answer that can be read"))
}

/// A request to run these arguments, as a plain client would make it.
pub(crate) fn run(argv: &[&[u8]]) -> RunRequest {
    RunRequest {
        command: Command::Argv(argv.iter().map(|arg| ByteBuf::from(*arg)).collect()),
        session: MINE.into(),
        cwd: ByteBuf::from("/"),
        env: vec![ByteBuf::from("PATH=/usr/bin:/bin")],
        umask: 0o022,
        ..RunRequest::default()
    }
}
