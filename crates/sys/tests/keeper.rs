//! The keeper with real processes: a start happens once, an end is exact, and the output is whole.

mod support;

use ringback_sys::form::record::{Cause, Phase, Step, Witness};
use support::{Order, code, signal};

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
