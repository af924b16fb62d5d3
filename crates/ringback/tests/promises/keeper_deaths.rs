//! kill -9 of keepers: the exact outcome by the second witness, else `lost`, and never a success without evidence.

use std::cell::Cell;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Pid;
use serde_json::Value;

use crate::support::oracle::{Chance, Died, Oracle, until_over};
use crate::support::{Fifo, HANG, MINE, World, finish, machine};

/// So many keepers are killed at least.
const KILLS_MIN: u32 = 5;

/// Of a main process that SIGKILL ended while nobody of ours looked: lost, unless its zombie still lies there and says how
/// it ended, as where process 1 does not wait for its children.
#[track_caller]
fn check_lost_or_killed(task: &Value) {
    let reason = (&task["state"], &task["reason"], &task["signal"]);
    let lost = (&"lost".into(), &"monitor_died".into(), &Value::Null);
    let killed = (&"signaled".into(), &Value::Null, &"SIGKILL".into());
    assert!(reason == lost || reason == killed, "{task:#}");
    assert_eq!(task["exit_code"], Value::Null);
}

#[test]
fn keepers_killed_at_random_give_the_exact_outcome_or_lost_and_never_success() {
    let world = World::new();
    let mut chance = Chance::new();
    let mut oracle = Oracle::new(&world);
    let kills = Cell::new(0);
    let mut go_round = || {
        for _ in 0..3 {
            oracle.ask(&world, false);
        }
        oracle.ask(&world, true);
        chance.moment(Duration::from_millis(10));
        let ids: Vec<&String> = oracle.ids.values().rev().take(5).collect();
        for id in ids {
            if let Some(keeper) = world.keeper(id).filter(|_| chance.below(2) == 0) {
                machine::kill(keeper);
                kills.set(kills.get() + 1);
            }
        }
        oracle.go.release(chance.below(3) as usize);
    };
    until_over(|_| go_round());
    // On a busy machine that time is short.
    let patience = Instant::now() + HANG;
    while kills.get() < KILLS_MIN && Instant::now() < patience {
        go_round();
    }
    let kills = kills.get();
    assert!(kills >= KILLS_MIN, "only {kills} kills");
    oracle.go.release(oracle.asked as usize);
    let counts = oracle.check(&world, Died::Keepers);
    eprintln!("{kills} kills of keepers, {counts:?}");
    assert!(counts.lost < counts.told / 2, "{counts:?}");
}

#[test]
fn daemon_and_keepers_killed_together_never_make_a_wrong_outcome() {
    let world = World::new();
    let mut chance = Chance::new();
    let mut oracle = Oracle::new(&world);
    until_over(|_| {
        for _ in 0..4 {
            let held = chance.below(2) == 0;
            oracle.ask(&world, held);
        }
        chance.moment(Duration::from_millis(15));
        let mut victims: Vec<_> = oracle.ids.values().rev().take(6).filter_map(|id| world.keeper(id)).collect();
        victims.extend(world.daemon());
        // In any order.
        while !victims.is_empty() {
            let at = chance.below(victims.len() as u64) as usize;
            machine::kill(victims.swap_remove(at));
        }
        oracle.go.release(chance.below(4) as usize);
    });
    oracle.go.release(oracle.asked as usize);
    let counts = oracle.check(&world, Died::Both);
    eprintln!("{counts:?}");
}

#[test]
fn a_keeper_that_dies_under_a_living_daemon_costs_no_exit_code() {
    let world = World::new();
    let go = world.fifo("go");
    let up = world.fifo("up");
    let id = world.sh(&format!("echo before; echo up > {}; read x < {}; echo after; exit 33", up.word(), go.word()));
    up.line();
    machine::kill(world.keeper(&id).expect("a keeper"));
    go.release(1);
    let task = world.end(&id);
    // Linux 6.15 and later has the pidfd's word; before, the orphan is the daemon's own child.
    assert_eq!((&task["state"], &task["exit_code"]), (&"exited".into(), &33.into()), "{task:#}");
    assert_eq!(world.output(&id), b"before\nafter\n", "no byte is lost");
    assert_eq!(world.inbox(MINE).len(), 1);
}

#[test]
fn a_stop_reaches_the_tree_of_a_keeper_that_died() {
    let world = World::new();
    let up = world.fifo("up");
    let id = world.sh(&format!("setsid sh -c 'sleep 8401 & sleep 8402' & echo up > {}; sleep 8403; true", up.word()));
    up.line();
    machine::kill(world.keeper(&id).expect("a keeper"));
    let task = world.kill(&id);
    assert_eq!(world.tree(&id), [], "{task:#}");
    assert!(["killed", "lost"].contains(&task["state"].as_str().unwrap()), "{task:#}");
    assert_eq!(task["exit_code"], Value::Null);
    assert_eq!(world.inbox(MINE).len(), 1);
}

#[test]
fn when_daemon_keeper_and_command_all_die_it_is_lost_and_said_so() {
    let world = World::new();
    let up = world.fifo("up");
    let id = world.sh(&format!("echo up > {}; exec sleep 8404", up.word()));
    up.line();
    let keeper = world.keeper(&id).expect("a keeper");
    let tree = world.tree(&id);
    world.kill_daemon();
    machine::kill(keeper);
    tree.into_iter().for_each(machine::kill);
    let task = world.end(&id);
    check_lost_or_killed(&task);
    assert!(task["started_at"].is_string(), "what was known is kept: {task:#}");
    let lost = task["state"] == "lost";
    assert_eq!(world.look(&["wait", &id]).code, Some(if lost { 125 } else { 128 + 9 }));
    let told = world.inbox(MINE);
    assert_eq!(told.len(), 1);
    assert!(told[0]["text"].as_str().unwrap().starts_with(if lost { "LOST" } else { "FAILED" }), "{:#}", told[0]);
}

#[test]
fn a_lost_task_whose_processes_live_names_them_and_a_stop_reaches_them() {
    let world = World::new();
    let up = world.fifo("up");
    let id = world.sh(&format!("setsid sleep 8405 & echo up > {}; exec sleep 8406", up.word()));
    up.line();
    let main = world.show(&id)["pid"].as_i64().unwrap();
    let keeper = world.keeper(&id).expect("a keeper");
    world.kill_daemon();
    machine::kill(keeper);
    machine::kill(Pid::from_raw(i32::try_from(main).unwrap()).unwrap());
    let task = world.end(&id);
    check_lost_or_killed(&task);
    assert_eq!(task["leftovers"].as_array().unwrap().len(), 1, "{task:#}");
    world.kill(&id);
    assert_eq!(world.tree(&id), []);
}

#[test]
fn a_torn_state_record_is_never_read_as_success() {
    let world = World::new();
    let up = world.fifo("up");
    let id = world.sh(&format!("echo up > {}; sleep 8203; true", up.word()));
    up.line();
    world.kill_daemon();
    machine::kill(world.keeper(&id).expect("a keeper"));
    let state = world.folder(&id).join("state");
    let length = usize::try_from(std::fs::metadata(&state).unwrap().len()).unwrap();
    std::fs::write(&state, vec![0x5a; length]).unwrap();
    world.show(&id);
    world.kill(&id);
    let task = world.end(&id);
    assert!(["lost", "killed", "signaled"].contains(&task["state"].as_str().unwrap()), "{task:#}");
    assert_eq!(task["exit_code"], Value::Null);
    assert_eq!(world.inbox(MINE).len(), 1);
    assert_eq!(world.tree(&id), [], "a stop reaches what still lives");
}

#[test]
fn output_that_nobody_held_is_never_called_complete() {
    let world = World::new();
    let mut chance = Chance::new();
    for round in 0..12 {
        let [up, go, wrote, end] = ["up", "go", "wrote", "end"].map(|name| world.fifo(&format!("{name}{round}")));
        let script = format!(
            "echo up > {}; read x < {}; printf hello; echo wrote > {}; read x < {}; exit 7",
            up.word(),
            go.word(),
            wrote.word(),
            end.word()
        );
        let id = world.sh(&script);
        up.line();
        // Its keeper does not come to read what it writes; then both who hold its pipe die, and it ends while a new daemon
        // looks for them.
        let keeper = world.keeper(&id).expect("a keeper");
        // A daemon that runs would have it go on.
        machine::stop(world.daemon().expect("a daemon"));
        machine::stop(keeper);
        go.release(1);
        wrote.line();
        world.kill_daemon();
        machine::kill(keeper);
        let looker = world.onlooker(&["ps"]).spawn().unwrap();
        chance.moment(Duration::from_millis(30));
        end.release(1);
        finish(looker).ok();
        let task = world.end(&id);
        let is_whole = world.output(&id) == b"hello";
        assert!(is_whole || task["output"]["complete"] == false, "round {round}: {task:#}");
    }
}

/// A task that says `hello` and ends with 7. Its keeper does not come to read that, and it and the daemon die: before `end` is
/// released or after the command is gone, and with it the pipe.
fn say_hello_to_nobody(world: &World, end: &Fifo, outlives: bool) -> String {
    let [up, go, wrote] = ["up", "go", "wrote"].map(|name| world.fifo(name));
    let words = [&up, &go, &wrote, end].map(Fifo::word);
    let [up_word, go_word, wrote_word, end_word] = &words;
    let id = world.sh(&format!(
        "echo up > {up_word}; read x < {go_word}; echo hello; echo wrote > {wrote_word}; read x < {end_word}; exit 7"
    ));
    up.line();
    let keeper = world.keeper(&id).expect("a keeper");
    let main = Pid::from_raw(i32::try_from(world.show(&id)["pid"].as_i64().unwrap()).unwrap()).unwrap();
    machine::stop(world.daemon().expect("a daemon"));
    machine::stop(keeper);
    go.release(1);
    wrote.line();
    if !outlives {
        end.release(1);
        machine::until_gone(main);
    }
    world.kill_daemon();
    machine::kill(keeper);
    machine::until_gone(keeper);
    id
}

#[test]
fn output_that_nobody_held_is_not_complete_for_the_daemon_after_the_next_either() {
    let world = World::new();
    let id = say_hello_to_nobody(&world, &world.fifo("end"), false);
    // The pipe is gone, and what was in it. This daemon sees that, and dies when it has launched the next keeper.
    assert!(world.start_daemon(&[("RINGBACK_CRASH", "daemon.after-takeover")]).is_none(), "it died while it started");
    world.end(&id);
    // A stop is the barrier behind which all is known.
    let task = world.kill(&id);
    assert_eq!((world.output(&id), &task["output"]["complete"]), (Vec::new(), &false.into()), "{task:#}");
}

#[test]
fn a_daemon_that_could_not_read_a_record_at_once_calls_complete_only_what_somebody_held() {
    let trace = ["strace", "-D", "-qq", "-o", "/dev/null", "-e", "trace=pread64"];
    if !Command::new("strace").args(&trace[1..]).arg("true").status().is_ok_and(|status| status.success()) {
        return;
    }
    for (outlives, output) in [(false, ""), (true, "hello\n")] {
        let world = World::new();
        let end = world.fifo("end");
        let id = say_hello_to_nobody(&world, &end, outlives);
        // Its first look fails, and from then on it has the pipe itself.
        let state = world.folder(&id).join("state");
        let fails = ["-e", "inject=pread64:error=EIO:when=1", "-P", state.to_str().unwrap()];
        let mut traced = world.client_below(&[&trace[..], &fails].concat(), &["daemon", "run"]);
        let mut daemon = traced.stderr(Stdio::null()).spawn().unwrap();
        assert!(machine::until_listening(&mut daemon));
        if outlives {
            machine::until("another keeper holds it", || world.keeper(&id).is_some());
            end.release(1);
        }
        world.end(&id);
        let task = world.kill(&id);
        let seen = (String::from_utf8(world.output(&id)).unwrap(), &task["output"]["complete"]);
        assert_eq!(seen, (output.to_owned(), &outlives.into()), "{task:#}");
        let log = std::fs::read_to_string(world.home().join("daemon.log")).unwrap();
        assert!(log.contains(&format!("see whether the keeper of {id} lives")), "nothing failed: {log}");
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    }
}

#[test]
fn a_kill_of_what_ended_unseen_does_not_claim_that_nothing_is_left() {
    let world = World::new();
    world.configure("cgroup = 'off'");
    let up = world.fifo("up");
    // It has shed every mark, and loses its parents with its keeper.
    let hidden = format!(
        "env -i setsid /bin/sh -c 'echo $$ > {}; exec sleep 8712' >/dev/null 2>&1 &",
        up.word().trim_matches('\'')
    );
    let id = world.sh(&format!("({hidden}) ; exec sleep 8712"));
    let hidden = Pid::from_raw(up.line().trim().parse().unwrap()).unwrap();
    machine::until("its main process is known", || world.show(&id)["pid"].is_number());
    let main = Pid::from_raw(world.show(&id)["pid"].as_i64().unwrap().try_into().unwrap()).unwrap();
    let keeper = world.keeper(&id).expect("a keeper");
    world.kill_daemon();
    for pid in [keeper, main] {
        machine::begin_kill(pid);
    }
    check_lost_or_killed(&world.end(&id));
    let said = world.look(&["kill", &id]);
    machine::kill(hidden);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.text().contains("no receipt says what became of its processes"), "{said:?}");
}
