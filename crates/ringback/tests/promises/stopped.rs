//! Processes of ringback that somebody has stopped (SIGSTOP): nobody waits in silence, and nothing is lost by it.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Child;

use crate::support::{MINE, Pid, Said, World, about, finish, id_of, machine};

/// How long clients of these tests bear a silent daemon, milliseconds.
const PATIENCE_MS: &str = "200";

/// Runs an impatient client to its end.
#[track_caller]
fn impatient(world: &World, args: &[&str]) -> Said {
    finish(begin_impatient(world, args))
}

fn begin_impatient(world: &World, args: &[&str]) -> Child {
    let mut client = world.client(args);
    client.env("RINGBACK_ANSWER_WAIT_MS", PATIENCE_MS).spawn().unwrap()
}

#[test]
fn a_daemon_that_is_stopped_is_named_with_the_way_to_let_it_go_on() {
    let world = World::new();
    let id = world.run(&["--", "sleep", "8401"]);
    let daemon = world.daemon().expect("a daemon");
    let pid = daemon.as_raw_nonzero();
    let large = format!("LARGE={}", "x".repeat(100 << 10));
    machine::stop(daemon);
    for args in [
        &["ps"][..],
        &["show", &id],
        &["wait", &id],
        &["logs", "-f", &id],
        &["inbox", "--wait", "1h"],
        &["kill", &id],
        &["daemon", "status"],
        &["daemon", "restart"],
        &["run", "--", "true"],
        // More than a socket takes that nobody reads from.
        &[
            "run",
            "-e",
            &large,
            "-e",
            &large.replace("LARGE", "MORE"),
            "-e",
            &large.replace("LARGE", "MOST"),
            "--",
            "true",
        ],
    ] {
        let said = impatient(&world, args);
        assert_eq!(said.code, Some(125), "{args:.30?}: {said:?}");
        let wanted = format!("the daemon (pid {pid}) does not answer: it is stopped (state T)");
        assert!(said.err.contains(&wanted), "{args:.30?}: {said:?}");
        assert!(said.err.contains(&format!("`kill -CONT {pid}`")), "{args:.30?}: {said:?}");
        // What was sent whole is done when the daemon goes on.
        assert_eq!(said.err.contains("`run` may still be done"), args == ["run", "--", "true"], "{said:?}");
    }
    let refused = impatient(&world, &["ps", "--json"]).json();
    assert_eq!(refused["code"], "daemon_silent", "{refused:#}");
    let doctor = impatient(&world, &["doctor"]);
    assert_eq!(doctor.code, Some(1), "{doctor:?}");
    assert!(doctor.text().contains("FAIL  daemon") && doctor.text().contains("kill -CONT"), "{doctor:?}");
    machine::go_on(daemon);
    assert_eq!(world.kill(&id)["state"], "killed");
}

#[test]
fn a_daemon_that_is_stopped_is_named_also_when_its_socket_is_gone() {
    let world = World::new();
    world.run(&["--", "true"]);
    let daemon = world.daemon().expect("a daemon");
    machine::stop(daemon);
    fs::remove_file(world.home().join("daemon.sock")).unwrap();
    for act in ["status", "stop", "restart"] {
        let said = impatient(&world, &["daemon", act]);
        let pid = daemon.as_raw_nonzero();
        let wanted = format!("the daemon (pid {pid}) does not answer: it is stopped (state T)");
        assert!(said.code == Some(125) && said.err.contains(&wanted), "{act}: {said:?}");
        assert!(said.err.contains(&format!("`kill -CONT {pid}`")), "{act}: {said:?}");
    }
    machine::go_on(daemon);
    machine::until("it has made its socket again", || {
        world.client(&["daemon", "status"]).output().unwrap().status.success()
    });
}

#[test]
fn a_daemon_that_is_stopped_in_the_middle_of_a_long_wait_is_named_too() {
    let world = World::new();
    let id = world.run(&["--pty", "--", "sleep", "8404"]);
    let clients: [&[&str]; 9] = [
        &["wait", &id],
        &["wait", "--timeout", "1h", &id],
        &["wait", "--timeout", "3s", &id],
        &["inbox", "--wait", "1h"],
        &["logs", "-f", &id],
        &["run", "-f", "--", "sleep", "8404"],
        &["run", "--wait", "--", "sleep", "8404"],
        &["attach", &id],
        &["top", "--json"],
    ];
    let waiting = clients.map(|args| (args, begin_impatient(&world, args)));
    // They have looked after it more than once by the end of this, and it was there.
    assert_eq!(impatient(&world, &["wait", "--timeout", "1s", &id]).code, Some(124));
    let daemon = world.daemon().expect("a daemon");
    machine::stop(daemon);
    for (args, client) in waiting {
        let said = finish(client);
        let wanted = format!("the daemon (pid {}) does not answer: it is stopped", daemon.as_raw_nonzero());
        assert!(said.code == Some(125) && said.err.contains(&wanted), "{args:?}: {said:?}");
    }
    machine::go_on(daemon);
    world.kill(&id);
}

#[test]
fn who_holds_up_the_start_of_a_daemon_is_named() {
    let world = World::new();
    fs::create_dir_all(world.home()).unwrap();
    fs::set_permissions(world.home(), Permissions::from_mode(0o700)).unwrap();
    let lock = world.home().join("start.lock");
    let mut child =
        world.command(&[OsStr::new("flock"), lock.as_os_str(), "sleep".as_ref(), "8405".as_ref()]).spawn().unwrap();
    machine::until("the lock is held", || machine::holder_of(&lock).is_some());
    let holder = machine::holder_of(&lock).unwrap();
    let pid = holder.as_raw_nonzero();
    let check = |state: &str, hint: &str| {
        for args in [&["ps"][..], &["run", "--", "true"], &["daemon", "restart"]] {
            let said = impatient(&world, args);
            let wanted = format!("cannot start the daemon: `flock` (pid {pid}{state}) holds {}", lock.display());
            assert!(said.code == Some(125) && said.err.contains(&wanted), "{args:?}: {said:?}");
            assert!(said.err.contains(hint), "{args:?}: {said:?}");
        }
    };
    check("", &format!("`kill {pid}`"));
    machine::stop(holder);
    check(", stopped (state T)", &format!("`kill -CONT {pid}`"));
    assert_eq!(impatient(&world, &["ps", "--json"]).json()["code"], "daemon_start");
    assert_eq!(world.daemon(), None);
    // One who waits for his turn starts the daemon when it is his, however the other one left.
    let waiting = world.client(&["run", "--", "true"]).spawn().unwrap();
    for member in machine::with_environment(format!("RINGBACK_HOME={}", world.home().display()).as_bytes()) {
        if member != machine::pid_of(&waiting) {
            machine::kill(member);
        }
    }
    child.wait().unwrap();
    let id = id_of(&finish(waiting).ok());
    assert_eq!(world.end(&id)["exit_code"], 0);
}

#[test]
fn a_wait_lasts_as_long_as_it_should_however_short_the_patience_is() {
    let world = World::new();
    let id = world.run(&["--", "sleep", "8402"]);
    let said = impatient(&world, &["wait", "--timeout", "1s", &id]);
    assert_eq!(said.code, Some(124), "{said:?}");
    let said = impatient(&world, &["inbox", "--wait", "1s"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    world.kill(&id);
}

/// Stops the keeper of a task: as a child of the daemon, which may be told of it at once, or of one that an earlier daemon started.
fn stop_keeper(world: &World, id: &str, is_child: bool) {
    if !is_child {
        world.kill_daemon();
        world.show(id);
    }
    machine::begin_stop(world.keeper(id).expect("a keeper"));
}

#[test]
fn a_keeper_that_is_stopped_ends_its_task_when_the_time_is_over() {
    let world = World::new();
    for is_child in [true, false] {
        for (limit, reason) in [("--timeout", "wall"), ("--idle-timeout", "idle")] {
            let id = world.run(&[limit, "1500ms", "--", "sleep", "8404"]);
            machine::until("there is a keeper", || world.keeper(&id).is_some());
            stop_keeper(&world, &id, is_child);
            let task = world.end(&id);
            assert_eq!(
                (task["state"].as_str(), task["reason"].as_str()),
                (Some("timed_out"), Some(reason)),
                "{task:#}"
            );
        }
    }
}

#[test]
fn a_command_whose_keeper_is_stopped_may_write_more_than_a_pipe_holds() {
    let world = World::new();
    for is_child in [true, false] {
        let [up, go, wrote] = ["up", "go", "wrote"].map(|name| world.fifo(&format!("{name}{is_child}")));
        let id = world.sh(&format!(
            "echo up > {}; read x < {}; head -c 3000000 /dev/zero; echo wrote > {}; sleep 8405",
            up.word(),
            go.word(),
            wrote.word()
        ));
        up.line();
        stop_keeper(&world, &id, is_child);
        go.release(1);
        assert_eq!(wrote.line(), "wrote");
        assert_eq!(world.kill(&id)["output"]["bytes"], 3_000_000);
    }
}

#[test]
fn a_keeper_that_is_stopped_while_it_waits_for_the_tree_still_kills_it() {
    let world = World::new();
    for is_child in [true, false] {
        let [up, term] = ["up", "term"].map(|name| world.fifo(&format!("{name}{is_child}")));
        let id = world.sh(&format!(
            "trap 'echo term > {}' TERM; sleep 8406 & echo up > {}; wait; while :; do sleep 8406; done",
            term.word(),
            up.word()
        ));
        up.line();
        if !is_child {
            world.kill_daemon();
            world.show(&id);
        }
        let kill = world.onlooker(&["kill", "--grace", "2s", &id]).spawn().unwrap();
        assert_eq!(term.line(), "term");
        machine::begin_stop(world.keeper(&id).expect("a keeper"));
        assert_eq!(finish(kill).code, Some(0));
        let task = world.show(&id);
        assert_eq!((task["state"].as_str(), task["signal"].as_str()), (Some("killed"), Some("SIGKILL")), "{task:#}");
        assert_eq!(task["cleanup"]["verified_empty"], true, "{task:#}");
    }
}

#[test]
fn a_keeper_that_is_stopped_goes_on_when_its_command_has_ended() {
    for (world, _) in World::of_each_layer() {
        let [up, go] = ["up", "go"].map(|name| world.fifo(name));
        let id = world.sh(&format!("echo up > {}; read x < {}; echo late; exit 7", up.word(), go.word()));
        up.line();
        stop_keeper(&world, &id, true);
        go.release(1);
        let task = world.end(&id);
        assert_eq!((task["state"].as_str(), task["exit_code"].as_i64()), (Some("exited"), Some(7)), "{task:#}");
        assert_eq!(world.output(&id), b"late\n");
        assert_eq!(about(&world.inbox(MINE), &id).len(), 1);
    }
}

#[test]
fn a_keeper_that_is_stopped_before_it_has_said_anything_loses_no_end() {
    let world = World::new();
    let go = world.fifo("go");
    for _ in 0..12 {
        let id = world.sh(&format!("read x < {}; exit 7", go.word()));
        // The id is told before there is a keeper.
        machine::until("there is a keeper", || world.keeper(&id).is_some());
        machine::begin_stop(world.keeper(&id).expect("a keeper"));
        go.release(1);
        let task = world.end(&id);
        assert_eq!((task["state"].as_str(), task["exit_code"].as_i64()), (Some("exited"), Some(7)), "{task:#}");
    }
}

#[test]
fn a_new_daemon_finds_a_stopped_keeper_whose_command_has_ended_meanwhile() {
    let world = World::new();
    let [up, go] = ["up", "go"].map(|name| world.fifo(name));
    let id = world.sh(&format!("echo $$ > {}; read x < {}; exit 7", up.word(), go.word()));
    let main = Pid::from_raw(up.line().parse().unwrap()).unwrap();
    let keeper = world.keeper(&id).expect("a keeper");
    // A daemon that runs would have it go on.
    machine::stop(world.daemon().expect("a daemon"));
    machine::stop(keeper);
    world.kill_daemon();
    go.release(1);
    machine::until_gone(main);
    assert!(machine::is_stopped(keeper));
    let task = world.end(&id);
    assert_eq!((task["state"].as_str(), task["exit_code"].as_i64()), (Some("exited"), Some(7)), "{task:#}");
}

#[test]
fn a_stop_reaches_the_tree_of_a_keeper_that_is_stopped() {
    for (world, layer) in World::of_each_layer() {
        let up = world.fifo("up");
        let id =
            world.sh(&format!("trap '' TERM; setsid sleep 8403 & echo up > {}; sleep 8403; sleep 8403", up.word()));
        up.line();
        stop_keeper(&world, &id, true);
        world.look(&["kill", "--grace", "50ms", &id]).ok();
        let task = world.show(&id);
        assert_eq!((task["state"].as_str(), task["reason"].as_str()), (Some("killed"), Some("request")), "{task:#}");
        let receipt = &task["cleanup"];
        assert_eq!(
            (receipt["layer"].as_str(), receipt["verified_empty"].as_bool()),
            (Some(layer), Some(true)),
            "{task:#}"
        );
        assert!(world.tree(&id).is_empty());
    }
}
