//! Sizes: memory of live tasks and of the daemon, the program, and lists after many ended tasks.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::super::Options;
use super::super::measure::{Row, Samples, Target, floor, pause, proc_kib, time};
use super::super::peers;
use super::super::stage::{Lodging, Stage, await_ends, submit};
use crate::Done;
use crate::built;

/// Live tasks whose memory is weighed together.
const LIVE: usize = 1_000;
/// Ended tasks before lists and submissions are measured.
const ENDED: usize = 10_000;

/// What one live task costs beside its command, and what the daemon weighs.
pub(super) fn memory(stage: &Stage, _: &Options) -> Done<Vec<Row>> {
    let bare = {
        let before = kernel_kib()?;
        let sleepers = Sleepers::start(LIVE)?;
        let with = kernel_kib()?;
        drop(sleepers);
        with - before
    };
    let home = stage.home()?;
    let mut client = home.client()?;
    let idle = home.resident()?;
    let woken = wake_ups(&home)?;
    let before = kernel_kib()?;
    for _ in 0..LIVE {
        submit(&mut client, &["sleep", "1000"])?;
    }
    #[expect(clippy::cast_precision_loss, reason = "a thousand")]
    let kernel = (kernel_kib()? - before - bare) / LIVE as f64;
    let keepers = keepers_private_kib(&home)?;
    let private = keepers.median();
    let live = home.resident()?;
    drop((client, home));
    let (idle_peers, live_peers) = weigh_peers(stage)?;
    Ok(vec![
        Row::new("a live task beside its command: the keeper's own memory", "KB", keepers, Target::Shown),
        Row::new(
            "the same with the kernel's part (slabs, stacks, page tables)",
            "KB",
            Samples::once(private + kernel),
            Target::Amount(110.0),
        )
        .because(
            "a process of its own with its stack and page tables, its folder's entries and FIFOs in the kernel's caches.",
            "fewer files a task.",
        ),
        Row::new("daemon, idle", "MB", Samples::once(idle), Target::Amount(8.0))
            .beside(idle_peers)
            .because("mostly pages of the program file, which all processes of it share.", "a smaller program."),
        Row::new("daemon, 1,000 live", "MB", Samples::once(live), Target::Amount(16.0))
            .beside(live_peers)
            .because("what is answered of each live task without the disk.", "shorter rows of live tasks."),
        Row::new("wake-ups of the idle daemon in 5 s", "", Samples::once(woken), Target::Amount(0.0))
            .because("nothing is looked at again and again.", "to find what woke it (`strace -p`)."),
    ])
}

/// Lists, submissions and the daemon's size after 10,000 ended tasks.
pub(super) fn after_many(stage: &Stage, options: &Options) -> Done<Vec<Row>> {
    let home = stage.home()?;
    let mut client = home.client()?;
    let ids = (0..ENDED).map(|_| submit(&mut client, &["true"])).collect::<Done<Vec<_>>>()?;
    await_ends(&mut client, &ids)?;
    let (mut list, mut again, mut bare) = (Samples::default(), Samples::default(), Samples::default());
    for _ in 0..options.samples {
        bare.push_time(floor()?);
        again.push_time(time(&mut home.ringback(["run", "-q", "--", "true"]))?);
        list.push_time(time(&mut home.ringback(["ps", "-a", "--json"]))?);
    }
    Ok(vec![
        Row::new("submit by the command line after 10,000 ended", "ms", again, Target::Ratio(1.4))
            .over(bare)
            .because("as without them: a submission reads none of the ended tasks.", "as without them."),
        Row::new("list after 10,000 ended", "ms", list, Target::Amount(5.0)).because(
            "the program's start, one page of rows from the database, and its 100 tasks as JSON.",
            "a shorter JSON document for lists.",
        ),
        Row::new("daemon, after 10,000 ended", "MB", Samples::once(home.resident()?), Target::Amount(12.0))
            .because("1 MB of the database's pages, and pages of the program file.", "a smaller program."),
    ])
}

/// The program's size.
pub(super) fn binary(stage: &Stage, _: &Options) -> Done<Vec<Row>> {
    #[expect(clippy::cast_precision_loss, reason = "some megabytes")]
    let size = fs::metadata(&stage.program)?.len() as f64 / 1e6;
    Ok(vec![Row::new("the program, default features", "MB", Samples::once(size), Target::Amount(12.0)).because(
        "the MCP server with its HTTP side and async runtime, SQLite 1.6 MB, and a static C library; the command line alone is \
         a third smaller.",
        "MCP messages of our own in place of a general library, and no second serialiser.",
    )])
}

/// A build from nothing, with the crates already on this machine.
pub(super) fn build(stage: &Stage, options: &Options) -> Done<Vec<Row>> {
    if !options.build {
        eprintln!("  only with `--build`");
        return Ok(Vec::new());
    }
    let target = stage.folder()?;
    let mut cargo = built::cargo();
    cargo.args(["build", "--release", "--quiet", "--package", "ringback", "--target-dir"]).arg(target.path());
    let taken = time(&mut cargo)?;
    let row = "clean release build of the default features";
    Ok(vec![Row::new(row, "s", Samples::once(taken.as_secs_f64()), Target::Amount(180.0)).because(
        "SQLite by the C compiler, the async runtime and its friends, and the link with optimisation across crates.",
        "what makes the program smaller.",
    )])
}

/// How often the daemon was put on a processor while nothing happened.
fn wake_ups(home: &Lodging<'_>) -> Done<f64> {
    let path = format!("/proc/{}/status", home.daemon()?);
    // It has answered who it is; what follows from that is over after a moment.
    pause(Duration::from_secs(1));
    let before = proc_kib(&path, "voluntary_ctxt_switches")?;
    pause(Duration::from_secs(5));
    Ok(proc_kib(&path, "voluntary_ctxt_switches")? - before)
}

/// Named samples of one row.
type Peers = Vec<(String, Samples)>;

/// The daemons and servers of the peers, idle and with as many live tasks as they take.
fn weigh_peers(stage: &Stage) -> Done<(Peers, Peers)> {
    let (mut idle, mut live) = (Peers::new(), Peers::new());
    for peer in peers::start_all(stage)? {
        let Some(before) = peer.resident()? else { continue };
        idle.push((peer.name(), Samples::once(before)));
        if peer.live_max() < LIVE {
            continue;
        }
        let taken = (0..LIVE).try_for_each(|_| peer.submit(&["sleep", "120"]).map(drop));
        match taken.and_then(|()| peer.resident()) {
            Ok(megabytes) => live.push((peer.name(), Samples::once(megabytes.unwrap_or(before)))),
            Err(error) => eprintln!("  {} with {LIVE} live: {error}", peer.name()),
        }
    }
    for mut service in peers::start_servers(stage)? {
        idle.push((service.name(), Samples::once(service.resident()?)));
        let taken = (0..LIVE).try_for_each(|_| service.submit("sleep 120").map(drop));
        match taken.and_then(|()| service.resident()) {
            Ok(megabytes) => live.push((service.name(), Samples::once(megabytes))),
            Err(error) => eprintln!("  {} with {LIVE} live: {error}", service.name()),
        }
    }
    Ok((idle, live))
}

/// What the kernel itself holds for processes and files, in KiB.
fn kernel_kib() -> Done<f64> {
    let parts = ["SUnreclaim", "KernelStack", "PageTables"];
    parts.iter().map(|part| proc_kib("/proc/meminfo", part)).sum()
}

/// The private memory of each keeper of this home, in KiB.
fn keepers_private_kib(home: &Lodging<'_>) -> Done<Samples> {
    let mut found = Samples::default();
    let daemon = home.daemon()?;
    let children = fs::read_to_string(format!("/proc/{daemon}/task/{daemon}/children"))?;
    for pid in children.split_whitespace() {
        let path = format!("/proc/{pid}/smaps_rollup");
        let (Ok(clean), Ok(dirty)) = (proc_kib(&path, "Private_Clean"), proc_kib(&path, "Private_Dirty")) else {
            continue;
        };
        found.push(clean + dirty);
    }
    Ok(found)
}

/// Bare commands, to be taken off.
struct Sleepers(Vec<Child>);

impl Sleepers {
    fn start(count: usize) -> Done<Self> {
        let mut all = Self(Vec::new());
        for _ in 0..count {
            let mut command = Command::new("/bin/sleep");
            command.arg("1000").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            all.0.push(command.spawn()?);
        }
        Ok(all)
    }
}

impl Drop for Sleepers {
    fn drop(&mut self) {
        for child in &mut self.0 {
            drop(child.kill());
            drop(child.wait());
        }
    }
}
