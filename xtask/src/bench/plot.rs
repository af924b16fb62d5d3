//! The pictures: one group of bars for each row that has a floor, ours first, and curves; on scales of powers of ten.

use std::fmt::Write as _;

use super::curves::Chart;
use super::measure::{Row, Samples};

/// Pixels.
const WIDTH: f64 = 900.0;
const NAMES: f64 = 330.0;
const BAR: f64 = 16.0;
/// The scale ends here: 1,000 times the floor.
const DECADES: f64 = 3.5;

/// An SVG picture of all ratios.
pub(crate) fn bars(rows: &[Row]) -> String {
    let mut body = String::new();
    let mut y = 30.0;
    for row in rows {
        let Some(ours) = row.ratio(&row.ours) else { continue };
        y += 10.0;
        bar(&mut body, y, &row.name, ours, "#2563eb");
        y += BAR;
        for (name, samples) in &row.peers {
            let Some(ratio) = row.ratio(samples) else { continue };
            bar(&mut body, y, name, ratio, "#9ca3af");
            y += BAR;
        }
    }
    let height = y + 20.0;
    let mut scale = String::new();
    for (text, ratio) in [("0.5", 0.5), ("1 = floor", 1.0), ("10", 10.0), ("100", 100.0), ("1,000", 1_000.0)] {
        let x = place(ratio);
        _ = writeln!(
            scale,
            "<line x1=\"{x:.0}\" y1=\"24\" x2=\"{x:.0}\" y2=\"{height:.0}\" stroke=\"#e5e7eb\"/>\
             <text x=\"{x:.0}\" y=\"18\" text-anchor=\"middle\">{text}</text>"
        );
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height:.0}\" font-family=\"sans-serif\" \
         font-size=\"11\"><rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{scale}{body}</svg>\n"
    )
}

fn bar(body: &mut String, y: f64, name: &str, ratio: f64, colour: &str) {
    let (from, to) = (place(0.3), place(ratio));
    _ = writeln!(
        body,
        "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{}</text><rect x=\"{from:.0}\" y=\"{y:.0}\" width=\"{:.0}\" \
         height=\"{:.0}\" fill=\"{colour}\"/><text x=\"{:.0}\" y=\"{:.0}\">{ratio:.2}</text>",
        NAMES - 6.0,
        y + BAR - 5.0,
        escaped(name),
        (to - from).max(1.0),
        BAR - 3.0,
        to + 4.0,
        y + BAR - 5.0,
    );
}

/// Where a ratio stands on the scale.
fn place(ratio: f64) -> f64 {
    let share = (ratio.max(0.3).log10() - 0.3_f64.log10()) / DECADES;
    NAMES + share.min(1.0) * (WIDTH - NAMES - 60.0)
}

/// A picture of curves, both scales in powers of ten.
pub(crate) fn curves(chart: &Chart) -> String {
    const LEFT: f64 = 60.0;
    const TOP: f64 = 30.0;
    const HEIGHT: f64 = 300.0;
    const PLOT: f64 = 520.0;
    const COLOURS: [&str; 6] = ["#2563eb", "#dc2626", "#16a34a", "#9333ea", "#ea580c", "#0891b2"];
    let points = || chart.curves.iter().flat_map(|curve| &curve.points);
    let amounts = || points().map(|(amount, _)| logarithm(*amount));
    let (first, last) = (amounts().fold(f64::MAX, f64::min), amounts().fold(f64::MIN, f64::max));
    let highest = points().map(|(_, samples)| samples.median().log10()).fold(1.0, f64::max).ceil();
    let lowest = points().map(|(_, samples)| samples.median().log10()).fold(0.0, f64::min).floor();
    let across = |amount: f64| LEFT + (amount - first) / (last - first).max(1.0) * PLOT;
    let up = |value: f64| TOP + HEIGHT - (value.max(1e-6).log10() - lowest) / (highest - lowest) * HEIGHT;
    let mut body = String::new();
    let mut value = 10_f64.powf(lowest);
    while value <= 10_f64.powf(highest) * 1.01 {
        let y = up(value);
        _ = writeln!(
            body,
            "<line x1=\"{LEFT}\" y1=\"{y:.0}\" x2=\"{:.0}\" y2=\"{y:.0}\" stroke=\"#e5e7eb\"/>\
             <text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{value}</text>",
            LEFT + PLOT,
            LEFT - 6.0,
            y + 4.0
        );
        value *= 10.0;
    }
    if let Some(curve) = chart.curves.first() {
        for (amount, _) in &curve.points {
            let x = across(logarithm(*amount));
            _ = writeln!(
                body,
                "<text x=\"{x:.0}\" y=\"{:.0}\" text-anchor=\"middle\">{amount:.0e}</text>",
                TOP + HEIGHT + 16.0
            );
        }
    }
    for ((number, curve), colour) in (0_u8..).zip(&chart.curves).zip(COLOURS) {
        let place = |(amount, samples): &(u64, Samples)| {
            format!("{:.1},{:.1}", across(logarithm(*amount)), up(samples.median()))
        };
        let line: Vec<String> = curve.points.iter().map(place).collect();
        _ = writeln!(
            body,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\
             <text x=\"{:.0}\" y=\"{:.0}\" fill=\"{colour}\">{}, {}</text>",
            line.join(" "),
            LEFT + PLOT + 12.0,
            TOP + 14.0 + f64::from(number) * 18.0,
            escaped(&curve.name.replace('`', "")),
            curve.unit,
        );
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"380\" font-family=\"sans-serif\" font-size=\"11\">\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{body}<text x=\"{:.0}\" y=\"372\" text-anchor=\"middle\">{}</text>\n</svg>\n",
        LEFT + PLOT / 2.0,
        escaped(chart.title),
    )
}

#[expect(clippy::cast_precision_loss, reason = "a place in a picture")]
fn logarithm(amount: u64) -> f64 {
    (amount.max(1) as f64).log10()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}
