//! The table: on the terminal line by line, and as docs/performance.md between its two marks.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use super::measure::{Row, Samples};
use super::plot;
use super::stage::Stage;
use crate::Done;

/// What stands around the part of the page that this program writes.
const BEGIN: &str = "<!-- measured -->";
const END: &str = "<!-- /measured -->";

/// One row, for the terminal.
pub(crate) fn line(row: &Row) -> String {
    let mut text = format!("{}: {}", row.name, figures(row, &row.ours));
    for (name, samples) in &row.peers {
        _ = write!(text, "; {name} {}", figures(row, samples));
    }
    text + &format!(" (target {})", row.target)
}

/// Writes the measured part of docs/performance.md, and the plot.
pub(crate) fn write(stage: &Stage, rows: &[Row]) -> Done {
    let path = stage.root.join("docs/performance.md");
    let page = fs::read_to_string(&path)?;
    let (before, rest) = page.split_once(BEGIN).ok_or("the page has no mark where the figures begin")?;
    let (_, after) = rest.split_once(END).ok_or("the page has no mark where the figures end")?;
    let table = table(rows)?;
    fs::write(&path, format!("{before}{BEGIN}\n{table}{END}{after}"))?;
    fs::write(stage.root.join("docs/performance.svg"), plot::bars(rows))?;
    Ok(())
}

fn table(rows: &[Row]) -> Done<String> {
    let mut text = format!("{}\n\n", machine()?);
    text += "| what | median | min – max | × floor | peers, × floor | target |\n|---|---|---|---|---|---|\n";
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
        _ = writeln!(
            text,
            "| {} | {} | {} – {} | {ratio} | {} | {} |",
            row.name,
            amount(row.ours.median(), row.unit),
            amount(row.ours.min(), row.unit),
            amount(row.ours.max(), row.unit),
            if peers.is_empty() { "–".to_owned() } else { peers.join(", ") },
            row.target,
        );
    }
    Ok(text)
}

/// What the figures were taken on.
fn machine() -> Done<String> {
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

fn amount(value: f64, unit: &str) -> String {
    if value >= 100.0 { format!("{value:.0} {unit}") } else { format!("{value:.2} {unit}") }
}
