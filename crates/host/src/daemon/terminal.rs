//! Terminals of tasks: opened here, so that they outlive a killed keeper, held, and resized.

use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use mio::Token;
use ringback_core::id::TaskId;
use ringback_sys::form::request::{Ask, Request as KeeperRequest};
use ringback_sys::form::sizes::{self, Entry};
use ringback_sys::form::spec::Size;
use ringback_sys::{files, terminal};

use super::Daemon;
use super::error::fault;
use super::tell::Say;
use super::view::Detail;
use crate::wire::{Fault, RunRequest, TerminalSize};

impl Daemon {
    /// Opens the terminal of a task whose command has not started.
    pub(super) fn open_terminal(&mut self, id: TaskId) -> io::Result<()> {
        let Some(live) = self.lives.get_mut(&id).filter(|live| live.row.asked.pty.is_some()) else { return Ok(()) };
        if live.terminal.is_none() {
            live.terminal = Some(terminal::open_master()?);
        }
        Ok(())
    }

    /// Takes hold of the terminal of a task that an earlier daemon started. Where its keeper cannot be asked for it, the
    /// keeper alone holds it.
    pub(super) fn take_terminal(&mut self, id: TaskId) {
        let Some(live) = self.lives.get_mut(&id).filter(|live| live.row.asked.pty.is_some()) else { return };
        let Some(held) = live.keeper.as_ref().filter(|_| live.terminal.is_none()) else { return };
        match terminal::master_of(&held.process) {
            Ok(master) => live.terminal = Some(master),
            Err(error) => {
                self.troubles.note(&format!("hold the terminal of {id}, which its keeper alone holds now"), &error);
            }
        }
    }

    /// Somebody looks at a terminal that is to have another size.
    pub(super) fn ask_resize(&mut self, to: Token, text: &str, size: TerminalSize) -> Result<(), Fault> {
        let size = checked(size)?;
        let id = self.resolve(text)?;
        let Some(live) = self.lives.get(&id).filter(|live| live.row.facts.is_none()) else {
            let hint = format!("`ringback show {id}` says how");
            return Err(fault("already_ended", format!("cannot resize the terminal of {id}: it has ended"), hint));
        };
        if live.row.asked.pty.is_none() {
            let hint = "start it with `ringback run --pty` to give it one".to_owned();
            return Err(fault("no_terminal", format!("{id} has no terminal"), hint));
        }
        self.request(id, &KeeperRequest { ask: Ask::Resize, size, ..KeeperRequest::default() });
        self.say(to, Say::Tasks { ids: vec![id], timed_out: false, faults: Vec::new() });
        Ok(())
    }
}

/// Looks at what a request says of a terminal.
pub(super) fn check(run: &RunRequest) -> Result<(), Fault> {
    let Some(size) = run.pty else { return Ok(()) };
    checked(size)?;
    if run.split {
        let message = "a terminal has one stream: stdout and stderr cannot be told apart".to_owned();
        return Err(fault("bad_pty", message, "leave out either --pty or --split".to_owned()));
    }
    Ok(())
}

fn checked(size: TerminalSize) -> Result<Size, Fault> {
    Size::new(size.columns, size.rows).ok_or_else(|| {
        let message = format!("a terminal of {}x{} characters shows nothing", size.columns, size.rows);
        fault("bad_pty", message, "for example 80x24".to_owned())
    })
}

/// How large the terminal of the task in `dir` was when it was last resized.
pub(super) fn size_now(dir: &Path, detail: Detail) -> Option<TerminalSize> {
    if detail == Detail::Brief {
        return None;
    }
    let file = files::open_regular(&dir.join(sizes::NAME)).ok()?;
    let last = (file.metadata().ok()?.len() / sizes::ENTRY_BYTES as u64).checked_sub(1)?;
    let mut entry = [0; sizes::ENTRY_BYTES];
    file.read_exact_at(&mut entry, last * sizes::ENTRY_BYTES as u64).ok()?;
    let Size { columns, rows } = Entry::decode(&entry)?.size;
    Some(TerminalSize { columns, rows })
}
