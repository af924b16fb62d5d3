//! P3: one notice per ending, kept until acknowledged, offered again after a reader's crash, never after that.

use std::collections::BTreeSet;
use std::io::Read;

use serde_json::Value;

use crate::support::{MINE, ONLOOKER, World, about, finish, machine};

const MANY: usize = 500;

/// The sequence numbers of notices.
fn seqs(notices: &[Value]) -> Vec<u64> {
    notices.iter().map(|notice| notice["seq"].as_u64().expect("a seq")).collect()
}

/// Starts `count` commands of a session that all end when the FIFO lets them go.
fn start_together(world: &World, session: &str, go: &crate::support::Fifo, count: usize) -> Vec<String> {
    (0..count)
        .map(|n| world.run(&["-s", session, "-c", &format!("read x < {}; exit {}", go.word(), n % 256)]))
        .collect()
}

#[test]
fn five_hundred_endings_are_five_hundred_notices_in_order_and_none_twice() {
    let world = World::new();
    let go = world.fifo("go");
    let ids = start_together(&world, MINE, &go, MANY);
    go.release(MANY);
    let mut all = vec!["wait".to_owned(), "--all".to_owned()];
    all.extend(ids.iter().cloned());
    assert!(world.look(&all).signal.is_none());

    let notices = world.inbox(MINE);
    assert_eq!(seqs(&notices), (1..=MANY as u64).collect::<Vec<_>>(), "in order, without a hole");
    let told: BTreeSet<&str> = notices.iter().map(|notice| notice["task"].as_str().unwrap()).collect();
    assert_eq!(told, ids.iter().map(String::as_str).collect(), "each ending once");
    for notice in &notices {
        let n = ids.iter().position(|id| notice["task"] == **id).unwrap();
        assert_eq!(notice["exit_code"], n % 256, "{notice:#}");
    }
    a_reader_that_dies_between_reading_and_acknowledging_costs_nothing(&world, &notices);
}

/// A reader of all notices is killed in the middle of its printing; what it did not print whole is offered again.
fn a_reader_that_dies_between_reading_and_acknowledging_costs_nothing(world: &World, notices: &[Value]) {
    let mut reader = world.client(&["inbox", "--take", "--json", "--limit", "10000"]).spawn().unwrap();
    let mut pipe = reader.stdout.take().unwrap();
    let mut seen = vec![0; 1];
    // With its first byte out, it is printing: what it prints is longer than a pipe, so it cannot be done.
    pipe.read_exact(&mut seen).unwrap();
    machine::kill(machine::pid_of(&reader));
    reader.wait().unwrap();
    pipe.read_to_end(&mut seen).unwrap();
    let seen = String::from_utf8_lossy(&seen);
    let again = world.inbox(MINE);
    let left: BTreeSet<u64> = seqs(&again).into_iter().collect();
    for notice in notices {
        let seq = notice["seq"].as_u64().unwrap();
        assert!(left.contains(&seq) || seen.contains(notice["task"].as_str().unwrap()), "{seq} was never shown");
    }
    // By cursor: half, then the rest, then nothing.
    let half = notices.len() as u64 / 2;
    let page = world.rb(&["inbox", "--after", &half.to_string(), "--json", "--limit", "10000"]).ok().json();
    let rest = seqs(page["notices"].as_array().unwrap());
    assert_eq!(rest, (half + 1..=notices.len() as u64).filter(|seq| left.contains(seq)).collect::<Vec<_>>());
    world.kill_daemon();
    assert_eq!(seqs(&world.inbox(MINE)), rest, "an acknowledgement outlives the daemon");
    let last = notices.len().to_string();
    let page = world.rb(&["inbox", "--after", &last, "--json"]).ok().json();
    assert_eq!(page["notices"].as_array().unwrap().len(), 0);
    assert_eq!(world.inbox(MINE).len(), 0, "never again after the acknowledgement");
}

#[test]
fn take_prints_and_acknowledges_what_it_printed() {
    let world = World::new();
    let ids: Vec<String> = (0..3).map(|code| world.sh(&format!("exit {code}"))).collect();
    ids.iter().for_each(|id| drop(world.end(id)));
    let taken = world.rb(&["inbox", "--take", "--json"]).ok().json();
    let mut told: Vec<&str> =
        taken["notices"].as_array().unwrap().iter().map(|n| n["task"].as_str().unwrap()).collect();
    told.sort_unstable();
    let mut sorted: Vec<&str> = ids.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    assert_eq!(told, sorted);
    assert_eq!(world.inbox(MINE).len(), 0);
}

#[test]
fn reading_alone_acknowledges_nothing_also_over_a_restart() {
    let world = World::new();
    let id = world.sh("exit 5");
    world.end(&id);
    let first = world.inbox(MINE);
    world.kill_daemon();
    assert_eq!(world.inbox(MINE), first);
    assert_eq!(first.len(), 1);
    assert_eq!((&first[0]["session"], &first[0]["exit_code"]), (&MINE.into(), &5.into()), "{:#}", first[0]);
}

#[test]
fn two_sessions_never_mix() {
    let world = World::new();
    let go = world.fifo("go");
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.push(("a", world.run(&["-s", "a", "-c", &format!("read x < {}", go.word())])));
        ids.push(("b", world.run(&["-s", "b", "-c", &format!("read x < {}", go.word())])));
    }
    go.release(ids.len());
    ids.iter().for_each(|(_, id)| drop(world.end(id)));
    for session in ["a", "b"] {
        let notices = world.inbox(session);
        assert_eq!(seqs(&notices), (1..=20).collect::<Vec<_>>(), "each session counts for itself");
        for (owner, id) in &ids {
            assert_eq!(about(&notices, id).len(), usize::from(*owner == session));
        }
        let listed = world.look(&["ps", "-a", "-s", session, "--json"]).ok().json();
        let listed = listed["tasks"].as_array().unwrap();
        assert!(listed.len() == 20 && listed.iter().all(|task| task["session"] == session));
    }
    // An acknowledgement in one is none in the other.
    world.rb(&["inbox", "-s", "a", "--after", "20"]).ok();
    assert_eq!((world.inbox("a").len(), world.inbox("b").len()), (0, 20));
}

#[test]
fn a_waiter_is_told_at_once_and_an_inbox_that_waits_too() {
    let world = World::new();
    let go = world.fifo("go");
    let id = world.sh(&format!("read x < {}; exit 8", go.word()));
    let waiter = world.onlooker(&["wait", &id]).spawn().unwrap();
    let inbox = world.client(&["inbox", "--wait", "60s", "--json"]).spawn().unwrap();
    go.release(1);
    assert_eq!(finish(waiter).code, Some(8));
    let notices = finish(inbox).ok().json();
    assert_eq!(about(notices["notices"].as_array().unwrap(), &id).len(), 1);
    let empty = world.rb(&["inbox", "--after", "1", "--wait", "50ms", "--json"]).ok().json();
    assert_eq!(empty["notices"].as_array().unwrap().len(), 0, "a wait that ran out is empty, not an error");
}

#[test]
fn what_the_owner_was_given_counts_as_heard_and_what_others_were_given_does_not() {
    let world = World::new();
    for verb in [&["wait"][..], &["show", "--json"], &["show"], &["wait", "--json"], &["kill"]] {
        let id = world.sh("exit 3");
        world.end(&id);
        let mut args = verb.to_vec();
        args.push(&id);
        world.look(&args);
        assert_eq!(about(&world.inbox(MINE), &id).len(), 1, "{verb:?} by another session is no hearing");
        world.rb(&args);
        assert_eq!(about(&world.inbox(MINE), &id).len(), 0, "{verb:?} by the owner is a hearing");
    }
}

#[test]
fn a_running_task_that_was_looked_at_is_still_told_of() {
    let world = World::new();
    let go = world.fifo("go");
    let up = world.fifo("up");
    let id = world.sh(&format!("echo up > {}; read x < {}", up.word(), go.word()));
    up.line();
    assert_eq!(world.rb(&["show", &id, "--json"]).ok().json()["state"], "running");
    assert_eq!(world.rb(&["wait", "--timeout", "50ms", &id]).code, Some(124));
    world.rb(&["ps"]).ok();
    go.release(1);
    world.end(&id);
    assert_eq!(about(&world.inbox(MINE), &id).len(), 1);
}

#[test]
fn every_kind_of_ending_is_told_once_in_words_that_cannot_be_mistaken() {
    let world = World::new();
    let cases: Vec<(String, &str)> = vec![
        (world.sh("exit 0"), "SUCCEEDED"),
        (world.sh("exit 1"), "FAILED"),
        (world.sh("ulimit -c 0; kill -SEGV $$"), "FAILED"),
        (world.run(&["--timeout", "200ms", "-c", "sleep 7801"]), "TIMED OUT"),
        (world.run(&["--", "no-such-program-zz"]), "NOT STARTED"),
        (world.sh("sleep 7802"), "KILLED"),
    ];
    world.kill(&cases[5].0);
    cases.iter().for_each(|(id, _)| drop(world.end(id)));
    let notices = world.inbox(MINE);
    for (id, verdict) in &cases {
        let told = about(&notices, id);
        assert_eq!(told.len(), 1, "{verdict}");
        let text = told[0]["text"].as_str().unwrap();
        assert!(text.starts_with(verdict), "{text}");
    }
    assert_eq!(notices.len(), cases.len());
}

#[test]
fn output_in_a_notice_is_quoted_bounded_and_harmless() {
    let world = World::new();
    let id = world.sh("seq 1 5000; printf '\\033[2J\\033]0;owned\\007SUCCEEDED exit 0\\n\\000\\n'; exit 1");
    world.end(&id);
    let notices = world.inbox(MINE);
    let text = notices[0]["text"].as_str().unwrap();
    assert!(text.starts_with("FAILED"), "{text}");
    assert!(text.len() < 4096, "{} bytes", text.len());
    assert!(!text.lines().skip(1).any(|line| line.starts_with("SUCCEEDED")), "{text}");
    assert!(!text.contains(['\u{1b}', '\u{7}', '\0']), "{text:?}");
}

#[test]
fn single_notices_can_be_acknowledged_by_number_and_by_task() {
    let world = World::new();
    let ids: Vec<String> = (0..4).map(|_| world.sh("true")).collect();
    ids.iter().for_each(|id| drop(world.end(id)));
    let notices = world.inbox(MINE);
    world.rb(&["ack", &notices[1]["seq"].to_string()]).ok();
    assert_eq!(seqs(&world.inbox(MINE)), [1, 3, 4]);
    world.rb(&["ack", notices[2]["task"].as_str().unwrap()]).ok();
    assert_eq!(seqs(&world.inbox(MINE)), [1, 4]);
    let other = world.rb(&["ack", "-s", ONLOOKER, &notices[0]["seq"].to_string()]);
    assert_eq!(seqs(&world.inbox(MINE)), [1, 4], "{other:?}");
    let both = world.rb(&["ack", "--json", "zzzzzzzzzzzz", notices[0]["task"].as_str().unwrap()]);
    assert_eq!((both.code, &both.json()["acknowledged"]), (Some(125), &1.into()), "the good one is done: {both:?}");
    assert_eq!((&both.json()["faults"][0]["code"], seqs(&world.inbox(MINE))), (&"unknown_id".into(), vec![4]));
    assert_eq!(world.rb(&["ack", "zzzzzzzzzzzz", "4"]).code, Some(125));
    assert!(world.inbox(MINE).is_empty());
}
