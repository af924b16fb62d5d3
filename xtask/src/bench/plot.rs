//! The plot: one group of bars for each row that has a floor, ours first, on a scale of powers of ten.

use std::fmt::Write as _;

use super::measure::Row;

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
        name.replace('&', "&amp;").replace('<', "&lt;"),
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
