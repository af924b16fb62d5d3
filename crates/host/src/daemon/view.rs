//! From what is stored to what everybody sees: the task object, in one place.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use ringback_core::spec::OutputPolicy;
use ringback_sys::form::record::{Phase, Record, Who};
use ringback_sys::{files, identity, process, signals};
use serde_bytes::ByteBuf;

use super::folder::{INDEX, OUTPUT, SCRIPT, STREAMS, pipes};
use super::{hold_back, sight, terminal};
use crate::mask;
use crate::store::{Facts, Row, StoredCommand};
use crate::wire::task::{CommandObject, OutputObject, Packed, ReceiptObject, SCHEMA, TaskObject, TimeoutsObject};

/// How many characters of a command stand in its one-line form: a list has one line for it.
const DISPLAY_CHARS_MAX: usize = 200;

/// How much of a task to show.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    /// What stands in the row. It goes to whoever lists or is told, so what looks like a secret in the command is starred.
    Brief,
    /// Also what has to be read from the folder.
    Full,
}

/// RFC 3339 with milliseconds, UTC.
pub(super) fn time(ms: i64) -> String {
    // What lies beyond the calendar is its end.
    let end = if ms < 0 { Timestamp::MIN } else { Timestamp::MAX };
    format!("{:.3}", Timestamp::from_millisecond(ms).unwrap_or(end))
}

/// The task object of a row. `record` is the keeper's, for a task that is not closed.
pub(super) fn task(row: &Row, dir: &Path, record: Option<&Record>, detail: Detail) -> TaskObject {
    let asked = &row.asked;
    let mut object = TaskObject {
        schema: SCHEMA,
        id: row.id.to_string(),
        name: asked.name.clone(),
        session: row.session.clone(),
        state: "queued".to_owned(),
        command: command(&asked.command, dir, detail),
        cwd: String::from_utf8_lossy(&asked.cwd).into_owned(),
        created_at: time(row.created_ms),
        lease: row.lease.clone(),
        key: asked.key.clone(),
        binding: asked.binding.as_deref().and_then(|text| serde_json::from_str(text).ok()),
        timeouts: TimeoutsObject { wall_ms: asked.wall_ms, idle_ms: asked.idle_ms, grace_ms: asked.grace_ms },
        output: OutputObject {
            path: shown(&dir.join(OUTPUT)),
            index_path: shown(&dir.join(INDEX)),
            max_bytes: asked.output_max,
            policy: OutputPolicy::parse(&asked.output_policy).unwrap_or_default().word().to_owned(),
            ..OutputObject::default()
        },
        ready: asked.ready.as_ref().map(|_| row.watch.ready),
        matches: (!asked.watch.is_empty() || !asked.watch_literal.is_empty()).then_some(row.watch.matches),
        pty: asked.pty.map(|size| terminal::size_now(dir, detail).unwrap_or(size)),
        stdout_path: asked.split.then(|| shown(&dir.join(STREAMS[0]))),
        stderr_path: asked.split.then(|| shown(&dir.join(STREAMS[1]))),
        ..TaskObject::default()
    };
    let mut held = None;
    match (&row.facts, record) {
        (Some(facts), _) => {
            held.clone_from(&facts.held);
            ended(&mut object, facts, row.live, dir);
        }
        (None, Some(record)) => {
            running(&mut object, record, dir);
            held = object.started_at.as_ref().map(|_| sight::held(record));
        }
        (None, None) => {}
    }
    (object.limits, object.sandbox) = hold_back::objects(asked, held.as_ref());
    object
}

/// The object of a task whose output is in the database.
pub(super) fn pack(object: &mut TaskObject, bytes: Option<crate::store::Packed>) {
    object.output.path.clear();
    object.output.index_path.clear();
    let bytes = bytes.map(|packed| (packed.output.map(ByteBuf::from), ByteBuf::from(packed.index)));
    object.output.packed = Packed { is: true, bytes };
}

fn running(object: &mut TaskObject, record: &Record, dir: &Path) {
    if record.phase == Phase::New || record.main.pid == 0 {
        return;
    }
    "running".clone_into(&mut object.state);
    object.started_at = Some(time(record.started_wall_ms));
    let now_ms = process::monotonic_ms();
    object.duration_ms = Some(now_ms.saturating_sub(record.started_mono_ms));
    let pause_ms = if record.stopped_mono_ms == 0 { 0 } else { now_ms.saturating_sub(record.stopped_mono_ms) };
    object.paused_ms = record.pauses_seen.then_some(record.paused_ms + pause_ms);
    object.pid = Some(record.main.pid);
    object.process_group_id = Some(record.main.pid);
    object.output.gaps = sight::gaps(record);
    object.silence_ms = object.duration_ms;
    if let Ok(meta) = fs::metadata(dir.join(OUTPUT)) {
        object.output.bytes = length(&meta, &object.output.gaps);
        let quiet = meta.modified().ok().filter(|_| meta.len() > 0).and_then(|at| at.elapsed().ok());
        object.silence_ms = match (quiet, object.duration_ms) {
            (Some(quiet), Some(age)) => u64::try_from(quiet.as_millis()).ok().map(|ms| ms.min(age)),
            (_, age) => age,
        };
    }
}

fn ended(object: &mut TaskObject, facts: &Facts, live: bool, dir: &Path) {
    let outcome = &facts.outcome;
    object.state.clone_from(&outcome.state);
    object.reason.clone_from(&outcome.reason);
    object.by.clone_from(&outcome.by);
    object.exit_code = outcome.exit_code();
    object.final_exit_code = outcome.final_exit_code();
    object.signal = outcome.signal.map(signals::name);
    object.core_dumped = outcome.core;
    object.errno = outcome.errno;
    object.started_at = facts.started_ms.map(time);
    object.ended_at = facts.ended_ms.map(time);
    object.duration_ms = facts.duration_ms;
    object.pid = facts.pid;
    object.process_group_id = facts.pid;
    object.output.bytes = facts.output_bytes;
    object.output.gaps.clone_from(&facts.gaps);
    object.output.complete = facts.output_complete;
    object.leftovers.clone_from(&facts.leftovers);
    object.cleanup = facts.receipt.clone().map(|receipt| seen_now(receipt, &facts.survivor_starts));
    object.usage.clone_from(&facts.usage);
    object.paused_ms = facts.paused_ms;
    object.end_unseen = facts.unseen;
    if live {
        let mut starts = facts.leftover_starts.iter();
        object.leftovers.retain(|left| {
            let start_ticks = starts.next().copied().unwrap_or_default();
            identity::is_alive(Who { pid: left.pid, start_ticks })
        });
        let open = object.leftovers.iter().filter(|_| !facts.output_complete);
        let has_pty = object.pty.is_some();
        object.output.open_by = open.map(|left| left.pid).filter(|pid| holds_output(*pid, dir, has_pty)).collect();
        let there = fs::metadata(dir.join(OUTPUT));
        object.output.bytes = there.map_or(facts.output_bytes, |meta| length(&meta, &facts.gaps));
    }
}

/// The receipt with a look at those who survived its stop: a receipt stays what it was, but they may have ended since.
fn seen_now(mut receipt: ReceiptObject, starts: &[u64]) -> ReceiptObject {
    for (place, survivor) in receipt.survivors.iter_mut().enumerate() {
        let start_ticks = starts.get(place).copied().unwrap_or_default();
        // Of one whose start nobody noted only the want of its number says that it is gone.
        survivor.gone = match identity::stat(survivor.pid) {
            Ok(now) => !now.is_alive() || (start_ticks > 0 && now.start_ticks != start_ticks),
            Err(error) => error.kind() == ErrorKind::NotFound,
        };
    }
    receipt
}

/// How long an output is, with what is missing at its end.
fn length(file: &fs::Metadata, gaps: &[(u64, u64, String)]) -> u64 {
    gaps.iter().map(|(_, to, _)| *to).max().unwrap_or(0).max(file.len())
}

fn command(stored: &StoredCommand, dir: &Path, detail: Detail) -> CommandObject {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let Some(script) = &stored.script else {
        let argv: Vec<String> = stored.words.iter().map(|word| text(word)).collect();
        let argv = if detail == Detail::Full { argv } else { mask::words(argv) };
        return CommandObject { argv: Some(argv), display: display(stored), ..CommandObject::default() };
    };
    let whole = (stored.cut && detail == Detail::Full).then(|| files::read_regular(&dir.join(SCRIPT)).ok()).flatten();
    let script = text(whole.as_deref().unwrap_or(script));
    CommandObject {
        script: Some(if detail == Detail::Full { script } else { mask::line(&script).into_owned() }),
        shell: Some(stored.words.iter().map(|word| text(word)).collect::<Vec<_>>().join(" ")),
        display: display(stored),
        ..CommandObject::default()
    }
}

/// Whether a process may still write to the output of the task in `dir`. One whose descriptors we may not see may.
fn holds_output(pid: i32, dir: &Path, has_pty: bool) -> bool {
    let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else { return true };
    let pipes = [false, true].into_iter().flat_map(|split| pipes(split).iter().map(|pipe| dir.join(pipe)));
    let pipes: Vec<PathBuf> = pipes.collect();
    // The terminal of a task is not known by name here; a process of its tree that has one open has most likely this one.
    let is_way_out = |target: PathBuf| pipes.contains(&target) || (has_pty && target.starts_with("/dev/pts"));
    open.flatten().any(|fd| fs::read_link(fd.path()).is_ok_and(is_way_out))
}

/// One line for people: arguments quoted as a shell would read them, or the script's first line.
pub(super) fn display(stored: &StoredCommand) -> String {
    let whole = match &stored.script {
        Some(script) => first_line(&String::from_utf8_lossy(script)),
        None => quoted(&stored.words),
    };
    // Whatever is cut off it: a list of tasks is read by agents.
    let whole = mask::line(&whole);
    let line: String = whole.chars().map(|c| if c.is_control() { ' ' } else { c }).take(DISPLAY_CHARS_MAX).collect();
    if line.chars().count() < whole.chars().count() { line + "…" } else { line }
}

fn first_line(script: &str) -> String {
    let mut lines = script.trim().lines();
    let first = lines.next().unwrap_or_default();
    if lines.next().is_some() { format!("{first} …") } else { first.to_owned() }
}

fn quoted(words: &[ByteBuf]) -> String {
    let quote = |word: &ByteBuf| {
        let word = String::from_utf8_lossy(word);
        shlex::try_quote(&word).map_or_else(|_| word.to_string(), std::borrow::Cow::into_owned)
    };
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
