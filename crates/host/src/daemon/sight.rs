//! From what a keeper left on disk to the core's words, and to the facts of an ended task.

use std::path::Path;

use ringback_core::outcome::{Cause, Evidence, Outcome};
use ringback_core::task::Sight;
use ringback_sys::form::receipt::{Doubt, Ended, Entry, Head, Layer};
use ringback_sys::form::record::{self, By, GapWhy, Held, Phase, Record, Witness};
use ringback_sys::{identity, signals, task_files};

use crate::mask;
use crate::store::{Facts, StoredHeld, StoredOutcome, row::start_error};
use crate::wire::task::{LeftoverObject, ObservedObject, ReceiptObject, SurvivorObject, UsageObject};

/// The reason of a receipt that cannot say whether everybody is gone, because the keeper that could have said it died.
pub(super) const KEEPER_DIED: &str = "keeper_died";

/// What the record shows. `witnessed` is a status that the daemon saw itself, for a record without one.
pub(super) fn sight(record: &Record, witnessed: Option<i32>) -> Sight {
    let own = (record.witness != Witness::None).then_some(record.wait_status);
    let evidence = Evidence { status: own.or(witnessed), cause: cause(record.cause), oom: record.oom };
    match record.phase {
        Phase::New => Sight::New,
        Phase::Started => Sight::Started,
        Phase::StartFailed => {
            let why = start_error(record.step, record.errno);
            Sight::StartFailed { why, errno: record.errno }
        }
        Phase::Ended => Sight::Ended(evidence),
        Phase::Closed => Sight::Closed(evidence),
    }
}

/// The record's word for a cause of the core.
pub(super) fn cause_of(cause: Cause) -> record::Cause {
    match cause {
        Cause::Wall => record::Cause::Wall,
        Cause::Idle => record::Cause::Idle,
        Cause::Request => record::Cause::Request,
        Cause::SessionEnd => record::Cause::SessionEnd,
        Cause::OutputLimit => record::Cause::OutputLimit,
        Cause::Replaced => record::Cause::Replaced,
    }
}

fn cause(cause: record::Cause) -> Option<Cause> {
    match cause {
        record::Cause::None => None,
        record::Cause::Wall => Some(Cause::Wall),
        record::Cause::Idle => Some(Cause::Idle),
        record::Cause::Request => Some(Cause::Request),
        record::Cause::SessionEnd => Some(Cause::SessionEnd),
        record::Cause::OutputLimit => Some(Cause::OutputLimit),
        record::Cause::Replaced => Some(Cause::Replaced),
    }
}

/// The facts of a task that ended like `outcome`, from its record (if there is one) and its receipt.
pub(super) fn facts(dir: &Path, record: Option<&Record>, outcome: &Outcome) -> Facts {
    let mut facts = Facts { outcome: StoredOutcome::from(outcome), ..Facts::default() };
    if let Some(record) = record {
        refresh(&mut facts, dir, record);
    }
    facts
}

/// Brings everything but the outcome up to date.
pub(super) fn refresh(facts: &mut Facts, dir: &Path, record: &Record) {
    if record.phase != Phase::New && record.started_wall_ms > 0 && record.main.pid > 0 {
        facts.started_ms = Some(record.started_wall_ms);
        facts.pid = Some(record.main.pid);
        facts.held = Some(held(record));
    }
    if record.ended_wall_ms > 0 {
        facts.ended_ms = Some(record.ended_wall_ms);
        facts.duration_ms = Some(record.ended_mono_ms.saturating_sub(record.started_mono_ms));
        // Only a parent is told what its child has used (wait4(2)).
        facts.usage = (record.witness == Witness::Parent).then(|| UsageObject {
            user_ms: record.user_us / 1000,
            system_ms: record.system_us / 1000,
            max_rss_bytes: record.max_rss_kb * 1024,
        });
        facts.paused_ms = record.pauses_seen.then_some(record.paused_ms);
    }
    facts.output_bytes = record.output_bytes;
    facts.output_complete = record.output_complete || record.phase == Phase::StartFailed;
    facts.gaps = gaps(record);
    // Leftovers are what still lives; a closed task has none.
    let open = record.phase != Phase::Closed;
    facts.leftovers = if open { leftovers(record) } else { Vec::new() };
    facts.leftover_starts =
        if open { record.leftovers.iter().map(|left| left.who.start_ticks).collect() } else { Vec::new() };
    if record.has_receipt {
        let read = task_files::read_receipt(dir).ok().flatten().map(|(head, entries)| receipt(&head, &entries));
        // What an earlier daemon could prove of this very receipt stays proved.
        if !matches!((&facts.receipt, &read), (Some(old), Some(new)) if old.is_of_the_same_stop(new)) {
            facts.survivor_starts = read.as_ref().map_or_else(Vec::new, |receipt| survivor_starts(receipt, record));
            facts.receipt = read;
        }
    }
}

/// When the survivors started: the record names those of a stop as leftovers, as long as they live.
fn survivor_starts(receipt: &ReceiptObject, record: &Record) -> Vec<u64> {
    let start_of =
        |pid| record.leftovers.iter().find(|left| left.who.pid == pid).map_or(0, |left| left.who.start_ticks);
    receipt.survivors.iter().map(|survivor| start_of(survivor.pid)).collect()
}

/// What holds the command back, by the word of its keeper.
pub(super) fn held(record: &Record) -> StoredHeld {
    let word = |by| match by {
        By::Nobody => None,
        By::Cgroup => Some("cgroup".to_owned()),
        By::Rlimit => Some("rlimit".to_owned()),
    };
    let Held { memory, processes, cpu, landlock_abi, sandboxed, sandbox_errno } = record.held;
    StoredHeld {
        mem_by: word(memory),
        pids_by: word(processes),
        cpu_by: word(cpu),
        oom_kills: record.oom_kills,
        landlock_abi: landlock_abi.into(),
        sandboxed,
        sandbox_errno,
    }
}

/// What is missing from the output.
pub(crate) fn gaps(record: &Record) -> Vec<(u64, u64, String)> {
    let known = (record.gaps_count as usize).min(record.gaps.len());
    let word = |why| match why {
        GapWhy::OutputLimit => "output_limit",
        GapWhy::NoSpace => "no_space",
        GapWhy::Io => "io_error",
        GapWhy::Truncated => "truncated",
        GapWhy::Removed => "removed",
    };
    record.gaps[..known].iter().map(|gap| (gap.from, gap.to, word(gap.why).to_owned())).collect()
}

fn leftovers(record: &Record) -> Vec<LeftoverObject> {
    let known = (record.leftovers_count as usize).min(record.leftovers.len());
    let name = |left: &record::Leftover| {
        let alive = identity::is_alive(left.who);
        let line = alive.then(|| identity::command_line(left.who.pid).ok().flatten()).flatten();
        line.map_or_else(|| comm(&left.comm), |line| mask::line(&line).into_owned())
    };
    record.leftovers[..known].iter().map(|left| LeftoverObject { pid: left.who.pid, command: name(left) }).collect()
}

fn comm(bytes: &[u8; 16]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// The signals of a stop, in the order in which it sends them.
const SENT_ORDER: [i32; 4] = [signals::SIGTERM, signals::SIGCONT, signals::SIGSTOP, signals::SIGKILL];

fn receipt(head: &Head, entries: &[Entry]) -> ReceiptObject {
    let observed = entries.iter().map(|entry| ObservedObject {
        pid: entry.pid,
        parent_pid: entry.parent_pid,
        depth: entry.depth,
        command: comm(&entry.comm),
        ended: match entry.ended {
            Ended::Alive => "alive",
            Ended::Exited => "exited",
            Ended::Signaled => "signaled",
            Ended::Vanished => "vanished",
        }
        .to_owned(),
        how: match entry.ended {
            Ended::Exited => Some(entry.how.to_string()),
            Ended::Signaled => Some(signals::name(entry.how)),
            Ended::Alive | Ended::Vanished => None,
        },
    });
    let survivors = entries.iter().filter(|entry| entry.ended == Ended::Alive).map(|entry| SurvivorObject {
        pid: entry.pid,
        command: comm(&entry.comm),
        why: why_alive(entry),
        gone: false,
    });
    ReceiptObject {
        layer: match head.layer {
            Layer::Subreaper => "subreaper",
            Layer::Cgroup => "cgroup",
            Layer::Marks => "marks",
        }
        .to_owned(),
        reason: cause(head.cause).map_or("leftovers", Cause::word).to_owned(),
        signals: SENT_ORDER.into_iter().filter(|n| head.signals >> n & 1 == 1).map(signals::name).collect(),
        observed: observed.collect(),
        observed_count: head.observed,
        reaped_count: head.reaped,
        survivor_count: head.survivors,
        survivors: survivors.collect(),
        scans: head.scans,
        verified_empty: head.verified_empty,
        unverified_reason: match head.doubt {
            Doubt::None => None,
            Doubt::Survivors => Some("survivors"),
            Doubt::Unfinished => Some("unfinished"),
            Doubt::KeeperDied => Some(KEEPER_DIED),
            Doubt::CgroupPopulated => Some("cgroup_populated"),
        }
        .map(str::to_owned),
        duration_ms: head.duration_ms,
    }
}

fn why_alive(entry: &Entry) -> String {
    match (entry.errno, entry.state) {
        (1, _) => "it belongs to another user (EPERM)".to_owned(),
        (_, b'D') => "it waits in the kernel and cannot be interrupted (state D)".to_owned(),
        (0, state) => format!("it did not die in time (state {})", char::from(state.max(b'?'))),
        (errno, _) => std::io::Error::from_raw_os_error(errno).to_string(),
    }
}
