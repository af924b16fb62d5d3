//! Many clients at once: one daemon, one answer each, and nobody harms another.

use std::collections::BTreeSet;
use std::process::Child;

use crate::support::{MINE, World, finish, has_ended, id_of, machine};

#[test]
fn twenty_clients_and_no_daemon_make_exactly_one() {
    let world = World::new();
    for round in 0..3 {
        let clients: Vec<Child> =
            (0..20).map(|n| world.client(&["run", "-c", &format!("echo {n}; exit {n}")]).spawn().unwrap()).collect();
        let ids: Vec<String> = clients.into_iter().map(|client| id_of(&finish(client).ok())).collect();
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 20, "round {round}");
        let daemon = world.daemon().expect("a daemon");
        assert_eq!(daemons(&world), [daemon], "round {round}");
        for (n, id) in ids.iter().enumerate() {
            assert_eq!(world.end(id)["exit_code"], n);
        }
        world.kill_daemon();
    }
    assert_eq!(world.inbox(MINE).len(), 60);
}

/// Every process that runs as a daemon of this home.
fn daemons(world: &World) -> Vec<machine::Pid> {
    let mark = format!("RINGBACK_HOME={}", world.home().display());
    let mut found = machine::with_environment(mark.as_bytes());
    found.retain(|pid| {
        let line = std::fs::read(machine::proc_file(*pid, "cmdline")).unwrap_or_default();
        // A keeper looks like its daemon for the moment between vfork and exec.
        let is_child = world.daemon().is_some_and(|daemon| machine::parent_of(*pid) == Some(daemon));
        line.split(|byte| *byte == 0).any(|word| word == b"daemon") && !is_child
    });
    found
}

#[test]
fn a_second_daemon_of_the_same_home_says_so_and_leaves() {
    let world = World::new();
    let id = world.sh("sleep 8101");
    let daemon = world.daemon();
    let second = world.rb(&["daemon", "run"]);
    assert_eq!(second.code, Some(125), "{second:?}");
    assert!(second.err.contains("hint:"), "{second:?}");
    assert_eq!(world.daemon(), daemon);
    assert!(!has_ended(&world.show(&id)));
}

#[test]
fn two_homes_have_two_daemons_that_know_nothing_of_each_other() {
    let (one, other) = (World::new(), World::new());
    let id = one.sh("exit 1");
    let foreign = other.sh("exit 2");
    assert_ne!(one.daemon(), other.daemon());
    one.end(&id);
    other.end(&foreign);
    assert_eq!(one.look(&["show", &foreign]).code, Some(125));
    assert_eq!((one.inbox(MINE).len(), other.inbox(MINE).len()), (1, 1));
}

#[test]
fn clients_that_stop_wait_and_remove_the_same_task_all_get_an_answer() {
    let world = World::new();
    for _ in 0..10 {
        let id = world.sh("sleep 8102 & sleep 8103; true");
        let verbs: [&[&str]; 6] =
            [&["kill"], &["wait"], &["kill", "--grace", "1s"], &["logs"], &["rm"], &["show", "--json"]];
        let clients: Vec<Child> = verbs
            .iter()
            .map(|verb| {
                let mut args = verb.to_vec();
                args.push(&id);
                world.onlooker(&args).spawn().unwrap()
            })
            .collect();
        for client in clients {
            let said = finish(client);
            assert!(said.signal.is_none() && !said.err.contains("panicked"), "{said:?}");
            assert!(said.code != Some(125) || said.err.contains("hint:"), "{said:?}");
        }
        assert_eq!(world.tree(&id), []);
    }
    assert!(world.daemon().is_some());
}

#[test]
fn a_stop_after_a_restart_is_the_last_word() {
    let world = World::new();
    let id = world.sh("sleep 8104; true");
    world.kill_daemon();
    let task = world.kill(&id);
    assert_eq!((&task["state"], &task["reason"]), (&"killed".into(), &"request".into()), "{task:#}");
    assert_eq!(task["cleanup"]["verified_empty"], true);
    world.kill_daemon();
    assert_eq!(world.show(&id), task, "and stays it");
}

#[test]
fn waits_that_are_dropped_leave_no_descriptor_behind() {
    let world = World::new();
    let id = world.sh("sleep 8105");
    let daemon = world.daemon().expect("a daemon");
    let open = || std::fs::read_dir(machine::proc_file(daemon, "fd")).unwrap().count();
    world.look(&["wait", "--timeout", "1ms", &id]);
    let before = open();
    for _ in 0..10 {
        let mut waiters: Vec<Child> = (0..10).map(|_| world.onlooker(&["wait", &id]).spawn().unwrap()).collect();
        world.show(&id);
        for waiter in &mut waiters {
            machine::kill(machine::pid_of(waiter));
            waiter.wait().unwrap();
        }
    }
    // One more answer: the loop has been round since the last hang-up.
    world.show(&id);
    world.show(&id);
    assert!(open() <= before + 2, "{} descriptors were {before}", open());
}

#[test]
fn short_tasks_leave_no_process_and_no_descriptor_behind() {
    let world = World::new();
    world.end(&world.sh("true"));
    let daemon = world.daemon().expect("a daemon");
    let open = || std::fs::read_dir(machine::proc_file(daemon, "fd")).unwrap().count();
    let before = open();
    let ids: Vec<String> = (0..60).map(|_| world.sh("true")).collect();
    for id in &ids {
        world.end(id);
        // A stop answers when the tree is gone and its keeper has closed the record.
        world.kill(id);
        if let Some(keeper) = world.keeper(id) {
            machine::until_gone(keeper);
        }
    }
    world.show(&ids[0]);
    assert!(open() <= before + 2, "{} descriptors were {before}", open());
    let children =
        std::fs::read_to_string(machine::proc_file(daemon, &format!("task/{}/children", daemon.as_raw_nonzero())))
            .unwrap();
    assert_eq!(children.trim(), "", "no zombie under the daemon");
}

#[test]
fn waiters_of_one_task_are_all_answered() {
    let world = World::new();
    let go = world.fifo("go");
    let id = world.sh(&format!("read x < {}; exit 7", go.word()));
    let waits: Vec<Child> = (0..8).map(|_| world.onlooker(&["wait", "--json", &id]).spawn().unwrap()).collect();
    let brief = world.look(&["wait", "--timeout", "1ms", &id]);
    assert_eq!(brief.code, Some(124), "{brief:?}");
    go.release(1);
    for wait in waits {
        let said = finish(wait);
        assert_eq!((said.code, &said.json()["tasks"][0]["exit_code"]), (Some(7), &7.into()), "{said:?}");
    }
    assert_eq!(world.look(&["wait", &id]).code, Some(7), "and who asks afterwards");
}

#[test]
fn a_program_of_another_name_becomes_the_daemon_itself_and_is_nobodys_tree() {
    let (world, other) = (World::new(), World::new());
    let program = other.work("rb-test");
    std::fs::copy(env!("CARGO_BIN_EXE_ringback"), &program).unwrap();
    let ready = world.fifo("ready");
    let home = other.home().display();
    let start = format!("RINGBACK_HOME={home} PATH=/usr/bin:/bin {} run -q -- true", program.display());
    let id = world.sh(&format!("{start}; echo $? > {}; exec sleep 9110", ready.word()));
    assert_eq!(ready.line().trim(), "0", "{}", String::from_utf8_lossy(&world.output(&id)));
    let daemon = other.daemon().expect("a daemon");
    world.kill(&id);
    assert!(machine::is_alive(daemon), "the stop has ended a daemon");
}
