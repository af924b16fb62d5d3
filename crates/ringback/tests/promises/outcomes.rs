//! How a task ended is the kernel's word, the same in list, show, wait and notice.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::{MINE, World, has_ended};

/// Signals whose default action does not end a process (signal(7)): CHLD, CONT, STOP, TSTP, TTIN, TTOU, URG, WINCH.
const HARMLESS: &[i32] = &[17, 18, 19, 20, 21, 22, 23, 28];
/// The signals that have a name of their own on Linux.
const NAMED: &[(i32, &str)] = &[
    (1, "SIGHUP"),
    (2, "SIGINT"),
    (3, "SIGQUIT"),
    (4, "SIGILL"),
    (5, "SIGTRAP"),
    (6, "SIGABRT"),
    (7, "SIGBUS"),
    (8, "SIGFPE"),
    (9, "SIGKILL"),
    (10, "SIGUSR1"),
    (11, "SIGSEGV"),
    (12, "SIGUSR2"),
    (13, "SIGPIPE"),
    (14, "SIGALRM"),
    (15, "SIGTERM"),
    (16, "SIGSTKFLT"),
    (24, "SIGXCPU"),
    (25, "SIGXFSZ"),
    (26, "SIGVTALRM"),
    (27, "SIGPROF"),
    (29, "SIGIO"),
    (30, "SIGPWR"),
    (31, "SIGSYS"),
];

/// What list, show and notice say of a task, which must be one and the same; by id.
fn as_all_doors_say(world: &World, ids: &[String]) -> BTreeMap<String, Value> {
    let mut all: Vec<&str> = vec!["wait", "--all"];
    all.extend(ids.iter().map(String::as_str));
    let waited = world.look(&all);
    assert!(waited.signal.is_none(), "{waited:?}");
    let listed = world.look(&["ps", "-a", "-s", MINE, "--json", "--limit", "10000"]).ok().json();
    let listed = listed["tasks"].as_array().unwrap().clone();
    let notices = world.inbox(MINE);
    let facts = |task: &Value| {
        let words = ["state", "reason", "exit_code", "signal", "core_dumped", "final_exit_code", "ended_at"];
        words.iter().map(|word| ((*word).to_owned(), task[word].clone())).collect::<serde_json::Map<_, _>>()
    };
    let mut said = BTreeMap::new();
    for id in ids {
        let shown = world.show(id);
        assert!(has_ended(&shown), "wait --all returned, yet {shown:#}");
        let in_list = listed.iter().find(|task| task["id"] == **id).unwrap_or_else(|| panic!("{id} is not listed"));
        let told: Vec<_> = notices.iter().filter(|notice| notice["task"] == **id).collect();
        assert_eq!(told.len(), 1, "one notice per ending, {id}: {told:#?}");
        assert_eq!(facts(in_list), facts(&shown), "list and show differ");
        assert_eq!(facts(told[0]), facts(&shown), "notice and show differ");
        assert_eq!(told[0]["kind"], "tool_result");
        said.insert(id.clone(), shown);
    }
    assert_eq!(notices.len(), ids.len(), "no other notice");
    said
}

#[test]
fn every_exit_code_is_the_same_in_list_show_wait_and_notice() {
    let world = World::new();
    let ids: Vec<String> = (0..256).map(|code| world.sh(&format!("exit {code}"))).collect();
    let said = as_all_doors_say(&world, &ids);
    for (code, id) in ids.iter().enumerate() {
        let task = &said[id];
        assert_eq!(task["state"], "exited", "{task:#}");
        assert_eq!(task["exit_code"], json!(code));
        assert_eq!(task["signal"], Value::Null);
        assert_eq!(world.look(&["wait", id]).code, Some(i32::try_from(code).unwrap()), "wait mirrors {code}");
    }
}

#[test]
fn every_signal_is_the_same_in_list_show_wait_and_notice() {
    let world = World::new();
    let signals: Vec<i32> = (1..=64).filter(|signal| !HARMLESS.contains(signal)).collect();
    // `ulimit -c 0` keeps the machine's core handler out of it.
    let ids: Vec<String> =
        signals.iter().map(|n| world.sh(&format!("ulimit -c 0; kill -{n} $$; sleep 7601"))).collect();
    let said = as_all_doors_say(&world, &ids);
    let names: BTreeMap<i32, &str> = NAMED.iter().copied().collect();
    for (signal, id) in signals.iter().zip(&ids) {
        let task = &said[id];
        assert_eq!(task["state"], "signaled", "{signal}: {task:#}");
        assert_eq!(task["exit_code"], Value::Null);
        let name = task["signal"].as_str().expect("a signal name");
        match names.get(signal) {
            Some(expected) => assert_eq!(name, *expected),
            None => assert!(name.starts_with("SIG"), "{signal} is called {name}"),
        }
        assert_eq!(world.look(&["wait", id]).code, Some(128 + signal), "wait says 128 + {signal}");
    }
    let different: std::collections::BTreeSet<_> = said.values().map(|task| task["signal"].to_string()).collect();
    assert_eq!(different.len(), signals.len(), "each signal has its own name");
}

#[test]
fn an_exit_with_143_is_not_a_death_by_term() {
    let world = World::new();
    let returned = world.end(&world.sh("exit 143"));
    let killed = world.end(&world.sh("kill -TERM $$"));
    assert_eq!((&returned["state"], &returned["exit_code"]), (&json!("exited"), &json!(143)));
    assert_eq!((&killed["state"], &killed["signal"]), (&json!("signaled"), &json!("SIGTERM")));
}

#[test]
fn a_signal_that_does_not_end_a_process_does_not_end_a_task() {
    let world = World::new();
    let up = world.fifo("up");
    let go = world.fifo("go");
    let id =
        world.sh(&format!("kill -WINCH $$; kill -URG $$; echo up > {}; read x < {}; exit 6", up.word(), go.word()));
    up.line();
    assert_eq!(world.show(&id)["state"], "running");
    go.release(1);
    assert_eq!(world.end(&id)["exit_code"], 6);
}

#[test]
fn what_we_killed_never_reads_as_success_even_if_it_returned_zero() {
    let world = World::new();
    let up = world.fifo("up");
    let id = world.sh(&format!("trap 'exit 0' TERM; echo up > {}; sleep 7602 & wait", up.word()));
    up.line();
    world.rb(&["kill", &id]).ok();
    let task = world.show(&id);
    assert_eq!(task["state"], "killed", "{task:#}");
    assert_eq!(task["reason"], "request");
    assert_eq!(task["by"], MINE);
    assert_eq!(task["exit_code"], Value::Null);
    assert_eq!(task["final_exit_code"], 0);
    let waited = world.look(&["wait", &id]);
    assert!(waited.code != Some(0) && waited.code.is_some(), "{waited:?}");
}

#[test]
fn what_could_not_start_says_why_and_the_clients_say_126_and_127() {
    let world = World::new();
    let plain = world.work("plain-file");
    std::fs::write(&plain, "no program").unwrap();
    let plain = plain.to_str().unwrap();
    let nowhere = world.work("nowhere");
    let missing = world.run(&["--", "no-such-program-zz"]);
    let forbidden = world.run(&["--", plain]);
    let no_cwd = world.run(&["-C", nowhere.to_str().unwrap(), "--", "true"]);
    let said = as_all_doors_say(&world, &[missing.clone(), forbidden.clone(), no_cwd.clone()]);
    for (id, reason, code) in
        [(&missing, "not_found", 127), (&forbidden, "permission", 126), (&no_cwd, "cwd_missing", 126)]
    {
        let task = &said[id];
        assert_eq!(task["state"], "start_failed", "{task:#}");
        assert_eq!(task["reason"], reason, "{task:#}");
        assert_eq!((&task["exit_code"], &task["signal"]), (&Value::Null, &Value::Null));
        assert_eq!(world.look(&["wait", id]).code, Some(code), "{reason}");
    }
    assert!(said[&missing]["errno"].as_i64() == Some(2), "{:#}", said[&missing]);
}

#[test]
fn a_core_dump_is_told() {
    let world = World::new();
    // With a pipe in core_pattern the kernel asks a program; whether a core was left is the kernel's word either way.
    let id = world.sh("ulimit -c 0; kill -SEGV $$");
    let task = world.end(&id);
    assert_eq!((&task["signal"], &task["core_dumped"]), (&json!("SIGSEGV"), &json!(false)), "{task:#}");
}
