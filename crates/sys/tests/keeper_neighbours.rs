//! The keeper and those beside it: a daemon that is away, busy or part of the tree, strangers with its numbers, and its
//! own life inside another program.

mod support;

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::process::Command;

use ringback_sys::form::receipt::{Doubt, Layer};
use ringback_sys::form::record::{FILE_BYTES, Phase, Record, Who, Witness};
use ringback_sys::form::spec::Leftovers;
use ringback_sys::launch::KeeperImage;
use rustix::process::Signal;
use support::{Order, code, is_alive, kill, reap, signal};

const NONBLOCK: i32 = 0o4000;

#[test]
fn without_a_daemon_nothing_waits() {
    let mut task = Order::sh("exit 3").prepare();
    fs::remove_file(task.home().join("news")).unwrap();
    task.spawn(false);
    assert_eq!(task.keeper_status(), 0);
    assert_eq!((task.record().phase, code(&task.record())), (Phase::Closed, Some(3)));
}

#[test]
fn a_daemon_that_does_not_read_is_told_when_it_does() {
    let mut task = Order::sh("exit 3").prepare();
    let path = task.home().join("news");
    let mut news = OpenOptions::new().read(true).write(true).custom_flags(NONBLOCK).open(&path).unwrap();
    while news.write(&[0; 4096]).is_ok() {}
    task.spawn(false);
    let record = support::wait_until(|| Some(task.record()).filter(|record| record.phase == Phase::Closed));
    assert_eq!(code(&record), Some(3));
    assert!(is_alive(task.keeper_pid()), "the hint is not thrown away");
    let mut filling = vec![0; 1 << 20];
    let mut length = 0;
    support::wait_until(|| {
        length += news.read(&mut filling[length..]).unwrap_or(0);
        filling[..length].ends_with(&task.frame()).then_some(())
    });
    assert_eq!(task.keeper_status(), 0);
}

#[test]
fn a_daemon_born_in_a_task_belongs_to_nobodys_tree() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = folder.path().join("ringback");
    fs::copy("/bin/sleep", &daemon).unwrap();
    fs::set_permissions(&daemon, fs::Permissions::from_mode(0o700)).unwrap();
    let start = format!("RINGBACK_DAEMON=1 setsid {} 300 > /dev/null 2>&1 & echo $!", daemon.display());
    for (script, stopped) in [(format!("{start}; exit 4"), false), (format!("{start}; exec sleep 300"), true)] {
        let mut task = Order::sh(&script).with(|head| head.leftovers = Leftovers::Wait).start();
        let output = task.wait_output(|output| output.ends_with(b"\n"));
        let pid: i32 = String::from_utf8(output).unwrap().trim().parse().unwrap();
        support::wait_until(|| fs::read(format!("/proc/{pid}/comm")).ok().filter(|comm| comm == b"ringback\n"));
        if stopped {
            let (_, receipt, entries) = task.stop_and_wait(1000);
            assert!(receipt.verified_empty && receipt.observed == 1, "{entries:?}");
        }
        let record = task.wait_closed();
        assert_eq!((code(&record), signal(&record)), if stopped { (None, Some(15)) } else { (Some(4), None) });
        // Only when the keeper is gone the daemon becomes a child of this process.
        assert_eq!(task.keeper_status(), 0);
        assert!(is_alive(pid), "the daemon serves others too");
        kill(pid, Signal::KILL);
        reap(pid);
    }
}

#[test]
fn a_program_that_is_only_called_like_ours_is_of_the_tree() {
    let folder = tempfile::tempdir().unwrap();
    let tool = folder.path().join("ringback-tool");
    fs::copy("/bin/sleep", &tool).unwrap();
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o700)).unwrap();
    // With nothing in its environment, as a keeper has, and in a session of its own.
    let start = format!("env -i setsid {} 300 > /dev/null 2>&1 & echo $!", tool.display());
    for (script, observed) in [(format!("{start}; exit 4"), 1), (format!("{start}; exec sleep 300"), 2)] {
        let task = Order::sh(&script).start();
        let output = task.wait_output(|output| output.ends_with(b"\n"));
        let pid: i32 = String::from_utf8(output).unwrap().trim().parse().unwrap();
        support::wait_until(|| fs::read(format!("/proc/{pid}/comm")).ok().filter(|comm| comm == b"ringback-tool\n"));
        if observed == 1 {
            let record = support::wait_until(|| Some(task.record()).filter(|record| record.phase == Phase::Ended));
            assert_eq!((record.leftovers_count, record.leftovers[0].who.pid), (1, pid), "it is a leftover");
        }
        let (_, receipt, entries) = task.stop_and_wait(1000);
        assert!(receipt.verified_empty && receipt.observed == observed, "{entries:?}");
        assert!(!is_alive(pid), "it was spared for its name");
        task.wait_closed();
    }
}

#[test]
fn a_stranger_with_the_number_of_the_main_process_is_left_alone() {
    let mut stranger = Command::new("setsid").args(["sleep", "300"]).spawn().unwrap();
    let pid = stranger.id().cast_signed();
    support::wait_until(|| fs::read(format!("/proc/{pid}/comm")).ok().filter(|comm| comm == b"sleep\n"));
    let mut task = Order::new(&["true"]).prepare();
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap().replace('-', "");
    let mut boot = [0; 16];
    for (at, byte) in boot.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap();
    }
    let main = Who { pid, start_ticks: 1 };
    let record = Record { seq: 1, phase: Phase::Started, main, boot, ..Record::default() };
    let mut state = vec![0; FILE_BYTES];
    let at = usize::try_from(record.slot_offset()).unwrap();
    state[at..at + record.encode().len()].copy_from_slice(&record.encode());
    fs::write(task.folder.join("state"), &state).unwrap();
    task.stop(0);
    task.spawn(true);
    let record = task.wait_closed();
    assert_eq!((record.witness, record.has_receipt), (Witness::None, true));
    let (receipt, entries) = task.receipt();
    assert_eq!((receipt.layer, receipt.observed), (Layer::Marks, 0), "{entries:?}");
    assert_eq!(receipt.doubt, Doubt::KeeperDied, "{receipt:?}");
    assert!(stranger.try_wait().unwrap().is_none(), "the stranger is dead");
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

#[test]
fn a_task_of_another_boot_is_not_taken_over() {
    let mut task = Order::new(&["true"]).prepare();
    let main = Who { pid: 1, start_ticks: 1 };
    let record = Record { seq: 1, phase: Phase::Started, main, boot: [7; 16], ..Record::default() };
    task.write_at("state", &record.encode(), record.slot_offset());
    task.spawn(true);
    assert_eq!(task.keeper_status(), 3 << 8);
    assert_eq!(task.record(), record);
}

#[test]
fn a_task_may_kill_its_keeper_and_is_kept_all_the_same() {
    let mut task = Order::shell("bash", "kill -9 $PPID; echo still here; exit 3").prepare();
    task.spawn(false);
    assert_eq!(task.keeper_status(), 9);
    task.take_over();
    let record = task.wait_closed();
    assert_eq!((code(&record), task.text().as_str()), (Some(3), "still here\n"));
}

#[test]
fn removed_pipes_and_folders_break_nothing() {
    let task =
        Order::sh("echo before; read _; exec 1>&- 2>&-; sleep 0.1; exit 2").with(|head| head.stdin = true).start();
    task.wait_output(|output| output == b"before\n");
    fs::remove_file(task.folder.join("io")).unwrap();
    fs::write(task.folder.join("stdin"), "\n").unwrap();
    assert_eq!(code(&task.wait_closed()), Some(2));

    let mut task = Order::sh("echo before; read _; exit 2").with(|head| head.stdin = true).start();
    task.wait_output(|output| output == b"before\n");
    let stdin = OpenOptions::new().write(true).open(task.folder.join("stdin")).unwrap();
    fs::remove_dir_all(&task.folder).unwrap();
    (&stdin).write_all(b"\n").unwrap();
    assert_eq!(task.keeper_status(), 0);
}

#[test]
fn the_same_keeper_works_inside_a_program() {
    let tests = std::env::current_exe().unwrap();
    let program = tests.ancestors().nth(2).unwrap().join("examples/keeper");
    if !program.exists() {
        // `cargo test` builds examples, `cargo test --test NAME` does not.
        let profile = if cfg!(debug_assertions) { "dev" } else { "release" };
        let build = ["build", "--quiet", "--example", "keeper", "--profile", profile];
        assert!(Command::new(env!("CARGO")).args(build).status().unwrap().success());
    }
    let folder = tempfile::tempdir().unwrap();
    let image = KeeperImage::install(folder.path(), &fs::read(program).unwrap()).unwrap();
    let mut task = Order::sh("echo out; echo err >&2; exit 42").prepare();
    task.spawn_from(&image, false);
    let record = task.wait_closed();
    assert_eq!((code(&record), task.text().as_str()), (Some(42), "out\nerr\n"));

    let mut task = Order::sh("trap '' TERM; setsid sleep 300 & echo up; sleep 300; sleep 300").prepare();
    task.spawn_from(&image, false);
    task.wait_output(|output| output == b"up\n");
    task.kill_keeper();
    task.spawn_from(&image, true);
    let (_, receipt, _) = task.stop_and_wait(50);
    assert!(receipt.doubt == Doubt::KeeperDied && receipt.observed >= 3, "{receipt:?}");
    assert_eq!(signal(&task.wait_closed()), Some(9));
}
