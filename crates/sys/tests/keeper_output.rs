//! The output: every byte, in order, whatever is done to the files, and what is missing has a name.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its task has failed")]

mod support;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use ringback_sys::form::index::{ENTRY_BYTES, Entry, Stream};
use ringback_sys::form::record::{Cause, Gap, GapWhy, Phase, Record};
use support::{Order, Task, code, signal};

/// A file of bytes without order: NULs, broken UTF-8, long lines.
fn noise(length: usize) -> (tempfile::NamedTempFile, Vec<u8>) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let bytes: Vec<u8> = (0..length)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state.to_le_bytes()[7]
        })
        .collect();
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), &bytes).unwrap();
    (file, bytes)
}

fn gaps(record: &Record) -> Vec<Gap> {
    record.gaps[..record.gaps_count as usize].to_vec()
}

#[test]
fn a_stream_opened_again_truncates_nothing() {
    let script = "echo first; echo second > /dev/stderr; echo third | tee /dev/stderr; echo fourth > /dev/stdout";
    for split in [false, true] {
        let task = Order::shell("bash", script).with(|head| head.split = split).start();
        let record = task.wait_closed();
        assert_eq!(code(&record), Some(0));
        let mut lines: Vec<_> = task.text().lines().map(str::to_owned).collect();
        lines.sort_unstable();
        assert_eq!(lines, ["first", "fourth", "second", "third", "third"]);
    }
}

#[test]
fn any_bytes_come_through_as_they_are() {
    let (file, bytes) = noise(3_000_000);
    let path = file.path().display();
    let task = Order::sh(&format!("cat {path}; head -c 1048576 /dev/zero | tr '\\0' x; printf 'no newline'")).start();
    let record = task.wait_closed();
    let expected = [bytes.as_slice(), &vec![b'x'; 1 << 20], b"no newline"].concat();
    assert!(task.output() == expected, "the bytes differ");
    assert_eq!((record.output_bytes, record.output_complete), (expected.len() as u64, true));
}

#[test]
fn a_large_output_is_whole() {
    let (file, bytes) = noise(8 << 20);
    let path = file.path().display();
    let task = Order::sh(&format!("for i in 1 2 3 4 5 6 7 8; do cat {path}; done")).start();
    task.wait_closed();
    let output = task.output();
    assert!(output.len() == 8 * bytes.len() && output.chunks(bytes.len()).all(|chunk| chunk == bytes));
}

/// The streams as output and index tell them.
fn streams(task: &Task) -> [Vec<u8>; 2] {
    let output = task.output();
    let index: Vec<Entry> = task.file("output.idx").chunks(ENTRY_BYTES).filter_map(Entry::decode).collect();
    let mut streams = [Vec::new(), Vec::new()];
    for (at, entry) in index.iter().enumerate() {
        let from = usize::try_from(entry.offset).unwrap();
        let to = index.get(at + 1).map_or(output.len(), |next| usize::try_from(next.offset).unwrap());
        match entry.stream {
            Stream::Stdout => streams[0].extend_from_slice(&output[from..to]),
            Stream::Stderr => streams[1].extend_from_slice(&output[from..to]),
            Stream::Merged => panic!("{entry:?} in a split task"),
        }
    }
    streams
}

#[test]
fn split_streams_are_told_apart_in_the_files_and_in_the_index() {
    let script = "seq 1 20000; seq 1 20000 >&2; echo END; echo END2 >&2; exit 3";
    let task = Order::sh(script).with(|head| head.split = true).start();
    assert_eq!(code(&task.wait_closed()), Some(3));
    let numbers: String = (1..=20000).map(|n| n.to_string() + "\n").collect();
    assert!(task.file("stdout") == (numbers.clone() + "END\n").into_bytes());
    assert!(task.file("stderr") == (numbers + "END2\n").into_bytes());
    assert!(streams(&task) == [task.file("stdout"), task.file("stderr")]);
}

#[test]
fn the_index_has_times_in_order() {
    let task = Order::sh("for i in 1 2 3; do echo $i; sleep 0.05; done").start();
    let record = task.wait_closed();
    let index: Vec<Entry> = task.file("output.idx").chunks(ENTRY_BYTES).filter_map(Entry::decode).collect();
    assert_eq!(index.iter().map(|entry| entry.offset).collect::<Vec<_>>(), [0, 2, 4]);
    let times: Vec<_> = index.iter().map(|entry| entry.wall_ms).collect();
    assert!(times.is_sorted() && times[0] >= record.started_wall_ms.cast_unsigned());
}

#[test]
fn who_writes_nothing_has_no_index_and_a_later_keeper_makes_it() {
    let silent = Order::sh("exit 3").start();
    assert_eq!(code(&silent.wait_closed()), Some(3));
    assert!(silent.folder.join("output").is_file() && !silent.folder.join("output.idx").exists());
    let folder = tempfile::tempdir().unwrap();
    let go = folder.path().join("go");
    ringback_sys::files::fifo(&go).unwrap();
    let mut task = Order::sh(&format!("read _ < {}; echo late; exit 4", go.display())).start();
    let main = task.wait_started().main.pid;
    task.kill_keeper();
    assert!(!task.folder.join("output.idx").exists());
    task.take_over();
    fs::write(&go, "\n").unwrap();
    task.wait_output(|output| output == b"late\n");
    let index: Vec<Entry> = task.file("output.idx").chunks(ENTRY_BYTES).filter_map(Entry::decode).collect();
    assert_eq!(index.iter().map(|entry| (entry.offset, entry.stream)).collect::<Vec<_>>(), [(0, Stream::Merged)]);
    assert_eq!(support::reap(main), 4 << 8);
    task.wait_closed();
}

#[test]
fn held_pipes_of_all_shapes_delay_nothing_and_lose_nothing() {
    let shapes = [
        ("sleep 60 & echo hi", "hi\n"),
        ("nohup sleep 60 > /dev/null 2>&1 < /dev/null & echo hi", "hi\n"),
        ("nohup sleep 60 & echo hi", "hi\n"),
        ("nohup sleep 60 | cat & echo hi", "hi\n"),
        ("setsid sleep 60 & echo hi", "hi\n"),
        ("setsid -f sleep 60; echo hi", "hi\n"),
        ("timeout 1 sh -c 'setsid sleep 60 & sleep 60'; echo rc=$?", "rc=124\n"),
        ("(exec >&-; sleep 60) & echo hi", "hi\n"),
        ("echo hi > >(sleep 0.03; cat)", "hi\n"),
    ];
    for (shape, expected) in shapes {
        let mut order = Order::shell("bash", shape);
        order.variables.push("HOME=/nowhere".into());
        let task = order.start();
        let leaves = shape.contains("60");
        let record = if leaves { task.wait_ended() } else { task.wait_closed() };
        let output = task.text().replace("nohup: ignoring input\n", "");
        assert_eq!((code(&record), output.as_str()), (Some(0), expected), "{shape}: {record:?}");
        // On a busy machine what ends a moment after its parent may be seen, and named.
        assert!(record.leftovers_count > 0 || !leaves, "{shape}: {record:?}");
        assert_eq!(record.phase, if leaves { Phase::Ended } else { Phase::Closed }, "{shape}");
    }
}

#[test]
fn a_noisy_leftover_is_heard_until_it_is_stopped() {
    let script = "(while :; do echo noise; sleep 0.02; done) & sleep 0.1; echo foreground-done";
    let task = Order::sh(script).start();
    let record = task.wait_ended();
    assert!(task.text().contains("foreground-done\n") && !record.output_complete);
    let before = task.output().len();
    task.wait_output(|output| output.len() > before + 60);
    let (_, receipt, _) = task.stop_and_wait(1000);
    assert!(receipt.verified_empty);
    let record = task.wait_closed();
    assert!(record.output_complete && record.output_bytes == task.output().len() as u64);
}

#[test]
fn two_hundred_short_tasks_at_once_leave_nobody_behind() {
    let tasks: Vec<Task> = (0..200).map(|_| Order::new(&["true"]).start()).collect();
    for task in &tasks {
        let record = task.wait_ended();
        assert_eq!((record.phase, code(&record), record.leftovers_count), (Phase::Closed, Some(0), 0));
    }
}

#[test]
fn past_the_cap_head_and_tail_stay_and_the_middle_is_named() {
    let cap = 256 << 10;
    let (file, bytes) = noise(3 << 20);
    let task = Order::new(&["cat", file.path().to_str().unwrap()]).with(|head| head.output_max = cap).start();
    let record = task.wait_closed();
    let [gap] = gaps(&record)[..] else { panic!("{record:?}") };
    assert_eq!((gap.why, record.output_bytes), (GapWhy::OutputLimit, 3 << 20));
    let output = task.output();
    let (from, to) = (usize::try_from(gap.from).unwrap(), usize::try_from(gap.to).unwrap());
    assert!(output.len() == bytes.len() && output[..from] == bytes[..from] && output[to..] == bytes[to..]);
    assert!(from as u64 == cap / 4 && (output.len() - to) as u64 >= cap / 2);
    assert!(output[from..to].iter().all(|byte| *byte == 0));
    let on_disk = fs::metadata(task.folder.join("output")).unwrap().blocks() * 512;
    assert!(on_disk <= cap + 16384, "{on_disk} bytes are on disk");
}

#[test]
fn a_split_task_has_its_gaps_in_every_file() {
    let cap = 128 << 10;
    let script = "i=0; while [ $i -lt 20000 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done";
    let task = Order::sh(script).with(|head| (head.split, head.output_max) = (true, cap)).start();
    let record = task.wait_closed();
    for (name, word, stream) in [("stdout", "out", 0), ("stderr", "err", 1)] {
        let oracle: String = (0..20000).map(|i| [word, " ", &i.to_string(), "\n"].concat()).collect();
        let there = task.file(name);
        let gap = record.stream_gaps[stream][0];
        let (from, to) = (usize::try_from(gap.from).unwrap(), usize::try_from(gap.to).unwrap());
        assert!(gap.why == GapWhy::OutputLimit && from < to && there.len() == oracle.len(), "{gap:?}");
        assert!(there[..from] == oracle.as_bytes()[..from] && there[to..] == oracle.as_bytes()[to..]);
    }
}

#[test]
fn recording_may_stop_at_the_cap_and_the_task_runs_on() {
    let cap = 100_000;
    for split in [false, true] {
        let script = "seq 1 100000; echo last; exit 4";
        let order = Order::sh(script).with(|head| {
            (head.output_max, head.stop_at_output_max, head.split) = (cap, true, split);
        });
        let task = order.start();
        let mut oracle: String = (1..=100_000).map(|n| n.to_string() + "\n").collect();
        oracle += "last\n";
        let record = task.wait_closed();
        assert_eq!(code(&record), Some(4));
        assert!(task.output() == oracle.as_bytes()[..100_000], "the first {cap} bytes");
        if split {
            assert!(task.file("stdout") == oracle.as_bytes()[..100_000], "the stream has the same");
        }
        let total = oracle.len() as u64;
        assert_eq!((record.output_bytes, record.gaps_count, record.output_complete), (total, 1, true));
        assert_eq!(record.gaps[0], Gap { from: cap, to: total, why: GapWhy::OutputLimit });
    }
}

#[test]
fn the_cap_may_also_end_the_task() {
    let order = Order::new(&["yes"]).with(|head| {
        head.output_max = 1 << 20;
        head.kill_at_output_max = true;
    });
    let record = order.start().wait_closed();
    assert_eq!((record.cause, signal(&record), record.has_receipt), (Cause::OutputLimit, Some(15), true));
}

/// A small file system of its own; nothing where we may not mount one.
struct Mount(tempfile::TempDir);

impl Mount {
    fn new(kind: &str, options: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount").args(["-t", kind, "-o", options, "none"]).arg(folder.path()).output();
        mounted.is_ok_and(|output| output.status.success()).then_some(Self(folder))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_stops_nobody_and_what_is_lost_is_named() {
    let Some(mount) = Mount::new("tmpfs", "size=512k") else { return };
    let filler = mount.path().join("filler");
    fs::write(&filler, vec![1; 200 << 10]).unwrap();
    let (file, bytes) = noise(1 << 20);
    let path = file.path().display();
    let mut order = Order::sh(&format!("cat {path}; echo; read _; echo after; exit 8")).with(|head| head.stdin = true);
    order.root = Some(mount.path().to_owned());
    let task = order.start();
    // The task is past its noise, so it reads: then there is room again.
    let stdin = fs::OpenOptions::new().write(true).open(task.folder.join("stdin")).unwrap();
    task.wait_for("a gap", |record| record.gaps_count > 0);
    fs::remove_file(&filler).unwrap();
    std::io::Write::write_all(&mut &stdin, b"\n").unwrap();
    let record = task.wait_closed();
    assert_eq!((code(&record), record.output_bytes), (Some(8), (1 << 20) + 1 + 6), "{record:?}");
    let gaps = gaps(&record);
    assert!(!gaps.is_empty() && gaps.iter().all(|gap| gap.why == GapWhy::NoSpace), "{gaps:?}");
    let output = task.output();
    let expected = [bytes.as_slice(), b"\nafter\n"].concat();
    let missing = |at: u64| gaps.iter().any(|gap| (gap.from..gap.to).contains(&at));
    let wrong = (0..)
        .zip(&expected)
        .find(|(at, byte)| !missing(*at) && output.get(usize::try_from(*at).unwrap_or(usize::MAX)) != Some(byte));
    assert_eq!(wrong, None, "{gaps:?}");
}

#[test]
fn a_flood_on_a_small_disk_makes_room_for_everybody_else() {
    let Some(mount) = Mount::new("tmpfs", "size=4m") else { return };
    let in_mount = |script: &str, split: bool| {
        let mut order = Order::sh(script).with(|head| {
            (head.stdin, head.split, head.free_min) = (true, split, 1 << 20);
        });
        order.root = Some(mount.path().to_owned());
        order.start()
    };
    let flood = in_mount("head -c 30000000 /dev/zero | tr '\\0' y; echo end; read _; exit 3", false);
    flood.wait_for("a gap", |record| record.gaps_count > 0);
    let small = in_mount("seq 1 2000; exit 4", true);
    let record = small.wait_closed();
    assert_eq!((code(&record), gaps(&record)), (Some(4), Vec::new()), "{record:?}");
    let numbers: String = (1..=2000).map(|n| n.to_string() + "\n").collect();
    assert!(small.text() == numbers && small.file("stdout") == numbers.as_bytes());

    fs::write(flood.folder.join("stdin"), "\n").unwrap();
    let record = flood.wait_closed();
    assert_eq!((code(&record), record.output_bytes), (Some(3), 30_000_004), "{record:?}");
    let [gap] = gaps(&record)[..] else { panic!("{record:?}") };
    assert!(gap.why == GapWhy::NoSpace && gap.from > 0 && gap.to < 30_000_000, "{gap:?}");
    let (output, from, to) = (flood.output(), usize::try_from(gap.from).unwrap(), usize::try_from(gap.to).unwrap());
    assert!(output[..from].iter().chain(&output[to..30_000_000]).all(|byte| *byte == b'y'));
    assert!(output.ends_with(b"end\n"));
    let disk = rustix::fs::statvfs(mount.path()).unwrap();
    assert!(disk.f_bavail * disk.f_frsize >= 512 << 10, "half of the floor is never touched");
}

#[test]
fn without_holes_the_cap_holds_all_the_same() {
    let Some(mount) = Mount::new("ramfs", "mode=700") else { return };
    let (file, bytes) = noise(2 << 20);
    let mut order = Order::new(&["cat", file.path().to_str().unwrap()]).with(|head| head.output_max = 256 << 10);
    order.root = Some(mount.path().to_owned());
    let task = order.start();
    let record = task.wait_closed();
    let [gap] = gaps(&record)[..] else { panic!("{record:?}") };
    let output = task.output();
    assert_eq!((gap.why, gap.from, gap.to), (GapWhy::OutputLimit, output.len() as u64, 2 << 20));
    assert!(output == bytes[..output.len()], "{gap:?}");
    assert!(output.len() <= (256 + 64) << 10, "{gap:?}");
}

#[test]
fn a_file_shortened_or_removed_by_somebody_breaks_nothing() {
    let script = "echo before; read _; sleep 0.02; echo after; exit 2";
    let task = Order::sh(script).with(|head| head.stdin = true).start();
    task.wait_output(|output| output == b"before\n");
    fs::OpenOptions::new().write(true).open(task.folder.join("output")).unwrap().set_len(3).unwrap();
    fs::write(task.folder.join("stdin"), "\n").unwrap();
    let record = task.wait_closed();
    assert_eq!((code(&record), record.output_bytes), (Some(2), 13));
    assert_eq!(gaps(&record), [Gap { from: 3, to: 7, why: GapWhy::Truncated }]);
    assert_eq!(task.output(), b"bef\0\0\0\0after\n");

    let task = Order::sh(script).with(|head| head.stdin = true).start();
    task.wait_output(|output| output == b"before\n");
    fs::remove_file(task.folder.join("output")).unwrap();
    fs::write(task.folder.join("stdin"), "\n").unwrap();
    let record = task.wait_closed();
    assert_eq!((code(&record), record.output_bytes), (Some(2), 13));
    assert_eq!(gaps(&record), [Gap { from: 0, to: 7, why: GapWhy::Removed }]);
    assert_eq!(task.output(), b"\0\0\0\0\0\0\0after\n");
}

#[test]
fn what_is_removed_or_replaced_at_the_end_is_named_and_never_written_into() {
    for (split, replaced) in [(false, false), (false, true), (true, false)] {
        let script = "echo before; read _; exit 2";
        let task = Order::sh(script).with(|head| (head.stdin, head.split) = (true, split)).start();
        task.wait_output(|output| output == b"before\n");
        for name in ["output", "stdout"].into_iter().take(1 + usize::from(split)) {
            let path = task.folder.join(name);
            fs::remove_file(&path).unwrap();
            if replaced {
                fs::write(path, "not ours").unwrap();
            }
        }
        fs::write(task.folder.join("stdin"), "\n").unwrap();
        let record = task.wait_closed();
        let gap = Gap { from: 0, to: 7, why: GapWhy::Removed };
        assert_eq!((code(&record), record.output_bytes, gaps(&record)), (Some(2), 7, vec![gap]));
        assert_eq!(record.stream_gaps[0][0], if split { gap } else { Gap::default() });
        assert_eq!(task.output(), if replaced { &b"not ours"[..] } else { b"" });
    }
}
