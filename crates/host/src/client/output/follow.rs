//! Follows a running task's output: the kernel says when it grows, the daemon says when the task ends. Nothing is polled.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringback_sys::watch::{FileWatch, For};

use super::super::{Client, ClientError};
use crate::wire::{Reply, Request, TaskObject, Until};

/// What came next.
pub enum Turn {
    /// There may be more to read.
    Grown,
    /// The task has ended; what is there now is all that its main process wrote.
    Ended(Box<TaskObject>),
    /// This one of the descriptors that were given to [`Follow::next`] is ready.
    Ready(usize),
}

/// A task that is followed, over a client of its own.
pub struct Follow {
    client: Client,
    output: PathBuf,
    watch: Option<FileWatch>,
    on_file: bool,
}

impl Follow {
    /// Begins to follow. Read what is there only after this, so that nothing falls between.
    pub fn start(mut client: Client, task: &TaskObject) -> Result<Self, ClientError> {
        let output = PathBuf::from(&task.output.path);
        client.begin(Request::Wait { ids: vec![task.id.clone()], any: false, timeout_ms: None, until: Until::End })?;
        let (watch, on_file) = watch(&output)?;
        Ok(Self { client, output, watch, on_file })
    }

    /// Waits for what comes next, or until one of `others` is ready, the first of them first.
    pub fn next(&mut self, others: &[(BorrowedFd<'_>, For)]) -> Result<Turn, ClientError> {
        loop {
            if let Some(turn) = self.next_within(others, None)? {
                return Ok(turn);
            }
        }
    }

    /// The same for this long; nothing if nothing has come by then.
    pub fn next_within(
        &mut self,
        others: &[(BorrowedFd<'_>, For)],
        timeout: Option<Duration>,
    ) -> Result<Option<Turn>, ClientError> {
        loop {
            let mut fds = others.to_vec();
            fds.extend(self.watch.as_ref().map(|watch| (watch.as_fd(), For::Read)));
            let ready = self.client.poll(&fds, timeout)?;
            let (told, ready) = ready.split_first().ok_or(ClientError::Unexpected)?;
            if !told && !ready.contains(&true) {
                return Ok(None);
            }
            if let Some(first) = ready.iter().take(others.len()).position(|ready| *ready) {
                return Ok(Some(Turn::Ready(first)));
            }
            if *told {
                if let Some(task) = self.ended()? {
                    return Ok(Some(Turn::Ended(task)));
                }
            } else if self.grown()? {
                return Ok(Some(Turn::Grown));
            }
        }
    }

    fn ended(&mut self) -> Result<Option<Box<TaskObject>>, ClientError> {
        match self.client.finish()? {
            None => Ok(None),
            Some(Reply::Tasks { mut tasks, mut faults, .. }) => match (tasks.pop(), faults.pop()) {
                (Some(task), _) => Ok(Some(Box::new(task))),
                (None, Some(fault)) => Err(ClientError::Fault(fault)),
                (None, None) => Err(ClientError::Unexpected),
            },
            Some(_) => Err(ClientError::Unexpected),
        }
    }

    /// Whether the output changed. An output that was not there yet is watched as soon as its folder says that it is.
    fn grown(&mut self) -> io::Result<bool> {
        let Some(seen) = &self.watch else { return Ok(false) };
        let any = seen.drain()?;
        if !self.on_file && self.output.exists() {
            (self.watch, self.on_file) = watch(&self.output)?;
            return Ok(true);
        }
        Ok(any && self.on_file)
    }
}

/// A watch on the output, or on its folder while there is none; whether it is on the output.
fn watch(output: &Path) -> io::Result<(Option<FileWatch>, bool)> {
    match FileWatch::modify(output) {
        Ok(watch) => return Ok((Some(watch), true)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let Some(folder) = output.parent() else { return Ok((None, false)) };
    match FileWatch::modify(folder) {
        // It may have come between the two looks.
        Ok(watch) if !output.exists() => Ok((Some(watch), false)),
        Ok(_) => Ok((Some(FileWatch::modify(output)?), true)),
        // No folder: the task never ran, and its end is all that can come.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((None, false)),
        Err(error) => Err(error),
    }
}
