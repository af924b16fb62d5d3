//! Many short tasks, from the first submission until the last ending is recorded.

use std::time::Instant;

use super::super::Options;
use super::super::measure::{Row, Samples, Target, floor, time};
use super::super::peers;
use super::super::stage::{Lodging, Stage, await_ends, submit};
use crate::Done;

/// Tasks of the command line's row, and of each peer.
const BY_CLI: usize = 1_000;
/// Tasks of the library's row.
const BY_LIBRARY: usize = 5_000;

/// One program start a task, for ringback and for the peers.
pub(super) fn by_cli(stage: &Stage, _: &Options) -> Done<Vec<Row>> {
    let mut bare = floors()?;
    let ours = all_by_cli(&stage.home()?)?;
    let unsynced = all_by_cli(&stage.unsynced_home()?)?;
    let mut others = Vec::new();
    for peer in peers::start_all(stage)? {
        let begun = Instant::now();
        for _ in 0..BY_CLI {
            peer.submit(&["true"])?;
        }
        if peer.until_recorded(BY_CLI)? {
            others.push((peer.name(), per_task(begun, BY_CLI)));
        }
    }
    bare.push(floors()?.median());
    let row = Row::new("1,000 × `true` by the command line, per task", "ms", ours, Target::Ratio(1.9));
    let row = row.over(bare.clone()).beside(others).because(
        "on two processors the next submission shares them with the last task's command, keeper and ending: a submission's \
         cost and 0.4 ms of an ending (the wait status, the record, one transaction with its notice).",
        "what shortens a submission by the command line; endings are already written in the transaction of the next one.",
    );
    Ok(vec![row, Row::unsynced(unsynced, bare)])
}

/// Submits all of them here, one after the other, and waits until they have ended.
fn all_by_cli(home: &Lodging<'_>) -> Done<Samples> {
    time(&mut home.ringback(["run", "-q", "--", "true"]))?;
    let begun = Instant::now();
    for _ in 0..BY_CLI {
        time(&mut home.ringback(["run", "-q", "--", "true"]))?;
    }
    until_ended(home)?;
    Ok(per_task(begun, BY_CLI))
}

/// One connection for all.
pub(super) fn by_library(stage: &Stage, _: &Options) -> Done<Vec<Row>> {
    let bare = floors()?;
    let ours = all_by_library(&stage.home()?)?;
    let unsynced = all_by_library(&stage.unsynced_home()?)?;
    let row = Row::new("5,000 × `true` by one client, per task", "ms", ours, Target::Ratio(1.3)).over(bare.clone());
    let row = row.because(
        "3.1 ms of processor time a task, a third each for the command, its keeper and the daemon, spread thin: a process, seven \
         inodes, a cgroup and 12 pages of the log; beside a commit for each submission, since one client asks for one after the other.",
        "fewer inodes a task, as an ext4 without a journal takes up to half a millisecond for each where many files were just \
         deleted: where the cgroup is into the record, `requests` into `state`; and a request that asks for many tasks at once, \
         which would share their commit.",
    );
    Ok(vec![row, Row::unsynced(unsynced, bare)])
}

/// The same over one connection.
fn all_by_library(home: &Lodging<'_>) -> Done<Samples> {
    let mut client = home.client()?;
    let begun = Instant::now();
    let ids = (0..BY_LIBRARY).map(|_| submit(&mut client, &["true"])).collect::<Done<Vec<_>>>()?;
    await_ends(&mut client, &ids)?;
    Ok(per_task(begun, BY_LIBRARY))
}

/// Waits until nothing of the session runs.
fn until_ended(home: &Lodging<'_>) -> Done {
    let listed = home.json(["ps", "-a", "--limit", "100000"])?;
    let tasks = listed["tasks"].as_array().ok_or("no list")?;
    let live = tasks.iter().filter(|task| task["state"] == "running" || task["state"] == "queued");
    let ids: Vec<String> = live.filter_map(|task| task["id"].as_str().map(str::to_owned)).collect();
    await_ends(&mut home.client()?, &ids)
}

#[expect(clippy::cast_precision_loss, reason = "thousands")]
fn per_task(begun: Instant, count: usize) -> Samples {
    Samples::once(begun.elapsed().as_secs_f64() * 1e3 / count as f64)
}

fn floors() -> Done<Samples> {
    let mut bare = Samples::default();
    for _ in 0..300 {
        bare.push_time(floor()?);
    }
    Ok(bare)
}
