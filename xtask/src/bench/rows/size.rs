//! Sizes: memory of live tasks and of the daemon, the program, and lists after many ended tasks.

use std::fs;
use std::process::{Child, Command, Stdio};

use super::super::Options;
use super::super::measure::{Row, Samples, floor, proc_kib, time};
use super::super::stage::{Lodging, Stage, await_ends, submit};
use crate::Done;

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
    let idle = resident(&home)?;
    let before = kernel_kib()?;
    for _ in 0..LIVE {
        submit(&mut client, &["sleep", "1000"])?;
    }
    #[expect(clippy::cast_precision_loss, reason = "a thousand")]
    let kernel = (kernel_kib()? - before - bare) / LIVE as f64;
    let keepers = keepers_private_kib(&home)?;
    let private = keepers.median();
    let live = resident(&home)?;
    Ok(vec![
        Row::new("a live task beside its command: the keeper's own memory", "KB", keepers, "≤ 110 KB in all"),
        Row::new(
            "the same with the kernel's part (slabs, stacks, page tables)",
            "KB",
            Samples::once(private + kernel),
            "≤ 110 KB",
        ),
        Row::new("daemon, idle", "MB", Samples::once(idle), "≤ 8 MB"),
        Row::new("daemon, 1,000 live", "MB", Samples::once(live), "≤ 16 MB"),
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
        Row::new("submit by the command line after 10,000 ended", "ms", again, "≤ 1.4 ×").over(bare),
        Row::new("list after 10,000 ended", "ms", list, "≤ 5 ms"),
        Row::new("daemon, after 10,000 ended", "MB", Samples::once(resident(&home)?), "≤ 12 MB"),
    ])
}

/// The program's size.
pub(super) fn binary(stage: &Stage, _: &Options) -> Done<Vec<Row>> {
    #[expect(clippy::cast_precision_loss, reason = "some megabytes")]
    let size = fs::metadata(&stage.program)?.len() as f64 / 1e6;
    Ok(vec![Row::new("the program, default features", "MB", Samples::once(size), "≤ 12 MB")])
}

fn resident(home: &Lodging<'_>) -> Done<f64> {
    Ok(proc_kib(&format!("/proc/{}/status", home.daemon()?), "VmRSS")? / 1024.0)
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
