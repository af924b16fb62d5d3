//! The results file: counts that add up over runs, and every failing seed with what was seen.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

/// The most failures whose words are kept; more are counted.
const FAILURES_MAX: usize = 200;
/// How long the word of one failure may be, bytes.
const WORDS_MAX: usize = 2000;

/// What was seen so far.
pub(crate) struct Results {
    path: PathBuf,
    document: Map<String, Value>,
}

/// The order of the columns of a table; what is not named here comes after.
const COLUMNS: [&str; 34] = [
    "worlds",
    "steps",
    "steps_per_second",
    "stories",
    "minutes",
    "rounds",
    "tasks",
    "kills",
    "canaries",
    "cuts",
    "targets",
    "inputs",
    "calls",
    "start_us",
    "ps_us",
    "ps_all_us",
    "show_us",
    "logs_us",
    "inbox_us",
    "status_us",
    "run_us",
    "broken",
    "lost",
    "wrong",
    "started_twice",
    "never_started",
    "never_ends",
    "notices_missing",
    "notices_twice",
    "foreign",
    "leaked",
    "keepers_left",
    "bytes_missing",
    "canaries_hit",
];

/// What one row counts, by name.
pub(crate) type Counts = BTreeMap<&'static str, u64>;

impl Results {
    /// Reads what earlier runs saw; a file that is not there is an empty one.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        let document = match std::fs::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map_err(|error| format!("{} is no results file: {error}; delete it to begin anew", path.display()))?,
            Err(_) => Map::new(),
        };
        Ok(Self { path: path.to_path_buf(), document })
    }

    /// Where it lies.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// How many failures were ever seen.
    pub(crate) fn failures(&self) -> u64 {
        self.document.get("failures_seen").and_then(Value::as_u64).unwrap_or(0)
    }

    /// Adds counts to a row, and saves.
    pub(crate) fn add(&mut self, part: &str, row: &str, counts: &Counts) -> Result<(), String> {
        let rows = self.document.entry(part).or_insert_with(|| json!({}));
        let row = rows.as_object_mut().map(|rows| rows.entry(row).or_insert_with(|| json!({})));
        if let Some(row) = row.and_then(Value::as_object_mut) {
            for (name, count) in counts {
                let before = row.get(*name).and_then(Value::as_u64).unwrap_or(0);
                row.insert((*name).to_owned(), (before + count).into());
            }
        }
        self.save()
    }

    /// Sets a row's value to what was last seen, where a sum would say nothing.
    pub(crate) fn set(&mut self, part: &str, row: &str, name: &str, value: u64) -> Result<(), String> {
        let rows = self.document.entry(part).or_insert_with(|| json!({}));
        let row = rows.as_object_mut().map(|rows| rows.entry(row).or_insert_with(|| json!({})));
        if let Some(row) = row.and_then(Value::as_object_mut) {
            row.insert(name.to_owned(), value.into());
        }
        self.save()
    }

    /// What a row counts so far.
    pub(crate) fn count(&self, part: &str, row: &str, name: &str) -> u64 {
        self.document.get(part).and_then(|rows| rows[row][name].as_u64()).unwrap_or(0)
    }

    /// A promise was seen broken: the seed and the words stay.
    pub(crate) fn fail(&mut self, part: &str, seed: &str, words: &str) -> Result<(), String> {
        eprintln!("FAILED {part}, seed {seed}: {words}");
        let count = self.failures() + 1;
        self.document.insert("failures_seen".into(), count.into());
        let list = self.document.entry("failures").or_insert_with(|| json!([]));
        if let Some(list) = list.as_array_mut().filter(|list| list.len() < FAILURES_MAX) {
            let words: String = words.chars().take(WORDS_MAX).collect();
            list.push(json!({ "part": part, "seed": seed, "seen": words }));
        }
        self.save()
    }

    fn save(&self) -> Result<(), String> {
        let text = serde_json::to_string_pretty(&self.document).unwrap_or_default();
        let beside = self.path.with_extension("new");
        let saved = std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, &self.path));
        saved.map_err(|error| format!("cannot save {}: {error}", self.path.display()))
    }

    /// Everything as tables of Markdown, as docs/reliability.md has them.
    pub(crate) fn table(&self) -> String {
        let mut text = String::new();
        for (part, rows) in self.document.iter().filter(|(_, rows)| rows.is_object()) {
            let Some(rows) = rows.as_object() else { continue };
            let mut columns: Vec<&str> = Vec::new();
            for row in rows.values().filter_map(Value::as_object) {
                for name in row.keys().filter(|name| !columns.contains(&name.as_str())).collect::<Vec<_>>() {
                    columns.push(name);
                }
            }
            columns.sort_by_key(|name| COLUMNS.iter().position(|column| column == name).unwrap_or(COLUMNS.len()));
            let _ = writeln!(text, "| {part} | {} |", columns.join(" | "));
            let _ = writeln!(text, "|---|{}", "--:|".repeat(columns.len()));
            for (name, row) in rows {
                let count = |column: &&str| row.get(*column).map_or_else(|| "–".to_owned(), Value::to_string);
                let counts: Vec<String> = columns.iter().map(count).collect();
                let _ = writeln!(text, "| {name} | {} |", counts.join(" | "));
            }
            text.push('\n');
        }
        let _ = write!(text, "{} failures seen", self.failures());
        text
    }
}
