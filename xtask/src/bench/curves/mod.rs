//! `--curves`: how times and sizes change with what there is: tasks in the store, live tasks, bytes of output.
//!
//! What should not depend on the amount is a flat line; what reads the whole output cannot be one.

mod live;
mod output;
mod stored;

use std::fmt::Write as _;
use std::fs;
use std::time::Instant;

use super::Options;
use super::measure::Samples;
use super::plot;
use super::report;
use super::stage::Stage;
use crate::Done;
use crate::built;

/// The mark of the part of the page that has the curves.
const MARK: &str = "curves";

/// One thing, for several amounts.
pub(super) struct Curve {
    pub(super) name: &'static str,
    /// `ms` or `MB`.
    pub(super) unit: &'static str,
    /// Amounts, and what was seen with them.
    pub(super) points: Vec<(u64, Samples)>,
}

/// Curves over the same amounts.
pub(super) struct Chart {
    /// The end of the picture's file name.
    pub(super) file: &'static str,
    /// What the amounts are.
    pub(super) title: &'static str,
    pub(super) curves: Vec<Curve>,
    /// What is flat, what is not, and why.
    pub(super) meaning: &'static str,
}

impl Chart {
    fn new(
        file: &'static str,
        title: &'static str,
        meaning: &'static str,
        curves: &[(&'static str, &'static str)],
    ) -> Self {
        let curves = curves.iter().map(|(name, unit)| Curve { name, unit, points: Vec::new() }).collect();
        Self { file, title, curves, meaning }
    }

    /// Adds what was seen with this amount, in the order of the curves.
    fn add<const N: usize>(&mut self, amount: u64, seen: [Samples; N]) {
        for (curve, samples) in self.curves.iter_mut().zip(seen) {
            eprintln!("  {} at {amount}: {}", curve.name, report::amount(samples.median(), curve.unit));
            curve.points.push((amount, samples));
        }
    }
}

/// Measures all three charts, and writes pictures and tables where that was asked for.
pub(super) fn run(stage: &Stage, options: &Options) -> Done {
    let mut text = format!("{}\n", report::machine()?);
    for measure in [stored::measure, live::measure, output::measure] {
        let begun = Instant::now();
        let chart = measure(stage, options)?;
        eprintln!("  {:.0} s", begun.elapsed().as_secs_f64());
        text += &table(&chart);
        println!("{}", table(&chart));
        if options.write {
            let path = format!("docs/performance-{}.svg", chart.file);
            fs::write(built::root().join(path), plot::curves(&chart))?;
        }
    }
    if options.write { report::replace(MARK, &text) } else { Ok(()) }
}

fn table(chart: &Chart) -> String {
    let mut text =
        format!("\n**{}**: {}\n\n![{}](performance-{}.svg)\n\n|", chart.title, chart.meaning, chart.title, chart.file);
    for curve in &chart.curves {
        _ = write!(text, " | {}", curve.name);
    }
    text += " |\n|--:";
    text += &"|--:".repeat(chart.curves.len());
    text += "|\n";
    let amounts: Vec<u64> =
        chart.curves.first().map(|curve| curve.points.iter().map(|point| point.0).collect()).unwrap_or_default();
    for (at, amount) in amounts.iter().enumerate() {
        _ = write!(text, "| {}", with_commas(*amount));
        for curve in &chart.curves {
            let seen = curve.points.get(at).map(|(_, samples)| report::amount(samples.median(), curve.unit));
            _ = write!(text, " | {}", seen.unwrap_or_default());
        }
        text += " |\n";
    }
    text
}

/// Digits in groups of three.
fn with_commas(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().filter_map(|group| str::from_utf8(group).ok()).collect();
    groups.join(",")
}

/// 1, 10, 100 … and the largest.
fn amounts(first: u64, largest: u64) -> Vec<u64> {
    let mut all: Vec<u64> =
        (0..20).map(|power| first.saturating_mul(10_u64.pow(power))).take_while(|n| *n < largest).collect();
    all.push(largest);
    all
}

/// How long this takes, several times.
fn times(count: usize, mut work: impl FnMut() -> Done<std::time::Duration>) -> Done<Samples> {
    let mut samples = Samples::default();
    for _ in 0..count {
        samples.push_time(work()?);
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::{amounts, with_commas};

    #[test]
    fn amounts_rise_by_tens_up_to_the_largest() {
        assert_eq!(amounts(1, 5_000), [1, 10, 100, 1_000, 5_000]);
        assert_eq!(amounts(1_000, 1_000), [1_000]);
    }

    #[test]
    fn digits_come_in_threes() {
        assert_eq!([7, 1_000, 10_000_000].map(with_commas), ["7", "1,000", "10,000,000"]);
    }
}
