//! Running tasks that somebody wants to hear of before they end: when to look at each, and what is seen then.
//!
//! A growing output wakes the loop by inotify, and only for tasks with a pattern; everything else is a deadline. Each
//! look is bounded, so that a flood of output delays nobody else. What was seen is recorded together with how far the
//! output was searched, so a new daemon neither misses a line nor tells one twice.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use ringback_core::id::TaskId;
use ringback_core::lines::Lines;
use ringback_core::spec::Lease;
use ringback_core::watch::{Pace, Rules, Watch};
use ringback_sys::form::record::{Phase, Record};
use ringback_sys::growth::Changed;
use ringback_sys::{files, port, process};

use super::folder::OUTPUT;
use super::pattern::{Hit, LazyMask, Patterns};
use super::sighted::Seen;
use super::{Daemon, sight};
use crate::quantity::millis;
use crate::store::{Record as Write, Row, StoredWatch};

/// How much of an output is read at once, bytes.
const PIECE_BYTES: usize = 64 << 10;

/// How much of all outputs is searched in one round, bytes: some milliseconds, so that clients and endings need not wait
/// for a flood.
const ROUND_BYTES_MAX: u64 = 512 << 10;

/// How much of an output that ended is searched at most before its end is told, bytes: a part of a second. What lies
/// further back was written faster than it could be searched, and the notice says so.
const LAST_BYTES_MAX: u64 = 4 << 20;

/// An output that is written without a pause is searched this often, milliseconds.
const SEARCH_PAUSE_MS: u64 = 20;

/// How long a line may stay unfinished before it is searched as it is, milliseconds: a prompt has no newline.
const UNFINISHED_MS: u64 = 250;

/// When a task is looked at again whose record could not be read, milliseconds.
const UNREADABLE_MS: u64 = 1_000;

/// When a port is looked at. Nothing tells that somebody begins to listen (`sock_diag(7)` has no such event), so it is
/// looked at when output comes, and after pauses that double.
const PORT_PACE: Pace = Pace { base_ms: 50, max_ms: 2_000 };

/// A port is not looked at more often than this, however much output comes, milliseconds.
const PORT_PAUSE_MS: u64 = 200;

/// One task.
pub(super) struct Watching {
    watch: Watch,
    patterns: Patterns,
    lines: Lines,
    start_ms: u64,
    /// Its number with inotify, until its output has grown.
    armed: Option<i32>,
    searched_ms: u64,
    search_at_ms: Option<u64>,
    unfinished_at_ms: Option<u64>,
    port_at_ms: Option<u64>,
    port_looked_ms: u64,
    port_looks: u32,
    /// The last line that matched and was only counted.
    last: Option<Hit>,
    due_ms: Option<u64>,
}

/// All of them.
#[derive(Default)]
pub(super) struct Watches {
    all: BTreeMap<TaskId, Watching>,
    by_time: BTreeSet<(u64, TaskId)>,
    armed: BTreeMap<i32, TaskId>,
}

impl Watching {
    /// Nothing if nothing is to be watched.
    fn new(row: &Row, stall_ms: Option<u64>, start_ms: u64) -> Option<Self> {
        let asked = &row.asked;
        let awaited = Lease::parse(&row.lease).unwrap_or_default() == Lease::Awaited;
        let progress = asked.progress.map(|(base_ms, max_ms)| Pace { base_ms, max_ms });
        let rules = Rules { progress, stall_ms: stall_ms.filter(|_| awaited) };
        // They were compiled when the task was asked for; patterns that fail now were written by another version.
        let patterns = Patterns::new(asked).unwrap_or_default();
        let (searches, port) = (patterns.has_any(), patterns.port().is_some() && !row.watch.ready);
        if rules == Rules::default() && !searches && !port {
            return None;
        }
        Some(Self {
            watch: Watch::new(rules, row.watch.stand(), start_ms),
            patterns,
            lines: Lines::at(row.watch.searched, row.watch.within),
            start_ms,
            armed: None,
            searched_ms: 0,
            search_at_ms: (searches || port).then_some(start_ms),
            unfinished_at_ms: None,
            port_at_ms: port.then_some(start_ms),
            port_looked_ms: 0,
            port_looks: 0,
            last: None,
            due_ms: None,
        })
    }

    fn next_due_ms(&self) -> Option<u64> {
        let times = [self.watch.due_ms(), self.search_at_ms, self.unfinished_at_ms, self.port_at_ms];
        times.into_iter().flatten().min()
    }

    /// Reads on and holds each line against the patterns, up to `end` and at most `room` bytes. Gives what it read.
    fn search(&mut self, output: &Path, record: Option<&Record>, end: u64, room: u64, seen: &mut Vec<Seen>) -> u64 {
        let (now_ms, mut left) = (process::monotonic_ms(), room);
        let gaps = record.map(sight::gaps).unwrap_or_default();
        self.searched_ms = now_ms;
        let Ok(file) = files::open_regular(output) else { return 0 };
        let (mut piece, mask) = (vec![0; PIECE_BYTES], LazyMask::of_output(output));
        loop {
            if let Some((_, to, _)) = gaps.iter().find(|(from, to, _)| (*from..*to).contains(&self.lines.next())) {
                self.lines.skip_to(*to);
            }
            let at = self.lines.next();
            let most =
                usize::try_from(left.min(end.saturating_sub(at))).map_or(PIECE_BYTES, |most| most.min(PIECE_BYTES));
            let count = file.read_at(&mut piece[..most], at).unwrap_or(0);
            if count == 0 {
                break;
            }
            left -= count as u64;
            self.hold(now_ms, seen, &mask, |lines, look| lines.push(&piece[..count], look));
            self.unfinished_at_ms = self.lines.is_waiting().then_some(now_ms + UNFINISHED_MS);
        }
        if left == 0 {
            self.search_at_ms = Some(now_ms);
        }
        room - left
    }

    /// Searches the unfinished line as it is.
    fn search_unfinished(&mut self, output: &Path, seen: &mut Vec<Seen>) {
        self.unfinished_at_ms = None;
        let mask = LazyMask::of_output(output);
        self.hold(process::monotonic_ms(), seen, &mask, |lines, look| lines.flush(look));
    }

    /// Holds the lines that `cut` gives against the patterns.
    fn hold(
        &mut self,
        now_ms: u64,
        seen: &mut Vec<Seen>,
        mask: &LazyMask<'_>,
        cut: impl FnOnce(&mut Lines, &mut ringback_core::lines::Look<'_>),
    ) {
        let Self { watch, patterns, lines, last, start_ms, .. } = self;
        let mut look = |offset: u64, line: &[u8]| {
            let ready = if watch.stand().ready { None } else { patterns.ready(offset, line, mask) };
            let (is_ready, hit) = (ready.is_some(), patterns.watched(offset, line, mask));
            if let Some(hit) = ready.filter(|_| watch.ready()) {
                seen.push(Seen::Ready { hit, after_ms: now_ms.saturating_sub(*start_ms) });
            }
            match hit {
                None => is_ready,
                Some(hit) => {
                    if watch.matched(now_ms) {
                        seen.push(Seen::Match(hit));
                    } else {
                        *last = Some(hit);
                    }
                    true
                }
            }
        };
        cut(lines, &mut look);
    }

    /// Output has come: perhaps it is of a server that has opened its port.
    fn hurry_port(&mut self, now_ms: u64) {
        let soon_ms = now_ms.max(self.port_looked_ms + PORT_PAUSE_MS);
        self.port_at_ms = self.port_at_ms.map(|at_ms| at_ms.min(soon_ms));
    }

    /// Looks whether the tree listens at its port.
    fn look_at_port(&mut self, record: &Record, now_ms: u64, seen: &mut Vec<Seen>) {
        let Some(place) = self.patterns.port() else { return };
        self.port_looked_ms = now_ms;
        self.port_at_ms = Some(now_ms + PORT_PACE.pause_ms(self.port_looks));
        self.port_looks = self.port_looks.saturating_add(1);
        let open = port::is_open_by(record.keeper.pid, record.main.pid, place.host, place.port);
        if open.unwrap_or(false) && self.watch.ready() {
            self.port_at_ms = None;
            let host = place.host.map(|host| format!("{host}:")).unwrap_or_default();
            let hit = Hit { pattern: format!("tcp:{host}{}", place.port), ..Hit::default() };
            seen.push(Seen::Ready { hit, after_ms: now_ms.saturating_sub(self.start_ms) });
        }
    }

    fn stored(&self) -> StoredWatch {
        StoredWatch::new(self.watch.stand(), self.lines.mark())
    }
}

impl Watches {
    /// When one has to be looked at next.
    pub(super) fn next_due(&self) -> Option<u64> {
        self.by_time.first().map(|(due_ms, _)| *due_ms)
    }

    /// Nobody waits for this task any more.
    pub(super) fn release(&mut self, id: TaskId) {
        if let Some(mut watching) = self.take(id) {
            watching.watch.release();
            self.put(id, watching);
        }
    }

    fn due(&self, now_ms: u64) -> Vec<TaskId> {
        self.by_time.iter().take_while(|(due_ms, _)| *due_ms <= now_ms).map(|(_, id)| *id).collect()
    }

    fn take(&mut self, id: TaskId) -> Option<Watching> {
        let watching = self.all.remove(&id)?;
        if let Some(due_ms) = watching.due_ms {
            self.by_time.remove(&(due_ms, id));
        }
        Some(watching)
    }

    fn put(&mut self, id: TaskId, mut watching: Watching) {
        watching.due_ms = watching.next_due_ms();
        if let Some(due_ms) = watching.due_ms {
            self.by_time.insert((due_ms, id));
        }
        self.all.insert(id, watching);
    }

    fn grew(&mut self, id: TaskId, now_ms: u64) {
        if let Some(mut watching) = self.take(id) {
            watching.armed = None;
            watching.search_at_ms.get_or_insert(now_ms.max(watching.searched_ms + SEARCH_PAUSE_MS));
            self.put(id, watching);
        }
    }
}

impl Daemon {
    /// Begins to watch a task that runs, if there is something to watch.
    pub(super) fn begin_watch(&mut self, id: TaskId, record: &Record) {
        let Some(live) = self.lives.get(&id).filter(|live| live.row.facts.is_none()) else { return };
        if record.phase != Phase::Started || self.watches.all.contains_key(&id) {
            return;
        }
        let stall_ms = self.config.stall_after.map(millis);
        if let Some(watching) = Watching::new(&live.row, stall_ms, record.started_mono_ms) {
            self.watches.put(id, watching);
        }
    }

    /// Some outputs have grown.
    pub(super) fn outputs_grew(&mut self) {
        let now_ms = process::monotonic_ms();
        let changed = match self.outputs.read() {
            Ok(changed) => changed,
            Err(error) => return self.troubles.note("see which outputs have grown", &error),
        };
        for one in changed {
            let ids: Vec<TaskId> = match one {
                Changed::File(number) => self.watches.armed.remove(&number).into_iter().collect(),
                Changed::Any => {
                    self.look_at_home();
                    std::mem::take(&mut self.watches.armed).into_values().collect()
                }
                Changed::Place => {
                    self.look_at_home();
                    Vec::new()
                }
            };
            for id in ids {
                self.watches.grew(id, now_ms);
            }
        }
    }

    /// Looks at every task whose time has come. What is not reached has its turn in the next round.
    pub(super) fn watch_due(&mut self, now_ms: u64) {
        if self.round.retry_at_ms().is_some() {
            // The disk is full: what would be seen now could not be kept, and is seen as well later.
            return;
        }
        let mut room = ROUND_BYTES_MAX;
        for id in self.watches.due(now_ms) {
            if room == 0 {
                return;
            }
            room -= self.watch_one(id, now_ms, room);
        }
    }

    /// Looks at one task. Gives how many bytes of its output were read.
    fn watch_one(&mut self, id: TaskId, now_ms: u64, room: u64) -> u64 {
        let Some(mut watching) = self.watches.take(id) else { return 0 };
        let Some(record) = self.record(id) else {
            // No descriptor to read it with, perhaps: the next look is not the last one.
            watching.search_at_ms = Some(now_ms + UNREADABLE_MS);
            self.watches.put(id, watching);
            return 0;
        };
        let output = self.dir(id).join(OUTPUT);
        let is_due = |at_ms: Option<u64>| at_ms.is_some_and(|at_ms| at_ms <= now_ms);
        let (mut seen, mut read) = (Vec::new(), 0);
        if is_due(watching.search_at_ms) {
            // Armed before it is read: what comes in between is told by the next event.
            self.arm(id, &mut watching, &output);
            watching.search_at_ms = None;
            watching.hurry_port(now_ms);
            if watching.patterns.has_any() {
                read = watching.search(&output, Some(&record), u64::MAX, room, &mut seen);
            }
        }
        if is_due(watching.unfinished_at_ms) {
            watching.search_unfinished(&output, &mut seen);
        }
        if is_due(watching.port_at_ms) {
            watching.look_at_port(&record, now_ms, &mut seen);
        }
        let (length, quiet_ms) = growth(&output);
        watching.watch.look(now_ms, length, quiet_ms);
        for say in watching.watch.tick(now_ms) {
            seen.push(Seen::Due(say, watching.last.clone()));
        }
        self.note_seen(id, &watching, seen);
        self.watches.put(id, watching);
        read
    }

    fn arm(&mut self, id: TaskId, watching: &mut Watching, output: &Path) {
        match self.outputs.arm(output) {
            Ok(number) => {
                watching.armed = Some(number);
                self.watches.armed.insert(number, id);
            }
            Err(error) => self.troubles.note(&format!("watch the output of {id}"), &error),
        }
    }

    /// Before the end of a task is told: what is still to be told of its output. Gives what of it was not searched.
    pub(super) fn end_watch(&mut self, id: TaskId, record: Option<&Record>) -> Option<(u64, u64)> {
        let known = self.watches.take(id);
        if let Some(number) = known.as_ref().and_then(|watching| watching.armed) {
            self.watches.armed.remove(&number);
            self.outputs.disarm(number);
        }
        // One that ended before it was ever looked at is searched all the same.
        let start_ms = record.map_or(0, |record| record.started_mono_ms);
        let row = &self.lives.get(&id)?.row;
        let mut watching = known.or_else(|| Watching::new(row, None, start_ms))?;
        if !watching.patterns.has_any() {
            return None;
        }
        let output = self.dir(id).join(OUTPUT);
        let end = record.map_or_else(|| growth(&output).0, |record| record.output_bytes);
        let at = watching.lines.next();
        let skipped = end.saturating_sub(LAST_BYTES_MAX);
        watching.lines.skip_to(skipped);
        let mut seen = Vec::new();
        watching.search(&output, record, end, LAST_BYTES_MAX, &mut seen);
        watching.search_unfinished(&output, &mut seen);
        if let Some(say) = watching.watch.end(process::monotonic_ms()) {
            seen.push(Seen::Due(say, watching.last.clone()));
        }
        self.note_seen(id, &watching, seen);
        (skipped > at).then_some((at, skipped))
    }

    /// What was seen, and how far it was looked for, is recorded together.
    fn note_seen(&mut self, id: TaskId, watching: &Watching, seen: Vec<Seen>) {
        let Some(live) = self.lives.get_mut(&id).filter(|_| !seen.is_empty()) else { return };
        let watch = StoredWatch { report: live.row.watch.report.clone(), ..watching.stored() };
        live.row.watch = watch.clone();
        self.tell_seen(id, seen);
        self.round.records.push(Write::Watched { id, watch });
    }
}

/// How long the output is, and how long ago it was written by the clock of its file system.
fn growth(output: &Path) -> (u64, u64) {
    let Ok(meta) = fs::metadata(output) else { return (0, 0) };
    let quiet = meta.modified().ok().and_then(|at| at.elapsed().ok()).unwrap_or_default();
    (meta.len(), millis(quiet))
}
