//! Stops of what cannot be killed: each ends in time, names what is left, and leaves a receipt that is its own.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its task has failed")]

mod support;

use std::fs;

use ringback_sys::form::receipt::{Ended, Layer};
use ringback_sys::form::record::{Phase, Record};
use ringback_sys::launch::KeeperImage;
use rustix::process::Signal;
use support::{Order, Task, kill};

const EPERM: i32 = 1;

/// A task with one process that belongs to another user and never rests, below a keeper that may not kill it.
struct Stubborn {
    task: Task,
    keeper: KeeperImage,
    _folder: tempfile::TempDir,
}

impl Stubborn {
    /// Nothing without root, for then no other user can be had.
    fn start() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("not root: no process that refuses a signal");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().join("real");
        fs::copy(keeper_file(), &real).unwrap();
        // Root without the right to signal other users' processes (CAP_KILL, capabilities(7)).
        let script = format!("#!/bin/sh\nexec setpriv --bounding-set=-kill {} \"$@\"\n", real.display());
        let keeper = KeeperImage::install(folder.path(), script.as_bytes()).unwrap();
        let script = "setpriv --reuid 65534 --clear-groups sh -c 'echo $$; while :; do echo; done' & exec sleep 300";
        let mut task = Order::sh(script).prepare();
        task.spawn_from(&keeper, false);
        task.wait_output(|output| output.ends_with(b"\n\n"));
        Some(Self { task, keeper, _folder: folder })
    }

    fn wait_stopped(&self) -> Record {
        self.task.wait_for("the end of the stop", |record| record.stop_over)
    }

    /// Kills it as somebody may who is allowed to.
    fn end(self) -> Record {
        let text = self.task.output();
        let first = text.split(|&byte| byte == b'\n').next().unwrap();
        kill(std::str::from_utf8(first).unwrap().parse().unwrap(), Signal::KILL);
        self.task.wait_closed()
    }
}

fn keeper_file() -> std::path::PathBuf {
    match support::image() {
        KeeperImage::File(path) => path.clone(),
        other => panic!("not a file: {other:?}"),
    }
}

#[test]
fn a_survivor_that_pours_output_does_not_hold_up_the_stop() {
    let Some(stubborn) = Stubborn::start() else { return };
    stubborn.task.stop(0);
    let record = stubborn.wait_stopped();
    assert_eq!((record.has_receipt, record.leftovers_count), (true, 1), "{record:?}");
    let (receipt, entries) = stubborn.task.receipt();
    assert!(!receipt.verified_empty && receipt.survivors == 1 && receipt.duration_ms < 9000, "{receipt:?}");
    assert_eq!((entries[0].ended, entries[0].errno), (Ended::Alive, EPERM));
    assert_eq!(stubborn.end().phase, Phase::Closed);
}

#[test]
fn a_second_stop_has_a_receipt_of_its_own_and_is_taken_over() {
    let Some(mut stubborn) = Stubborn::start() else { return };
    stubborn.task.stop(0);
    assert!(stubborn.wait_stopped().has_receipt);
    stubborn.task.stop(1000);
    let record = stubborn.task.wait_for("the second stop", |record| record.requests_done == 2);
    assert!(!record.has_receipt && !record.stop_over && !stubborn.task.folder.join("receipt").exists(), "{record:?}");
    stubborn.task.kill_keeper();
    stubborn.task.spawn_from(&stubborn.keeper, true);
    assert!(stubborn.wait_stopped().has_receipt);
    let (receipt, entries) = stubborn.task.receipt();
    assert_eq!((receipt.layer, receipt.survivors), (Layer::Marks, 1), "{entries:?}");
    assert_eq!(stubborn.end().phase, Phase::Closed);
}

#[test]
fn a_stop_without_room_for_its_receipt_ends_visibly() {
    let Some(stubborn) = Stubborn::start() else { return };
    fs::create_dir(stubborn.task.folder.join("receipt.new")).unwrap();
    stubborn.task.stop(0);
    let record = stubborn.wait_stopped();
    assert_eq!((record.has_receipt, record.requests_done, record.leftovers_count), (false, 1, 1), "{record:?}");
    let record = stubborn.end();
    assert_eq!((record.phase, record.has_receipt), (Phase::Closed, false));
}
