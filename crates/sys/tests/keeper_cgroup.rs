//! Trees in a cgroup of their own: born in it, found by it whoever died, killed with it, and nothing is left of it.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its task has failed")]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use ringback_sys::form::receipt::{Ended, Layer};
use ringback_sys::form::record::{Cause, Phase};
use rustix::process::Signal;
use support::{Order, Task, bearers, cgroups_are_there, code, is_alive, kill, reap, signal};

/// The number that the task has written into a file.
fn number_in(path: &Path) -> i32 {
    support::wait_until(|| fs::read_to_string(path).ok()?.trim().parse().ok())
}

fn cgroup_of(pid: i32) -> String {
    fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap()
}

fn check_gone(mut task: Task) {
    assert_eq!(task.keeper_status(), 0);
    assert!(!task.cgroup.as_ref().unwrap().exists(), "the cgroup is still there");
}

#[test]
fn the_main_process_is_born_in_it_and_the_keeper_stays_outside() {
    if !cgroups_are_there() {
        return;
    }
    let task = Order::sh("cat /proc/self/cgroup; read _; exit 3").with(|head| head.stdin = true).in_cgroup().start();
    let name = task.cgroup.as_ref().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    task.wait_output(|output| String::from_utf8_lossy(output).contains(&format!("/{name}\n")));
    assert!(!cgroup_of(task.keeper_pid()).contains(&name));
    let noted = fs::read(task.folder.join("cgroup")).unwrap();
    assert_eq!(noted, task.cgroup.as_ref().unwrap().as_os_str().as_encoded_bytes());
    fs::write(task.folder.join("stdin"), "\n").unwrap();
    assert_eq!(code(&task.wait_closed()), Some(3));
    check_gone(task);
}

#[test]
fn a_program_that_is_not_there_leaves_no_cgroup() {
    if !cgroups_are_there() {
        return;
    }
    let mut task = Order::new(&["/no/such/program"]).in_cgroup().start();
    assert_eq!(task.wait_closed().phase, Phase::StartFailed);
    task.keeper_status();
    assert!(!task.cgroup.as_ref().unwrap().exists());
}

#[test]
fn where_none_can_be_had_the_tree_is_held_as_ever() {
    let mut task = Order::sh("trap '' TERM; setsid sleep 300 & echo up; sleep 300; sleep 300").prepare();
    task.cgroup = Some(task.home().join("no/such/place"));
    task.spawn(false);
    task.wait_output(|output| output == b"up\n");
    let (_, receipt, _) = task.stop_and_wait(50);
    assert!(receipt.verified_empty && receipt.layer == Layer::Subreaper, "{receipt:?}");
    assert!(!task.folder.join("cgroup").exists());
    task.wait_closed();
    // A folder that is no cgroup takes nobody in.
    let mut task = Order::sh("exit 3").prepare();
    task.cgroup = Some(task.home().join("folder"));
    task.spawn(false);
    assert_eq!(code(&task.wait_closed()), Some(3));
    task.keeper_status();
    assert!(!task.home().join("folder").exists());
}

#[test]
fn who_has_left_the_cgroup_is_found_by_the_walk() {
    if !cgroups_are_there() {
        return;
    }
    let outside = "/sys/fs/cgroup/unified/cgroup.procs";
    let outside = if Path::new(outside).exists() { outside } else { "/sys/fs/cgroup/cgroup.procs" };
    let script = format!(
        "trap '' TERM; (env -i setsid sh -c 'trap \"\" TERM; echo $$ > {outside}; echo $$ > PID; sleep 300; sleep 300' &); \
         echo up; sleep 300; sleep 300"
    );
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let task = Order::sh(&script.replace("PID", pid.to_str().unwrap())).in_cgroup().start();
    let left = number_in(&pid);
    task.wait_output(|output| output == b"up\n");
    assert!(!cgroup_of(left).contains(&task.id), "{}", cgroup_of(left));
    let (_, receipt, entries) = task.stop_and_wait(50);
    assert!(receipt.verified_empty && receipt.layer == Layer::Cgroup, "{receipt:?}");
    let killed = |entry: &&ringback_sys::form::receipt::Entry| entry.pid == left && entry.how == 9;
    assert_eq!(entries.iter().filter(killed).count(), 1, "{entries:?}");
    assert!(!is_alive(left));
    task.wait_closed();
    check_gone(task);
}

#[test]
fn after_the_death_of_its_keeper_the_cgroup_still_knows_everybody() {
    if !cgroups_are_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let script = format!(
        "trap '' TERM; (env -i setsid sh -c 'trap \"\" TERM; echo $$ > {}; exec > /dev/null 2>&1; sleep 300; sleep 300' &); \
         echo up; sleep 300; sleep 300",
        pid.display()
    );
    let mut task = Order::sh(&script).in_cgroup().start();
    let main = task.wait_started().main.pid;
    let hidden = number_in(&pid);
    task.wait_output(|output| output == b"up\n");
    task.kill_keeper();
    task.take_over();
    let waiter = std::thread::spawn(move || [main, hidden].map(reap));
    let (_, receipt, entries) = task.stop_and_wait(50);
    assert_eq!(waiter.join().unwrap(), [9, 9]);
    assert!(receipt.verified_empty && receipt.layer == Layer::Cgroup && receipt.survivors == 0, "{receipt:?}");
    assert!(entries.iter().any(|entry| entry.pid == hidden && entry.ended != Ended::Alive), "{entries:?}");
    let record = task.wait_closed();
    assert_eq!((record.cause, signal(&record)), (Cause::Request, Some(9)), "{record:?}");
    check_gone(task);
}

#[test]
fn cgroups_that_the_task_makes_in_its_own_go_with_it() {
    if !cgroups_are_there() {
        return;
    }
    let script = "trap '' TERM; own=/sys/fs/cgroup/$(test -d /sys/fs/cgroup/unified && echo unified)\
                  $(sed -n s/^0:://p /proc/self/cgroup); mkdir -p $own/a/b; \
                  sh -c \"echo \\$\\$ > $own/a/b/cgroup.procs; echo up; sleep 300; sleep 300\" & wait; wait";
    let mut task = Order::sh(script).in_cgroup().start();
    task.wait_output(|output| output == b"up\n");
    task.kill_keeper();
    task.take_over();
    let main = task.record().main.pid;
    let waiter = std::thread::spawn(move || reap(main));
    let (_, receipt, entries) = task.stop_and_wait(0);
    waiter.join().unwrap();
    assert!(receipt.verified_empty && receipt.observed >= 3, "{receipt:?} {entries:?}");
    task.wait_closed();
    check_gone(task);
}

#[test]
fn ringback_itself_in_the_cgroup_is_nobodys_tree() {
    if !cgroups_are_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let daemon = folder.path().join("ringback");
    fs::copy("/bin/sleep", &daemon).unwrap();
    fs::set_permissions(&daemon, fs::Permissions::from_mode(0o700)).unwrap();
    let start = format!("RINGBACK_DAEMON=1 setsid {} 300 > /dev/null 2>&1 & echo $!", daemon.display());
    let script = format!("trap '' TERM; {start}; setsid sleep 300 & sleep 300; sleep 300");
    let mut task = Order::sh(&script).in_cgroup().start();
    let output = task.wait_output(|output| output.ends_with(b"\n"));
    let pid: i32 = String::from_utf8(output).unwrap().trim().parse().unwrap();
    support::wait_until(|| fs::read(format!("/proc/{pid}/comm")).ok().filter(|comm| comm == b"ringback\n"));
    let (_, receipt, entries) = task.stop_and_wait(50);
    assert!(receipt.verified_empty && receipt.survivors == 0 && receipt.observed >= 3, "{receipt:?} {entries:?}");
    assert_eq!(task.wait_closed().phase, Phase::Closed);
    assert_eq!(task.keeper_status(), 0);
    assert!(is_alive(pid) && task.cgroup.as_ref().unwrap().exists());
    assert_eq!(bearers(&task.id), [pid]);
    kill(pid, Signal::KILL);
    reap(pid);
    fs::remove_dir(task.cgroup.as_ref().unwrap()).unwrap();
}
