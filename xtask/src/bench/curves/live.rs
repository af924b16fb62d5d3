//! From one to thousands of live tasks.

use super::super::Options;
use super::super::measure::{Samples, time};
use super::super::stage::{Stage, submit};
use super::{Chart, amounts, times};
use crate::Done;

/// Runs of each verb.
const SAMPLES: usize = 20;

pub(super) fn measure(stage: &Stage, options: &Options) -> Done<Chart> {
    let mut chart = Chart::new(
        "live",
        "live tasks",
        "a submission does not depend on them; a list of 100 of them neither; the daemon keeps of each what an answer and its keeper's watch need.",
        &[("`run -q -- true`", "ms"), ("`ps --json --limit 100`", "ms"), ("`stats --json`", "ms"), ("daemon", "MB")],
    );
    let home = stage.home()?;
    home.configure(&format!("max_running = {}\n", options.largest_live + 100))?;
    let mut client = home.client()?;
    let mut alive = 0;
    for amount in amounts(1, options.largest_live) {
        for _ in alive..amount {
            submit(&mut client, &["sleep", "1000"])?;
        }
        alive = amount;
        let again = times(SAMPLES, || Ok(time(&mut home.ringback(["run", "-q", "--", "true"]))?))?;
        let list = times(SAMPLES, || Ok(time(&mut home.ringback(["ps", "--json", "--limit", "100"]))?))?;
        let stats = times(SAMPLES, || Ok(time(&mut home.ringback(["stats", "--json"]))?))?;
        let resident = Samples::once(home.resident()?);
        chart.add(amount, [again, list, stats, resident]);
    }
    Ok(chart)
}
