//! From a thousand to ten billion bytes of output.

use super::super::Options;
use super::super::measure::{Samples, time};
use super::super::stage::{Lodging, Stage};
use super::{Chart, amounts, times};
use crate::Done;

/// Runs of each verb, where the output is small.
const SAMPLES: usize = 10;
/// From here on each is run a few times: they take seconds.
const LARGE_BYTES: u64 = 100_000_000;

pub(super) fn measure(stage: &Stage, options: &Options) -> Done<Chart> {
    let mut chart = Chart::new(
        "output",
        "bytes of output",
        "the tail is read from the end. Lines by their number are found through marks that the first such question makes, and \
         that is the only one that reads up to them; a digest reads everything, in constant memory.",
        &[
            ("`logs -n 20`", "ms"),
            ("`logs --lines`, first", "ms"),
            ("`logs --lines`, again", "ms"),
            ("`logs --digest`", "ms"),
            ("capture", "ms"),
        ],
    );
    let home = stage.home()?;
    for amount in amounts(1_000, options.largest_output) {
        chart.add(amount, one(&home, amount)?);
    }
    Ok(chart)
}

fn one(home: &Lodging<'_>, bytes: u64) -> Done<[Samples; 5]> {
    const LINE: &str = "a line of the usual length, as compilers and tests write them";
    let samples = if bytes < LARGE_BYTES { SAMPLES } else { 3 };
    let flood = format!("yes '{LINE}' | head -c {bytes}");
    let capture = time(&mut home.ringback(["run", "-q", "--wait", "--max-output", "0", "-c", &flood]))?;
    let listed = home.json(["ps", "-a", "--limit", "1"])?;
    let id = listed["tasks"][0]["id"].as_str().ok_or("no task")?.to_owned();
    let middle = bytes / (LINE.len() as u64 + 1) / 2 + 1;
    let lines = format!("{middle}:{}", middle + 9);
    let tail = times(samples, || Ok(time(&mut home.ringback(["logs", "-n", "20", &id]))?))?;
    let first = times(1, || Ok(time(&mut home.ringback(["logs", "--lines", &lines, &id]))?))?;
    let again = times(samples, || Ok(time(&mut home.ringback(["logs", "--lines", &lines, &id]))?))?;
    let digest = times(samples, || Ok(time(&mut home.ringback(["logs", "--digest", &id]))?))?;
    time(&mut home.ringback(["rm", &id]))?;
    let mut captured = Samples::default();
    captured.push_time(capture);
    Ok([tail, first, again, digest, captured])
}
