//! A keeper that is killed: the next one has the same bytes, the same limits, and the exact end, or says that it is not known.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its task has failed")]

mod support;

use ringback_sys::form::receipt::{Doubt, Layer};
use ringback_sys::form::record::{Cause, Phase, Who, Witness};
use ringback_sys::form::request::{Ask, Request};
use rustix::process::Signal;
use support::{Order, code, is_alive, kill, reap, signal};

/// Writes numbered lines slowly enough that a keeper dies in the middle of them.
const TALK: &str = "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done; exit 7";

fn lines(word: &str) -> String {
    (0..20000).map(|i| [word, " ", &i.to_string(), "\n"].concat()).collect()
}

#[test]
fn nothing_of_the_output_is_lost_and_the_code_is_right() {
    for round in 1..=5 {
        let mut task = Order::sh(TALK).start();
        task.wait_output(|output| output.len() > round * 20_000);
        task.kill_keeper();
        task.take_over();
        let record = task.wait_closed();
        assert_eq!((code(&record), record.phase), (Some(7), Phase::Closed), "{record:?}");
        assert!(task.text() == lines("line"), "round {round}: the bytes differ");
        assert!(record.output_complete);
    }
}

#[test]
fn both_streams_of_a_split_task_come_through_many_deaths() {
    let script = "i=0; while [ $i -lt 20000 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done; exit 3";
    let mut task = Order::sh(script).with(|head| head.split = true).start();
    for round in 1..=8 {
        task.wait_output(|output| output.len() > round * 30_000);
        task.kill_keeper();
        task.take_over();
    }
    let record = task.wait_closed();
    assert_eq!(code(&record), Some(3));
    assert!(task.file("stdout") == lines("out").into_bytes(), "stdout differs");
    assert!(task.file("stderr") == lines("err").into_bytes(), "stderr differs");
    assert_eq!(task.output().len(), task.file("stdout").len() + task.file("stderr").len());
}

#[test]
fn what_was_written_while_nobody_kept_is_there() {
    let mut task = Order::sh("echo before; read _ < go; echo meanwhile; exit 9");
    let folder = tempfile::tempdir().unwrap();
    task.directory = folder.path().to_str().unwrap().into();
    std::process::Command::new("mkfifo").arg(folder.path().join("go")).status().unwrap();
    let mut task = task.start();
    task.wait_output(|output| output == b"before\n");
    let main = task.record().main.pid;
    task.kill_keeper();
    std::fs::write(folder.path().join("go"), "\n").unwrap();
    // Nobody keeps it, so only the daemon, which inherits the orphan, knows how it ended.
    let status = reap(main);
    task.ask(Request { ask: Ask::Witness, status, ..Request::default() });
    task.take_over();
    let record = task.wait_closed();
    assert_eq!((record.witness, code(&record)), (Witness::Daemon, Some(9)));
    assert_eq!(task.text(), "before\nmeanwhile\n");
}

#[test]
fn what_is_in_a_pipe_survives_a_daemon_that_is_killed_once_it_has_started_the_next_keeper() {
    // The next keeper has not opened anything yet; how far it is, is up to chance.
    for _ in 0..10 {
        let mut task = Order::sh("echo said; exit 9").crashing_at("keeper.before-splice").start();
        assert_eq!(task.keeper_status(), 9);
        let status = reap(task.record().main.pid);
        task.ask(Request { ask: Ask::Witness, status, ..Request::default() });
        task.take_over();
        task.let_go();
        let record = task.wait_closed();
        assert_eq!((code(&record), record.output_complete), (Some(9), true));
        assert_eq!(task.text(), "said\n");
    }
}

#[test]
fn a_witness_says_nothing_to_the_keeper_that_is_the_parent() {
    let task = Order::sh("echo up; read _; exit 3").with(|head| head.stdin = true).start();
    task.wait_output(|output| output == b"up\n");
    task.ask(Request { ask: Ask::Witness, status: 9, ..Request::default() });
    let record = task.wait_for("the request", |record| record.requests_done == 1);
    assert_eq!((record.phase, record.witness), (Phase::Started, Witness::None));
    std::fs::write(task.folder.join("stdin"), "\n").unwrap();
    let record = task.wait_closed();
    assert_eq!((record.witness, code(&record)), (Witness::Parent, Some(3)));
}

#[test]
fn a_witness_beside_a_stop_is_heard() {
    let mut task = Order::new(&["sleep", "300"]).start();
    let main = task.wait_started().main.pid;
    task.kill_keeper();
    kill(main, Signal::KILL);
    let status = reap(main);
    task.append(Request { cause: Cause::Request, ..Request::default() });
    task.append(Request { ask: Ask::Witness, status, ..Request::default() });
    task.take_over();
    let record = task.wait_closed();
    assert_eq!((record.witness, signal(&record), record.has_receipt), (Witness::Daemon, Some(9), true), "{record:?}");
    assert_eq!((task.receipt().0.verified_empty, task.receipt().0.doubt), (false, Doubt::KeeperDied));
}

#[test]
fn an_end_that_nobody_saw_is_not_made_up() {
    let mut task = Order::new(&["sleep", "300"]).start();
    let main = task.wait_started().main.pid;
    task.kill_keeper();
    kill(main, Signal::KILL);
    reap(main);
    task.take_over();
    let record = task.wait_closed();
    assert_eq!((record.witness, record.wait_status), (Witness::None, 0));
}

#[test]
fn an_end_after_the_takeover_is_read_from_the_zombie_or_the_handle() {
    for reaped_at_once in [false, true] {
        let mut task = Order::sh("read _; exit 77").with(|head| head.stdin = true).start();
        let main = task.wait_started().main.pid;
        let writer = std::fs::OpenOptions::new().write(true).open(task.folder.join("stdin")).unwrap();
        task.kill_keeper();
        task.take_over();
        task.wait_for("the new keeper", |record| record.keeper.pid == task.keeper_pid());
        let waiter = std::thread::spawn(move || if reaped_at_once { reap(main) } else { 77 << 8 });
        std::io::Write::write_all(&mut &writer, b"go\n").unwrap();
        let record = task.wait_closed();
        assert_eq!((code(&record), waiter.join().unwrap()), (Some(77), 77 << 8), "{record:?}");
        assert!(matches!(record.witness, Witness::Zombie | Witness::Pidfd));
    }
}

#[test]
fn a_stop_after_a_takeover_reaches_whoever_bears_the_marks() {
    let mut task = Order::sh(
        "setsid sh -c 'exec sleep 300' & (trap '' TERM; exec sleep 301) & env -i sh -c 'sleep 302; :' & echo $!; wait",
    )
    .start();
    task.wait_output(|output| output.ends_with(b"\n"));
    task.kill_keeper();
    task.take_over();
    let (_, receipt, entries) = task.stop_and_wait(200);
    // Nobody is left who bears the marks, and that is all that this keeper can say.
    assert_eq!((receipt.layer, receipt.verified_empty, receipt.doubt), (Layer::Marks, false, Doubt::KeeperDied));
    assert!(receipt.survivors == 0 && receipt.observed >= 4, "{receipt:?} {entries:?}");
    let record = task.wait_closed();
    assert_eq!((record.cause, signal(&record)), (Cause::Request, Some(15)), "{record:?}");
    assert!(entries.iter().all(|entry| !is_alive(entry.pid)));
}

#[test]
fn who_hides_from_every_mark_is_found_when_the_daemon_names_him() {
    let hidden = "env -i setsid sh -c 'echo $$; exec > /dev/null 2>&1; sleep 300 & exec sleep 301' &";
    let mut task = Order::sh(&format!("({hidden}); exec sleep 302")).start();
    let output = task.wait_output(|output| output.ends_with(b"\n"));
    let pid: i32 = std::str::from_utf8(&output).unwrap().trim().parse().unwrap();
    let child = support::wait_until(|| {
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        children.trim().parse::<i32>().ok()
    });
    task.kill_keeper();
    task.take_over();
    let record = task.wait_for("the new keeper", |record| record.keeper.pid == task.keeper_pid());
    // Another process that once had the number is not meant.
    let stranger = Who { pid: record.main.pid, start_ticks: 1 };
    let who = Who { pid, start_ticks: start_ticks(pid) };
    for who in [stranger, who] {
        task.ask(Request { ask: Ask::Adopt, who, ..Request::default() });
    }
    let (_, receipt, entries) = task.stop_and_wait(0);
    assert_eq!((receipt.observed, receipt.survivors, receipt.doubt), (3, 0, Doubt::KeeperDied), "{entries:?}");
    assert!(!is_alive(pid) && !is_alive(child), "{entries:?}");
    task.wait_closed();
}

#[test]
fn an_adopted_process_that_outlives_the_main_one_keeps_the_task_open() {
    let hidden = "env -i setsid sh -c 'echo $$; exec > /dev/null 2>&1; exec sleep 301' &";
    let mut task = Order::sh(&format!("({hidden}); read _; exit 5")).with(|head| head.stdin = true).start();
    let output = task.wait_output(|output| output.ends_with(b"\n"));
    let pid: i32 = std::str::from_utf8(&output).unwrap().trim().parse().unwrap();
    let stdin = std::fs::OpenOptions::new().write(true).open(task.folder.join("stdin")).unwrap();
    task.kill_keeper();
    let who = Who { pid, start_ticks: start_ticks(pid) };
    task.append(Request { ask: Ask::Adopt, who, ..Request::default() });
    task.take_over();
    std::io::Write::write_all(&mut &stdin, b"\n").unwrap();
    let record = task.wait_ended();
    assert_eq!((code(&record), record.phase, record.leftovers_count), (Some(5), Phase::Ended, 1), "{record:?}");
    assert_eq!(record.leftovers[0].who, who);
    kill(pid, Signal::KILL);
    assert_eq!(task.wait_closed().leftovers_count, 0);
}

/// Field 22 of its stat.
fn start_ticks(pid: i32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat[stat.rfind(')').unwrap()..].split(' ').nth(20).unwrap().parse().unwrap()
}

#[test]
fn limits_go_on_from_the_start_not_from_the_takeover() {
    let mut task = Order::new(&["sleep", "300"]).with(|head| head.wall_ms = 700).start();
    let started = task.wait_started().started_mono_ms;
    task.kill_keeper();
    task.take_over();
    let record = task.wait_closed();
    assert_eq!((record.cause, signal(&record)), (Cause::Wall, Some(15)));
    assert!(record.ended_mono_ms - started < 2000, "{record:?}");
}

#[test]
fn leftovers_of_an_ended_task_are_kept_on() {
    let mut task = Order::sh("(read _ < /dev/null; sleep 0.5; echo late) & echo main; exit 5").start();
    task.wait_ended();
    task.kill_keeper();
    task.take_over();
    let record = task.wait_closed();
    assert_eq!((code(&record), record.witness, record.leftovers_count), (Some(5), Witness::Parent, 0));
    assert_eq!(task.text(), "main\nlate\n");
}
