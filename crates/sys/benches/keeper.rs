//! Figures of the keeper, for people to read: `cargo bench -p ringback-sys`, perhaps with the name of one.
#![expect(clippy::unwrap_used, reason = "a measurement that cannot set up its task has failed")]
#![expect(clippy::cast_precision_loss, reason = "figures for people")]

#[path = "../tests/support/mod.rs"]
mod support;

use std::fs::{self, File};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ringback_sys::form::receipt;
use ringback_sys::form::record::Phase;
use support::{Order, Task, code};

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    // Cargo says so when it measures; when it tests, it runs this program too.
    if !wanted.iter().any(|word| word == "--bench") {
        return;
    }
    let measures: [(&str, fn()); 5] = [
        ("start", how_long_a_start_takes),
        ("memory", how_much_a_thousand_keepers_have),
        ("copy", how_fast_output_is_copied),
        ("stop", how_long_a_stop_of_two_thousand_takes),
        ("deaths", how_many_deaths_the_output_survives),
    ];
    let named = wanted.iter().any(|word| !word.starts_with("--"));
    for (name, measure) in measures {
        if !named || wanted.iter().any(|word| word == name) {
            measure();
        }
    }
}

/// The middle of several measurements.
fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// Time that nobody else took from this process matters less than a ratio taken in the same minute.
fn time(mut work: impl FnMut()) -> Duration {
    let times = (0..5).map(|_| {
        let began = Instant::now();
        work();
        began.elapsed()
    });
    median(times.collect())
}

fn how_long_a_start_takes() {
    let bare = (0..200).map(|_| {
        let began = Instant::now();
        let mut child = Command::new("true").spawn().unwrap();
        let spawned = began.elapsed();
        child.wait().unwrap();
        (spawned, began.elapsed())
    });
    let bare: Vec<_> = bare.collect();
    println!(
        "bare: spawned {:?}, waited for {:?}",
        median(bare.iter().map(|t| t.0).collect()),
        median(bare.iter().map(|t| t.1).collect())
    );
    // Turn by turn, so that both meet the same machine.
    let cgroups: &[bool] = if support::cgroups_are_there() { &[false, true] } else { &[false] };
    let kept: Vec<_> = cgroups.repeat(300).into_iter().map(|in_cgroup| (in_cgroup, one_start(in_cgroup))).collect();
    for in_cgroup in cgroups {
        let times = || kept.iter().filter(|(of, _)| of == in_cgroup).map(|(_, times)| times);
        println!(
            "kept{}: spawned {:?}, start told {:?}, end told {:?}",
            if *in_cgroup { " in a cgroup" } else { "" },
            median(times().map(|t| t.0).collect()),
            median(times().map(|t| t.1).collect()),
            median(times().map(|t| t.2).collect())
        );
    }
}

fn one_start(in_cgroup: bool) -> (Duration, Duration, Duration) {
    let mut order = Order::new(&["true"]);
    order.in_cgroup = in_cgroup;
    let mut task = order.prepare();
    let began = Instant::now();
    task.spawn(false);
    let spawned = began.elapsed();
    task.wait_started();
    let started = began.elapsed();
    assert_eq!(code(&task.wait_closed()), Some(0));
    let ended = began.elapsed();
    task.keeper_status();
    (spawned, started, ended)
}

fn how_much_a_thousand_keepers_have() {
    let tasks: Vec<Task> = (0..1000).map(|_| Order::new(&["sleep", "600"]).start()).collect();
    for task in &tasks {
        task.wait_started();
    }
    let sum = |field: &str| -> u64 {
        let of = |task: &Task| {
            let smaps = fs::read_to_string(format!("/proc/{}/smaps_rollup", task.keeper_pid())).unwrap();
            let line = smaps.lines().find_map(|line| line.strip_prefix(field)).unwrap().to_owned();
            line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
        };
        tasks.iter().map(of).sum()
    };
    let (pss, own) = (sum("Pss:"), sum("Anonymous:"));
    println!("1,000 keepers: {:.1} KB PSS each, {:.1} KB anonymous each", pss as f64 / 1000.0, own as f64 / 1000.0);
    println!("the file has {} bytes", ringback_sys::image::bytes().len());
}

fn how_fast_output_is_copied() {
    for (block, count) in [(80, 400_000_u64), (4096, 131_072), (65_536, 8192)] {
        let megabytes = (block * count) as f64 / 1e6;
        let script = format!("exec dd if=/dev/zero bs={block} count={count} status=none");
        let direct = time(|| {
            let folder = tempfile::tempdir().unwrap();
            let file = File::create(folder.path().join("output")).unwrap();
            Command::new("sh").args(["-c", &script]).stdout(Stdio::from(file)).status().unwrap();
        });
        let kept = time(|| {
            let record = Order::sh(&script).start().wait_closed();
            assert_eq!((record.phase, record.output_bytes), (Phase::Closed, block * count));
        });
        println!(
            "{block} B writes: {:.0} MB/s kept, {:.0} MB/s into a file",
            megabytes / kept.as_secs_f64(),
            megabytes / direct.as_secs_f64()
        );
    }
}

fn how_long_a_stop_of_two_thousand_takes() {
    let branch = "sh -c 'for j in $(seq 49); do sleep 300 & done; echo; wait' &";
    let script = format!("trap '' TERM; for i in $(seq 40); do {branch} done; wait");
    let cgroups: &[bool] = if support::cgroups_are_there() { &[false, true] } else { &[false] };
    for in_cgroup in cgroups.repeat(5) {
        let mut order = Order::shell("bash", &script);
        order.in_cgroup = in_cgroup;
        let task = order.start();
        task.wait_output(|output| output.len() == 40);
        let (_, receipt, _) = task.stop_and_wait(0);
        let receipt::Head { layer, observed, duration_ms, scans, .. } = receipt;
        println!("{layer:?}: {observed} processes, {duration_ms} ms in {scans} scans");
    }
}

fn how_many_deaths_the_output_survives() {
    let length = 64 << 20;
    let mut deaths = 0;
    for round in 0..5_u64 {
        let script = format!("seq 1 100000000 | head -c {length}");
        let mut task = Order::sh(&script).start();
        let mut pause = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(round + 1);
        while task.record().phase < Phase::Ended {
            pause = pause.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let wanted = task.output_length() + pause % 900_000;
            let until = Instant::now() + Duration::from_millis(20);
            while task.output_length() < wanted && Instant::now() < until {
                std::hint::spin_loop();
            }
            task.kill_keeper();
            deaths += 1;
            if task.record().phase >= Phase::Closed {
                break;
            }
            task.take_over();
        }
        if task.record().phase != Phase::Closed {
            task.wait_closed();
        }
        let oracle = Command::new("sh").args(["-c", &script]).output().unwrap().stdout;
        assert!(task.output() == oracle, "the bytes differ after {deaths} deaths");
        assert_eq!(code(&task.record()), Some(0));
    }
    println!("{deaths} deaths of keepers over {} MB: no byte lost", 5 * length / 1_000_000);
}
