//! Whose a task is: session end, leases, keys and loose ends.

use std::process::{Command, Stdio};

use crate::support::{MINE, World, about, finish, machine};

/// A task of this session and lease that runs until it is stopped.
fn long(world: &World, session: &str, lease: &str) -> String {
    world.run(&["-s", session, "--lease", lease, "-c", "sleep 7901 & sleep 7902; true"])
}

#[test]
fn the_end_of_a_session_stops_its_awaited_and_service_tasks_and_nobody_elses() {
    let world = World::new();
    let awaited: Vec<String> = (0..5).map(|_| long(&world, "a", "awaited")).collect();
    let service = long(&world, "a", "service");
    let detached = long(&world, "a", "detached");
    let other = long(&world, "b", "awaited");
    world.rb(&["session", "end", "a"]).ok();
    for id in awaited.iter().chain([&service]) {
        assert_eq!(world.tree(id), [], "gone when the verb returns");
        let task = world.show(id);
        assert_eq!((&task["state"], &task["reason"]), (&"killed".into(), &"session_end".into()), "{task:#}");
        assert_eq!(task["cleanup"]["verified_empty"], true);
        assert_eq!(about(&world.inbox("a"), id).len(), 1);
    }
    for id in [&detached, &other] {
        assert_eq!(world.show(id)["state"], "running");
    }
    world.kill(&detached);
}

#[test]
fn a_session_end_reaches_leftovers_of_ended_tasks() {
    let world = World::new();
    let id = world.run(&["-s", "a", "-c", "setsid sleep 7903 & exit 0"]);
    world.end(&id);
    assert_ne!(world.tree(&id), []);
    world.rb(&["session", "end", "a"]).ok();
    assert_eq!(world.tree(&id), []);
    assert_eq!(world.show(&id)["state"], "exited", "what had ended is not rewritten");
}

#[test]
fn a_released_task_is_no_loose_end_and_still_ends_with_its_session() {
    let world = World::new();
    let id = long(&world, MINE, "awaited");
    let loose = |world: &World| world.rb(&["ps", "--json"]).ok().json()["tasks"].as_array().unwrap().len();
    assert_eq!(loose(&world), 1);
    world.rb(&["release", &id]).ok();
    let task = world.show(&id);
    assert_eq!((&task["lease"], &task["state"]), (&"service".into(), &"running".into()));
    world.rb(&["session", "end", MINE]).ok();
    assert_eq!(world.show(&id)["reason"], "session_end");
}

#[test]
fn ps_shows_exactly_the_loose_ends() {
    let world = World::new();
    let running = long(&world, MINE, "awaited");
    let unheard = world.sh("exit 1");
    let heard = world.sh("exit 2");
    let foreign = long(&world, "other", "awaited");
    world.end(&unheard);
    world.end(&heard);
    world.rb(&["wait", &heard]);
    let listed = world.rb(&["ps", "--json"]).ok().json();
    let ids = |list: &str| -> Vec<String> {
        listed[list].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!((ids("tasks"), ids("notices")), (vec![running.clone()], vec![unheard.clone()]));
    let all = world.rb(&["ps", "-a", "--all-sessions", "--json"]).ok().json();
    let all: Vec<String> =
        all["tasks"].as_array().unwrap().iter().map(|task| task["id"].as_str().unwrap().to_owned()).collect();
    for id in [&running, &unheard, &heard, &foreign] {
        assert!(all.contains(id));
    }
}

#[test]
fn a_session_ends_with_the_process_that_it_is_tied_to_also_while_no_daemon_looks() {
    let world = World::new();
    for daemon_dies in [false, true] {
        let mut agent = Command::new("sleep").arg("7904").stdin(Stdio::null()).spawn().unwrap();
        let session = if daemon_dies { "late" } else { "early" };
        let id = long(&world, session, "awaited");
        let pid = agent.id().to_string();
        world.rb(&["session", "watch", session, "--pid", &pid]).ok();
        if daemon_dies {
            world.kill_daemon();
        }
        machine::kill(machine::pid_of(&agent));
        agent.wait().unwrap();
        let task = world.end(&id);
        assert_eq!((&task["state"], &task["reason"]), (&"killed".into(), &"session_end".into()), "{task:#}");
        world.kill(&id);
        assert_eq!(world.tree(&id), []);
    }
}

#[test]
fn a_session_ends_when_its_lease_lapses() {
    let world = World::new();
    let id = long(&world, "leased", "awaited");
    let kept = long(&world, "kept", "awaited");
    world.rb(&["session", "lease", "leased", "--for", "300ms"]).ok();
    let task = world.end(&id);
    assert_eq!((&task["state"], &task["reason"]), (&"killed".into(), &"session_end".into()), "{task:#}");
    assert_eq!(world.show(&kept)["state"], "running");
}

#[test]
fn a_key_is_reused_replaced_or_rejected() {
    let world = World::new();
    let first = world.run(&["--key", "build", "-c", "sleep 7905"]);
    assert_eq!(world.run(&["--key", "build", "-c", "sleep 7905"]), first, "reuse is the default");
    assert_eq!(world.run(&["--key", "build", "--if-running", "reuse", "-c", "sleep 7905"]), first);
    let refused = world.rb(&["run", "--key", "build", "--if-running", "reject", "-c", "true"]);
    assert!(refused.code == Some(125) && refused.err.contains(&first), "{refused:?}");
    let elsewhere = world.run(&["-s", "other", "--key", "build", "-c", "sleep 7906"]);
    assert_ne!(elsewhere, first, "keys belong to their session");
    let marker = world.work("alive");
    let up = world.fifo("up");
    let script = format!(
        "trap 'sleep 0.3; rm {0}; exit' TERM; echo > {0}; echo up > {1}; sleep 7907 & wait",
        marker.display(),
        up.word()
    );
    let old = world.run(&["--key", "replace-me", "-c", &script]);
    up.line();
    let new = world.run(&[
        "--key",
        "replace-me",
        "--if-running",
        "replace",
        "-c",
        &format!("test ! -e {}", marker.display()),
    ]);
    assert_ne!(new, old);
    assert_eq!(world.end(&new)["exit_code"], 0, "it started when the old tree was gone");
    let task = world.show(&old);
    assert_eq!((&task["state"], &task["reason"]), (&"killed".into(), &"replaced".into()), "{task:#}");
    let after = world.run(&["--key", "replace-me", "-c", "exit 3"]);
    assert_ne!(after, new, "an ended task is not reused");
}

#[test]
fn kill_by_session_stops_all_of_one_session() {
    let world = World::new();
    let mine: Vec<String> = ["awaited", "service", "detached"].map(|lease| long(&world, "a", lease)).to_vec();
    let other = long(&world, "b", "awaited");
    world.look(&["kill", "-s", "a"]).ok();
    for id in &mine {
        assert_eq!(world.show(id)["state"], "killed");
        assert_eq!(world.tree(id), []);
    }
    assert_eq!(world.show(&other)["state"], "running");
}

#[test]
fn a_client_that_dies_takes_no_task_with_it() {
    let world = World::new();
    let go = world.fifo("go");
    let up = world.fifo("up");
    let script = format!("echo up > {}; read x < {}; echo end; exit 12", up.word(), go.word());
    let mut followed = world.client(&["run", "-f", "-c", &script]).spawn().unwrap();
    up.line();
    let listed = world.look(&["ps", "-s", MINE, "--json"]).ok().json();
    let id = listed["tasks"][0]["id"].as_str().unwrap().to_owned();
    let waiter = world.client(&["wait", &id]).spawn().unwrap();
    for client in [machine::pid_of(&followed), machine::pid_of(&waiter)] {
        machine::kill(client);
    }
    followed.wait().unwrap();
    finish(waiter);
    assert_eq!(world.show(&id)["state"], "running");
    go.release(1);
    assert_eq!(world.end(&id)["exit_code"], 12);
    assert_eq!(about(&world.inbox(MINE), &id).len(), 1, "the dead waiter heard nothing");
}
