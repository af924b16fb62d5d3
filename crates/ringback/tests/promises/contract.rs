//! P1 and the command line: a handle is a record, stdout is data, exit codes mirror, JSON keeps its shape.

use std::time::Instant;

use serde_json::{Value, json};

use crate::support::{MINE, World, finish, has_ended, id_of, machine, millis};

/// Every field of the task object, in every state.
const FIELDS: &[&str] = &[
    "schema",
    "id",
    "name",
    "session",
    "state",
    "reason",
    "by",
    "exit_code",
    "final_exit_code",
    "signal",
    "core_dumped",
    "command",
    "cwd",
    "created_at",
    "started_at",
    "ended_at",
    "duration_ms",
    "paused_ms",
    "pid",
    "process_group_id",
    "lease",
    "binding",
    "timeouts",
    "output",
    "stdout_path",
    "stderr_path",
    "silence_ms",
    "ready",
    "leftovers",
    "cleanup",
    "usage",
];

#[test]
fn run_prints_the_id_alone_and_returns_while_the_command_runs() {
    let world = World::new();
    let go = world.fifo("go");
    let said = world.rb(&["run", "-c", &format!("read x < {}", go.word())]).ok();
    let id = id_of(&said);
    let task = world.show(&id);
    assert!(["queued", "running"].contains(&task["state"].as_str().unwrap()), "{task:#}");
    go.release(1);
    world.end(&id);
}

#[test]
fn a_handle_works_at_once_from_any_client_and_by_any_unique_prefix() {
    let world = World::new();
    let id = world.sh("sleep 8001");
    let verbs: [&[&str]; 4] = [&["show", "--json"], &["logs"], &["wait", "--timeout", "1ms"], &["ps", "-a"]];
    let clients: Vec<_> = verbs
        .iter()
        .cycle()
        .take(20)
        .map(|verb| {
            let mut args = verb.to_vec();
            if verb[0] != "ps" {
                args.push(&id);
            }
            world.onlooker(&args).spawn().unwrap()
        })
        .collect();
    for client in clients {
        let said = finish(client);
        assert!(matches!(said.code, Some(0 | 124)), "{said:?}");
    }
    assert_eq!(world.show(&id[..6])["id"], *id);
    assert_eq!(world.show(&id.to_uppercase())["id"], *id);
    world.kill(&id[..8]);
    assert_eq!(world.show(&id)["state"], "killed");
}

#[test]
fn the_task_object_has_all_its_fields_in_every_state() {
    let world = World::new();
    let binding = r#"{"thread":"t-1","n":[1,2]}"#;
    let up = world.fifo("up");
    let script = format!("echo out; echo up > {}; sleep 8002; true", up.word());
    let id = world.run(&["-n", "my build", "--binding", binding, "--timeout", "5m", "-c", &script]);
    up.line();
    let running = world.show(&id);
    let killed = world.kill(&id);
    let exited = world.end(&world.run(&["--", "true"]));
    for task in [&running, &killed, &exited] {
        for field in FIELDS {
            assert!(task.get(field).is_some(), "no {field} in {task:#}");
        }
        assert_eq!(task["schema"], 1);
    }
    assert_eq!(running["state"], "running");
    assert_eq!(
        (&running["name"], &running["session"], &running["lease"]),
        (&json!("my build"), &json!(MINE), &json!("awaited"))
    );
    assert_eq!(running["binding"], json!({"thread": "t-1", "n": [1, 2]}));
    assert_eq!(running["cwd"], world.work("").canonicalize().unwrap().to_str().unwrap().trim_end_matches('/'));
    assert_eq!((&running["command"]["script"], &running["command"]["shell"]), (&json!(script), &json!("sh")));
    assert!(running["pid"].as_i64().unwrap() > 1 && running["cleanup"].is_null() && running["ended_at"].is_null());
    assert_eq!(running["timeouts"]["wall_ms"], 300_000);
    assert_eq!(running["timeouts"]["grace_ms"], 10_000);
    assert!(millis(&running["created_at"]) <= millis(&running["started_at"]) + 1);
    let lasted_ms = millis(&killed["ended_at"]) - millis(&killed["started_at"]);
    assert!((killed["duration_ms"].as_i64().unwrap() - lasted_ms).abs() < 50, "{killed:#}");
    assert_eq!(exited["command"]["argv"], json!(["true"]));
    assert!(exited["usage"]["max_rss_bytes"].as_u64().unwrap() > 100_000, "{:#}", exited["usage"]);
}

#[test]
fn every_verb_speaks_json_with_its_schema() {
    let world = World::new();
    let id = world.sh("echo hi");
    world.end(&id);
    let verbs: &[&[&str]] = &[
        &["run", "--json", "--", "true"],
        &["run", "--wait", "--json", "--", "true"],
        &["ps", "--json"],
        &["ps", "-a", "--json"],
        &["show", &id, "--json"],
        &["wait", &id, "--json"],
        &["logs", &id, "--json"],
        &["inbox", "--json"],
        &["ack", "1", "--json"],
        &["kill", &id, "--json"],
        &["release", &id, "--json"],
        &["retry", &id, "--json"],
        &["prune", "--json"],
        &["rm", &id, "--json"],
        &["daemon", "status", "--json"],
        &["doctor", "--json"],
        &["session", "ls", "--json"],
    ];
    for verb in verbs {
        let said = world.look(verb);
        assert_eq!(said.json()["schema"], 1, "{verb:?}: {said:?}");
    }
    let fault = world.look(&["show", "zzzzzzzzzzzz", "--json"]);
    assert_ne!(fault.code, Some(0));
    let text = if fault.out.is_empty() { fault.err.clone() } else { fault.text() };
    let fault: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let fault = if fault["error"].is_object() { &fault["error"] } else { &fault };
    assert!(fault["code"].is_string() && fault["message"].is_string() && fault["hint"].is_string(), "{fault:#}");
}

#[test]
fn exit_codes_mirror_the_task() {
    let world = World::new();
    for (args, code) in [
        (&["run", "--wait", "-c", "exit 0"][..], 0),
        (&["run", "--wait", "-c", "exit 200"], 200),
        (&["run", "-f", "-c", "exit 17"], 17),
        (&["run", "--wait", "-c", "kill -KILL $$"], 128 + 9),
        (&["run", "-f", "-c", "kill -HUP $$"], 128 + 1),
        (&["run", "--wait", "--", "no-such-program-zz"], 127),
        (&["run", "--wait", "--", "/"], 126),
        (
            &[
                "run",
                "--wait",
                "--timeout",
                "100ms",
                "-c",
                "trap '' TERM; sleep 8003 & wait; sleep 8003",
                "--grace",
                "100ms",
            ],
            128 + 9,
        ),
        (&["no-such-verb"], 2),
        (&["run"], 2),
        (&["wait"], 2),
    ] {
        let said = world.rb(args);
        assert_eq!(said.code, Some(code), "{args:?}: {said:?}");
    }
}

#[test]
fn wait_any_returns_with_the_first_and_wait_all_with_the_last() {
    let world = World::new();
    let go = world.fifo("go");
    let first = world.sh("exit 4");
    let second = world.sh(&format!("read x < {}; exit 0", go.word()));
    let any = world.look(&["wait", "--any", &second, &first]);
    assert_eq!(any.code, Some(4), "{any:?}");
    assert_eq!(world.look(&["wait", "--all", "--timeout", "50ms", &second, &first]).code, Some(124));
    let all = world.onlooker(&["wait", "--all", &second, &first]).spawn().unwrap();
    go.release(1);
    assert_eq!(finish(all).code, Some(4), "the first that is not zero");
    assert!(has_ended(&world.show(&second)));
}

#[test]
fn stdin_is_empty_unless_asked_for() {
    let world = World::new();
    let id = world
        .sh("cat; read -r a; echo rc=$?; seq 2 | cat < /dev/stdin; cat /dev/stdin; cat /proc/self/fd/0; echo after");
    world.end(&id);
    assert_eq!(world.output(&id), b"rc=1\n1\n2\nafter\n");
}

#[test]
fn send_writes_to_stdin_and_eof_ends_it() {
    let world = World::new();
    let id = world.run(&["--stdin", "-c", "read a; echo got $a; cat; echo end"]);
    world.rb(&["send", &id, "one"]).ok();
    world.rb(&["send", &id, "--no-newline", "two"]).ok();
    world.kill_daemon();
    world.rb(&["send", &id, "three"]).ok();
    world.rb(&["send", &id, "--eof"]).ok();
    assert_eq!(world.end(&id)["exit_code"], 0);
    assert_eq!(world.output(&id), b"got one\ntwothree\nend\n");
    let refused = world.rb(&["send", &id, "late"]);
    assert!(refused.code == Some(125) && refused.err.contains("hint:"), "{refused:?}");
}

#[test]
fn retry_is_a_new_task_with_the_same_command() {
    let world = World::new();
    let folder = world.work("there");
    std::fs::create_dir(&folder).unwrap();
    let id = world.run(&["-e", "A=b c", "-C", folder.to_str().unwrap(), "-c", "echo $A $PWD; exit 3"]);
    world.end(&id);
    let again = id_of(&world.rb(&["retry", &id]).ok());
    assert_ne!(again, id);
    assert_eq!(world.end(&again)["exit_code"], 3);
    assert_eq!(world.output(&again), world.output(&id));
}

#[test]
fn what_was_removed_is_expired_and_its_output_is_gone() {
    let world = World::new();
    let id = world.sh("echo hi");
    let path = world.end(&id)["output"]["path"].as_str().unwrap().to_owned();
    let live = world.sh("sleep 8004");
    let refused = world.rb(&["rm", &live]);
    assert!(refused.code == Some(125) && refused.err.contains("hint:"), "a live task is not removed: {refused:?}");
    world.rb(&["rm", &id]).ok();
    assert!(!std::path::Path::new(&path).exists());
    for (name, word) in [(id.as_str(), "expired"), ("zzzzzzzzzzzz", "unknown")] {
        let said = world.look(&["show", name, "--json"]);
        assert_eq!(said.code, Some(125), "{said:?}");
        assert!(said.json()["code"].as_str().unwrap().contains(word), "{said:?}");
        let said = world.look(&["show", name]);
        assert!(said.err.starts_with("error: ") && said.err.contains("\nhint: "), "{said:?}");
    }
    assert_eq!(world.show(&live)["state"], "running");
}

#[test]
fn prune_forgets_only_what_everybody_has_heard_of() {
    let world = World::new();
    let heard = world.sh("true");
    let unheard = world.sh("true");
    world.end(&unheard);
    world.rb(&["wait", &heard]).ok();
    // A stop answers when the tree is gone on record too: what is not closed is not forgotten.
    world.kill(&heard);
    world.rb(&["prune", "--older-than", "0s", "--yes"]).ok();
    assert_eq!(world.look(&["show", &heard]).code, Some(125));
    assert_eq!(world.show(&unheard)["state"], "exited");
}

#[test]
fn a_daemon_that_is_asked_to_stop_leaves_its_tasks_running() {
    let world = World::new();
    let go = world.fifo("go");
    let id = world.sh(&format!("read x < {}; exit 21", go.word()));
    let daemon = world.daemon().expect("a daemon");
    world.rb(&["daemon", "stop"]).ok();
    machine::until_gone(daemon);
    assert_eq!(world.daemon(), None);
    assert!(world.keeper(&id).is_some());
    go.release(1);
    assert_eq!(world.end(&id)["exit_code"], 21);
}

#[test]
fn a_restart_keeps_every_record() {
    let world = World::new();
    let done = world.sh("echo hi; exit 3");
    let before = world.end(&done);
    let up = world.fifo("up");
    let live = world.sh(&format!("echo up > {}; exec sleep 8005", up.word()));
    up.line();
    let pid = world.show(&live)["pid"].clone();
    let old = world.daemon().expect("a daemon");
    world.rb(&["daemon", "restart"]).ok();
    assert_ne!(world.daemon().expect("a daemon"), old);
    assert_eq!(world.show(&done), before);
    let after = world.show(&live);
    assert_eq!((&after["state"], &after["pid"]), (&json!("running"), &pid));
    assert_eq!(world.kill(&live)["state"], "killed");
}

#[test]
fn start_wait_and_notice_are_fast() {
    let world = World::new();
    world.end(&world.sh("true"));
    let best = (0..10)
        .map(|_| {
            let started = Instant::now();
            assert_eq!(world.rb(&["run", "--wait", "--", "true"]).code, Some(0));
            started.elapsed()
        })
        .min();
    assert!(best.unwrap().as_millis() < 100, "{best:?}");
}

#[test]
fn one_bad_id_does_not_keep_the_others_from_being_stopped() {
    let world = World::new();
    let id = world.sh("sleep 8002");
    let said = world.rb(&["kill", "--json", "zzzz", &id]);
    assert_eq!(said.code, Some(125));
    let document = said.json();
    assert_eq!(document["faults"][0]["code"], "unknown_id");
    assert_eq!(document["tasks"][0]["state"], "killed");
    assert_eq!(world.show(&id)["state"], "killed");
}
