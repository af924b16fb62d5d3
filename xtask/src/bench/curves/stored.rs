//! From one to a million ended tasks in the store.

use ringback_core::id::TaskId;
use ringback_host::store::{Asked, Facts, Record, Store, StoredCommand, StoredOutcome};
use ringback_host::wire::ByteBuf;

use super::super::Options;
use super::super::measure::{Samples, time};
use super::super::stage::{Lodging, Stage};
use super::{Chart, amounts, times};
use crate::Done;

/// Tasks of one transaction while the store is filled.
const TOGETHER: usize = 2_000;
/// Runs of each verb.
const SAMPLES: usize = 20;

pub(super) fn measure(stage: &Stage, options: &Options) -> Done<Chart> {
    let mut chart = Chart::new(
        "stored",
        "ended tasks in the store",
        "flat up to 100,000. In the first seconds after a start a daemon looks for folders of no task, a thousandth of the ids at a \
         time, beside its other work; with a million tasks each such part takes some 12 ms, which are in the figures of the last row \
         (without them: reliability.md, \"A long life\"). The start itself reads none of the ended tasks.",
        &[
            ("`run -q -- true`", "ms"),
            ("`ps -a --json`", "ms"),
            ("`show --json` of the oldest", "ms"),
            ("start of the daemon and `run`", "ms"),
            ("daemon", "MB"),
        ],
    );
    let home = stage.home()?;
    // The daemon makes the home, and is gone while the store is filled behind its back.
    // Past a million ended tasks the oldest would go.
    home.configure("keep_tasks = 0\n")?;
    let mut filled = 0;
    for amount in amounts(1, options.largest_stored) {
        stop(&home)?;
        fill(&home, filled..amount)?;
        // What a gigabyte takes to get to the disk is nobody's question.
        rustix::fs::sync();
        filled = amount;
        let first = times(3, || {
            stop(&home)?;
            Ok(time(&mut home.ringback(["run", "-q", "--", "true"]))?)
        })?;
        let oldest = id(0).to_string();
        let submit = times(SAMPLES, || Ok(time(&mut home.ringback(["run", "-q", "--", "true"]))?))?;
        let list = times(SAMPLES, || Ok(time(&mut home.ringback(["ps", "-a", "--json"]))?))?;
        let show = times(SAMPLES, || Ok(time(&mut home.ringback(["show", "--json", &oldest]))?))?;
        let resident = Samples::once(home.resident()?);
        chart.add(amount, [submit, list, show, first, resident]);
    }
    Ok(chart)
}

fn stop(home: &Lodging<'_>) -> Done {
    time(&mut home.ringback(["daemon", "stop"])).map(drop).map_err(Into::into)
}

/// The id of the task with this number, spread over the range as chance does it.
fn id(number: u64) -> TaskId {
    TaskId::from_bits((number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Ended tasks that were heard of and whose folders are gone, written as the daemon writes them.
fn fill(home: &Lodging<'_>, numbers: std::ops::Range<u64>) -> Done {
    let mut store = Store::open(&home.path().join("db.sqlite"))?;
    let numbers: Vec<u64> = numbers.collect();
    for some in numbers.chunks(TOGETHER) {
        let records: Vec<Record> = some.iter().flat_map(|number| life(*number)).collect();
        store.write(&records)?;
    }
    store.shorten_log();
    Ok(())
}

fn life(number: u64) -> [Record; 5] {
    let words = ["cargo", "test", "--workspace"].map(|word| ByteBuf::from(word.as_bytes().to_vec()));
    let command = StoredCommand { words: words.into(), ..StoredCommand::default() };
    let asked = Asked { command, cwd: ByteBuf::from(b"/srv/project".to_vec()), ..Asked::default() };
    let outcome = StoredOutcome { state: "exited".into(), code: Some(0), ..StoredOutcome::default() };
    // In the past of every clock, and one after the other.
    let at_ms = 1_700_000_000_000 + i64::try_from(number).unwrap_or_default();
    let facts = Facts { outcome, ended_ms: Some(at_ms), ..Facts::default() };
    let (id, session) = (id(number), || "bench".to_owned());
    let text = "`cargo test --workspace` exited with 0".to_owned();
    [
        Record::Insert { id, session: session(), lease: "awaited", created_ms: at_ms, asked: Box::new(asked) },
        Record::Conclude { id, session: session(), facts: Box::new(facts), at_ms, text },
        Record::Close { id, facts: None, disk_bytes: 4_096 },
        Record::Pack { id, packed: None },
        Record::Ack { session: session(), which: ringback_host::store::Ack::Task(id) },
    ]
}
