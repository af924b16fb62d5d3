//! A main process that is stopped: how long is known, it is not silent meanwhile, and who did not see it says nothing.

mod support;

use std::time::{Duration, Instant};

use ringback_sys::form::record::Cause;
use rustix::process::Signal;
use support::{Order, code, kill, signal};

/// Longer than the limits of silence here.
const PAUSE: Duration = Duration::from_millis(900);

fn pass(time: Duration) {
    let began = Instant::now();
    support::wait_until(|| (began.elapsed() >= time).then_some(()));
}

#[test]
fn a_pause_is_measured_and_is_no_silence() {
    // It goes on to the next pause only when the end of the last one was seen: the kernel tells nobody of one that a new
    // stop follows at once.
    let script = "kill -STOP $$; read _; kill -STOP $$; read _; exit 3";
    let order = Order::shell("bash", script).with(|head| (head.idle_ms, head.stdin) = (600, true));
    let task = order.start();
    let main = task.wait_started().main.pid;
    for pause in 1..=2 {
        support::wait_until(|| Some(task.record()).filter(|record| record.stopped_mono_ms != 0));
        pass(PAUSE);
        kill(main, Signal::CONT);
        let most = 900 * pause;
        support::wait_until(|| Some(task.record()).filter(|record| record.paused_ms >= most));
        std::fs::write(task.folder.join("stdin"), "\n").expect("a line");
    }
    let record = task.wait_closed();
    assert_eq!((code(&record), record.cause, record.stopped_mono_ms), (Some(3), Cause::None, 0), "{record:?}");
    assert!(record.pauses_seen, "{record:?}");
    let took = record.ended_mono_ms - record.started_mono_ms;
    assert!((1800..=took).contains(&record.paused_ms), "{record:?}");
}

#[test]
fn silence_goes_on_after_a_pause_where_it_was() {
    let script = "sleep 0.3; kill -STOP $$; while :; do :; done";
    let task = Order::shell("bash", script).with(|head| head.idle_ms = 1200).start();
    let main = task.wait_started().main.pid;
    support::wait_until(|| Some(task.record()).filter(|record| record.stopped_mono_ms != 0));
    pass(PAUSE);
    kill(main, Signal::CONT);
    let record = task.wait_closed();
    assert_eq!((record.cause, signal(&record)), (Cause::Idle, Some(15)), "{record:?}");
    let awake = record.ended_mono_ms - record.started_mono_ms - record.paused_ms;
    assert!((1200..3000).contains(&awake) && record.paused_ms >= 900, "{awake} ms awake: {record:?}");
}

#[test]
fn who_is_killed_while_stopped_was_paused_until_then() {
    let task = Order::sh("kill -STOP $$; exit 3").start();
    let main = task.wait_started().main.pid;
    support::wait_until(|| Some(task.record()).filter(|record| record.stopped_mono_ms != 0));
    pass(Duration::from_millis(200));
    kill(main, Signal::KILL);
    let record = task.wait_closed();
    assert_eq!((signal(&record), record.stopped_mono_ms), (Some(9), 0));
    assert!(record.paused_ms >= 200 && record.pauses_seen && !record.oom, "{record:?}");
}

#[test]
fn a_keeper_that_took_over_does_not_know_of_pauses() {
    let mut task = Order::sh("echo up; read _; exit 3").with(|head| head.stdin = true).start();
    task.wait_output(|output| output == b"up\n");
    assert!(task.record().pauses_seen);
    let writer = std::fs::OpenOptions::new().write(true).open(task.folder.join("stdin")).expect("the stdin");
    task.kill_keeper();
    task.take_over();
    std::io::Write::write_all(&mut &writer, b"\n").expect("a line");
    let record = task.wait_closed();
    assert_eq!((code(&record), record.pauses_seen), (Some(3), false), "{record:?}");
}
