//! P2 and P4: kill -9 of the daemon and of clients at any moment loses no outcome, no notice and no byte.

use std::path::Path;
use std::time::Duration;

use crate::support::oracle::{Chance, Died, Oracle, until_over};
use crate::support::{HANG, MINE, World, finish, machine};

#[test]
fn a_daemon_killed_at_random_under_two_hundred_live_tasks_loses_nothing() {
    let world = World::new();
    let mut chance = Chance::new();
    let mut oracle = Oracle::new(&world);
    for _ in 0..200 {
        oracle.ask(&world, true);
    }
    let kills = until_over(|round| {
        // Some end, some begin, and the daemon dies in the middle of it or in its adoption.
        oracle.go.release(chance.below(8) as usize);
        if round % 3 == 0 {
            oracle.ask(&world, true);
        } else {
            oracle.ask(&world, false);
        }
        chance.moment(Duration::from_millis(40));
        if let Some(daemon) = world.daemon() {
            machine::kill(daemon);
        }
    });
    assert!(kills >= 5, "only {kills} kills");
    oracle.go.release(oracle.asked as usize);
    let counts = oracle.check(&world, Died::Daemons);
    eprintln!("{kills} kills of the daemon, {counts:?}");
}

#[test]
fn an_exit_while_the_daemon_is_dead_is_known_after_any_number_of_crashes() {
    let world = World::new();
    let go = world.fifo("go");
    let up = world.fifo("up");
    let id = world.sh(&format!("echo up > {}; read x < {}; exit 9", up.word(), go.word()));
    up.line();
    let keeper = world.keeper(&id).expect("a keeper");
    world.kill_daemon();
    go.release(1);
    machine::until_gone(keeper);
    for _ in 0..2 {
        let task = world.show(&id);
        assert_eq!((&task["state"], &task["exit_code"]), (&"exited".into(), &9.into()), "{task:#}");
        assert_eq!(world.inbox(MINE).len(), 1);
        world.kill_daemon();
    }
}

#[test]
fn a_waiter_that_waits_over_the_death_of_the_daemon_gets_its_answer() {
    let world = World::new();
    let go = world.fifo("go");
    let id = world.sh(&format!("read x < {}; exit 14", go.word()));
    let waiter = world.onlooker(&["wait", &id]).spawn().unwrap();
    let killer = world.onlooker(&["inbox", "-s", MINE, "--wait", "60s", "--json"]).spawn().unwrap();
    for _ in 0..3 {
        world.show(&id);
        world.kill_daemon();
    }
    go.release(1);
    let said = finish(waiter);
    assert_eq!(said.code, Some(14), "{said:?}");
    assert_eq!(finish(killer).ok().json()["notices"].as_array().unwrap().len(), 1);
}

#[test]
fn clients_killed_at_random_start_nothing_twice_and_lose_no_notice() {
    let world = World::new();
    let mut chance = Chance::new();
    let mut oracle = Oracle::new(&world);
    oracle.ask(&world, false);
    for n in 0..60 {
        let file = oracle.folder.join(format!("starts.{}", 1000 + n));
        let script = format!("echo start >> {}; exit 1", file.display());
        let mut client = world.client(&["run", "-c", &script]).spawn().unwrap();
        chance.moment(Duration::from_millis(30));
        machine::kill(machine::pid_of(&client));
        client.wait().unwrap();
    }
    let listed = world.look(&["ps", "-a", "-s", MINE, "--json", "--limit", "1000"]).ok().json();
    for task in listed["tasks"].as_array().unwrap() {
        world.end(task["id"].as_str().unwrap());
    }
    for n in 0..60 {
        assert!(oracle.lines("starts", 1000 + n).len() <= 1);
    }
    oracle.check(&world, Died::Daemons);
}

/// The folder that is made ahead for the next task.
#[track_caller]
fn blank(world: &World) -> std::path::PathBuf {
    let deadline = std::time::Instant::now() + HANG;
    loop {
        // Each look gives the daemon a moment in which nobody asks.
        world.look(&["ps"]).ok();
        let is_empty = |spec: std::path::PathBuf| std::fs::metadata(spec).is_ok_and(|found| found.len() == 0);
        if let Some(folder) = world.folders().into_iter().find(|folder| is_empty(folder.join("spec"))) {
            return folder;
        }
        assert!(std::time::Instant::now() < deadline, "no folder is made ahead");
    }
}

#[test]
fn the_folder_of_the_next_task_is_made_ahead_and_taken_or_removed() {
    let world = World::new();
    let first = world.sh("true");
    let next = blank(&world);
    // A task with two pipes in a folder that was made for one.
    let id = world.run(&["--split", "-c", "echo out; echo err >&2"]);
    assert_eq!(world.folder(&id), next);
    assert_eq!(world.end(&id)["exit_code"], 0);
    assert_eq!(world.look(&["logs", "--raw", "--stderr", &id]).ok().text(), "err\n");
    assert!(!next.join("io").exists(), "a pipe that nobody uses stays");
    // What a killed daemon leaves is nobody's, and goes; what a task has stays.
    let left = blank(&world);
    world.kill_daemon();
    world.look(&["ps"]).ok();
    machine::until_removed(&left);
    assert_eq!(world.folders().len(), 2);
    world.end(&world.sh("true"));
    let left = blank(&world);
    world.look(&["daemon", "stop"]).ok();
    assert!(!left.exists(), "a daemon that stops leaves a folder");
    world.end(&first);
}

#[test]
fn a_folder_made_ahead_that_somebody_has_spoilt_is_not_used() {
    let world = World::new();
    world.end(&world.sh("true"));
    let precious = world.work("precious");
    for spoil in ["link a pipe", "a file for a pipe", "an output", "another spec", "link the folder", "no folder"] {
        std::fs::write(&precious, "precious\n").unwrap();
        let blank = blank(&world);
        match spoil {
            "link a pipe" => {
                std::fs::remove_file(blank.join("io")).unwrap();
                std::os::unix::fs::symlink(&precious, blank.join("io")).unwrap();
            }
            "a file for a pipe" => {
                std::fs::remove_file(blank.join("io")).unwrap();
                std::fs::write(blank.join("io"), "").unwrap();
            }
            "an output" => std::fs::write(blank.join("output"), "forged\n").unwrap(),
            "another spec" => {
                std::fs::remove_file(blank.join("spec")).unwrap();
                std::fs::write(blank.join("spec"), "").unwrap();
            }
            "link the folder" => {
                std::fs::remove_dir_all(&blank).unwrap();
                std::os::unix::fs::symlink(world.work(""), &blank).unwrap();
            }
            _ => std::fs::remove_dir_all(&blank).unwrap(),
        }
        let id = world.sh("echo hello");
        let task = world.end(&id);
        assert_eq!((&task["exit_code"], world.output(&id).as_slice()), (&0.into(), b"hello\n".as_slice()), "{spoil}");
        assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious\n", "{spoil}");
    }
}

#[test]
fn what_need_not_survive_a_power_cut_survives_whatever_is_killed() {
    let world = World::new();
    world.configure("durability = \"process\"\n");
    let mut ids = Vec::new();
    for code in 0..10 {
        ids.push(world.sh(&format!("exit {code}")));
        // At once: nothing had time to reach the disk.
        world.kill_daemon();
    }
    for (code, id) in ids.iter().enumerate() {
        assert_eq!(world.end(id)["exit_code"], code, "{id}");
    }
    assert_eq!(world.look(&["daemon", "status", "--json"]).json()["durability"], "process");
    world.kill_daemon();
    assert_eq!(world.inbox(MINE).len(), ids.len());
}

#[test]
fn a_daemon_waits_for_what_the_last_one_was_starting_when_it_was_killed() {
    let world = World::new();
    world.sh("true");
    world.kill_daemon();
    // As a child of the dead one does until it is executed, somebody holds the lock.
    let held = std::fs::File::open(world.home().join("daemon.lock")).unwrap();
    held.lock().unwrap();
    let mut command = world.client(&["daemon", "run"]);
    let mut daemon = command.spawn().unwrap();
    let pid = machine::pid_of(&daemon);
    machine::until("it looks at the lock", || machine::has_open(pid, &world.home().join("daemon.lock")));
    drop(held);
    assert!(machine::until_listening(&mut daemon));
    machine::kill(pid);
    daemon.wait().unwrap();
}

#[test]
fn a_run_right_after_the_daemon_was_killed_is_done_once() {
    let world = World::new();
    world.sh("true");
    let ids: Vec<String> = (0..60)
        .map(|at| {
            // Killed, and not yet gone: its socket still takes connections, and nobody will read what comes.
            if let Some(daemon) = world.daemon() {
                machine::begin_kill(daemon);
            }
            let starts = format!("echo start >> {}", world.work(format!("starts.{at}")).display());
            // By the front, and by the main program.
            if at % 2 == 0 { world.run(&["-c", &starts]) } else { world.run(&["-e", "A=b", "-c", &starts]) }
        })
        .collect();
    for (at, id) in ids.iter().enumerate() {
        assert_eq!(world.end(id)["state"], "exited");
        assert_eq!(std::fs::read_to_string(world.work(format!("starts.{at}"))).unwrap(), "start\n");
    }
}

#[test]
fn the_log_is_made_long_while_nobody_waits_and_only_where_that_shortens_a_commit() {
    let on_disk = || {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let home = dir.path().join("h");
        World::with_home(dir, home)
    };
    let world = on_disk();
    if ringback_sys::files::filesystem_is_tmpfs(Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap() {
        return;
    }
    world.end(&world.sh("true"));
    let log = |world: &World| std::fs::metadata(world.home().join("db.sqlite-wal")).unwrap().len();
    machine::until("the log is long", || log(&world) == ringback_host::store::LOG_BYTES);
    let other = on_disk();
    other.configure("durability = \"process\"\n");
    other.end(&other.sh("true"));
    other.look(&["daemon", "status"]).ok();
    assert!(log(&other) < ringback_host::store::LOG_BYTES / 2);
}

#[test]
fn a_task_whose_folder_is_gone_is_lost_and_not_started_again() {
    let world = World::new();
    let (up, go) = (world.fifo("up"), world.fifo("go"));
    let starts = world.work("starts");
    let id = world.sh(&format!("echo once >> {}; echo up > {}; read x < {}", starts.display(), up.word(), go.word()));
    up.line();
    let keeper = world.keeper(&id).expect("a keeper");
    world.kill_daemon();
    machine::kill(keeper);
    std::fs::rename(world.folder(&id), world.work("moved")).unwrap();
    let task = world.end(&id);
    assert_eq!((&task["state"], &task["exit_code"]), (&"lost".into(), &serde_json::Value::Null), "{task:#}");
    go.release(1);
    assert_eq!(std::fs::read_to_string(&starts).unwrap(), "once\n");
    assert_eq!(world.inbox(MINE).len(), 1);
}

#[test]
fn a_record_that_cannot_be_opened_starts_nothing_again() {
    let world = World::new();
    let (up, go) = (world.fifo("up"), world.fifo("go"));
    let starts = world.work("starts");
    let id = world.sh(&format!("echo once >> {}; echo up > {}; read x < {}", starts.display(), up.word(), go.word()));
    up.line();
    world.kill_daemon();
    // A link is never followed, so that this is an error and not a missing file.
    let state = world.folder(&id).join("state");
    std::fs::rename(&state, world.work("moved")).unwrap();
    std::os::unix::fs::symlink(world.work("moved"), &state).unwrap();
    let task = world.show(&id);
    assert_eq!((&task["state"], &task["reason"]), (&"lost".into(), &"monitor_died".into()), "{task:#}");
    go.release(1);
    world.look(&["daemon", "stop"]).ok();
    assert_eq!(std::fs::read_to_string(&starts).unwrap(), "once\n");
}
