//! Without cgroups: who hides from every mark when a keeper dies, and what a receipt may say of that.

use serde_json::Value;

use crate::support::{Pid, World, machine};

/// A home whose tasks have no cgroups.
fn world() -> World {
    let world = World::new();
    world.configure("cgroup = \"off\"\n");
    world
}

/// A task with one process that has left session and environment, and the number of that one.
fn with_hidden(world: &World, name: &str, tail: &str) -> (String, Pid) {
    let ready = world.fifo(name);
    let hidden = format!("env -i setsid sh -c 'echo $$ > {}; {tail}'", ready.word());
    let id = world.sh(&format!("({hidden} &); exec sleep 9201"));
    let hidden = Pid::from_raw(ready.line().trim().parse().unwrap()).unwrap();
    (id, hidden)
}

fn verdict(task: &Value) -> (&Value, &Value, &Value) {
    let receipt = &task["cleanup"];
    (&receipt["layer"], &receipt["verified_empty"], &receipt["unverified_reason"])
}

#[test]
fn what_a_dead_keeper_leaves_to_the_daemon_is_stopped_with_its_task_and_that_is_proved() {
    for tail in ["exec sleep 9202", "exec > /dev/null 2>&1; sleep 9203 & exec sleep 9204"] {
        let world = world();
        let (id, hidden) = with_hidden(&world, "ready", tail);
        machine::kill(world.keeper(&id).expect("a keeper"));
        let task = world.kill(&id);
        assert_eq!(verdict(&task), (&"marks".into(), &true.into(), &Value::Null), "{task:#}");
        assert!(!machine::is_alive(hidden), "{task:#}");
        let observed = task["cleanup"]["observed"].as_array().unwrap();
        assert!(observed.iter().any(|seen| seen["pid"] == hidden.as_raw_nonzero().get()), "{task:#}");
        // A new daemon does not know how it was proved, only that it was.
        world.kill_daemon();
        assert_eq!(world.show(&id)["cleanup"], task["cleanup"]);
    }
}

#[test]
fn when_the_daemon_died_too_nobody_can_say_that_all_are_gone() {
    let world = world();
    let (id, hidden) = with_hidden(&world, "ready", "exec > /dev/null 2>&1; exec sleep 9205");
    let keeper = world.keeper(&id).expect("a keeper");
    world.kill_daemon();
    machine::kill(keeper);
    let task = world.kill(&id);
    assert_eq!(verdict(&task), (&"marks".into(), &false.into(), &"keeper_died".into()), "{task:#}");
    let said = world.look(&["show", &id]).text();
    assert!(said.contains("cannot be proved"), "{said}");
    if machine::is_alive(hidden) {
        machine::kill(hidden);
    }
}

#[test]
fn of_two_trees_that_came_at_once_none_is_proved_empty_while_somebody_may_be_of_either() {
    let world = world();
    let (one, hidden) = with_hidden(&world, "one", "exec > /dev/null 2>&1; exec sleep 9206");
    machine::wait_until_older_than_new_ones(hidden);
    let (other, of_either) = with_hidden(&world, "other", "exec > /dev/null 2>&1; exec sleep 9207");
    let daemon = world.daemon().expect("a daemon");
    let keepers = [&one, &other].map(|id| world.keeper(id).expect("a keeper"));
    // Both are dead before the daemon looks.
    machine::while_stopped(daemon, || keepers.into_iter().for_each(machine::kill));
    let task = world.kill(&one);
    assert_eq!(verdict(&task), (&"marks".into(), &false.into(), &"keeper_died".into()), "{task:#}");
    assert!(!machine::is_alive(hidden), "it is older than the other task");
    assert!(machine::is_alive(of_either), "it may be the other task's");
    assert_eq!(world.show(&other)["state"], "running", "what bears a mark is told apart all the same");
    let task = world.kill(&other);
    assert_eq!(verdict(&task), (&"marks".into(), &false.into(), &"keeper_died".into()), "{task:#}");
    machine::kill(of_either);
}

#[test]
fn a_hidden_process_keeps_an_ended_task_open_and_is_a_leftover() {
    let world = world();
    let (ready, go) = (world.fifo("ready"), world.fifo("go"));
    let hidden = format!("env -i setsid sh -c 'echo $$ > {}; exec > /dev/null 2>&1; exec sleep 9208'", ready.word());
    let id = world.sh(&format!("({hidden} &); read x < {}; exit 4", go.word()));
    let hidden: i64 = ready.line().trim().parse().unwrap();
    machine::kill(world.keeper(&id).expect("a keeper"));
    go.release(1);
    let task = world.end(&id);
    assert_eq!((&task["state"], &task["exit_code"]), (&"exited".into(), &4.into()), "{task:#}");
    assert_eq!(task["leftovers"][0]["pid"], hidden, "{task:#}");
    let task = world.kill(&id);
    assert_eq!(verdict(&task), (&"marks".into(), &true.into(), &Value::Null), "{task:#}");
}
