//! Bad times: a full disk, a home that cannot be written, no descriptors, no processes. Nothing recorded is lost.

use std::io::{BufRead as _, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use ringback_host::wire::{Answer, Reply, Request, Until};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_remount, unmount};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use crate::support::{HANG, MINE, World, about, finish, has_ended, id_of, machine, stranger, wire};

/// A small file system of our own under a home; it can be filled, or made read-only.
struct SmallDisk {
    world: World,
    /// A private copy of the folder's name; unmounted when the test is over.
    home: std::path::PathBuf,
}

impl SmallDisk {
    /// Only root may mount; elsewhere there is no such disk, and the tests with it have nothing to say.
    fn new(size: &str) -> Option<Self> {
        let world = World::new();
        std::fs::create_dir(world.home()).unwrap();
        let options = std::ffi::CString::new(format!("size={size},mode=0700")).unwrap();
        let mounted = mount("none", world.home(), "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, &*options);
        let home = world.home().to_path_buf();
        mounted.is_ok().then_some(Self { world, home })
    }

    /// Writes until not a byte more fits.
    fn fill(&self) {
        let mut file = std::fs::File::create(self.home.join("filler")).unwrap();
        let block = [0u8; 4096];
        while file.write_all(&block).is_ok() {}
    }

    fn free(&self) {
        std::fs::remove_file(self.home.join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: the world is dropped after this and still has its processes there.
        let _ = unmount(&self.home, UnmountFlags::DETACH);
    }
}

#[test]
fn a_full_disk_breaks_neither_list_nor_stop_nor_inbox_and_loses_no_ending() {
    let Some(disk) = SmallDisk::new("24m") else { return };
    let world = &disk.world;
    let go = world.fifo("go");
    let up = world.fifo("up");
    let heard = world.sh("exit 3");
    world.end(&heard);
    let wait = format!("echo early; echo up > {}; read x < {}", up.word(), go.word());
    let ending: Vec<String> = (0..3).map(|n| world.sh(&format!("{wait}; exit {}", 10 + n))).collect();
    let stopped = world.sh(&format!("{wait}; sleep 8301"));
    up.lines(4);
    disk.fill();

    let refused = world.rb(&["run", "--", "true"]);
    if refused.code != Some(0) {
        assert_eq!(refused.code, Some(125), "{refused:?}");
        assert!(refused.err.contains("hint:"), "{refused:?}");
    }
    let listed = world.look(&["ps", "-a", "--all-sessions", "--json"]).ok().json();
    assert!(listed["tasks"].as_array().unwrap().len() >= 5);
    world.inbox(MINE);
    let killer = world.onlooker(&["kill", "--grace", "1s", &stopped]).spawn().unwrap();
    let killer = finish(killer);
    assert!(matches!(killer.code, Some(0 | 125)), "{killer:?}");
    assert_eq!(world.tree(&stopped), [], "a stop needs no disk");
    // These end while nothing can be written.
    let keepers: Vec<_> = ending.iter().filter_map(|id| world.keeper(id)).collect();
    go.release(3);
    drop(keepers);
    for id in &ending {
        world.look(&["wait", "--timeout", "2s", id]);
    }
    world.kill_daemon();
    disk.free();
    for (n, id) in ending.iter().enumerate() {
        let task = world.end(id);
        assert_eq!((&task["state"], &task["exit_code"]), (&"exited".into(), &(10 + n).into()), "{task:#}");
        assert!(world.output(id).starts_with(b"early\n"));
    }
    assert_eq!(world.end(&stopped)["state"], "killed");
    assert_eq!(world.show(&heard)["exit_code"], 3);
    let told = world.inbox(MINE);
    for id in ending.iter().chain([&stopped, &heard]) {
        assert_eq!(told.iter().filter(|notice| notice["task"] == **id).count(), 1);
    }
}

#[test]
fn a_stop_that_could_not_be_written_down_reaches_its_keeper_when_it_can_be() {
    let world = World::new();
    let up = world.fifo("up");
    let id = world.sh(&format!("echo up > {}; exec sleep 8311", up.word()));
    up.lines(1);
    let requests = world.folder(&id).join("requests");
    let aside = requests.with_extension("aside");
    std::fs::rename(&requests, &aside).unwrap();
    std::fs::create_dir(&requests).unwrap();
    // Who waits for it is told how things stand, and the stop is not given up.
    let said = world.look(&["kill", "--grace", "1s", &id]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.err.contains(&format!("{id} could not be reached; it is stopped as soon as it can be")), "{said:?}");
    assert!(said.err.contains("ringback doctor") && said.text().contains("running"), "{said:?}");
    assert!(
        std::fs::read_to_string(world.home().join("daemon.log")).unwrap().contains("write a request to the keeper of")
    );
    std::fs::remove_dir(&requests).unwrap();
    std::fs::rename(&aside, &requests).unwrap();
    assert_eq!(world.end(&id)["state"], "killed");
}

#[test]
fn a_flood_on_a_small_disk_leaves_everything_else_working() {
    let Some(disk) = SmallDisk::new("16m") else { return };
    let world = &disk.world;
    let (up, go) = (world.fifo("up"), world.fifo("go"));
    let flood = world.sh(&format!(
        "head -c 100000000 /dev/zero | tr '\\0' y; echo end; echo up > {}; read x < {}; exit 5",
        up.word(),
        go.word()
    ));
    up.lines(1);
    let shown = world.show(&flood);
    let gaps = shown["output"]["gaps"].as_array().unwrap();
    assert!(!gaps.is_empty() && gaps.iter().all(|gap| gap[2] == "no_space"), "{shown:#}");

    let small = world.sh("seq 1 1000; exit 3");
    assert_eq!(world.end(&small)["exit_code"], 3);
    let numbers: String = (1..=1000).map(|n| format!("{n}\n")).collect();
    assert!(world.output(&small) == numbers.as_bytes(), "whole");
    let stopped = world.sh("sleep 8304");
    assert_eq!(world.kill(&stopped)["state"], "killed");
    let told = world.inbox(MINE);
    assert_eq!(told.len(), 2);
    world.rb(&["ack", "--all"]).ok();
    world.kill_daemon();
    go.release(1);
    let ended = world.end(&flood);
    assert_eq!(ended["exit_code"], 5);
    assert_eq!(ended["output"]["bytes"], 100_000_004, "offsets count what was not kept");
    assert!(world.output(&flood).ends_with(b"end\n"));
    assert_eq!(world.inbox(MINE).len(), 1);
}

#[test]
fn what_must_be_recorded_has_a_reserve_on_a_disk_that_is_full() {
    let Some(disk) = SmallDisk::new("24m") else { return };
    let world = &disk.world;
    let (up, go) = (world.fifo("up"), world.fifo("go"));
    let wait = format!("echo up > {}; read x < {}", up.word(), go.word());
    let ending: Vec<String> = (0..20).map(|n| world.sh(&format!("{wait}; exit {n}"))).collect();
    // It does not wait for the word that is for the others: one of them would never have it.
    let stopped = world.sh(&format!("echo up > {}; sleep 8305", up.word()));
    up.lines(21);
    disk.fill();
    let refused = world.rb(&["run", "--json", "--", "true"]);
    assert_eq!((refused.code, &refused.json()["code"]), (Some(125), &"store_full".into()), "{refused:?}");
    assert!(refused.json()["hint"].as_str().unwrap().contains("free_space_floor"), "{refused:?}");
    go.release(20);
    for (n, id) in ending.iter().enumerate() {
        assert_eq!(world.look(&["wait", "--timeout", "20s", id]).code, Some(i32::try_from(n).unwrap()));
    }
    assert_eq!(world.kill(&stopped)["state"], "killed");
    let listed = world.look(&["ps", "-a", "--all-sessions", "--json"]).ok().json();
    assert!(listed["tasks"].as_array().unwrap().iter().all(has_ended), "{listed:#}");
    let told = world.inbox(MINE);
    assert_eq!(told.len(), 21);
    assert_eq!(told.last().unwrap()["seq"], 21);
    let rest = world.rb(&["inbox", "--after", "20", "--json"]).ok().json();
    assert_eq!(rest["notices"].as_array().unwrap().len(), 1, "they are acknowledged");
    world.kill_daemon();
    assert_eq!(world.inbox(MINE).len(), 1, "and stay so");
    disk.free();
    assert_eq!(world.end(&world.sh("exit 9"))["exit_code"], 9);
}

#[test]
fn a_read_only_home_is_told_and_nothing_of_it_is_lost() {
    let Some(disk) = SmallDisk::new("24m") else { return };
    let world = &disk.world;
    let id = world.sh("exit 3");
    world.end(&id);
    if let Some(keeper) = world.keeper(&id) {
        machine::until_gone(keeper);
    }
    world.kill_daemon();
    remount(&disk.home, MountFlags::RDONLY);
    for args in [&["run", "--", "true"][..], &["ps"]] {
        let said = world.rb(args);
        assert_eq!(said.code, Some(125), "{said:?}");
        assert!(said.err.starts_with("error: ") && said.err.contains("hint: "), "{said:?}");
    }
    remount(&disk.home, MountFlags::empty());
    assert_eq!(world.show(&id)["exit_code"], 3);
    assert_eq!(world.inbox(MINE).len(), 1);
}

fn remount(home: &Path, flags: MountFlags) {
    mount_remount(home, flags | MountFlags::NOSUID | MountFlags::NODEV, "").unwrap();
}

/// The daemon under a limit of bash's `ulimit`, once it listens.
fn limited_daemon(world: &World, limit: &str) -> Child {
    let shell = ["bash", "-c", &format!("ulimit {limit}; exec \"$@\""), "bash"];
    let mut command = world.client_below(&shell, &["daemon", "run"]);
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    assert!(machine::until_listening(&mut child));
    child
}

#[test]
fn a_file_size_limit_of_the_daemon_loses_no_ending() {
    let world = World::new();
    // In blocks of 1024 bytes: enough to start, not enough for the log of many commits.
    let mut daemon = limited_daemon(&world, "-f 300");
    let mut ids = Vec::new();
    for n in 0..40 {
        let said = world.rb(&["run", "-c", &format!("exit {n}")]);
        match said.code {
            Some(0) => ids.push((n, id_of(&said))),
            _ => assert!(said.err.contains("hint:"), "{said:?}"),
        }
    }
    let _ = daemon.kill();
    daemon.wait().unwrap();
    for (n, id) in &ids {
        assert_eq!(world.end(id)["exit_code"], *n, "a handle is a record");
    }
    assert_eq!(
        world.inbox(MINE).iter().filter(|notice| ids.iter().any(|(_, id)| notice["task"] == **id)).count(),
        ids.len()
    );
}

#[test]
fn where_nothing_can_be_written_every_verb_says_the_same_and_no_wait_hangs() {
    let world = World::new();
    // In blocks of 1024 bytes: the database reaches it soon.
    let mut daemon = limited_daemon(&world, "-f 160");
    let (up, go) = (world.fifo("up"), world.fifo("go"));
    let held: Vec<String> =
        (0..3).map(|n| world.sh(&format!("echo up > {}; read x < {}; exit 1{n}", up.word(), go.word()))).collect();
    up.lines(3);
    let binding = format!("\"{}\"", "x".repeat(8 << 10));
    let full = (0..100).any(|_| world.rb(&["run", "--binding", &binding, "--", "true"]).code != Some(0));
    assert!(full, "the limit binds");
    go.release(3);
    for (n, id) in held.iter().enumerate() {
        let said = world.look(&["wait", "--timeout", "30s", id]);
        assert_eq!(said.code, Some(i32::try_from(10 + n).unwrap()), "{said:?}");
        assert_eq!(world.show(id)["exit_code"], 10 + n);
    }
    let listed = world.look(&["ps", "-a", "-s", MINE, "--limit", "1000", "--json"]).ok().json();
    let listed = listed["tasks"].as_array().unwrap();
    let told = world.inbox(MINE);
    for id in &held {
        assert!(listed.iter().any(|task| task["id"] == **id && has_ended(task)), "{id} in {listed:#?}");
        let notice = about(&told, id);
        assert_eq!((notice.len(), &notice[0]["seq"]), (1, &0.into()), "{notice:#?}");
        assert!(notice[0]["text"].as_str().unwrap().contains("not recorded yet"));
    }
    let last = told.iter().filter_map(|notice| notice["seq"].as_u64()).max().unwrap().to_string();
    for args in [&["ack", held[0].as_str()][..], &["inbox", "--after", &last]] {
        let refused = world.rb(args);
        assert!(refused.code == Some(125) && refused.err.contains("cannot record it"), "{refused:?}");
    }
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    let told = world.inbox(MINE);
    for id in &held {
        let notice = about(&told, id);
        assert!(notice.len() == 1 && notice[0]["seq"].as_u64() > Some(0), "{notice:#?}");
    }
}

#[test]
fn a_daemon_with_few_descriptors_answers_everybody() {
    let world = World::new();
    let mut daemon = limited_daemon(&world, "-n 40");
    let sockets = || {
        let entries = std::fs::read_dir(format!("/proc/{}/fd", daemon.id())).unwrap().flatten();
        let links = entries.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
    };
    let without_clients = sockets();
    let go = world.fifo("go");
    let held = world.sh(&format!("read x < {}; exit 6", go.word()));
    // Else the client that asked for it takes one of the places, or none.
    machine::until("the client is let go", || sockets() == without_clients);
    let wait = Request::Wait { ids: vec![held.clone()], any: false, timeout_ms: None, until: Until::default() };
    let wait = wire::call(wait);
    let mut clients: Vec<UnixStream> = (0..50).map(|_| wire::connect(&world)).collect();
    for client in &mut clients {
        // One that is refused already reads no more.
        let mut bytes = Vec::new();
        ringback_host::wire::encode(&wait, &mut bytes).unwrap();
        let _ = client.write_all(&bytes);
    }
    // All but a few are answered at once; the few wait.
    let mut waiting = clients;
    let mut refused = 0;
    while waiting.len() > 3 {
        let mut looked: Vec<PollFd<'_>> = waiting.iter().map(|client| PollFd::new(client, PollFlags::IN)).collect();
        let patience = machine::left(std::time::Instant::now() + HANG).unwrap();
        assert!(poll(&mut looked, Some(&patience)).unwrap() > 0, "{} clients hang", waiting.len());
        let answered: Vec<bool> = looked.iter().map(|one| !one.revents().is_empty()).collect();
        drop(looked);
        let mut answered = answered.into_iter();
        waiting.retain_mut(|client| {
            let is_answered = answered.next().unwrap();
            if is_answered {
                let Some(Answer { reply: Reply::Fault(fault), .. }) = wire::hear(client) else { panic!("no refusal") };
                assert!(["too_many_clients", "too_many_waits"].contains(&fault.code.as_str()), "{fault:?}");
                assert!(fault.hint.unwrap().contains("ulimit -n"));
                refused += 1;
            }
            !is_answered
        });
    }
    assert_eq!(refused, 47);
    // Who only looks, starts or stops is served beside those that wait.
    assert!(world.look(&["ps", "-a", "--all-sessions"]).ok().text().contains(&held));
    let refused = world.look(&["wait", &held]);
    assert!(refused.code == Some(125) && refused.err.contains("hint: "), "{refused:?}");
    let many: Vec<String> = (0..8).map(|n| world.sh(&format!("exit {n}"))).collect();
    go.release(1);
    for client in &mut waiting {
        let Some(Answer { reply: Reply::Tasks { tasks, .. }, .. }) = wire::hear(client) else { panic!("no answer") };
        assert_eq!(tasks[0].exit_code, Some(6));
    }
    drop(waiting);
    for (n, id) in many.iter().enumerate() {
        assert_eq!(world.end(id)["exit_code"], n);
    }
    daemon.kill().unwrap();
    daemon.wait().unwrap();
}

#[test]
fn a_task_whose_record_cannot_be_read_just_now_is_not_lost() {
    let world = World::new();
    let go = world.fifo("go");
    let id = world.sh(&format!("read x < {}; exit 6", go.word()));
    let (daemon, keeper) = (world.daemon().unwrap(), world.keeper(&id).unwrap());
    let usual = getrlimit(Resource::Nofile);
    let none = Rlimit { current: Some(0), maximum: usual.maximum };
    let before = prlimit(Some(daemon), Resource::Nofile, none).unwrap();
    go.release(1);
    // Its parent has heard of its end, and could open nothing.
    let process = format!("/proc/{}", keeper.as_raw_nonzero());
    machine::until("the end of the keeper was taken in", || !Path::new(&process).exists());
    prlimit(Some(daemon), Resource::Nofile, before).unwrap();
    let task = world.end(&id);
    assert_eq!((&task["state"], &task["exit_code"]), (&"exited".into(), &6.into()), "{task:#}");
    assert_eq!(about(&world.inbox(MINE), &id).len(), 1);
}

/// Has reads of the records of these tasks fail in the daemon until it is let go, each one, or `:when=` strace says; nothing where
/// nobody can trace.
fn failing_reads(world: &World, ids: &[&str], when: &str) -> Option<Child> {
    let mut command = Command::new("strace");
    let inject = format!("inject=pread64:error=EIO{when}");
    command.args(["-e", "trace=pread64", "-e", &inject, "-o", "/dev/null", "-p"]);
    command.arg(world.daemon().unwrap().as_raw_nonzero().to_string());
    command.args(ids.iter().flat_map(|id| ["-P".into(), world.folder(id).join("state")]));
    let mut tracer = command.stderr(Stdio::piped()).spawn().ok()?;
    let mut said = String::new();
    BufReader::new(tracer.stderr.take().unwrap()).read_line(&mut said).unwrap();
    said.ends_with(" attached\n").then_some(tracer)
}

#[test]
fn a_stop_of_tasks_whose_records_cannot_be_read_is_answered_and_takes_place() {
    let world = World::new();
    let (up, go) = (world.fifo("up"), world.fifo("go"));
    let held = world.sh(&format!("echo up > {}; exec sleep 8312", up.word()));
    let quick = world.sh(&format!("echo up > {}; read x < {}; exit 6", up.word(), go.word()));
    up.lines(2);
    let main = Pid::from_raw(world.show(&held)["pid"].as_i64().unwrap().try_into().unwrap()).unwrap();
    let Some(mut tracer) = failing_reads(&world, &[&held, &quick], "") else { return };
    go.release(1);
    // What they did is not known, and is told to be so.
    let said = world.look(&["kill", "--grace", "1s", &held, &quick]);
    assert!(said.text().matches("LOST").count() == 2 && said.text().contains("no receipt says"), "{said:?}");
    assert_eq!(said.code, Some(1), "nobody has seen that they are gone: {said:?}");
    machine::until("the stop took place", || !machine::is_alive(main));
    machine::interrupt(machine::pid_of(&tracer));
    tracer.wait().unwrap();
    for id in [&held, &quick] {
        assert_eq!(world.end(id)["state"], "lost");
        assert_eq!(about(&world.inbox(MINE), id).len(), 1);
    }
}

#[test]
fn a_record_that_cannot_be_read_just_before_a_keeper_is_replaced_is_not_written_over() {
    let world = World::new();
    for when in 1..=2 {
        let (up, go) = (world.fifo(&format!("up.{when}")), world.fifo(&format!("go.{when}")));
        let id = world.sh(&format!("echo up > {}; read x < {}; exit 6", up.word(), go.word()));
        up.line();
        let (keeper, main) = (world.keeper(&id).expect("a keeper"), world.show(&id)["pid"].clone());
        let Some(mut tracer) = failing_reads(&world, &[&id], &format!(":when={when}")) else { return };
        // The daemon reads the record at the end of its keeper and, before it has it replaced, once more.
        machine::kill(keeper);
        machine::until("another keeper holds it", || world.keeper(&id).is_some());
        machine::interrupt(machine::pid_of(&tracer));
        tracer.wait().unwrap();
        let task = world.show(&id);
        assert_eq!((&task["state"], &task["pid"]), (&"running".into(), &main), "read {when}: {task:#}");
        go.release(1);
        let task = world.end(&id);
        assert_eq!((&task["state"], &task["exit_code"]), (&"exited".into(), &6.into()), "read {when}: {task:#}");
        assert_eq!(about(&world.inbox(MINE), &id).len(), 1);
    }
}

#[test]
fn a_machine_without_processes_to_give_fails_the_start_and_nothing_else() {
    let world = World::new();
    // `ulimit -u` binds all but root, so the daemon runs as somebody who has no other process: a uid of our own making.
    if !stranger::has_stranger() {
        return;
    }
    let uid = 1_900_000_000 + std::process::id() % 100_000;
    let word = stranger::hand_over(&world, uid).display().to_string();
    let run = |script: &str| {
        let mut command = world.command(&stranger::become_user(uid));
        command.args(["bash", "-c", script]);
        command
    };
    let mut daemon = run(&format!("ulimit -u 4; exec {word} daemon run")).spawn().unwrap();
    assert!(machine::until_listening(&mut daemon));
    let mut refused = 0;
    for _ in 0..6 {
        let said = finish(run(&format!("exec {word} run -- sleep 8303")).spawn().unwrap());
        if said.code == Some(0) {
            let id = id_of(&said);
            let shown = finish(run(&format!("exec {word} show --json {id}")).spawn().unwrap()).ok().json();
            refused += u32::from(shown["state"] == "start_failed");
            assert!(!has_ended(&shown) || shown["reason"] == "resources", "{shown:#}");
        } else {
            assert!(said.err.contains("hint:"), "{said:?}");
            refused += 1;
        }
    }
    assert!(machine::is_alive(machine::pid_of(&daemon)), "the daemon lives");
    assert!(refused > 0, "nothing was refused, so the limit did not bind");
    daemon.kill().unwrap();
    daemon.wait().unwrap();
}
