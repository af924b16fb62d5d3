//! Long acts, each seen a few times: capture of a flood, the stop of a large tree, the adoption of many tasks.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::super::Options;
use super::super::measure::{Row, Samples, Target, machine_cpu, proc_kib, time};
use super::super::stage::{Lodging, Stage, await_ends, submit};
use crate::Done;

/// Runs of each.
const ROUNDS: usize = 5;

/// Lines of text into `output`, against the same command with `> file`; both sides of the machine's processors.
pub(super) fn capture(stage: &Stage, options: &Options) -> Done<Vec<Row>> {
    let home = stage.home()?;
    let mut client = home.client()?;
    let folder = stage.folder()?;
    let flood =
        format!("yes 'a line of the usual length, as compilers and tests write them' | head -c {}M", options.capture);
    let (mut bare, mut ours, mut bare_cpu, mut our_cpu) =
        (Samples::default(), Samples::default(), Samples::default(), Samples::default());
    let daemon = home.daemon()?;
    for _ in 0..ROUNDS {
        let path = folder.path().join("file");
        let (cpu, begun) = (machine_cpu()?, Instant::now());
        Command::new("/bin/sh").args(["-c", &flood]).stdin(Stdio::null()).stdout(File::create(&path)?).status()?;
        bare.push_time(begun.elapsed());
        bare_cpu.push(machine_cpu()? - cpu);
        fs::remove_file(&path)?;
        let (cpu, begun) = (machine_cpu()?, Instant::now());
        let id = submit(&mut client, &["/bin/sh", "-c", &flood])?;
        await_ends(&mut client, std::slice::from_ref(&id))?;
        ours.push_time(begun.elapsed());
        our_cpu.push(machine_cpu()? - cpu);
        time(&mut home.ringback(["rm", &id]))?;
    }
    let resident = Samples::once(proc_kib(&format!("/proc/{daemon}/status"), "VmHWM")? / 1024.0);
    let amount = options.capture;
    Ok(vec![
        Row::new(format!("capture of {amount} MiB of lines, wall"), "ms", ours, Target::Ratio(1.1)).over(bare).because(
            "the pipe between the command and its file: pages are moved, not copied, and the keeper is woken when there are some.",
            "a larger pipe where the user's limit allows one.",
        ),
        Row::new("the same, processor time of the machine", "s", our_cpu, Target::Ratio(1.3)).over(bare_cpu).because(
            "the kernel gives each page from the pipe to the file's cache; `> file` writes into one page after the other.",
            "a larger pipe, for fewer and longer moves.",
        ),
        Row::new("the daemon's largest size meanwhile", "MB", resident, Target::Shown)
            .because("the output never passes through the daemon: it is as large as without it.", ""),
    ])
}

/// `kill` of a tree of 2,000, until the receipt says that nothing is left; beside it what the kernel alone needs for such a tree.
pub(super) fn stop(stage: &Stage, _: &Options) -> Done<Vec<Row>> {
    let home = stage.home()?;
    let (mut ours, mut bare) = (Samples::default(), Samples::default());
    let mut layer = String::new();
    for _ in 0..ROUNDS {
        let id = tree(&home)?;
        if let Some(cgroup) = cgroup_of(&home, &id) {
            let begun = Instant::now();
            kill_whole(&cgroup)?;
            bare.push_time(begun.elapsed());
        }
        home.ringback(["kill", "-q", &id]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        let id = tree(&home)?;
        let begun = Instant::now();
        home.ringback(["kill", "-q", &id]).stdin(Stdio::null()).stdout(Stdio::null()).status()?;
        ours.push_time(begun.elapsed());
        let cleanup = home.json(["show", &id])?["cleanup"].clone();
        if cleanup["verified_empty"] != true {
            return Err(format!("something is left: {cleanup}").into());
        }
        cleanup["layer"].as_str().unwrap_or_default().clone_into(&mut layer);
    }
    let target = Target::Amount(if layer == "cgroup" { 100.0 } else { 300.0 });
    let mut row = Row::new(format!("stop of a tree of 2,000, verified empty (layer `{layer}`)"), "ms", ours, target)
        .because(STOP, NEXT_STOP);
    let mut rows = Vec::new();
    if bare.max() > 0.0 {
        row = row.over(bare.clone());
        rows.push(
            Row::new("the same tree by `cgroup.kill` alone, until the kernel says empty", "ms", bare, Target::Shown)
                .because(
                    "nobody is asked, looked at or named: what 2,000 exits take on this machine's processors.",
                    "",
                ),
        );
    }
    rows.insert(0, row);
    Ok(rows)
}

const STOP: &str = "2,000 exits, for which the kernel alone takes the time of the row below on both processors; beside them, on the \
    same two, one look at each process (a handle, its `stat`, its children, two signals: 25 µs each) and 20 µs for each wait(2), which \
    also clears away what the look has left in /proc.";
const NEXT_STOP: &str = "nothing that was tried: to look first and ask the whole group at once leaves a processor idle during the look, a \
    look without children saves what cannot be seen beside the exits. A receipt with fewer names would need fewer looks.";

/// Starts the tree, and waits until it is whole; its id.
fn tree(home: &Lodging<'_>) -> Done<String> {
    let tree = "for i in $(seq 2000); do sleep 1000 & done; echo all; wait";
    let run = home.ringback(["run", "-q", "--ready", "all", "-c", tree]).output()?;
    let id = String::from_utf8(run.stdout)?.trim().to_owned();
    time(&mut home.ringback(["wait", "--ready", &id]))?;
    Ok(id)
}

/// Where the tree of this task is, if it has a cgroup.
fn cgroup_of(home: &Lodging<'_>, id: &str) -> Option<PathBuf> {
    fs::read_to_string(home.path().join("t").join(id.get(..2)?).join(id).join("cgroup")).ok().map(PathBuf::from)
}

/// Has the kernel kill everybody in it, and waits until nobody is in it.
fn kill_whole(cgroup: &Path) -> Done {
    let events = File::open(cgroup.join("cgroup.events"))?;
    fs::write(cgroup.join("cgroup.kill"), "1")?;
    let mut text = [0; 128];
    // One that is gone was empty.
    while let Ok(length) = events.read_at(&mut text, 0) {
        if !String::from_utf8_lossy(&text[..length]).contains("populated 1") {
            break;
        }
        poll(&mut [PollFd::new(&events, PollFlags::PRI)], None)?;
    }
    Ok(())
}

/// A daemon that finds tasks running which another one started: from its start until it answers.
pub(super) fn adoption(stage: &Stage, options: &Options) -> Done<Vec<Row>> {
    let home = stage.home()?;
    home.configure(&format!("max_running = {}\n", options.adopt))?;
    let mut client = home.client()?;
    for _ in 0..options.adopt {
        submit(&mut client, &["sleep", "1000"])?;
    }
    let mut ours = Samples::default();
    for _ in 0..ROUNDS {
        let daemon = Pid::from_raw(i32::try_from(home.daemon()?)?).ok_or("no daemon")?;
        let process = pidfd_open(daemon, PidfdFlags::empty())?;
        pidfd_send_signal(&process, Signal::KILL)?;
        poll(&mut [PollFd::new(&process, PollFlags::IN)], None)?;
        let begun = Instant::now();
        let running = home.json(["stats"])?["running"].as_u64();
        ours.push_time(begun.elapsed());
        if running != u64::try_from(options.adopt).ok() {
            return Err(format!("{running:?} of {} tasks run", options.adopt).into());
        }
    }
    let row = format!("adoption of {} running tasks after kill -9", options.adopt);
    Ok(vec![Row::new(row, "ms", ours, Target::Amount(1_000.0)).because(
        "for each task one record read, one lock tried, one pidfd opened: 45 µs a task.",
        "to listen first and adopt while the first questions come.",
    )])
}
