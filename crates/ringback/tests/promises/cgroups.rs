//! Trees in cgroups: made with a task and gone with it, under names of their home, known to whoever holds the task next.

use std::path::{Path, PathBuf};

use ringback_sys::cgroup::Cgroups;

use crate::support::{Pid, World, finish, machine};

/// A home whose tasks get cgroups; nothing where there can be none.
fn world() -> Option<(World, Cgroups)> {
    let world = World::new();
    let cgroups = world.cgroups()?;
    Some((world, cgroups))
}

fn number(line: &str) -> Pid {
    Pid::from_raw(line.trim().parse().unwrap()).unwrap()
}

#[test]
fn a_cgroup_lives_as_long_as_its_task() {
    let Some((world, cgroups)) = world() else { return };
    let (ready, go) = (world.fifo("ready"), world.fifo("go"));
    let id = world.sh(&format!("echo up > {}; read x < {}", ready.word(), go.word()));
    ready.line();
    let cgroup = cgroups.of_task(&id);
    assert!(cgroup.is_dir());
    let keeper = world.keeper(&id).expect("a keeper");
    let outside = machine::proc_file(keeper, "cgroup");
    assert!(!outside.contains(&id), "the keeper is outside: {outside}");
    go.release(1);
    world.end(&id);
    machine::until_gone(keeper);
    assert!(!cgroup.exists());
    let status = world.look(&["daemon", "status", "--json"]).ok().json();
    assert_eq!((status["trees"].as_str(), status["trees_note"].as_str()), (Some("cgroup"), cgroups.parent().to_str()));
    let doctor = world.look(&["doctor", "--json"]).json();
    let line = doctor["checks"].as_array().unwrap().iter().find(|check| check["name"] == "trees").unwrap();
    assert!(line["text"].as_str().unwrap().contains("a cgroup of its own"), "{line:#}");
}

#[test]
fn the_config_switches_cgroups_off() {
    let Some((world, cgroups)) = world() else { return };
    world.configure("cgroup = \"off\"\n");
    let ready = world.fifo("ready");
    let id = world.sh(&format!("echo up > {}; sleep 9101", ready.word()));
    ready.line();
    assert!(!cgroups.of_task(&id).exists());
    assert_eq!(world.kill(&id)["cleanup"]["layer"], "subreaper");
    let status = world.look(&["daemon", "status", "--json"]).ok().json();
    assert_eq!(status["trees"], "subreaper");
}

#[test]
fn two_homes_have_cgroups_of_different_names_and_a_home_keeps_its_own() {
    let (Some((one, of_one)), Some((_other, of_other))) = (world(), world()) else { return };
    let id = "0123456789ab";
    assert_ne!(of_one.of_task(id), of_other.of_task(id));
    assert_eq!(of_one.of_task(id), one.cgroups().unwrap().of_task(id));
}

#[test]
fn who_hides_from_every_mark_is_found_whoever_died() {
    for daemon_dies in [false, true] {
        let Some((world, cgroups)) = world() else { return };
        let ready = world.fifo("ready");
        let hidden = format!("(env -i setsid sh -c 'echo $$ > {}; exec sleep 9102' > /dev/null 2>&1 &)", ready.word());
        let id = world.sh(&format!("{hidden}; sleep 9103; true"));
        let hidden = number(&ready.line());
        let keeper = world.keeper(&id).expect("a keeper");
        if daemon_dies {
            world.kill_daemon();
        }
        machine::kill(keeper);
        let task = world.kill(&id);
        let receipt = &task["cleanup"];
        assert_eq!((&receipt["layer"], &receipt["verified_empty"]), (&"cgroup".into(), &true.into()), "{task:#}");
        assert!(!machine::is_alive(hidden), "{task:#}");
        let observed = receipt["observed"].as_array().unwrap();
        assert!(observed.iter().any(|seen| seen["pid"] == hidden.as_raw_nonzero().get()), "{receipt:#}");
        if let Some(keeper) = world.keeper(&id) {
            machine::until_gone(keeper);
        }
        assert!(!cgroups.of_task(&id).exists());
    }
}

#[test]
fn a_new_daemon_removes_what_dead_keepers_left() {
    let Some((world, cgroups)) = world() else { return };
    let ready = world.fifo("ready");
    let id = world.sh(&format!("echo up > {}; sleep 9104", ready.word()));
    ready.line();
    world.kill_daemon();
    let left: PathBuf = cgroups.of_task("0123456789ab");
    std::fs::create_dir(&left).unwrap();
    world.show(&id);
    assert!(!left.exists() && cgroups.of_task(&id).is_dir());
    world.kill(&id);
    // With its folder goes what a keeper could not remove.
    let keeper = world.keeper(&id);
    keeper.into_iter().for_each(machine::until_gone);
    std::fs::create_dir(cgroups.of_task(&id)).unwrap();
    world.look(&["rm", &id]).ok();
    assert!(!cgroups.of_task(&id).exists());
}

#[test]
fn a_daemon_that_a_task_calls_into_being_leaves_the_cgroup_of_the_task() {
    let Some((world, _)) = world() else { return };
    let ready = world.fifo("ready");
    let inner = world.work("inner");
    let program = Path::new(env!("CARGO_BIN_EXE_ringback"));
    let script = format!(
        "export RINGBACK_HOME={}; {} run -q -- sleep 9105 > {}; sleep 9106",
        inner.display(),
        program.display(),
        ready.word()
    );
    let id = world.sh(&script);
    let within = ready.line();
    let daemon = machine::holder_of(&inner.join("daemon.lock")).expect("the inner daemon");
    let place = machine::proc_file(daemon, "cgroup");
    assert!(!place.contains(&id), "{place}");
    let task = world.kill(&id);
    assert_eq!(task["cleanup"]["verified_empty"], true, "{task:#}");
    assert!(machine::is_alive(daemon), "it is nobody's tree");
    assert_eq!(machine::standing_below(&inner).len(), 1, "nor is its keeper");
    let mut client = world.client(&["kill", within.trim()]);
    client.env("RINGBACK_HOME", &inner);
    let said = finish(client.spawn().unwrap());
    assert_eq!(said.code, Some(0), "{said:?}");
    machine::kill(daemon);
}
