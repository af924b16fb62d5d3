//! The story of the demo, from three starts to an empty inbox.

use std::fmt::Write as _;
use std::path::Path;

use ringback_host::wire::{Notice, Reply, Request, TaskObject, Until};

use super::stage::{Stage, alive_with_cookie, await_end, broken, hold, open_gate, output_of};
use crate::explain::Failure;
use crate::render::{receipt, task as render};

/// Lines that the first task writes before and after its gate.
const HALF: u32 = 50_000;

/// The three tasks.
struct Cast {
    counts: TaskObject,
    fails: TaskObject,
    stubborn: TaskObject,
}

/// Plays the whole story.
pub(super) fn play(stage: &mut Stage) -> Result<(), Failure> {
    stage.say("ringback demo: a home of its own, a real daemon, three real tasks")?;
    let gates = (stage.gate("gate-1")?, stage.gate("gate-2")?);
    let cast = start(stage)?;
    crash_and_end_meanwhile(stage, &cast, &gates.0, &gates.1)?;
    look_at_endings(stage, &cast)?;
    stop_the_tree(stage, &cast)?;
    hear_of_everything(stage, &cast)?;
    nothing_is_left(stage, &cast)
}

fn start(stage: &mut Stage) -> Result<Cast, Failure> {
    let counts = format!("seq 1 {HALF}; read x < gate-1; seq {} {}", HALF + 1, 2 * HALF);
    let fails = "echo looking; read x < gate-2; ls /no/such/folder; exit 3";
    let stubborn = "trap '' TERM HUP\n\
        setsid sh -c 'trap \"\" TERM; echo a child in a session of its own; exec sleep 100000' &\n\
        ( ( setsid sh -c 'trap \"\" TERM; echo a grandchild forked twice; exec sleep 100000' & ) & )\n\
        echo the main process\n\
        while :; do sleep 100000; done\n";
    let cast = Cast {
        counts: stage.run("counts", &counts)?,
        fails: stage.run("fails", fails)?,
        stubborn: stage.run("stubborn", stubborn)?,
    };
    stage.say(&format!("started {}: counts to {}, half of it behind a gate", cast.counts.id, 2 * HALF))?;
    stage.say(&format!("started {}: will fail with exit code 3", cast.fails.id))?;
    stage.say(&format!("started {}: ignores TERM; has children that left its session", cast.stubborn.id))?;
    stage.await_lines(&cast.counts, HALF as usize)?;
    stage.await_lines(&cast.fails, 1)?;
    stage.await_lines(&cast.stubborn, 3)?;
    stage.say("all three are at work")?;
    Ok(cast)
}

fn main_process(stage: &mut Stage, task: &TaskObject) -> Result<i32, Failure> {
    stage.show(&task.id)?.pid.ok_or_else(|| broken("a running task has no process"))
}

fn crash_and_end_meanwhile(stage: &mut Stage, cast: &Cast, gate: &Path, second_gate: &Path) -> Result<(), Failure> {
    let counts = hold(main_process(stage, &cast.counts)?)?;
    let fails = hold(main_process(stage, &cast.fails)?)?;
    let stubborn = hold(main_process(stage, &cast.stubborn)?)?;
    let pid = stage.kill_daemon()?;
    stage.say(&format!("killed the daemon (pid {pid}) with SIGKILL"))?;
    let alive = [&counts, &fails, &stubborn].iter().all(|process| process.has_ended().is_ok_and(|ended| !ended));
    stage.check("all three tasks run on without a daemon", alive)?;
    open_gate(gate)?;
    open_gate(second_gate)?;
    await_end(&counts)?;
    await_end(&fails)?;
    stage.say("opened the gates: two tasks ended while nobody was there")
}

fn look_at_endings(stage: &mut Stage, cast: &Cast) -> Result<(), Failure> {
    let ids = vec![cast.counts.id.clone(), cast.fails.id.clone()];
    let ended = stage.tasks(Request::Wait { ids, any: false, timeout_ms: None, until: Until::End })?;
    stage.say("asked again, which started a new daemon:")?;
    for task in &ended {
        stage.say(&format!("    {}  {}", task.id, render::verdict(task)))?;
    }
    let [counts, fails] = ended.as_slice() else { return Err(broken("a task is missing")) };
    stage.check("the first exited 0", counts.state == "exited" && counts.exit_code == Some(0))?;
    stage.check("the second exited 3", fails.state == "exited" && fails.exit_code == Some(3))?;
    let mut expected = String::new();
    for number in 1..=2 * HALF {
        let _infallible = writeln!(expected, "{number}");
    }
    let got = output_of(counts)?;
    let exact = got == expected.as_bytes();
    stage.check(&format!("all {} bytes that it wrote before and after the crash are there", expected.len()), exact)?;
    let said = output_of(fails)?;
    stage.check("the error message of the second is in its output", contains(&said, b"/no/such/folder"))
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

fn stop_the_tree(stage: &mut Stage, cast: &Cast) -> Result<(), Failure> {
    let tree = alive_with_cookie(&cast.stubborn.id)?;
    stage
        .say(&format!("stopping the stubborn tree of {} processes, which the first daemon had started", tree.len()))?;
    let holds = tree.iter().filter_map(|pid| hold(*pid).ok()).collect::<Vec<_>>();
    let ids = vec![cast.stubborn.id.clone()];
    let stopped = stage.tasks(Request::Kill { ids, session: None, grace_ms: Some(200) })?;
    let Some(task) = stopped.first() else { return Err(broken("a task is missing")) };
    stage.say(&format!("    {}  {}", task.id, render::verdict(task)))?;
    let Some(cleanup) = &task.cleanup else {
        return stage.check("the stop left a receipt", false);
    };
    stage.say(&format!("    receipt: {}", receipt::summary(cleanup)))?;
    for seen in &cleanup.observed {
        stage.say(&format!(
            "    receipt: pid {} {} {}",
            seen.pid,
            seen.command,
            seen.how.as_deref().unwrap_or(&seen.ended)
        ))?;
    }
    stage.check(
        "it is killed, and does not read as a success",
        task.state == "killed" && render::exit_code(task) != 0,
    )?;
    stage.check("the receipt says that nothing is left", cleanup.verified_empty && cleanup.survivor_count == 0)?;
    let gone = holds.iter().all(|process| process.has_ended().unwrap_or(true));
    stage.check("every process of the tree is gone", tree.len() >= 4 && gone)
}

fn seen(notices: &[Notice]) -> Vec<(u64, String)> {
    notices.iter().map(|notice| (notice.seq, notice.task.id.clone())).collect()
}

fn hear_of_everything(stage: &mut Stage, cast: &Cast) -> Result<(), Failure> {
    let notices = stage.inbox()?;
    stage.say("the inbox of the session:")?;
    for notice in &notices {
        let first = notice.text.lines().next().unwrap_or_default();
        stage.say(&format!("    #{} {first}", notice.seq))?;
    }
    let mut told: Vec<&str> = notices.iter().map(|notice| notice.task.id.as_str()).collect();
    told.sort_unstable();
    let mut all = [cast.counts.id.as_str(), cast.fails.id.as_str(), cast.stubborn.id.as_str()];
    all.sort_unstable();
    stage.check("each ending is told once", told == all)?;
    stage.kill_daemon()?;
    stage.say("killed the daemon between reading and acknowledging")?;
    let again = stage.inbox()?;
    stage.check("the same notices are offered again", seen(&again) == seen(&notices))?;
    let ack = Request::Ack {
        up_to: again.last().map(|notice| notice.seq),
        seqs: Vec::new(),
        tasks: Vec::new(),
        endings: Vec::new(),
    };
    let acknowledged = matches!(stage.client()?.call(ack)?, Reply::Acknowledged { count: 3, .. });
    stage.check("three are acknowledged", acknowledged)?;
    stage.kill_daemon()?;
    stage.say("killed the daemon after acknowledging")?;
    let after = stage.inbox()?;
    stage.check("none is told again", after.is_empty())
}

fn nothing_is_left(stage: &mut Stage, cast: &Cast) -> Result<(), Failure> {
    let mut left = Vec::new();
    for task in [&cast.counts, &cast.fails, &cast.stubborn] {
        left.extend(alive_with_cookie(&task.id)?);
    }
    stage.check("no process of any task is left", left.is_empty())
}
