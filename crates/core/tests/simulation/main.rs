//! The core in seeded worlds: clocks, processes, disks that refuse, clients and readers, and a daemon that dies at every
//! effect. A world that goes wrong is named by its seed; kept seeds are lived through again in every run.
//!
//! `RINGBACK_SIM_SEED=N` lives through one world, `RINGBACK_SIM_SECONDS=N` through new ones for so long.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::cast_precision_loss, reason = "a rate is for people")]

mod chance;
mod daemon;
mod machine;
mod store;
mod world;

use std::panic::catch_unwind;
use std::path::Path;
use std::time::{Duration, Instant};

use world::World;

/// Worlds of the gate: enough to pass every boundary many times, few enough for a build that is not optimised.
const WORLDS: u64 = 300;
/// Seeds of worlds that once went wrong, one a line; what stands behind a `#` is why.
const KEPT: &str = include_str!("seeds.txt");

/// Lives through the world of this seed; its steps, or what went wrong in it.
fn live(seed: u64) -> Result<u64, String> {
    let lived = catch_unwind(|| {
        let mut world = World::new(seed);
        world.live_through();
        world.steps
    });
    lived.map_err(|what| {
        let text = what.downcast_ref::<String>().cloned();
        text.or_else(|| what.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
    })
}

/// Names a failing seed, and keeps it.
fn keep(seed: u64, why: &str) -> ! {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/simulation/seeds.txt");
    let short: String = why.lines().next().unwrap_or_default().chars().take(100).collect();
    let line = format!("{seed} # {short}\n");
    if !KEPT.contains(&format!("{seed} #")) {
        let text = std::fs::read_to_string(&path).unwrap_or_default() + &line;
        std::fs::write(&path, text).unwrap();
    }
    panic!("RINGBACK_SIM_SEED={seed}: {why}");
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn worlds_that_once_went_wrong_go_right() {
    let lines = KEPT.lines().filter_map(|line| line.split('#').next()?.trim().parse().ok());
    for seed in lines {
        if let Err(why) = live(seed) {
            panic!("RINGBACK_SIM_SEED={seed}: {why}");
        }
    }
}

#[test]
fn in_every_world_each_ending_is_true_and_told_once() {
    if let Some(seed) = number("RINGBACK_SIM_SEED") {
        return live(seed).map_or_else(|why| panic!("RINGBACK_SIM_SEED={seed}: {why}"), drop);
    }
    let seconds = number("RINGBACK_SIM_SECONDS").map(Duration::from_secs);
    let first = match seconds {
        None => 0,
        Some(_) => std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(1, |since| since.as_secs()) << 32,
    };
    let begun = Instant::now();
    let (mut steps, mut seed) = (0, first);
    while seconds.map_or(seed < first + WORLDS, |seconds| begun.elapsed() < seconds) {
        match live(seed) {
            Ok(more) => steps += more,
            Err(why) => keep(seed, &why),
        }
        seed += 1;
    }
    let rate = steps as f64 / begun.elapsed().as_secs_f64();
    println!("simulation: {} worlds, {steps} steps, {rate:.0} steps a second", seed - first);
}
