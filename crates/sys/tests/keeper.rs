//! The keeper with real processes: a start happens once, an end is exact, and the output is whole.

mod support;

use std::os::unix::fs::PermissionsExt;

use ringback_sys::form::record::{Cause, Phase, Step, Witness};
use ringback_sys::form::request::{Ask, Request};
use support::{Order, code, reap, signal};

#[test]
fn a_command_runs_and_its_end_and_output_are_there() {
    let task = Order::sh("echo out; echo err >&2; exit 42").start();
    let record = task.wait_closed();
    assert_eq!((record.phase, record.witness, code(&record)), (Phase::Closed, Witness::Parent, Some(42)));
    assert_eq!(task.text(), "out\nerr\n");
    assert!(record.output_complete && record.output_bytes == 8);
}

#[test]
fn every_exit_code_and_signal_is_exact() {
    for wanted in 0..=255 {
        let record = Order::sh(&format!("exit {wanted}")).start().wait_closed();
        assert_eq!(code(&record), Some(wanted));
    }
    for number in (1..=64).filter(|n| ![17, 18, 19, 20, 21, 22, 23, 28, 32, 33].contains(n)) {
        let record = Order::sh(&format!("ulimit -c 0; kill -{number} $$; sleep 9")).start().wait_closed();
        assert_eq!(signal(&record), Some(number), "{record:?}");
    }
}

#[test]
fn a_start_that_fails_says_at_which_step() {
    let missing = Order::new(&["no-such-program-anywhere"]).start().wait_closed();
    assert_eq!((missing.phase, missing.step, missing.errno), (Phase::StartFailed, Step::Exec, 2));
    let denied = Order::new(&["/etc/passwd"]).start().wait_closed();
    assert_eq!((denied.phase, denied.step, denied.errno), (Phase::StartFailed, Step::Exec, 13));
    let mut order = Order::new(&["true"]);
    order.directory = "/no/such/directory".into();
    let record = order.start().wait_closed();
    assert_eq!((record.phase, record.step, record.errno), (Phase::StartFailed, Step::Cwd, 2));
}

#[test]
fn a_stop_reaches_who_went_away_and_leaves_a_receipt() {
    let task = Order::sh(
        "setsid sh -c '(sleep 300 & exec sleep 301) & exec sleep 302' & trap '' TERM; echo up; wait; wait; sleep 303",
    )
    .start();
    task.wait_output(|o| o == b"up\n");
    let (record, receipt, entries) = task.stop_and_wait(100);
    let last = task.wait_closed();
    assert_eq!((signal(&last), last.cause), (Some(9), Cause::Request), "{record:?}");
    assert!(receipt.verified_empty && receipt.survivors == 0 && receipt.observed >= 3, "{receipt:?} {entries:?}");
}

#[test]
fn a_held_pipe_delays_nothing_and_the_leftover_is_named() {
    let task = Order::sh("sleep 300 & echo hi").start();
    let record = task.wait_ended();
    assert_eq!((record.phase, code(&record), record.leftovers_count), (Phase::Ended, Some(0), 1));
    assert_eq!(&record.leftovers[0].comm[..6], b"sleep\0");
    assert!(record.ended_mono_ms - record.started_mono_ms < 1000);
    assert_eq!(task.text(), "hi\n");
    let (record, receipt, _) = task.stop_and_wait(1000);
    assert!(receipt.verified_empty && receipt.observed == 1);
    assert_eq!((record.cause, code(&record)), (Cause::None, Some(0)));
    assert_eq!(task.wait_closed().leftovers_count, 0);
}

/// The output of a command that ends well.
fn output(order: Order) -> String {
    let task = order.start();
    let record = task.wait_closed();
    assert_eq!(code(&record), Some(0), "{record:?} {}", task.text());
    task.text()
}

#[test]
fn a_task_has_its_three_files_and_no_other() {
    for (stdin, split) in [(false, false), (true, false), (false, true), (true, true)] {
        let order = Order::new(&["ls", "/proc/self/fd"]).with(|head| (head.stdin, head.split) = (stdin, split));
        // The fourth one is the directory that `ls` reads.
        assert_eq!(output(order), "0\n1\n2\n3\n");
    }
}

#[test]
fn signals_are_as_a_new_process_expects_them() {
    let status = output(Order::new(&["cat", "/proc/self/status"]));
    for set in ["SigBlk", "SigIgn", "SigCgt", "SigPnd", "ShdPnd"] {
        assert!(status.contains(&format!("{set}:\t0000000000000000\n")), "{status}");
    }
}

#[test]
fn the_main_process_leads_a_session_without_a_terminal() {
    let stat = output(Order::new(&["cat", "/proc/self/stat"]));
    let fields: Vec<_> = stat[stat.rfind(')').unwrap() + 2..].split(' ').collect();
    let pid = stat.split(' ').next().unwrap();
    assert_eq!((fields[2], fields[3], fields[4]), (pid, pid, "0"));
    let order = Order::sh("(read x < /dev/tty) 2>/dev/null || echo none");
    assert_eq!(output(order), "none\n");
}

#[test]
fn nothing_to_read_is_an_end_of_file() {
    let order =
        Order::sh("cat; read -r a; echo rc=$?; seq 2 | cat < /dev/stdin; cat /dev/stdin; cat /proc/self/fd/0; echo ok");
    assert_eq!(output(order), "rc=1\n1\n2\nok\n");
}

#[test]
fn what_is_sent_is_read_until_stdin_is_closed() {
    let task = Order::new(&["cat"]).with(|head| head.stdin = true).start();
    let started = task.wait_started();
    for word in ["one\n", "two\n"] {
        std::fs::write(task.folder.join("stdin"), word).unwrap();
        task.wait_output(|output| output.ends_with(word.as_bytes()));
    }
    task.ask(Request { ask: Ask::CloseStdin, ..Request::default() });
    let record = task.wait_closed();
    assert_eq!((code(&record), task.text().as_str(), record.requests_done), (Some(0), "one\ntwo\n", 1));
    assert_eq!(record.main, started.main);
}

#[test]
fn a_signal_goes_to_the_main_process_group() {
    let script = "trap 'echo usr1; exit 6' USR1; (trap 'echo child' USR1; echo up; sleep 300 & wait) & wait; wait";
    let task = Order::shell("bash", script).start();
    task.wait_output(|output| output == b"up\n");
    task.ask(Request { ask: Ask::Signal, signal: 10, ..Request::default() });
    let output = task.wait_output(|output| output.len() > 13);
    let output = String::from_utf8(output).unwrap();
    assert!(output.contains("usr1\n") && output.contains("child\n"), "{output}");
    assert_eq!(code(&task.wait_ended()), Some(6));
}

#[test]
fn directory_mask_niceness_and_limits_are_the_callers() {
    let order = Order::sh("pwd; umask; nice; ulimit -n; ulimit -f; echo \"$WORD\"").with(|head| {
        head.umask = 0o027;
        head.nice = 7;
        head.limits[7] = 333; // RLIMIT_NOFILE
        head.limits[1] = 0; // RLIMIT_FSIZE: not even the state record's own write may suffer from it
    });
    let mut order = order;
    order.directory = "/usr".into();
    order.variables.push("WORD=a b\tc".into());
    assert_eq!(output(order), "/usr\n0027\n7\n333\n0\na b\tc\n");
}

#[test]
fn the_program_is_looked_for_in_the_tasks_own_path() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str, mode: u32| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    write("one/tool", "not executable", 0o600);
    write("two/tool", "echo \"tool of $# words: $1\"", 0o700);
    write("one/locked", "", 0o600);
    let order = |arguments: &[&str]| {
        let mut order = Order::new(arguments);
        let path = folder.path().display();
        order.variables = vec![format!("PATH=/nowhere:{path}/one:{path}/two/tool:{path}/two")];
        order
    };
    // A text without `#!` is a script of the shell, as for execvp(3).
    assert_eq!(output(order(&["tool", "a b"])), "tool of 1 words: a b\n");
    let record = order(&["locked"]).start().wait_closed();
    assert_eq!((record.step, record.errno), (Step::Exec, 13), "denied is remembered over not found");
    let record = order(&["nothing"]).start().wait_closed();
    assert_eq!((record.step, record.errno), (Step::Exec, 2));
    let record = order(&[""]).start().wait_closed();
    assert_eq!((record.step, record.errno), (Step::Exec, 2));
}

#[test]
fn a_program_that_is_just_being_written_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fresh");
    std::fs::copy("/bin/true", &path).unwrap();
    let writer = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
    let busy = Order::new(&[path.to_str().unwrap()]).start().wait_closed();
    assert_eq!((busy.phase, busy.step, busy.errno), (Phase::StartFailed, Step::Exec, 26));
    drop(writer);
    assert_eq!(code(&Order::new(&[path.to_str().unwrap()]).start().wait_closed()), Some(0));
}

#[test]
fn a_spec_that_is_torn_is_not_started() {
    let order = Order::sh("echo no");
    let task = order.prepare();
    task.write_at("spec", b"?", 40);
    let task = task.started();
    let record = task.wait_closed();
    assert_eq!((record.phase, record.step), (Phase::StartFailed, Step::Spec));
}

#[test]
fn a_task_is_started_once_whoever_asks() {
    let folder = tempfile::tempdir().unwrap();
    let script = format!("echo ran >> {}/runs; exit 3", folder.path().display());
    let mut task = Order::sh(&script).prepare();
    let first: Vec<i32> = (0..8)
        .map(|_| {
            task.spawn(false);
            task.keeper_pid()
        })
        .collect();
    let record = task.wait_closed();
    for takeover in [false, true] {
        task.spawn(takeover);
        assert_eq!(task.keeper_status(), 3 << 8);
    }
    let statuses: Vec<i32> = first.into_iter().map(reap).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 0).count(), 1, "{statuses:?}");
    assert_eq!(code(&record), Some(3));
    assert_eq!(std::fs::read_to_string(folder.path().join("runs")).unwrap(), "ran\n");
}

#[test]
fn usage_is_measured() {
    let record = Order::sh("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done").start().wait_closed();
    assert!(record.user_us > 10_000 && record.max_rss_kb > 100, "{record:?}");
}

#[test]
fn a_keeper_is_small() {
    let task = Order::new(&["sleep", "300"]).start();
    task.wait_started();
    task.ask(Request { ask: Ask::Signal, signal: 18, ..Request::default() });
    task.wait_for("the request", |record| record.requests_done == 1);
    // The text is shared by all keepers; what each has for itself is anonymous.
    let smaps = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", task.keeper_pid())).unwrap();
    let own = smaps.lines().find_map(|line| line.strip_prefix("Anonymous:")).unwrap();
    let own_kb: u64 = own.trim().trim_end_matches(" kB").parse().unwrap();
    println!("a waiting keeper has {own_kb} KB of its own; the file has {} bytes", ringback_sys::image::bytes().len());
    assert!(own_kb <= 16, "{smaps}");
    assert!(ringback_sys::image::bytes().len() < 64 << 10);
}
