//! What report files said is kept before the next run writes over them: when tasks have ended, a process of ours reads them.
//!
//! It waits for disks of others and may read for seconds, so none of that is done here. It is given a list of tasks, writes
//! into their folders, and says which it has done with. There is one at a time; where it hangs, the next one gets the rest.

use std::borrow::Cow;
use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::path::Path;

use ringback_core::id::TaskId;
use ringback_core::retention::Kept;
use ringback_sys::pidfd::PidFd;
use ringback_sys::signals::SIGKILL;
use ringback_sys::task_files::FINDINGS;
use ringback_sys::{files, process};
use serde::Serialize;

use super::crash::crash_point;
use super::errand::errand;
use super::view::time;
use super::{Daemon, folder};
use crate::store::{Facts, Record, Row};

/// How long after an ending the process is started, milliseconds: tasks that end together share it.
const PAUSE_MS: u64 = 50;
/// How long after a start that failed the next one is tried, milliseconds.
const START_AGAIN_MS: u64 = 1000;
/// How many tasks one process is given.
const BATCH_MAX: u32 = 256;
/// How many wait for one. Reports of those beyond are read as they are when somebody asks.
const WAITING_MAX: usize = 4096;
/// How long one may take, milliseconds: a report of 256 MB takes three seconds on a busy machine.
const TIME_MAX_MS: u64 = 60_000;
/// How long one that was killed may take to go, milliseconds.
const GO_MS: u64 = 1000;
/// How many may be left behind that even SIGKILL did not end, because a disk does not answer (state D, proc(5)).
const STUCK_MAX: usize = 4;
/// A new daemon looks again at tasks that ended so long ago: the one before may have died before it came to them.
const AGAIN_MS: i64 = 10 * 60 * 1000;
/// How long after its start, milliseconds. Each look reads the end of an output, nearly all of which were read before; daemons that
/// are killed one after the other are not to leave a process each that does so.
const AGAIN_PAUSE_MS: u64 = 1000;
/// How much of what it says is read.
const SAID_BYTES_MAX: u64 = 64 << 10;

/// Ended tasks whose report files are still to be read.
#[derive(Default)]
pub(super) struct Collector {
    waiting: VecDeque<Waiting>,
    start_at_ms: Option<u64>,
    again_at_ms: Option<u64>,
    running: Option<Running>,
    stuck: BTreeSet<i32>,
}

/// The process.
struct Running {
    pid: i32,
    process: Option<PidFd>,
    tasks: Vec<Waiting>,
    said: File,
    due_ms: u64,
    was_killed: bool,
}

/// A task, and the line that the process is given for it.
struct Waiting {
    id: TaskId,
    line: String,
}

/// Of a task object (`wire::TaskObject`) what is needed to find its reports: a whole one costs more than all else of an ending.
#[derive(Serialize)]
struct ToRead<'a> {
    id: String,
    state: &'a str,
    cwd: Cow<'a, str>,
    started_at: Option<String>,
    ended_at: Option<String>,
    output: OutputToRead<'a>,
}

#[derive(Serialize)]
struct OutputToRead<'a> {
    path: Cow<'a, str>,
    index_path: Cow<'a, str>,
    bytes: u64,
    gaps: &'a [(u64, u64, String)],
}

impl Waiting {
    fn new(row: &Row, facts: &Facts, dir: &Path) -> Self {
        let (output, index) = (dir.join(folder::OUTPUT), dir.join(folder::INDEX));
        let to_read = ToRead {
            id: row.id.to_string(),
            state: &facts.outcome.state,
            cwd: String::from_utf8_lossy(&row.asked.cwd),
            started_at: facts.started_ms.map(time),
            ended_at: facts.ended_ms.map(time),
            output: OutputToRead {
                path: output.to_string_lossy(),
                index_path: index.to_string_lossy(),
                bytes: facts.output_bytes,
                gaps: &facts.gaps,
            },
        };
        // A struct of texts and numbers always has its JSON.
        Self { id: row.id, line: serde_json::to_string(&to_read).unwrap_or_default() }
    }
}

impl Collector {
    /// Whether this child of ours reads reports.
    pub(super) fn is_ours(&self, pid: i32) -> bool {
        self.stuck.contains(&pid) || self.running.as_ref().is_some_and(|running| running.pid == pid)
    }

    /// Whether the reports of this task are still to be read.
    pub(super) fn has(&self, id: TaskId) -> bool {
        let in_hand = self.running.iter().flat_map(|running| &running.tasks);
        self.waiting.iter().chain(in_hand).any(|task| task.id == id)
    }

    /// Whether tasks of the daemon before are still to be looked for.
    pub(super) fn looks_again(&self) -> bool {
        self.again_at_ms.is_some()
    }

    /// When something is to be done, by the monotonic clock.
    pub(super) fn next_due(&self) -> Option<u64> {
        let next = self.running.as_ref().map(|running| running.due_ms).or(self.start_at_ms);
        next.into_iter().chain(self.again_at_ms).min()
    }

    fn add(&mut self, task: Waiting) {
        if self.waiting.len() >= WAITING_MAX {
            self.waiting.pop_front();
        }
        self.waiting.push_back(task);
        self.plan();
    }

    /// Those whose process did not come to them are the next ones.
    fn wait_again(&mut self, tasks: Vec<Waiting>) {
        tasks.into_iter().rev().for_each(|task| self.waiting.push_front(task));
        self.waiting.truncate(WAITING_MAX);
    }

    fn plan(&mut self) {
        let wants = !self.waiting.is_empty() && self.running.is_none() && self.stuck.len() < STUCK_MAX;
        let at_ms = self.start_at_ms.unwrap_or_else(|| process::monotonic_ms() + PAUSE_MS);
        self.start_at_ms = wants.then_some(at_ms);
    }
}

impl Daemon {
    /// A task has ended: what its report files say is kept soon.
    pub(super) fn collect(&mut self, id: TaskId) {
        crash_point("daemon.before-collect");
        let Some(row) = self.lives.get(&id).map(|live| &live.row) else { return };
        if let Some(facts) = &row.facts {
            self.collector.add(Waiting::new(row, facts, &self.dir(id)));
        }
    }

    /// Tasks that ended a short while ago are looked at again when this daemon has lived for a while.
    pub(super) fn plan_collecting_again(&mut self) {
        self.collector.again_at_ms = Some(process::monotonic_ms() + AGAIN_PAUSE_MS);
    }

    /// Looks again at tasks that ended a short while ago.
    fn collect_again(&mut self) {
        self.collector.again_at_ms = None;
        let since_ms = process::wall_ms() - AGAIN_MS;
        let open = self.lives.values().map(|live| live.row.clone());
        let closed = self.store.ended_since(since_ms, BATCH_MAX).unwrap_or_else(|error| {
            self.troubles.note("look for tasks that ended lately", &error);
            Vec::new()
        });
        for row in open.chain(closed).collect::<Vec<_>>() {
            let Some(facts) = row.facts.as_ref().filter(|facts| facts.ended_ms.is_some_and(|at| at >= since_ms)) else {
                continue;
            };
            let dir = self.dir(row.id);
            if dir.exists() && !dir.join(FINDINGS).exists() && !self.collector.has(row.id) {
                self.collector.add(Waiting::new(&row, facts, &dir));
            }
        }
    }

    /// Starts the process if it is time, and ends one that takes too long.
    pub(super) fn collect_due(&mut self, now_ms: u64) {
        if self.collector.again_at_ms.is_some_and(|at_ms| at_ms <= now_ms) {
            self.collect_again();
        }
        match &mut self.collector.running {
            Some(running) if running.due_ms > now_ms => {}
            Some(running) if !running.was_killed => {
                (running.was_killed, running.due_ms) = (true, now_ms + GO_MS);
                if let Some(process) = &running.process {
                    // Its end is told by SIGCHLD.
                    let _ = process.signal(SIGKILL);
                }
            }
            Some(running) => {
                let pid = running.pid;
                self.collector.stuck.insert(pid);
                self.collected_part();
            }
            None if self.collector.start_at_ms.is_some_and(|at_ms| at_ms <= now_ms) => self.collect_now(),
            None => {}
        }
    }

    /// This daemon leaves: the process with those that wait is started, and goes on.
    pub(super) fn collect_last(&mut self) {
        if self.collector.looks_again() {
            self.collect_again();
        }
        self.collect_now();
    }

    /// Starts the process with those that wait, unless it runs.
    fn collect_now(&mut self) {
        self.collector.start_at_ms = None;
        if self.collector.running.is_some() || self.collector.stuck.len() >= STUCK_MAX {
            return;
        }
        let count = self.collector.waiting.len().min(BATCH_MAX as usize);
        let (mut tasks, mut list) = (self.collector.waiting.drain(..count).collect::<Vec<_>>(), String::new());
        // One that was removed meanwhile is let go.
        tasks.retain(|task| self.dir(task.id).exists());
        for task in &tasks {
            list += &task.line;
            list.push('\n');
        }
        if !tasks.is_empty() {
            match start(&list) {
                Ok((pid, said)) => {
                    let process = PidFd::open_child(pid).ok();
                    let due_ms = process::monotonic_ms() + TIME_MAX_MS;
                    self.collector.running = Some(Running { pid, process, tasks, said, due_ms, was_killed: false });
                }
                Err(error) => {
                    self.troubles.note("start a process that reads reports", &error);
                    self.collector.wait_again(tasks);
                    self.collector.start_at_ms = Some(process::monotonic_ms() + START_AGAIN_MS);
                }
            }
        }
        self.collector.plan();
    }

    /// One of our children is gone; true if it read reports.
    pub(super) fn collected(&mut self, pid: i32) -> bool {
        if self.collector.running.as_ref().is_some_and(|running| running.pid == pid) {
            self.collected_part();
            return true;
        }
        let was_stuck = self.collector.stuck.remove(&pid);
        self.collector.plan();
        was_stuck
    }

    /// Takes in how far the process has come. The task with which it hung is left out, the rest waits again.
    fn collected_part(&mut self) {
        let Some(Running { mut tasks, said, was_killed, .. }) = self.collector.running.take() else { return };
        for line in lines(said).lines() {
            let Some((id, answer)) = line.split_once(' ') else { continue };
            let Ok(id) = TaskId::parse(id) else { continue };
            tasks.retain(|other| other.id != id);
            match answer.parse::<u64>() {
                Ok(0) => {}
                Ok(_) => self.measure(id),
                Err(_) => self.troubles.note(&format!("keep what the reports of {id} say"), &answer),
            }
        }
        if !tasks.is_empty() {
            let hung = tasks.remove(0).id;
            let why = if was_killed { "they take too long to read" } else { "the process that reads them failed" };
            self.troubles.note(&format!("keep what the reports of {hung} say"), &why);
            // Each time one less, so that this comes to an end.
            self.collector.wait_again(tasks);
        }
        self.collector.plan();
    }

    /// The folder of this task takes more of the disk now.
    fn measure(&mut self, id: TaskId) {
        // One that is not closed is measured then.
        if self.lives.contains_key(&id) {
            return;
        }
        let Ok(Some(row)) = self.store.task(id) else { return };
        let disk_bytes = folder::ended_bytes(&self.dir(id), row.asked.split);
        if !row.packed && disk_bytes > row.disk_bytes {
            self.round.records.push(Record::Measured { id, disk_bytes });
            self.prunes.kept.add(Kept { count: 0, bytes: disk_bytes - row.disk_bytes });
            self.round.hurry();
        }
    }
}

/// Starts our own program with this list.
fn start(list: &str) -> io::Result<(i32, File)> {
    let said = files::memory("said")?;
    let started = errand("collect", list.as_bytes())?.stdout(said.try_clone()?).spawn()?;
    Ok((started.id().cast_signed(), said))
}

fn lines(mut said: File) -> String {
    let mut text = Vec::new();
    // What cannot be read was not done.
    let _ = said.rewind().and_then(|()| said.take(SAID_BYTES_MAX).read_to_end(&mut text));
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_wait_are_bounded_and_those_that_hang_are_few() {
        let mut collector = Collector::default();
        let task = |n| Waiting { id: TaskId::from_bits(n), line: String::new() };
        (0..=WAITING_MAX as u64).for_each(|n| collector.add(task(n)));
        assert!(collector.waiting.len() == WAITING_MAX && !collector.has(TaskId::from_bits(0)));
        assert!(collector.next_due().is_some());
        collector.stuck.extend(0..4);
        collector.plan();
        assert!(collector.next_due().is_none() && collector.is_ours(3));
        collector.stuck.remove(&3);
        collector.plan();
        assert!(collector.next_due().is_some());
        collector.again_at_ms = Some(1);
        assert_eq!(collector.next_due(), Some(1), "what is due first");
    }
}
