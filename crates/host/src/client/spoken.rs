//! A request that the front has sent, and whose answer it did not understand or did not wait for.

use std::io;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use super::conn::Conn;
use super::silence::{Vigil, answer_wait};
use super::{Asked, Client, ClientError, Launcher};
use crate::home::Home;
use crate::wire::{ByteBuf, Caller, Reply, Request, Spoken};

/// The answer to a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// The task that was started.
    pub id: String,
    /// For stdout.
    pub stdout: ByteBuf,
    /// For stderr.
    pub stderr: ByteBuf,
}

impl Client {
    /// Waits for the answer to what was sent on this connection to the daemon of this home, as long as for any other; nothing if it
    /// was not carried out, so that it may be asked for again.
    pub fn hear_sent(home: &Home, connection: UnixStream) -> Result<Option<Said>, ClientError> {
        match adopt(home, connection)?.answer() {
            Ok(Reply::Said { id, stdout, stderr }) => Ok(Some(Said { id, stdout, stderr })),
            // A daemon of another version, or one that serves nobody or not us.
            Ok(Reply::OldWay) | Err(ClientError::Protocol { .. }) => Ok(None),
            Err(ClientError::Fault(fault)) if fault.is_farewell() => Ok(None),
            Ok(_) => Err(ClientError::Unexpected),
            Err(error) => Err(error),
        }
    }
}

/// A client that has asked already, and brings no other daemon: it would have to ask that one again.
fn adopt(home: &Home, connection: UnixStream) -> io::Result<Client> {
    connection.set_nonblocking(false)?;
    connection.set_read_timeout(Some(answer_wait()))?;
    connection.set_write_timeout(Some(answer_wait()))?;
    let since = Instant::now();
    let request = Request::Spoken(Box::<Spoken>::default());
    let vigil = Vigil::begin(&request, since);
    Ok(Client {
        home: home.clone(),
        caller: Caller::default(),
        launcher: Launcher::default(),
        autostart: false,
        conn: Conn::new(connection),
        stale: false,
        asked: Some(Asked { request, since, tries: 0, upgraded: false, vigil }),
    })
}
