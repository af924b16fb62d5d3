//! The table: on the terminal line by line, and as docs/performance.md between its two marks.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use super::measure::{Row, Samples, Target};
use super::plot;
use crate::Done;
use crate::built;

/// The mark of the part of the page that has the rows.
const MEASURED: &str = "measured";

/// One row, for the terminal.
pub(crate) fn line(row: &Row) -> String {
    let mut text = format!("{}: {}", row.name, figures(row, &row.ours));
    for (name, samples) in &row.peers {
        _ = write!(text, "; {name} {}", figures(row, samples));
    }
    text + &format!(" (target {}{})", row.aim(), if row.is_missed() { ", missed" } else { "" })
}

/// Writes the measured part of docs/performance.md, and the plot.
pub(crate) fn write(rows: &[Row]) -> Done {
    let mut text = format!("{}\n\n", machine()?);
    text += &table(rows);
    text += &distances(rows);
    replace(MEASURED, &text)?;
    Ok(fs::write(built::root().join("docs/performance.svg"), plot::bars(rows))?)
}

/// Puts this text between the two marks of that name in docs/performance.md.
pub(crate) fn replace(mark: &str, text: &str) -> Done {
    let path = built::root().join("docs/performance.md");
    let page = fs::read_to_string(&path)?;
    let (begin, end) = (format!("<!-- {mark} -->"), format!("<!-- /{mark} -->"));
    let (before, rest) = page.split_once(&begin).ok_or(format!("the page has no {begin}"))?;
    let (_, after) = rest.split_once(&end).ok_or(format!("the page has no {end}"))?;
    Ok(fs::write(&path, format!("{before}{begin}\n{}\n{end}{after}", text.trim_end()))?)
}

fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "| what | median | min – max | × floor | peers, × floor | target | met |\n|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let ratio = row.ratio(&row.ours).map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}"));
        let peers: Vec<String> = row
            .peers
            .iter()
            .map(|(name, samples)| match row.ratio(samples) {
                Some(ratio) => format!("{name} {ratio:.2}"),
                None => format!("{name} {}", amount(samples.median(), row.unit)),
            })
            .collect();
        let met = match row.target {
            Target::Shown => "–",
            _ if row.is_missed() => "**no**",
            _ => "yes",
        };
        _ = writeln!(
            text,
            "| {} | {} | {} – {} | {ratio} | {} | {} | {met} |",
            row.name,
            amount(row.ours.median(), row.unit),
            amount(row.ours.min(), row.unit),
            amount(row.ours.max(), row.unit),
            if peers.is_empty() { "–".to_owned() } else { peers.join(", ") },
            row.aim(),
        );
    }
    text
}

/// What each row's distance to the floor is made of, and for each missed target the next idea.
fn distances(rows: &[Row]) -> String {
    let mut text = String::from("\n**What is left between each row and its floor**\n\n");
    // Rows of one name have one reason.
    let mut said = BTreeSet::new();
    for row in rows.iter().filter(|row| (!row.made_of.is_empty() || row.is_missed()) && said.insert(&row.name)) {
        let reason = if row.made_of.is_empty() { "not looked into yet." } else { row.made_of };
        _ = write!(text, "- *{}*: {reason}", row.name);
        if row.is_missed() {
            let next = if row.next.is_empty() { "none yet." } else { row.next };
            _ = write!(text, " **Missed**; next idea: {next}");
        }
        text.push('\n');
    }
    text
}

/// What the figures were taken on.
pub(crate) fn machine() -> Done<String> {
    let info = fs::read_to_string("/proc/cpuinfo")?;
    let processor = info.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let processor = processor.trim_start_matches([' ', '\t', ':']);
    let count = info.lines().filter(|line| line.starts_with("processor")).count();
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let compiler = Command::new("rustc").arg("--version").output()?;
    let compiler = String::from_utf8_lossy(&compiler.stdout).trim().to_owned();
    let load = fs::read_to_string("/proc/loadavg")?;
    let load = load.split(' ').next().unwrap_or_default().to_owned();
    Ok(format!("{count} × {processor}, Linux {}, {compiler}, load {load} at the end.", release.trim()))
}

fn figures(row: &Row, samples: &Samples) -> String {
    let median = amount(samples.median(), row.unit);
    match row.ratio(samples) {
        Some(ratio) => format!("{median} = {ratio:.2} ×"),
        None => median,
    }
}

/// A figure with its unit.
pub(crate) fn amount(value: f64, unit: &str) -> String {
    if value >= 100.0 { format!("{value:.0} {unit}") } else { format!("{value:.2} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::{Samples, Target, distances, table};
    use crate::bench::measure::Row;

    #[test]
    fn a_missed_target_says_why_and_what_would_be_tried_next() {
        let row = |name, ours, why| {
            Row::new(name, "ms", Samples::once(ours), Target::Ratio(1.5)).over(Samples::once(1.0)).because(why, "less.")
        };
        let rows = [row("a", 1.4, "work."), row("b", 2.0, "work."), row("c", 2.0, "")];
        let text = distances(&rows);
        assert!(text.contains(
            "- *a*: work.\n- *b*: work. **Missed**; next idea: less.\n- *c*: not looked into yet. **Missed**"
        ));
        assert!(table(&rows).contains("| b | 2.00 ms | 2.00 ms – 2.00 ms | 2.00 | – | ≤ 1.5 × | **no** |"));
    }
}
