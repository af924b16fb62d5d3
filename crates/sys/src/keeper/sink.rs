//! One output file: bytes only ever go to its end, a fault of the disk never stops the task, and a cap frees the middle.
//!
//! Below the floor of free disk space a large output is thinned like one over its cap, so that one that floods the disk
//! makes room for everybody else; a small one may still use half of what is left.

use core::ffi::CStr;

use super::crash::crash;
use super::gaps::{self, Of};
use super::ledger::Ledger;
use crate::form::record::{Gap, GapWhy, Phase, Record};
use crate::raw::{Errno, Fd, Result, file};

/// Most bytes that one system call moves; the size to which a busy pipe is grown.
pub(super) const MOVE_MAX: usize = 1 << 20;
/// How long a full disk is left alone before the next try, milliseconds.
const RETRY_MS: u64 = 100;
/// So much of an output is kept also below the floor of free space: enough to see what it was about.
const KEPT_BYTES: u64 = 256 << 10;
/// How much is written at least and at most between two looks at the disk.
const LOOK_BYTES: (u64, u64) = (64 << 10, 8 << 20);
/// So many outputs may come nearer to the floor at once without going through it.
const WRITERS: u64 = 8;
/// Piece in which bytes are read where they must be read; small, because it is on the stack.
const PIECE_BYTES: usize = 4096;

/// What one pull brought.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Moved {
    /// So many bytes are in the file.
    Bytes(u64),
    /// So many bytes were taken from the pipe and dropped; they are a gap.
    Dropped(u64),
    /// The pipe is empty.
    Nothing,
    /// The pipe is empty and has no writer.
    End,
}

/// An output file.
pub(super) struct Sink {
    file: Fd,
    of: Of,
    /// Where the next byte goes; counts dropped bytes too, so that offsets are stable.
    length: u64,
    /// Most bytes on disk, 0 for no limit.
    cap: u64,
    /// What comes after the cap is dropped; else the middle is freed.
    stops_at_cap: bool,
    /// The same, while the disk has no room for so many.
    limit: u64,
    /// How many bytes stay free on the disk, 0 for no floor.
    free_min: u64,
    /// The length at which the disk is looked at again.
    look_at: u64,
    fault: Option<Fault>,
    /// The file system has no splice(2).
    by_copy: bool,
}

/// Why nothing is written now.
struct Fault {
    why: GapWhy,
    /// When to try again; never, if the cap cannot be kept otherwise.
    retry_ms: Option<u64>,
}

impl Sink {
    /// Makes the file of a task that is to start, or opens that of one that has started.
    pub(super) fn open(of: Of, cap: u64, free_min: u64, record: &mut Record) -> Result<Self> {
        Self::new(open_for(of.name(), record)?, of, cap, free_min, record)
    }

    /// Goes on at the end of `file`, or behind the last gap that the record knows.
    fn new(file: Fd, of: Of, cap: u64, free_min: u64, record: &mut Record) -> Result<Self> {
        let length = file::seek_end(&file)?.max(gaps::end(record, of));
        Ok(Self {
            file,
            of,
            length,
            cap,
            stops_at_cap: false,
            limit: cap,
            free_min,
            look_at: length,
            fault: None,
            by_copy: false,
        })
    }

    /// From the cap on nothing more is kept.
    pub(super) fn stopping_at_cap(mut self) -> Self {
        self.stops_at_cap = self.cap != 0;
        self
    }

    /// Where the next byte goes.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// The file.
    pub(super) fn file(&self) -> &Fd {
        &self.file
    }

    /// Whether more came than the cap allows.
    pub(super) fn over_limit(&self) -> bool {
        self.cap != 0 && self.length > self.cap
    }

    /// Moves what is in `pipe` to the end of the file, or drops it while the disk is at fault: the task never waits.
    pub(super) fn pull(&mut self, pipe: &Fd, ledger: &mut Ledger, now_ms: u64) -> Moved {
        if !self.may_write(ledger, now_ms) {
            return self.drop_from(pipe, ledger);
        }
        if self.stops_at_cap && self.length >= self.cap {
            self.fault = Some(Fault { why: GapWhy::OutputLimit, retry_ms: None });
            let moved = self.drop_from(pipe, ledger);
            ledger.write();
            return moved;
        }
        if !self.has_room(ledger) {
            return self.fail(Errno::ENOSPC, pipe, ledger, now_ms);
        }
        let answer = if self.by_copy { self.copy_piece(pipe, ledger) } else { self.splice(pipe, ledger) };
        match answer {
            Ok(0) => Moved::End,
            Ok(count) => {
                self.fault = None;
                self.length += count as u64;
                Moved::Bytes(count as u64)
            }
            Err(Errno::EAGAIN | Errno::EINTR) => Moved::Nothing,
            Err(error) => self.fail(error, pipe, ledger, now_ms),
        }
    }

    fn splice(&mut self, pipe: &Fd, ledger: &mut Ledger) -> Result<usize> {
        // With a cap the file is over it by one move at most, and then trimmed.
        let by_cap = if self.limit == 0 { u64::MAX } else { self.limit / 4 };
        let by_floor = if self.free_min == 0 { u64::MAX } else { self.look_at.saturating_sub(self.length) };
        let most = usize::try_from(by_cap.min(by_floor)).unwrap_or(MOVE_MAX);
        let most = most.clamp(PIECE_BYTES, MOVE_MAX).min(self.left_to_cap());
        let answer = file::splice(pipe, &self.file, Some(self.length), most);
        if answer == Err(Errno::EINVAL) {
            self.by_copy = true;
            return self.copy_piece(pipe, ledger);
        }
        answer
    }

    /// How many more bytes may come if none is kept after the cap.
    fn left_to_cap(&self) -> usize {
        let left = if self.stops_at_cap { self.cap.saturating_sub(self.length) } else { u64::MAX };
        usize::try_from(left).unwrap_or(usize::MAX)
    }

    /// Where splice(2) is missing: a SIGKILL between the two calls loses a piece, and nothing can be done about it.
    fn copy_piece(&mut self, pipe: &Fd, ledger: &mut Ledger) -> Result<usize> {
        let mut piece = [0; PIECE_BYTES];
        let most = self.left_to_cap().min(PIECE_BYTES);
        let count = file::read(pipe, piece.get_mut(..most).unwrap_or_default())?;
        let mut done = 0;
        while let Some(rest) = piece.get(done..count).filter(|rest| !rest.is_empty()) {
            match file::write_at(&self.file, rest, self.length + done as u64) {
                Ok(more) => done += more,
                Err(Errno::EINTR) => {}
                Err(error) => {
                    self.length += done as u64;
                    self.skip((count - done) as u64, why(error), ledger);
                    return Err(error);
                }
            }
        }
        Ok(count)
    }

    /// Whether to write now. Before a new try the gap so far is recorded: bytes after a gap never come before its name.
    fn may_write(&self, ledger: &mut Ledger, now_ms: u64) -> bool {
        match &self.fault {
            None => true,
            Some(Fault { retry_ms: Some(retry_ms), .. }) if now_ms >= *retry_ms => {
                ledger.write();
                true
            }
            Some(_) => false,
        }
    }

    /// Whether the disk has room for more of this output; thins it below the floor.
    fn has_room(&mut self, ledger: &mut Ledger) -> bool {
        if self.free_min == 0 || self.length < self.look_at {
            return true;
        }
        let free = file::free(&self.file).unwrap_or(u64::MAX);
        let above = free.saturating_sub(self.free_min);
        if above == 0 {
            let kept = self.on_disk(ledger);
            if kept > KEPT_BYTES {
                self.limit = (kept / 2).max(KEPT_BYTES);
                self.trim(ledger);
            }
            // Where nothing could be thinned, and nobody else has made room, what is left is for others.
            if self.on_disk(ledger) == kept && (kept > KEPT_BYTES || free < self.free_min / 2) {
                return false;
            }
        } else if above > self.free_min {
            self.limit = self.cap;
        }
        let (least, most) = LOOK_BYTES;
        self.look_at = self.length + (above / WRITERS).clamp(least, most);
        true
    }

    fn on_disk(&self, ledger: &mut Ledger) -> u64 {
        self.length.saturating_sub(gaps::total(&mut ledger.record, self.of))
    }

    /// Notes the fault and drops what is in the pipe.
    pub(super) fn fail(&mut self, error: Errno, pipe: &Fd, ledger: &mut Ledger, now_ms: u64) -> Moved {
        let first = self.fault.is_none();
        self.fault = Some(Fault { why: why(error), retry_ms: Some(now_ms + RETRY_MS) });
        let moved = self.drop_from(pipe, ledger);
        if first {
            ledger.write();
        }
        moved
    }

    fn drop_from(&mut self, pipe: &Fd, ledger: &mut Ledger) -> Moved {
        let mut piece = [0; PIECE_BYTES];
        match file::read(pipe, &mut piece) {
            Ok(0) => Moved::End,
            Ok(count) => {
                let why = self.fault.as_ref().map_or(GapWhy::Io, |fault| fault.why);
                self.skip(count as u64, why, ledger);
                Moved::Dropped(count as u64)
            }
            Err(_) => Moved::Nothing,
        }
    }

    /// Counts bytes that will never be in the file.
    pub(super) fn skip(&mut self, count: u64, why: GapWhy, ledger: &mut Ledger) {
        let from = self.length;
        self.length += count;
        gaps::add(&mut ledger.record, self.of, Gap { from, to: self.length, why });
    }

    /// Why bytes are dropped now.
    pub(super) fn fault(&self) -> GapWhy {
        self.fault.as_ref().map_or(GapWhy::Io, |fault| fault.why)
    }

    /// Appends `from..from + count` of another file, inside the kernel.
    pub(super) fn append_from(&mut self, source: &Fd, from: u64, count: u64, ledger: &mut Ledger) {
        // Only to thin it: a stream has what `output` has, as far as there is space.
        let _ = self.has_room(ledger);
        let mut left = count;
        let mut answer = file::seek_to(&self.file, self.length).map(|()| 1);
        while left > 0 {
            match answer {
                // Somebody has shortened the source.
                Ok(0) => break,
                Ok(_) | Err(Errno::EINTR | Errno::EAGAIN) => {}
                Err(_) => break,
            }
            let most = usize::try_from(left).unwrap_or(MOVE_MAX).min(MOVE_MAX);
            answer = file::send(source, from + (count - left), most, &self.file);
            let done = answer.unwrap_or(0) as u64;
            left -= done;
            self.length += done;
        }
        if left > 0 {
            self.skip(left, answer.err().map_or(GapWhy::Truncated, why), ledger);
            ledger.write();
        }
    }

    /// Names as a gap what somebody else has cut off the file, or all of it, if it was removed.
    pub(super) fn notice_loss(&mut self, ledger: &mut Ledger) {
        if file::names(&self.file) == Some(0) {
            return self.begin_anew(ledger);
        }
        if self.fault.is_some() {
            return;
        }
        let there = file::seek_end(&self.file).unwrap_or(self.length).max(gaps::end(&mut ledger.record, self.of));
        if there < self.length {
            let gap = Gap { from: there, to: self.length, why: GapWhy::Truncated };
            gaps::add(&mut ledger.record, self.of, gap);
            ledger.write();
        }
    }

    /// Somebody has removed the file, and what was in it goes when we let go of it. A new one begins where it ended.
    fn begin_anew(&mut self, ledger: &mut Ledger) {
        if self.length > 0 {
            let gap = Gap { from: 0, to: self.length, why: GapWhy::Removed };
            gaps::free_middle(&mut ledger.record, self.of, gap);
            // Named before there is a file in which those bytes would read as zeros.
            ledger.write();
        }
        match open(self.of.name(), file::flag::EXCL) {
            Ok(file) => self.file = file,
            // Somebody's own file is in its place, and not ours to write into.
            Err(_) => self.fault = Some(Fault { why: GapWhy::Removed, retry_ms: None }),
        }
    }

    /// So many bytes were there before: what is not there now was cut off while nobody kept the task.
    pub(super) fn reach(&mut self, length: u64, record: &mut Record) {
        if self.length < length {
            let gap = Gap { from: self.length, to: length, why: GapWhy::Truncated };
            gaps::add(record, self.of, gap);
            self.length = length;
        }
    }

    /// Frees the middle once more than the cap is on disk: a quarter of the cap stays at the head, half at the tail.
    pub(super) fn trim(&mut self, ledger: &mut Ledger) {
        if self.limit == 0 || self.fault.is_some() || self.on_disk(ledger) <= self.limit {
            return;
        }
        let why = if self.limit == self.cap { GapWhy::OutputLimit } else { GapWhy::NoSpace };
        let gap = Gap { from: self.limit / 4, to: self.length - self.limit / 2, why };
        let before = ledger.record;
        let named = gaps::free_middle(&mut ledger.record, self.of, gap);
        // The hole is named before it is there.
        ledger.write();
        crash!("keeper.before-punch");
        if named && file::punch(&self.file, gap.from, gap.to).is_ok() {
            return;
        }
        // No holes on this file system: what is there stays, and what comes is dropped.
        ledger.record = Record { seq: ledger.record.seq, ..before };
        if why == GapWhy::OutputLimit {
            self.fault = Some(Fault { why, retry_ms: None });
        }
        ledger.write();
    }
}

/// Not `O_APPEND`: splice(2) refuses such a file.
pub(super) fn open(path: &CStr, how: usize) -> Result<Fd> {
    file::open(path, file::flag::RDWR | file::flag::CREAT | file::flag::NOFOLLOW | how)
}

/// The file of a task with this record: before its start it must be new.
pub(super) fn open_for(path: &CStr, record: &Record) -> Result<Fd> {
    if record.phase != Phase::New {
        return open(path, 0);
    }
    match open(path, file::flag::EXCL) {
        // An earlier keeper of this task may have made it, and died before the start: it is empty, and has no other name.
        Err(Errno::EEXIST) => unused(open(path, file::flag::NONBLOCK)),
        other => other,
    }
}

/// The same of a file that is made when there is something to put into it: nothing if it is not there.
pub(super) fn open_if_there(path: &CStr, record: &Record) -> Result<Option<Fd>> {
    match file::open(path, file::flag::RDWR | file::flag::NOFOLLOW | file::flag::NONBLOCK) {
        Err(Errno::ENOENT) => Ok(None),
        opened if record.phase == Phase::New => unused(opened).map(Some),
        opened => opened.map(Some),
    }
}

/// A file that was found there, if nothing is in it; whatever else it is, it is in the way.
fn unused(found: Result<Fd>) -> Result<Fd> {
    found.ok().filter(|found| file::seek_end(found) == Ok(0) && is_ours_alone(found)).ok_or(Errno::EEXIST)
}

/// A file that is written beside the output. What somebody has put into its place is not written to: the name is taken from it.
pub(super) fn open_own(path: &CStr) -> Result<Fd> {
    if let Ok(there) = open(path, file::flag::NONBLOCK)
        && file::seek_end(&there).is_ok()
        && is_ours_alone(&there)
    {
        return Ok(there);
    }
    file::unlink(path)?;
    open(path, file::flag::EXCL)
}

/// Whether the file has no other name. Where the kernel does not say, nothing speaks against it.
fn is_ours_alone(file: &Fd) -> bool {
    file::names(file).is_none_or(|names| names == 1)
}

fn why(error: Errno) -> GapWhy {
    match error {
        Errno::ENOSPC | Errno::EDQUOT => GapWhy::NoSpace,
        _ => GapWhy::Io,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::io::Write;
    use std::os::unix::ffi::OsStrExt;

    /// splice(2) refuses a file that was opened so, as it refuses those of some file systems.
    const APPEND: usize = 0o2000;

    #[test]
    fn without_splice_the_bytes_are_copied() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("output");
        let name = CString::new(path.as_os_str().as_bytes()).unwrap();
        let file = file::open(&name, file::flag::RDWR | file::flag::CREAT | APPEND).unwrap();
        let mut ledger = Ledger::of_file(file::open(&name, file::flag::RDONLY).unwrap());
        let mut sink = Sink::new(file, Of::Output, 0, 0, &mut ledger.record).unwrap();
        let (reader, mut writer) = std::io::pipe().unwrap();
        let bytes: Vec<u8> = (0..50_000_u32).flat_map(u32::to_le_bytes).collect();
        let number = std::os::fd::AsRawFd::as_raw_fd(&reader);
        let pipe = file::open(&CString::new(format!("/proc/self/fd/{number}")).unwrap(), file::flag::RDONLY).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                writer.write_all(&bytes).unwrap();
                drop(writer);
            });
            while !matches!(sink.pull(&pipe, &mut ledger, 0), Moved::End) {}
        });
        assert!(sink.by_copy && sink.length() == bytes.len() as u64);
        assert!(std::fs::read(path).unwrap() == bytes);
    }
}
