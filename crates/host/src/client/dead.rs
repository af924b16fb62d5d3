//! A daemon that is dead and can be connected to all the same.
//!
//! Whoever is killed while it starts another program leaves that one a copy of its descriptors, until the program has begun
//! (vfork(2), `FD_CLOEXEC`). A connection made in between waits in a queue that nobody will ever accept from: what is sent
//! there is not done, and what is asked once only need not be given up for that.

use std::os::fd::AsFd as _;

use ringback_sys::socket;
use ringback_sys::watch::{For, poll};

use super::silence::answer_wait;
use super::{Client, ClientError, RETRIES_MAX};

impl Client {
    /// Goes on to the next daemon where the one that listened is dead.
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
}
