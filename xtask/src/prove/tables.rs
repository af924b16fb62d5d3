//! The tables of docs/reliability.md, written from the results that are kept with the sources.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::results::Results;
use crate::built;

/// Where results are kept with the sources.
pub(crate) const KEPT: &str = "docs/proof.json";
const PAGE: &str = "docs/reliability.md";

/// A part, what its rows are, and its columns: name in the results and head.
struct Table {
    part: &'static str,
    rows: &'static str,
    columns: &'static [(&'static str, &'static str)],
}

const TABLES: [Table; 9] = [
    Table {
        part: "simulation",
        rows: "",
        columns: &[
            ("worlds", "worlds"),
            ("steps", "steps"),
            ("steps_per_second", "steps a second, last"),
            ("broken", "broken"),
        ],
    },
    Table {
        part: "kills",
        rows: "who is killed",
        columns: &[
            ("tasks", "tasks"),
            ("kills", "kills"),
            ("unknown", "unknown"),
            ("lost", "lost"),
            ("wrong", "wrong"),
            ("started_twice", "started twice"),
            ("never_ends", "never end"),
            ("notices_missing", "notices missing"),
            ("notices_twice", "twice"),
            ("foreign", "foreign"),
            ("leaked", "leaked"),
            ("bytes_missing", "bytes missing"),
            ("said_lost", "said to be lost"),
            ("said_incomplete", "said to be incomplete"),
        ],
    },
    Table {
        part: "peers",
        rows: "",
        columns: &[
            ("tasks", "tasks"),
            ("kills", "kills"),
            ("lost", "outcome not known"),
            ("wrong", "wrong outcome"),
            ("never_started", "never started"),
            ("bytes_missing", "output not found by its name"),
        ],
    },
    Table { part: "crashes", rows: "", columns: &[("stories", "stories"), ("of", "pairs"), ("broken", "broken")] },
    Table {
        part: "faults",
        rows: "",
        columns: &[("stories", "stories"), ("tasks", "tasks"), ("broken", "broken"), ("unanswered", "refused")],
    },
    Table {
        part: "power",
        rows: "",
        columns: &[("cuts", "cuts"), ("tasks", "tasks"), ("broken", "broken"), ("said_lost", "said to be lost")],
    },
    Table {
        part: "life",
        rows: "",
        columns: &[
            ("start_us", "start, ms"),
            ("ps_us", "`ps`"),
            ("ps_all_us", "`ps -a`"),
            ("show_us", "`show`"),
            ("logs_us", "`logs`"),
            ("inbox_us", "`inbox`"),
            ("status_us", "`daemon status`"),
            ("sessions_us", "`session ls`"),
            ("run_us", "`run`"),
            ("rss_bytes", "resident, bytes"),
        ],
    },
    Table { part: "fuzz", rows: "", columns: &[("targets", "targets"), ("inputs", "inputs"), ("broken", "broken")] },
    Table {
        part: "soak",
        rows: "",
        columns: &[
            ("minutes", "minutes"),
            ("rounds", "laps"),
            ("tasks", "tasks"),
            ("rss_bytes", "resident memory, bytes"),
            ("rss_bytes_more", "more than before"),
            ("fds", "descriptors"),
            ("fds_more", "more"),
            ("threads", "threads"),
            ("threads_more", "more"),
        ],
    },
];

/// The tables of all parts that there are results of, to be read as they are, and how many failures were ever seen.
pub(super) fn of_all(results: &Results) -> String {
    let mut text = String::new();
    for table in TABLES.iter().filter(|table| results.parts().any(|(part, _)| part == table.part)) {
        let _ = writeln!(text, "## {}\n\n{}", table.part, aligned(&table.text(results)));
    }
    text + &format!("{} failures seen, in {}", results.failures(), results.path().display())
}

/// A table with its columns below each other.
fn aligned(text: &str) -> String {
    let cells = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let rows: Vec<Vec<String>> = text.lines().filter(|line| line.starts_with('|')).map(cells).collect();
    let width =
        |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows.first().map_or(0, Vec::len)).map(width).collect();
    let padded = |line: &str| {
        let cells = cells(line).into_iter().zip(&widths).enumerate().map(|(at, (cell, width))| match at {
            _ if cell.starts_with("--") => format!("{}{}", "-".repeat(width - 1), if at == 0 { '-' } else { ':' }),
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        format!("| {} |", cells.collect::<Vec<_>>().join(" | "))
    };
    let lines = text.lines().map(|line| if line.starts_with('|') { padded(line) } else { line.to_owned() });
    lines.map(|line| line + "\n").collect()
}

/// Writes all tables between their marks.
pub(crate) fn write(results: &Results) -> Result<(), String> {
    let path = built::root().join(PAGE);
    let failed = |error: std::io::Error| format!("cannot write {PAGE}: {error}");
    let mut page = std::fs::read_to_string(&path).map_err(failed)?;
    for table in &TABLES {
        page = put(&page, table.part, &table.text(results))?;
    }
    page = put(&page, "failures", &failures(results))?;
    std::fs::write(&path, page).map_err(failed)
}

/// The page with this text between the two marks of that name.
fn put(page: &str, mark: &str, text: &str) -> Result<String, String> {
    let (begin, end) = (format!("<!-- proof: {mark} -->"), format!("<!-- /proof: {mark} -->"));
    let (before, rest) = page.split_once(&begin).ok_or_else(|| format!("{PAGE} has no {begin}"))?;
    let (_, after) = rest.split_once(&end).ok_or_else(|| format!("{PAGE} has no {end}"))?;
    Ok(format!("{before}{begin}\n{}\n{end}{after}", text.trim_end()))
}

impl Table {
    fn text(&self, results: &Results) -> String {
        let Some((_, rows)) = results.parts().find(|(part, _)| *part == self.part) else {
            return "Not obtained yet.".to_owned();
        };
        let ours = (self.part == "peers").then(|| of_daemon(results)).flatten();
        let ours = ours.map(|row| ("ringback, row \"daemon\" above", row));
        let others = rows.iter().filter_map(|(name, row)| Some((name.as_str(), row.as_object()?)));
        let rows: Vec<_> = ours.into_iter().chain(others).collect();
        let has = |column: &&(&str, &str)| rows.iter().any(|(_, row)| row.contains_key(column.0));
        let columns: Vec<_> = self.columns.iter().filter(has).collect();
        let heads: Vec<&str> = columns.iter().map(|(_, head)| *head).collect();
        let mut text = format!("| {} | {} |\n|---|{}\n", self.rows, heads.join(" | "), "--:|".repeat(heads.len()));
        for (name, row) in rows.iter().filter(|(_, row)| columns.iter().any(|(name, _)| row.contains_key(*name))) {
            let cells: Vec<String> = columns.iter().map(|(name, _)| cell(name, row)).collect();
            let _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
        }
        if self.part == "kills" {
            text += &verdict(results);
        }
        let (commit, date) = results.obtained(self.part);
        text + &format!("\nLast added to on {date} with `{commit}`.\n")
    }
}

/// What was seen of ringback where its daemon was killed: what the peers are held against.
fn of_daemon(results: &Results) -> Option<&Map<String, Value>> {
    let (_, rows) = results.parts().find(|(part, _)| *part == "kills")?;
    rows.get("daemon")?.as_object()
}

/// All kills together, and how rare a failure must be that none of them has shown.
fn verdict(results: &Results) -> String {
    let all = |name: &str| {
        let rows = results.parts().find(|(part, _)| *part == "kills").map(|(_, rows)| rows.values());
        rows.into_iter().flatten().filter_map(|row| row[name].as_u64()).sum::<u64>()
    };
    let broken = ["unknown", "lost", "wrong", "started_twice", "never_ends", "notices_missing", "notices_twice"];
    let broken = broken.into_iter().chain(["foreign", "leaked", "keepers_left", "bytes_missing", "canaries_hit"]);
    let broken: u64 = broken.map(all).sum();
    let mut text = format!(
        "\n**{} kills over {} tasks: {} failures**; {} canaries.",
        grouped(all("kills")),
        grouped(all("tasks")),
        grouped(broken),
        grouped(all("canaries"))
    );
    if broken == 0 && all("kills") > 0 {
        // Three in a million of a percent are still told.
        let millionths = 300_000_000 / all("kills");
        let _ = write!(
            text,
            " With no failure in *n* the true rate is below 3 / *n* at 95 % (rule of three): {}.{:06} % of kills.",
            millionths / 1_000_000,
            millionths % 1_000_000
        );
    }
    text + "\n"
}

fn cell(name: &str, row: &Map<String, Value>) -> String {
    let Some(value) = row.get(name).and_then(Value::as_u64) else { return "–".to_owned() };
    if name.ends_with("_us") {
        return format!("{}.{}", value / 1000, value % 1000 / 100);
    }
    grouped(value)
}

/// With a comma before each three digits.
fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn failures(results: &Results) -> String {
    let mut text = String::from("| part | seed | commit | what was seen |\n|---|---|---|---|\n");
    for failure in results.failing() {
        let word = |name: &str| failure[name].as_str().unwrap_or_default().replace('\n', " ").replace('|', "\\|");
        let seen: String = word("seen").chars().take(200).collect();
        let _ = writeln!(text, "| {} | {} | {} | {seen} |", word("part"), word("seed"), word("commit"));
    }
    if results.failing().is_empty() { "No failing seed is kept.".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::aligned;

    #[test]
    fn columns_stand_below_each_other() {
        let table = "| who | tasks |\n|---|--:|\n| daemon and keeper | 7 |\n| all | 1,234 |\n\nLast.\n";
        let lines = [
            "| who               | tasks |",
            "| ----------------- | ----: |",
            "| daemon and keeper |     7 |",
            "| all               | 1,234 |",
            "",
            "Last.\n",
        ];
        assert_eq!(aligned(table), lines.join("\n"));
    }
}
