//! Processes of ringback that somebody has stopped (SIGSTOP): nobody waits in silence, and nothing is lost by it.

use crate::support::{Said, World, finish, machine};

/// How long clients of these tests bear a silent daemon, milliseconds.
const PATIENCE_MS: &str = "200";

/// Runs an impatient client to its end.
#[track_caller]
fn impatient(world: &World, args: &[&str]) -> Said {
    let mut client = world.client(args);
    client.env("RINGBACK_ANSWER_WAIT_MS", PATIENCE_MS);
    finish(client.spawn().unwrap())
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
fn a_wait_lasts_as_long_as_it_should_however_short_the_patience_is() {
    let world = World::new();
    let id = world.run(&["--", "sleep", "8402"]);
    let said = impatient(&world, &["wait", "--timeout", "1s", &id]);
    assert_eq!(said.code, Some(124), "{said:?}");
    let said = impatient(&world, &["inbox", "--wait", "1s"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    world.kill(&id);
}
