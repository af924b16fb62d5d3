//! A FIFO between a test and a command: the command says where it stands, or waits until the test lets it go on.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{CWD, FileType, Mode};

use super::{HANG, machine};

/// One FIFO, held open both ways by the test, so that neither side ever blocks in `open`.
pub(crate) struct Fifo {
    path: PathBuf,
    file: File,
}

impl Fifo {
    /// Makes it.
    pub(crate) fn make(path: &Path) -> Self {
        rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a FIFO");
        let file = File::options().read(true).write(true).open(path).expect("a FIFO to open");
        Self { path: path.to_path_buf(), file }
    }

    /// Its path, as a word that a shell reads back.
    pub(crate) fn word(&self) -> String {
        format!("'{}'", self.path.display())
    }

    /// Waits for the next line that a command wrote.
    #[track_caller]
    pub(crate) fn line(&self) -> String {
        let until = Instant::now() + HANG;
        let mut line = Vec::new();
        loop {
            let left = machine::left(until).unwrap_or_else(|| panic!("nothing came through {}", self.path.display()));
            let mut waiting = [PollFd::new(&self.file, PollFlags::IN)];
            if poll(&mut waiting, Some(&left)).expect("poll") == 0 {
                continue;
            }
            let mut byte = [0];
            (&self.file).read_exact(&mut byte).expect("a byte");
            match byte[0] {
                b'\n' => return String::from_utf8_lossy(&line).into_owned(),
                other => line.push(other),
            }
        }
    }

    /// Waits for this many lines.
    #[track_caller]
    pub(crate) fn lines(&self, count: usize) -> Vec<String> {
        (0..count).map(|_| self.line()).collect()
    }

    /// Lets this many commands that `read` from it go on.
    pub(crate) fn release(&self, count: usize) {
        (&self.file).write_all(&vec![b'\n'; count]).expect("room in the FIFO");
    }
}
