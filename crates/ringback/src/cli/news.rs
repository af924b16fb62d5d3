//! Knows when something has changed that a list shows: the daemon says so, over a connection of its own.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use ringback_host::client::{Client, ClientError};
use ringback_host::wire::{Reply, Request};
use ringback_sys::watch::For;

use super::door;
use crate::explain::Failure;

/// A connection on which changes are told.
pub(super) struct News {
    session: String,
    client: Client,
}

impl News {
    /// Asks from now on. The first word comes at once.
    pub(super) fn start(session: &str) -> Result<Self, Failure> {
        let mut client = door::client(Some(session))?;
        client.begin(Request::Changes { since: None })?;
        Ok(Self { session: session.to_owned(), client })
    }

    /// Waits for a word or for one of `others`, as [`Client::poll`] does.
    pub(super) fn poll(
        &mut self,
        others: &[(BorrowedFd<'_>, For)],
        timeout: Option<Duration>,
    ) -> Result<Vec<bool>, Failure> {
        Ok(self.client.poll(others, timeout)?)
    }

    /// Takes a word that has come; whether there is something new. A daemon that went away is news.
    pub(super) fn take(&mut self) -> Result<bool, Failure> {
        match self.client.finish() {
            Ok(None) => Ok(false),
            Ok(Some(Reply::Changed { at })) => {
                self.client.begin(Request::Changes { since: Some(at) })?;
                Ok(true)
            }
            Ok(Some(_)) => Err(door::unexpected()),
            Err(ClientError::Gone { .. }) => {
                *self = Self::start(&self.session)?;
                Ok(true)
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for News {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.client.as_fd()
    }
}
