//! The way of the output: from the FIFOs of the task into `output`, its index, and the files of a split task.

use core::ffi::CStr;

use super::crash::crash;
use super::gaps::Of;
use super::ledger::Ledger;
use super::pty::{Pty, Shown};
use super::sink::{self, MOVE_MAX, Moved, Sink};
use crate::form::index::{ENTRY_BYTES, Entry, INTERVAL_MS, Stream};
use crate::form::record::Record;
use crate::form::spec::{Head, Size};
use crate::raw::{Errno, Fd, Result, file, poll, time};

/// A pipe has this size at first (pipe(7)).
const PIPE_BYTES: u64 = 64 * 1024;
/// So many full pipes in a row make a busy one.
const BUSY_PULLS: u8 = 4;
/// After so many entries the index interval doubles, and again after as many more, so that a task that talks for weeks
/// does not fill the disk with times.
const INTERVAL_ENTRIES: u64 = 65_536;

const INDEX: &CStr = c"output.idx";

/// After so many bytes a writer that never rests is left, so that others are served.
const DRAIN_MAX: u64 = 4 * MOVE_MAX as u64;

/// Everything that output goes through.
pub(super) struct Capture {
    fifos: [Option<Fifo>; 2],
    /// The terminal that writes into the first FIFO.
    pty: Option<Pty>,
    output: Sink,
    files: [Option<Sink>; 2],
    index: Index,
    /// `CLOCK_MONOTONIC` of the last output.
    pub(super) last_ms: u64,
}

/// The keeper's end of one FIFO.
struct Fifo {
    path: &'static CStr,
    fd: Fd,
    stream: Stream,
    /// Whether the last writer is gone.
    over: bool,
    /// Whether the FIFO was removed: then no writer can come, and the end would be reported for ever.
    gone: bool,
    full_pulls: u8,
}

impl Capture {
    /// Opens the FIFOs for reading, which does not wait for writers, and the files at their ends.
    pub(super) fn open(head: &Head, record: &mut Record) -> Result<Self> {
        let fifos = if head.split {
            [Some(Fifo::open(c"io.out", Stream::Stdout)?), Some(Fifo::open(c"io.err", Stream::Stderr)?)]
        } else {
            [Some(Fifo::open(c"io", Stream::Merged)?), None]
        };
        let mut output = Sink::open(Of::Output, head.output_max, head.free_min, record)?;
        if head.stop_at_output_max {
            output = output.stopping_at_cap();
        }
        let files = if head.split {
            // Together they get as much of the disk as `output` has; of one that stops at its cap they can have no more.
            let cap = if head.stop_at_output_max { 0 } else { head.output_max / 2 };
            [
                Some(Sink::open(Of::Stream(0), cap, head.free_min, record)?),
                Some(Sink::open(Of::Stream(1), cap, head.free_min, record)?),
            ]
        } else {
            [None, None]
        };
        let index = Index::open(record)?;
        // An entry stands before its bytes, so at least so many have come.
        let last = index.length / ENTRY_BYTES as u64;
        if let Some(entry) = last.checked_sub(1).and_then(|last| index.entry(last)) {
            output.reach(entry.offset, record);
        }
        Ok(Self { fifos, pty: None, output, files, index, last_ms: record.last_output_mono_ms })
    }

    /// Takes what this terminal shows, too.
    pub(super) fn set_pty(&mut self, pty: Option<Pty>) {
        self.pty = pty;
    }

    /// The command has ended; who else has its terminal may go on.
    pub(super) fn let_go_of_pty(&mut self) {
        if let Some(pty) = &mut self.pty {
            pty.let_go();
        }
    }

    /// Changes the size of the terminal, after what it has shown so far.
    pub(super) fn resize(&mut self, size: Size, ledger: &mut Ledger) {
        self.drain(ledger);
        if let Some(pty) = &self.pty {
            pty.resize(size, self.output.length());
        }
    }

    /// What to wait for to type into the terminal.
    pub(super) fn typed_slot(&self) -> poll::Slot {
        self.pty.as_ref().map_or(poll::Slot::new(-1, poll::IN), Pty::typed_slot)
    }

    /// Types what was sent.
    pub(super) fn type_in(&mut self) {
        if let Some(pty) = &mut self.pty {
            pty.type_in();
        }
    }

    /// How many bytes have come so far.
    pub(super) fn length(&self) -> u64 {
        self.output.length()
    }

    /// Whether more came than the cap allows.
    pub(super) fn over_limit(&self) -> bool {
        self.output.over_limit()
    }

    /// Whether all writers are gone and all was copied.
    pub(super) fn is_over(&self) -> bool {
        self.fifos.iter().flatten().all(|fifo| fifo.over)
    }

    /// Names what somebody else has taken away of the files.
    pub(super) fn notice_loss(&mut self, ledger: &mut Ledger) {
        self.output.notice_loss(ledger);
        self.files.iter_mut().flatten().for_each(|file| file.notice_loss(ledger));
    }

    /// What to wait for.
    pub(super) fn slots(&self) -> [poll::Slot; 2] {
        let number = |fifo: &Option<Fifo>| fifo.as_ref().filter(|fifo| !fifo.gone).map_or(-1, |fifo| fifo.fd.number());
        let [first, second] = self.fifos.each_ref().map(|fifo| poll::Slot::new(number(fifo), poll::IN));
        [first, self.pty.as_ref().map_or(second, Pty::shown_slot)]
    }

    /// Copies once from each FIFO that is ready.
    pub(super) fn take(&mut self, slots: [poll::Slot; 2], ledger: &mut Ledger) {
        for (at, slot) in slots.iter().enumerate() {
            if slot.ready == 0 {
                continue;
            }
            match &mut self.pty {
                Some(pty) if at == 1 => {
                    if pty.show() == Shown::Over {
                        self.pty = None;
                    }
                    self.pull(0, poll::IN, ledger);
                }
                _ => drop(self.pull(at, slot.ready, ledger)),
            }
        }
    }

    /// Copies until the FIFOs are empty; a writer that never rests is left after a pipe's worth per stream.
    pub(super) fn drain(&mut self, ledger: &mut Ledger) {
        let most = self.output.length() + DRAIN_MAX;
        while self.output.length() < most {
            let mut slots = self.slots();
            if !matches!(poll::wait(&mut slots, Some(0)), Ok(1..)) {
                return;
            }
            self.take(slots, ledger);
        }
    }

    /// Reads every FIFO until it is empty, or has a writer that never rests: one that has had no writer since it was
    /// opened reports no end to poll(2).
    pub(super) fn probe(&mut self, ledger: &mut Ledger) {
        for at in 0..self.fifos.len() {
            let most = self.output.length() + DRAIN_MAX;
            while self.pull(at, poll::IN, ledger) && self.output.length() < most {}
        }
    }

    /// Gives the files of a split task what the dead keeper had put into `output` but not yet into them.
    pub(super) fn repair(&mut self, ledger: &mut Ledger) {
        for (at, stream) in [Stream::Stdout, Stream::Stderr].into_iter().enumerate() {
            let Some(sink) = self.files[at].as_mut() else { continue };
            let mut before = 0;
            let mut position = 0;
            while let Some(entry) = self.index.entry(position) {
                position += 1;
                let end = self.index.entry(position).map_or(self.output.length(), |next| next.offset);
                if entry.stream != stream || end <= entry.offset {
                    continue;
                }
                let from = entry.offset + sink.length().saturating_sub(before);
                before += end - entry.offset;
                if from < end {
                    sink.append_from(self.output.file(), from, end - from, ledger);
                }
            }
        }
    }

    /// Moves what is in one FIFO; whether there was anything.
    fn pull(&mut self, at: usize, ready: i16, ledger: &mut Ledger) -> bool {
        let Some(fifo) = self.fifos[at].as_mut() else { return false };
        if ready & poll::IN == 0 {
            fifo.end();
            return false;
        }
        let now_ms = time::mono_ms();
        let from = self.output.length();
        if self.index.is_due(fifo.stream, now_ms) {
            self.output.notice_loss(ledger);
        }
        let noted = self.index.note(fifo.stream, from, now_ms);
        crash!("keeper.before-splice");
        let moved = match noted {
            // Without its entry nobody could tell a split stream's bytes from the other's.
            Err(error) if fifo.stream != Stream::Merged => self.output.fail(error, &fifo.fd, ledger, now_ms),
            _ => self.output.pull(&fifo.fd, ledger, now_ms),
        };
        match moved {
            Moved::Bytes(count) => {
                fifo.grow_when_busy(count);
                crash!("keeper.before-stream-copy");
                if let Some(stream) = self.files[at].as_mut() {
                    stream.append_from(self.output.file(), from, count, ledger);
                    stream.trim(ledger);
                }
                self.output.trim(ledger);
            }
            Moved::Dropped(count) => {
                if let Some(stream) = self.files[at].as_mut() {
                    stream.skip(count, self.output.fault(), ledger);
                }
            }
            Moved::Nothing => return false,
            Moved::End => {
                fifo.end();
                return false;
            }
        }
        fifo.over = false;
        self.last_ms = now_ms;
        true
    }
}

impl Fifo {
    fn open(path: &'static CStr, stream: Stream) -> Result<Self> {
        let fd = file::open_pipe(path, file::flag::RDONLY | file::flag::NONBLOCK)?;
        Ok(Self { path, fd, stream, over: false, gone: false, full_pulls: 0 })
    }

    /// The last writer is gone. A file opened anew does not report that again, and hears of later writers (fifo(7)).
    fn end(&mut self) {
        self.over = true;
        match file::open_pipe(self.path, file::flag::RDONLY | file::flag::NONBLOCK) {
            Ok(fd) => self.fd = fd,
            Err(_) => self.gone = true,
        }
    }

    /// A larger pipe saves system calls and switches, once the task really fills it.
    fn grow_when_busy(&mut self, count: u64) {
        if count < PIPE_BYTES {
            self.full_pulls = 0;
        } else if self.full_pulls < BUSY_PULLS {
            self.full_pulls += 1;
            if self.full_pulls == BUSY_PULLS {
                // Refused above the user's share of pipe memory (pipe(7)); the small pipe works too.
                let _ = file::resize_pipe(&self.fd, MOVE_MAX);
            }
        }
    }
}

/// `output.idx`.
struct Index {
    /// It is made with its first entry: many a command writes nothing, and a file less is much of what a short one costs.
    file: Option<Fd>,
    length: u64,
    last: Option<(Stream, u64)>,
}

impl Index {
    fn open(record: &Record) -> Result<Self> {
        let file = sink::open_if_there(INDEX, record)?;
        // A torn entry at the end is written over.
        let length = file.as_ref().map_or(Ok(0), file::seek_end)? / ENTRY_BYTES as u64 * ENTRY_BYTES as u64;
        Ok(Self { file, length, last: None })
    }

    fn entry(&self, position: u64) -> Option<Entry> {
        let mut entry = [0; ENTRY_BYTES];
        let at = position * ENTRY_BYTES as u64;
        let file = self.file.as_ref().filter(|_| at < self.length)?;
        let there = file::read_at(file, &mut entry, at) == Ok(ENTRY_BYTES);
        if there { Entry::decode(&entry) } else { None }
    }

    fn is_due(&self, stream: Stream, now_ms: u64) -> bool {
        let doublings = (self.length / (ENTRY_BYTES as u64 * INTERVAL_ENTRIES)).min(16);
        self.last.is_none_or(|(last, at_ms)| last != stream || now_ms >= at_ms + (INTERVAL_MS << doublings))
    }

    /// Says that bytes from `offset` on come from `stream`, before they come.
    fn note(&mut self, stream: Stream, offset: u64, now_ms: u64) -> Result<()> {
        if !self.is_due(stream, now_ms) {
            return Ok(());
        }
        crash!("keeper.before-index");
        let entry = Entry { offset, wall_ms: time::wall_ms(), stream };
        self.last = None;
        let file = match &mut self.file {
            Some(file) => file,
            missing => {
                let made = missing.insert(sink::open(INDEX, file::flag::EXCL)?);
                crash!("keeper.after-index-made");
                made
            }
        };
        if file::write_at(file, &entry.encode(), self.length)? != ENTRY_BYTES {
            return Err(Errno::ENOSPC);
        }
        self.length += ENTRY_BYTES as u64;
        self.last = Some((stream, now_ms));
        Ok(())
    }
}
