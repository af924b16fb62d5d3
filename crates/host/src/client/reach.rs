//! Whom a client has reached, and the way to the next daemon: past a dead one, from a home that is gone, into the same place.

use std::os::fd::AsFd as _;
use std::time::Duration;

use ringback_sys::confine::{Confinement, own_is_confined};
use ringback_sys::pidfd::PidFd;
use ringback_sys::watch::{For, poll};
use ringback_sys::{identity, socket};

use super::conn::Conn;
use super::silence::answer_wait;
use super::{Client, ClientError, LEAVE_WAIT, RETRIES_MAX, start};

impl Client {
    /// Whether the next request goes to the daemon that was reached, without looking for another: no answer is open, and it has not
    /// hung up.
    pub fn is_at_hand(&self) -> bool {
        let nothing_came =
            || matches!(poll(&[(self.as_fd(), For::Read)], Some(Duration::ZERO)).as_deref(), Ok([false]));
        !self.stale && self.asked.is_none() && nothing_came()
    }

    /// Goes on to the next daemon where the one that listened is dead.
    ///
    /// Whoever is killed while it starts another program leaves that one a copy of its descriptors, until the program has
    /// begun (vfork(2), `FD_CLOEXEC`). A connection made in between waits in a queue that nobody will ever accept from: what
    /// is sent there is not done, and what is asked once only need not be given up for that.
    pub(super) fn pass_dead_daemons(&mut self) -> Result<(), ClientError> {
        for _ in 0..RETRIES_MAX {
            if !socket::peer(self.conn.stream())?.has_ended()? {
                return Ok(());
            }
            // Its copy goes with the start of the other program, and then we are hung up on.
            poll(&[(self.as_fd(), For::Read)], Some(answer_wait()))?;
            self.reconnect()?;
        }
        Err(ClientError::Unsteady { tries: RETRIES_MAX })
    }

    /// Takes another connection, and starts a daemon for it where that is due.
    pub(super) fn reconnect(&mut self) -> Result<(), ClientError> {
        if let Some(asked) = &mut self.asked {
            asked.tries += 1;
        }
        let stream = match start::connect(&self.home)? {
            Some(stream) => stream,
            None if self.has_lost_home() => return Err(self.home_moved()),
            None if self.autostart => {
                self.await_death();
                if self.has_lost_home() {
                    return Err(self.home_moved());
                }
                start::connect_or_start(&self.home, &self.launcher)?
            }
            None => return Err(ClientError::NoDaemon { home: self.home.root().to_owned() }),
        };
        self.conn = Conn::new(stream);
        self.stale = false;
        Ok(())
    }

    /// Whether the home that we came to is gone from its place, or is on its way: its daemon has left because its lock is not
    /// where it was, and nobody else takes that away. Another daemon would know nothing of what is asked, and would put
    /// things into a folder that somebody is removing.
    pub(super) fn has_lost_home(&self) -> bool {
        matches!(self.home.daemon_lock().try_exists(), Ok(false))
    }

    pub(super) fn home_moved(&self) -> ClientError {
        ClientError::HomeMoved { home: self.home.root().to_owned() }
    }

    /// A daemon that dies may close its sockets before its lock; who starts the next one in between is told that it serves.
    fn await_death(&self) {
        let process = self.daemon_pid().and_then(|pid| Ok(identity::who(pid).and_then(PidFd::open)?));
        if let Ok(process) = process {
            // If it lives on without listening, the start says so.
            let _gone = poll(&[(process.as_fd(), For::Read)], Some(LEAVE_WAIT));
        }
    }

    /// A task started by a daemon in a sandbox would not see what its caller sees.
    pub(super) fn refuse_confined_daemon(&self) -> Result<(), ClientError> {
        let peer = socket::peer(self.conn.stream())?;
        let (Ok(theirs), Ok(ours)) = (Confinement::of_peer(&peer), Confinement::own()) else {
            // It cannot be seen from here, for example from another pid namespace: the daemon judges us instead.
            return Ok(());
        };
        match theirs.apart(&ours) {
            // Two places that differ look confined to each other. If the sandbox is ours, the daemon says so itself.
            Some(what) if own_is_confined().is_none() => Err(ClientError::DaemonConfined { what: what.to_owned() }),
            _ => Ok(()),
        }
    }
}
