//! Notices on their way to sinks: claimed, handed to a child process, and tried again until they have arrived.
//!
//! Delivery waits for programs and networks of others, so it is never done here: a child does one and tells by its exit
//! code. A notice has the same id at every try, so whoever receives it twice can tell.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read as _, Seek as _};

use ringback_core::id::TaskId;
use ringback_core::notice::Kind;
use ringback_core::outcome::WaitStatus;
use ringback_core::watch::Pace;
use ringback_sys::pidfd::PidFd;
use ringback_sys::signals::SIGKILL;
use ringback_sys::{files, process};
use serde_json::json;

use super::Daemon;
use super::crash::crash_point;
use super::errand::errand;
use super::round::Act;
use crate::quantity::millis;
use crate::sink::{Destination, Sink};
use crate::store::{Ack, Claim, OutboxRow, Post, Record};

/// How often a delivery is tried: with pauses that double from 5 s to an hour, about a day.
const TRIES_MAX: u32 = 32;

/// The longest pause between two tries, milliseconds.
const PAUSE_MAX_MS: u64 = 60 * 60 * 1000;

/// How much longer than a delivery its claim holds, milliseconds: until its success is recorded.
const CLAIM_MARGIN_MS: u64 = 10_000;

/// The word of all claims of sinks: they do not stand in each other's way. Chosen once by chance.
const CLAIM_WORD: u64 = 0x9d1c_5a3e_77b0_42f6;

/// How long after its time a delivery that does not end by itself is ended by us, milliseconds.
const STUCK_MS: u64 = 2_000;

/// When to look again at a claim of which nobody says how long it holds, milliseconds.
const HELD_MS: u64 = 1000;

/// How much of what a failed delivery said is kept, bytes.
const ERROR_BYTES_MAX: u64 = 300;

/// What is on its way.
#[derive(Default)]
pub(super) struct Outbox {
    running: BTreeMap<i32, Running>,
    /// Sinks that have a delivery in this round or running: one at a time, so that they are in order.
    busy: BTreeSet<String>,
    next_ms: Option<i64>,
    stale: bool,
}

/// A delivery that runs.
struct Running {
    row: OutboxRow,
    process: Option<PidFd>,
    errors: Option<File>,
    due_ms: u64,
}

impl Outbox {
    /// Whether this child of ours carries a notice.
    pub(super) fn is_delivery(&self, pid: i32) -> bool {
        self.running.contains_key(&pid)
    }

    /// When something is to be done, by the monotonic clock.
    pub(super) fn next_due(&self) -> Option<u64> {
        let left_ms = |at_ms: i64| u64::try_from(at_ms - process::wall_ms()).unwrap_or(0);
        let table = self.next_ms.map(|at_ms| process::monotonic_ms() + left_ms(at_ms));
        self.running.values().map(|running| running.due_ms).chain(table).min()
    }
}

impl Daemon {
    /// Forgets what waits for sinks that are in the config no more.
    pub(super) fn adopt_outbox(&mut self) {
        let sinks = self.config.sinks.iter().map(|sink| sink.name.clone()).collect();
        self.record_post(Post::Known { sinks });
        for sink in &self.config.sinks {
            if let Some(lack) = sink.lack() {
                self.troubles.note(&format!("deliver to sink {}", sink.name), &lack);
            }
        }
    }

    /// The notice that was just put among the records goes to the sinks that want it.
    pub(super) fn post(&mut self, id: TaskId, session: &str, kind: Kind) {
        let due_ms = process::wall_ms();
        let wanted: Vec<String> =
            self.config.sinks.iter().filter(|sink| sink.wants(session, kind)).map(|sink| sink.name.clone()).collect();
        for sink in wanted {
            self.record_post(Post::Add { sink, id, session: session.to_owned(), kind, due_ms });
        }
    }

    /// Begins what is due, one delivery for each sink, and ends what takes too long.
    pub(super) fn outbox_due(&mut self) {
        let (now_ms, wall_ms) = (process::monotonic_ms(), process::wall_ms());
        for running in self.outbox.running.values_mut().filter(|running| running.due_ms <= now_ms) {
            // Its end is told by SIGCHLD.
            running.due_ms = u64::MAX;
            if let Some(process) = &running.process {
                let _ = process.signal(SIGKILL);
            }
        }
        if self.round.retry_at_ms().is_some() || self.outbox.next_ms.is_none_or(|at_ms| at_ms > wall_ms) {
            return;
        }
        let mut sinks = self.config.sinks.clone();
        sinks.retain(|sink| !self.outbox.busy.contains(&sink.name));
        for sink in &sinks {
            match self.store.outbox_due(&sink.name, wall_ms) {
                Ok(Some(row)) => self.begin_delivery(sink, row),
                Ok(None) => {}
                Err(error) => self.troubles.note("read the outbox", &error),
            }
        }
        self.outbox.stale = true;
    }

    /// Claims the notice; what comes of it is seen once it is recorded.
    fn begin_delivery(&mut self, sink: &Sink, row: OutboxRow) {
        self.outbox.busy.insert(row.sink.clone());
        if !sink.always {
            self.round.records.push(Record::Claim(Box::new(claim(sink, &row))));
        }
        self.round.act(Act::Deliver(Box::new(row)));
    }

    /// The record could not be written: nothing was begun.
    pub(super) fn forget_deliveries(&mut self) {
        let running: BTreeSet<String> = self.outbox.running.values().map(|running| running.row.sink.clone()).collect();
        self.outbox.busy = running;
        self.outbox.stale = true;
    }

    /// Hands a notice to a child, unless it was heard meanwhile or somebody else is about to speak of it.
    pub(super) fn deliver(&mut self, row: &OutboxRow) {
        let Some(sink) = self.config.sinks.iter().find(|sink| sink.name == row.sink).cloned() else { return };
        if !sink.always {
            match self.store.claimed(&claim(&sink, row)) {
                Ok((own, _)) if own.contains(&row.notice.seq) => {}
                Ok((_, held_ms)) => return self.step_aside(row, held_ms),
                Err(error) => return self.failed(row, &error.to_string()),
            }
        }
        crash_point("daemon.before-deliver");
        if let Err(error) = self.start_delivery(&sink, row) {
            self.failed(row, &error.to_string());
        }
    }

    /// Somebody else speaks of it, for so long; or it was heard.
    fn step_aside(&mut self, row: &OutboxRow, held_ms: Option<u64>) {
        // A store that cannot say so is no proof that it was heard.
        let post = if matches!(self.store.is_unheard(&row.session, row.notice.seq), Ok(false)) {
            Post::Done { seq: row.seq }
        } else {
            let held_ms = i64::try_from(held_ms.unwrap_or(HELD_MS)).unwrap_or(i64::MAX);
            let due_ms = process::wall_ms().saturating_add(held_ms);
            Post::Again { seq: row.seq, tries: row.tries, due_ms }
        };
        self.end_delivery(row, post);
    }

    fn start_delivery(&mut self, sink: &Sink, row: &OutboxRow) -> io::Result<()> {
        let id = format!("{}-{}", row.notice.task, row.notice.seq);
        let notice = self.notice(&row.session, row.notice.clone());
        let mut body = notice.flat(&row.session);
        body["notice"] = id.as_str().into();
        let mut job = match &sink.to {
            Destination::Exec(words) => json!({ "exec": words, "body": body }),
            Destination::Unix(path) => json!({ "unix": path, "body": body }),
            Destination::Webhook { url, secret } => {
                let secret = secret.as_ref().map(|secret| &secret.0);
                let body = json!({ "type": notice.kind, "timestamp": notice.at, "data": body });
                json!({ "webhook": url, "secret": secret, "body": body })
            }
        };
        job["id"] = id.into();
        job["timeout_ms"] = millis(sink.timeout).into();
        let errors = files::memory("errors")?;
        // Which keeps the time also where we are killed.
        let mut deliverer = errand("deliver", format!("{job}\n").as_bytes())?;
        let started = deliverer.env("RINGBACK_SESSION", &row.session).stderr(errors.try_clone()?).spawn()?;
        let pid = started.id().cast_signed();
        let due_ms = process::monotonic_ms().saturating_add(millis(sink.timeout)).saturating_add(STUCK_MS);
        let process = PidFd::open_child(pid).ok();
        self.outbox.running.insert(pid, Running { row: row.clone(), process, errors: Some(errors), due_ms });
        Ok(())
    }

    /// One of our children is gone; true if it was a delivery.
    pub(super) fn delivered(&mut self, pid: i32, status: Option<i32>) -> bool {
        let Some(Running { row, errors, due_ms, .. }) = self.outbox.running.remove(&pid) else { return false };
        let Some(sink) = self.config.sinks.iter().find(|sink| sink.name == row.sink) else { return true };
        match status.map(WaitStatus::read) {
            Some(WaitStatus::Exited(0)) => {
                if sink.acknowledge {
                    let which = Ack::One(row.notice.seq);
                    self.round.records.push(Record::Ack { session: row.session.clone(), which });
                }
                self.end_delivery(&row, Post::Done { seq: row.seq });
            }
            _ if due_ms == u64::MAX => self.failed(&row, "it took too long"),
            Some(WaitStatus::Exited(code)) => self.failed(&row, &format!("exit {code}: {}", said(errors))),
            Some(WaitStatus::Signaled { signal, .. }) => {
                self.failed(&row, &format!("signal {signal}: {}", said(errors)));
            }
            None => self.failed(&row, "nobody knows how it ended"),
        }
        true
    }

    fn failed(&mut self, row: &OutboxRow, why: &str) {
        let tries = row.tries.saturating_add(1);
        let act = format!("deliver a notice of {} to {:?} (try {tries})", row.notice.task, row.sink);
        self.troubles.note(&act, &why.trim());
        let base_ms = self.config.sinks.iter().find(|sink| sink.name == row.sink).map_or(0, |sink| millis(sink.retry));
        let pause_ms = Pace { base_ms, max_ms: PAUSE_MAX_MS }.pause_ms(row.tries);
        let due_ms = process::wall_ms().saturating_add(i64::try_from(pause_ms).unwrap_or(i64::MAX));
        let given_up = tries >= TRIES_MAX;
        let again = Post::Again { seq: row.seq, tries, due_ms };
        self.end_delivery(row, if given_up { Post::Done { seq: row.seq } } else { again });
    }

    fn end_delivery(&mut self, row: &OutboxRow, post: Post) {
        self.outbox.busy.remove(&row.sink);
        self.record_post(post);
        self.round.hurry();
    }

    fn record_post(&mut self, post: Post) {
        self.round.records.push(Record::Post(post));
        self.outbox.stale = true;
    }

    /// Looks when the outbox has to be looked at again, after it was changed.
    pub(super) fn refresh_outbox(&mut self) {
        if !std::mem::take(&mut self.outbox.stale) || self.config.sinks.is_empty() {
            return;
        }
        let free = self.config.sinks.iter().filter(|sink| !self.outbox.busy.contains(&sink.name));
        self.outbox.next_ms = free.filter_map(|sink| self.store.outbox_next(&sink.name).ok().flatten()).min();
    }
}

fn claim(sink: &Sink, row: &OutboxRow) -> Claim {
    Claim {
        session: row.session.clone(),
        word: CLAIM_WORD,
        rung: format!("sink {}", sink.name),
        tasks: vec![row.notice.task],
        kinds: vec![row.notice.kind.clone()],
        limit: u32::MAX,
        now_ms: process::wall_ms(),
        lease_ms: millis(sink.timeout).saturating_add(CLAIM_MARGIN_MS),
    }
}

/// What a failed delivery had to say.
fn said(errors: Option<File>) -> String {
    let mut text = Vec::new();
    if let Some(mut errors) = errors {
        let _ = errors.rewind().and_then(|()| errors.take(ERROR_BYTES_MAX).read_to_end(&mut text));
    }
    String::from_utf8_lossy(&text).chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
