//! What is kept of ended tasks is bounded, and what is read of an output is what the task wrote.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Instant;

use ringback_host::wire::{Answer, Reply, Request};
use rustix::event::{PollFd, PollFlags, poll};
use serde_bytes::ByteBuf;

use crate::support::{HANG, MINE, World, machine, wire};

fn configured(config: &str) -> World {
    let world = World::new();
    let folder = world.home().parent().unwrap().join("user/.config/ringback");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("config.toml"), config).unwrap();
    world
}

#[test]
fn past_the_limit_the_oldest_go_by_themselves_once_they_were_heard() {
    let world = configured("keep_tasks = 3");
    let ids: Vec<String> = (0..6).map(|n| world.sh(&format!("exit {n}"))).collect();
    for id in &ids {
        world.end(id);
    }
    let listed = world.look(&["ps", "-a", "-s", MINE, "--json"]).ok().json();
    assert_eq!(listed["tasks"].as_array().unwrap().len(), 6, "nobody has heard of them");
    world.rb(&["ack", "--all"]).ok();
    for id in &ids[..3] {
        machine::until_removed(&world.folder(id));
        assert!(world.look(&["show", id]).err.contains("has expired"));
    }
    for (n, id) in ids.iter().enumerate().skip(3) {
        assert_eq!(world.show(id)["exit_code"], n);
    }
    let stats = world.look(&["stats", "--json"]).ok().json();
    assert_eq!((&stats["freed"], &stats["ended"]), (&3.into(), &3.into()), "{stats:#}");
    assert!(stats["freed_bytes"].as_u64() > Some(0) && stats["kept_bytes"].as_u64() > Some(0), "{stats:#}");
}

#[test]
fn a_prune_of_many_says_what_it_freed_and_keeps_what_was_not_heard() {
    let world = World::new();
    let ids: Vec<String> = (0..150).map(|_| world.run(&["--", "true"])).collect();
    // Their trees are gone, too.
    let all: Vec<&str> = ["kill"].into_iter().chain(ids.iter().map(String::as_str)).collect();
    world.look(&all).ok();
    world.rb(&["ack", "--up-to", "140"]).ok();
    let would = world.look(&["prune", "--older-than", "0s", "--dry-run", "--json"]).ok().json();
    assert_eq!(would["removed"].as_array().unwrap().len(), 140, "{would:#}");
    let done = world.look(&["prune", "--older-than", "0s", "--keep", "20", "--yes", "--json"]).ok().json();
    assert_eq!(done["removed"].as_array().unwrap().len(), 130);
    assert!(done["bytes"].as_u64() >= Some(130 * 4096), "{}", done["bytes"]);
    assert_eq!(world.inbox(MINE).len(), 10);
    let stats = world.look(&["stats", "--json"]).ok().json();
    assert_eq!((&stats["freed"], &stats["freed_bytes"]), (&130.into(), &done["bytes"]));
}

#[test]
fn a_small_output_is_packed_and_reads_as_before() {
    let world = configured("pack_after = '20ms'");
    let (small, large) = (world.sh("echo one; echo two; exit 3"), world.sh("seq 1 20000"));
    assert_eq!(world.end(&small)["exit_code"], 3);
    world.end(&large);
    machine::until_removed(&world.folder(&small));
    for _ in 0..2 {
        let shown = world.show(&small);
        let output = &shown["output"];
        assert_eq!(
            (&output["packed"], &output["path"], &output["bytes"]),
            (&true.into(), &serde_json::Value::Null, &8.into())
        );
        assert_eq!(output["lines"], 2, "{shown:#}");
        assert_eq!(world.look(&["logs", "--raw", &small]).ok().text(), "one\ntwo\n");
        assert_eq!(world.look(&["logs", "--offset", "4", &small]).ok().text(), "two\n");
        world.kill_daemon();
    }
    let retried = world.rb(&["retry", &small, "--json"]);
    assert_eq!((retried.code, &retried.json()["code"]), (Some(125), &"not_kept".into()));
    let large = world.show(&large);
    assert_eq!(large["output"]["packed"], false);
    assert_eq!(fs::metadata(large["output"]["path"].as_str().unwrap()).unwrap().len(), 108_894);
    world.rb(&["rm", &small]).ok();
    assert!(world.look(&["logs", &small]).err.contains("has expired"));
}

#[test]
fn a_crash_between_packing_and_deleting_leaves_no_environment_behind() {
    let world = configured("pack_after = '20ms'");
    let mut daemon = world.start_daemon(&[("RINGBACK_CRASH", "daemon.before-delete")]).unwrap();
    let id = world.sh("echo kept; exit 3");
    machine::until_gone(machine::pid_of(&daemon));
    daemon.wait().unwrap();
    assert!(world.folder(&id).join("spec").exists(), "it died before it deleted");
    assert_eq!(world.show(&id)["output"]["packed"], true);
    machine::until_removed(&world.folder(&id));
    assert_eq!(world.look(&["logs", "--raw", &id]).ok().text(), "kept\n");
    assert_eq!(world.show(&id)["exit_code"], 3);
}

#[test]
fn what_was_put_in_the_place_of_an_output_is_never_read() {
    let world = World::new();
    let secret = world.work("secret");
    fs::write(&secret, "secret\n").unwrap();
    let id = world.sh("echo mine");
    world.end(&id);
    let output = world.folder(&id).join("output");
    let plant: [(&str, &dyn Fn()); 3] = [
        ("symbolic link", &|| symlink(&secret, &output).unwrap()),
        ("hard link", &|| fs::hard_link(&secret, &output).unwrap()),
        ("FIFO", &|| {
            rustix::fs::mknodat(rustix::fs::CWD, &output, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
                .unwrap();
        }),
    ];
    for (word, plant) in plant {
        fs::remove_file(&output).unwrap();
        plant();
        for verb in [&["logs", id.as_str()][..], &["logs", "--digest", &id]] {
            let said = world.look(verb);
            assert!(said.code == Some(125) && said.err.contains(word), "{word}: {said:?}");
            assert!(said.out.is_empty());
        }
        assert_eq!(world.show(&id)["exit_code"], 0);
    }
    fs::remove_file(&output).unwrap();
    let said = world.look(&["logs", &id]);
    assert!(said.code == Some(125) && said.err.contains("is not there any more"), "{said:?}");
}

#[test]
fn an_output_that_is_removed_under_a_running_task_is_missed_and_breaks_nothing() {
    let world = World::new();
    let go = world.fifo("go");
    let script = format!("echo one; read x < {}; sleep 0.05; echo two; exit 4", go.word());
    let id = world.run(&["--ready", "one", "-c", &script]);
    // It is in the file when the daemon has seen it there.
    world.look(&["wait", "--ready", &id]).ok();
    fs::remove_file(world.folder(&id).join("output")).unwrap();
    let said = world.look(&["logs", &id]);
    assert!(said.code == Some(125) && said.err.contains("is not there any more"), "{said:?}");
    go.release(1);
    let task = world.end(&id);
    assert_eq!((&task["exit_code"], &task["output"]["bytes"]), (&4.into(), &8.into()));
    assert_eq!(task["output"]["gaps"], serde_json::json!([[0, 4, "removed"]]), "{task:#}");
    let said = world.look(&["logs", "--rendered", &id]).ok();
    assert_eq!(said.text(), "[ringback: bytes 0-3 are missing: removed]\ntwo\n");
    let digest = world.look(&["logs", "--digest", &id]).ok().text();
    assert!(digest.contains("bytes 0–3 of the output were not kept (removed)"), "{digest}");
}

#[test]
fn sends_reach_a_stdin_in_the_order_in_which_they_were_asked() {
    let world = World::new();
    let go = world.fifo("go");
    let id = world.run(&["--stdin", "-c", &format!("read x < {}; cat", go.word())]);
    let mut senders = Vec::new();
    for n in 0..6u8 {
        let mut stream = wire::connect(&world);
        let data = ByteBuf::from(vec![b'a' + n; 100_000]);
        wire::say(&mut stream, &wire::call(Request::Send { id: id.clone(), data, eof: n == 5 }));
        // It is asked before the next one is.
        assert!(matches!(wire::ask(&world, Request::Status), Reply::Status(_)));
        senders.push(stream);
    }
    let late = world.rb(&["send", &id, "more"]);
    assert!(late.code == Some(125) && late.err.contains("was closed"), "{late:?}");
    go.release(1);
    for stream in &mut senders {
        assert!(matches!(wire::hear(stream).unwrap().reply, Reply::Sent { bytes: 100_000 }));
    }
    assert_eq!(world.end(&id)["exit_code"], 0);
    let expected: Vec<u8> = (0..6u8).flat_map(|n| vec![b'a' + n; 100_000]).collect();
    assert!(world.output(&id) == expected);
}

#[test]
fn more_sends_than_anybody_reads_are_refused() {
    let world = World::new();
    let id = world.run(&["--stdin", "-c", "sleep 8306"]);
    let mut senders: Vec<_> = (0..300).map(|_| wire::connect(&world)).collect();
    for stream in &mut senders {
        let data = ByteBuf::from(vec![0; 70_000]);
        wire::say(stream, &wire::call(Request::Send { id: id.clone(), data, eof: false }));
    }
    // As many as there is room for wait; each of the others is told at once.
    let mut refused = 0;
    while refused < 44 {
        let mut looked: Vec<PollFd<'_>> = senders.iter().map(|sender| PollFd::new(sender, PollFlags::IN)).collect();
        let patience = machine::left(Instant::now() + HANG).unwrap();
        assert!(poll(&mut looked, Some(&patience)).unwrap() > 0, "{refused} were refused, and the others hang");
        let answered: Vec<bool> = looked.iter().map(|one| !one.revents().is_empty()).collect();
        drop(looked);
        let mut answered = answered.into_iter();
        senders.retain_mut(|sender| {
            let is_answered = answered.next().unwrap();
            if is_answered {
                let Some(Answer { reply: Reply::Fault(fault), .. }) = wire::hear(sender) else { panic!("no refusal") };
                assert!(fault.code == "stdin_busy" && fault.hint.unwrap().contains("nothing was sent"));
                refused += 1;
            }
            !is_answered
        });
    }
    assert_eq!((refused, senders.len()), (44, 256));
    world.kill(&id);
}
