//! What somebody does to the home under a living daemon: its socket taken away, the whole of it moved or removed.

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;

use ringback_host::wire::{Reply, Request, Until};

use crate::support::{MINE, World, about, finish, id_of, machine, wire};

/// A task that waits for its FIFO and ends with 3, and the daemon that serves it.
fn serving(world: &World) -> (String, crate::support::Fifo, machine::Pid) {
    let [up, go] = ["up", "go"].map(|name| world.fifo(name));
    let id = world.sh(&format!("echo up > {}; read x < {}; echo done; exit 3", up.word(), go.word()));
    up.line();
    (id, go, world.daemon().expect("a daemon"))
}

#[test]
fn a_socket_that_is_taken_away_is_made_again_by_the_same_daemon() {
    let world = World::new();
    let (id, go, daemon) = serving(&world);
    let socket = world.home().join("daemon.sock");
    let mut waiting = wire::connect(&world);
    wire::say(
        &mut waiting,
        &wire::call(Request::Wait { ids: vec![id.clone()], any: false, timeout_ms: None, until: Until::End }),
    );
    let taken: [&dyn Fn(); 3] = [
        &|| fs::remove_file(&socket).unwrap(),
        &|| fs::rename(&socket, world.home().join("elsewhere")).unwrap(),
        // Somebody else's, who has died.
        &|| {
            let other = world.home().join("other");
            drop(UnixListener::bind(&other).unwrap());
            fs::rename(&other, &socket).unwrap();
        },
    ];
    for take in taken {
        take();
        // This client may come before there is another one.
        assert_eq!(world.show(&id)["state"], "running");
        assert_eq!(world.daemon(), Some(daemon), "a second daemon");
    }
    go.release(1);
    assert_eq!(world.end(&id)["exit_code"], 3);
    let answer = wire::hear(&mut waiting).expect("who was connected is answered").reply;
    assert!(matches!(&answer, Reply::Tasks { tasks, .. } if tasks[0].exit_code == Some(3)), "{answer:?}");
    assert_eq!(about(&world.inbox(MINE), &id).len(), 1);
}

#[test]
fn what_has_the_name_of_the_socket_and_is_none_is_named_and_left_alone() {
    let world = World::new();
    let (id, go, daemon) = serving(&world);
    let socket = world.home().join("daemon.sock");
    fs::write(world.home().join("letter"), "precious").unwrap();
    fs::rename(world.home().join("letter"), &socket).unwrap();
    let said = world.rb(&["ps"]);
    assert_eq!(said.code, Some(125), "{said:?}");
    assert!(said.err.contains("daemon.sock is not a socket") && said.err.contains("move"), "{said:?}");
    assert_eq!(fs::read(&socket).unwrap(), b"precious");
    fs::remove_file(&socket).unwrap();
    machine::until_there(&socket);
    assert_eq!((world.show(&id)["state"].as_str(), world.daemon()), (Some("running"), Some(daemon)));
    go.release(1);
    assert_eq!(world.end(&id)["exit_code"], 3);
}

#[test]
fn a_link_to_the_socket_of_another_home_leads_nobody_there() {
    let (world, other) = (World::new(), World::new());
    let (id, go, daemon) = serving(&world);
    other.end(&other.sh("exit 4"));
    let socket = world.home().join("daemon.sock");
    fs::remove_file(&socket).unwrap();
    let refused = |world: &World| {
        for args in [&["run", "--", "true"][..], &["ps"], &["daemon", "status"], &["daemon", "restart"]] {
            let said = world.rb(args);
            assert_eq!(said.code, Some(125), "{args:?}: {said:?}");
            assert!(said.err.contains("daemon.sock is not a socket") && said.err.contains("move"), "{said:?}");
        }
    };
    while std::os::unix::fs::symlink(other.home().join("daemon.sock"), &socket).is_err() {
        // The daemon was faster.
        fs::remove_file(&socket).unwrap();
    }
    refused(&world);
    assert_eq!(other.rb(&["ps", "-a", "--json"]).ok().json()["tasks"].as_array().unwrap().len(), 1);
    fs::remove_file(&socket).unwrap();
    machine::until_there(&socket);
    assert_eq!(world.daemon(), Some(daemon));
    go.release(1);
    assert_eq!(world.end(&id)["exit_code"], 3);
    // Nor where no daemon runs.
    world.kill_daemon();
    fs::remove_file(&socket).unwrap();
    std::os::unix::fs::symlink(other.home().join("daemon.sock"), &socket).unwrap();
    refused(&world);
    assert_eq!(world.daemon(), None);
}

#[test]
fn a_daemon_that_is_stopped_and_has_lost_its_socket_is_still_named() {
    let world = World::new();
    let (id, go, daemon) = serving(&world);
    machine::stop(daemon);
    fs::remove_file(world.home().join("daemon.sock")).unwrap();
    let said = world.rb(&["ps"]);
    let pid = daemon.as_raw_nonzero();
    assert!(said.err.contains(&format!("the daemon (pid {pid}) does not answer: it is stopped")), "{said:?}");
    assert!(said.err.contains(&format!("kill -CONT {pid}")), "{said:?}");
    machine::go_on(daemon);
    go.release(1);
    assert_eq!((world.end(&id)["exit_code"].as_i64(), world.daemon()), (Some(3), Some(daemon)));
}

/// Moves what is at `from`, of which `old` has its home, to where `new` has its home, while a task runs; what the daemon does
/// in between is up to `meanwhile`.
fn check_move(old: &World, new: &World, from: &Path, to: &Path, meanwhile: impl FnOnce(machine::Pid, &str)) {
    let (id, go, daemon) = serving(old);
    let ended = old.sh("echo before; exit 4");
    old.end(&ended);
    let waiting = old.onlooker(&["wait", &id]).spawn().unwrap();
    machine::stop(daemon);
    fs::rename(from, to).unwrap();
    meanwhile(daemon, &id);
    machine::go_on(daemon);
    machine::until_gone(daemon);
    let waited = finish(waiting);
    assert_eq!(waited.code, Some(125), "{waited:?}");

    let task = new.show(&id);
    assert_eq!(task["state"], "running", "{task:#}");
    assert!(task["output"]["path"].as_str().unwrap().starts_with(new.home().to_str().unwrap()), "{task:#}");
    assert_ne!(new.daemon(), Some(daemon));
    go.release(1);
    assert_eq!(new.end(&id)["exit_code"], 3);
    assert_eq!((new.output(&id), new.output(&ended)), (b"done\n".to_vec(), b"before\n".to_vec()));
    for id in [&id, &ended] {
        assert_eq!(about(&new.inbox(MINE), id).len(), 1);
    }
    let next = new.sh("exit 5");
    assert_eq!(new.end(&next)["exit_code"], 5);

    // At the old place there is another home now, which knows nothing of that.
    let said = old.look(&["show", &id]);
    assert!(said.code == Some(125) && said.err.contains("no task has the id"), "{said:?}");
    let here = id_of(&old.rb(&["run", "--", "true"]).ok());
    assert_eq!(old.end(&here)["exit_code"], 0);
    assert_eq!(new.show(&id)["exit_code"], 3, "each has a daemon of its own");
    assert_ne!(old.daemon(), new.daemon());
}

#[test]
fn a_home_that_is_moved_takes_its_tasks_along() {
    let (old, new) = (World::new(), World::new());
    let (from, to) = (old.home().to_owned(), new.home().to_owned());
    check_move(&old, &new, &from, &to, |_, _| ());
}

#[test]
fn a_home_whose_folder_is_moved_takes_its_tasks_along() {
    let below = || {
        let dir = tempfile::Builder::new().prefix("rb").tempdir().unwrap();
        let home = dir.path().join("above/h");
        World::with_home(dir, home)
    };
    let (old, new) = (below(), below());
    let above = |world: &World| world.home().parent().unwrap().to_owned();
    check_move(&old, &new, &above(&old), &above(&new), |_, _| ());
}

#[test]
fn a_keeper_that_dies_while_the_home_is_moved_loses_nothing() {
    let (old, new) = (World::new(), World::new());
    let (id, go, daemon) = serving(&old);
    let keeper = old.keeper(&id).expect("a keeper");
    machine::stop(daemon);
    fs::rename(old.home(), new.home()).unwrap();
    machine::kill(keeper);
    machine::go_on(daemon);
    machine::until_gone(daemon);
    let task = new.show(&id);
    assert_eq!(task["state"], "running", "{task:#}");
    assert_eq!(new.kill(&id)["state"], "killed");
    drop(go);
}

#[test]
fn a_database_that_is_taken_away_is_named_and_nothing_is_promised_that_it_would_hold() {
    let world = World::new();
    let (id, go, daemon) = serving(&world);
    let db = world.home().join("db.sqlite");
    let log = world.home().join("db.sqlite-wal");
    for gone in [&db, &log] {
        let aside = gone.with_extension("aside");
        fs::rename(gone, &aside).unwrap();
        let refused = world.rb(&["run", "--json", "--", "true"]);
        assert_eq!((refused.code, refused.json()["code"].as_str()), (Some(125), Some("home_damaged")), "{refused:?}");
        let words = refused.json()["message"].as_str().unwrap().to_owned();
        assert!(words.contains(&format!("{} was removed or replaced", gone.display())), "{words}");
        assert_eq!(world.rb(&["ack", "--all"]).code, Some(125));
        // Put back, it is the one that is open.
        fs::rename(&aside, gone).unwrap();
        assert_eq!(world.end(&world.sh("exit 4"))["exit_code"], 4);
    }
    fs::remove_file(&db).unwrap();
    let refused = world.rb(&["run", "--", "true"]);
    assert!(refused.code == Some(125) && refused.err.contains("`ringback daemon restart`"), "{refused:?}");
    let named = format!("{} was removed or replaced", db.display());
    assert!(world.rb(&["daemon", "status"]).text().contains(&named));
    assert!(world.rb(&["doctor"]).text().contains(&named));
    // Another one in its place is not it.
    fs::write(&db, "").unwrap();
    assert_eq!(world.rb(&["run", "--", "true"]).code, Some(125));
    fs::remove_file(&db).unwrap();
    // What runs goes on, and its end is told.
    assert_eq!(world.show(&id)["state"], "running");
    go.release(1);
    assert_eq!(world.rb(&["wait", &id]).code, Some(3));
    assert_eq!(world.daemon(), Some(daemon));
    let left = world.folder(&id).join("output");
    world.rb(&["daemon", "restart"]).ok();
    assert_eq!(fs::read(left).unwrap(), b"done\n", "what nobody has recorded is not deleted");
    let next = world.run(&["-c", "exit 5"]);
    assert_eq!(world.end(&next)["exit_code"], 5);
    world.rb(&["daemon", "restart"]).ok();
    assert_eq!(world.show(&next)["exit_code"], 5);
}

#[test]
fn what_was_recorded_is_not_lost_with_the_log_of_the_database() {
    let world = World::new();
    let id = world.sh("exit 4");
    world.end(&id);
    fs::remove_file(world.home().join("db.sqlite-wal")).unwrap();
    assert_eq!(world.rb(&["run", "--", "true"]).code, Some(125));
    world.rb(&["daemon", "restart"]).ok();
    assert_eq!(world.show(&id)["exit_code"], 4);
    assert_eq!(world.end(&world.sh("exit 5"))["exit_code"], 5);
}

#[test]
fn a_keeper_program_that_is_taken_away_or_spoilt_is_put_back() {
    let world = World::new();
    let (id, go, daemon) = serving(&world);
    let bin = world.home().join("bin");
    let program = || fs::read_dir(&bin).unwrap().next().unwrap().unwrap().path().join("ringback-keeper");
    let spoilt: [&dyn Fn(); 4] = [
        &|| fs::remove_dir_all(&bin).unwrap(),
        &|| fs::remove_file(program()).unwrap(),
        &|| {
            fs::remove_file(program()).unwrap();
            fs::write(program(), "").unwrap();
        },
        &|| {
            fs::remove_file(program()).unwrap();
            ringback_sys::files::fifo(&program()).unwrap();
        },
    ];
    for spoil in spoilt {
        spoil();
        assert_eq!(world.end(&world.sh("exit 4"))["exit_code"], 4);
        assert!(program().is_file());
    }
    // One that dies is replaced, too.
    fs::remove_dir_all(&bin).unwrap();
    machine::kill(world.keeper(&id).expect("a keeper"));
    go.release(1);
    assert_eq!((world.end(&id)["exit_code"].as_i64(), world.daemon()), (Some(3), Some(daemon)));
}

#[test]
fn a_daemon_whose_home_is_removed_leaves() {
    let world = World::new();
    world.end(&world.sh("exit 4"));
    let daemon = world.daemon().expect("a daemon");
    // What is left of it may go while the daemon looks; nothing of it is made again.
    fs::remove_dir_all(world.home()).unwrap();
    machine::until_gone(daemon);
    assert!(!world.home().exists());
    assert_eq!(world.end(&world.sh("exit 6"))["exit_code"], 6);
}

#[test]
fn clients_of_a_home_that_is_removed_start_no_daemon_in_what_is_left() {
    for _ in 0..4 {
        let world = World::new();
        for _ in 0..3 {
            world.end(&world.sh("true"));
        }
        let id = world.sh("sleep 8601");
        let daemon = world.daemon().expect("a daemon");
        let before = sockets_of(daemon);
        let clients: [&[&str]; 4] =
            [&["wait", &id], &["logs", "-f", &id], &["inbox", "-s", "idle", "--wait", "1h"], &["top", "--json"]];
        let waiting = clients.map(|args| (args, world.client(args).spawn().unwrap()));
        machine::until("all are connected", || sockets_of(daemon) >= before + clients.len());
        let removed = world.command(&["rm", "-rf", world.home().to_str().unwrap()]).spawn().unwrap();
        finish(removed).ok();
        machine::until_gone(daemon);
        for (args, client) in waiting {
            let said = finish(client);
            assert_eq!(said.code, Some(125), "{args:?}: {said:?}");
            assert!(said.err.contains("it was moved or removed"), "{args:?}: {said:?}");
        }
        assert!(!world.home().exists());
    }
}

/// How many sockets this process has open.
fn sockets_of(process: machine::Pid) -> usize {
    let fds = fs::read_dir(format!("/proc/{}/fd", process.as_raw_nonzero())).unwrap();
    fds.flatten()
        .filter_map(|fd| fs::read_link(fd.path()).ok())
        .filter(|to| to.to_string_lossy().starts_with("socket:"))
        .count()
}
