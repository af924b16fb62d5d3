//! The results file: counts that add up over runs, and every failing seed with what was seen.

use std::collections::BTreeMap;
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
    /// With what and when everything that is added now is obtained.
    commit: String,
    date: String,
}

/// Where a file says by part with which commit, and on which day, the last of its figures was obtained.
const OBTAINED: &str = "obtained";
/// Values of which the last one counts; all others add up. Of the parts `life` and `soak` it is all of them.
const LAST_SEEN: [&str; 4] = ["next", "of", "steps_per_second", "targets"];

/// What one row counts, by name.
pub(crate) type Counts = BTreeMap<&'static str, u64>;

impl Results {
    /// Reads what earlier runs saw; a file that is not there is an empty one.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        let root = crate::built::root().display().to_string();
        let commit = said("git", &["-C", &root, "describe", "--always", "--dirty=+", "--exclude=*"]);
        let date = said("date", &["-u", "+%F"]);
        Ok(Self { path: path.to_path_buf(), document: read(path)?, commit, date })
    }

    /// Where it lies.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// How many failures were ever seen.
    pub(crate) fn failures(&self) -> u64 {
        failures(&self.document)
    }

    /// Adds counts to a row, and saves.
    pub(crate) fn add(&mut self, part: &str, row: &str, counts: &Counts) -> Result<(), String> {
        let counts = counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        self.add_named(part, row, counts)
    }

    fn add_named(&mut self, part: &str, row: &str, counts: Vec<(String, u64)>) -> Result<(), String> {
        self.change(part, |document| {
            let Some(row) = object(document, part).and_then(|rows| object(rows, row)) else { return };
            for (name, count) in counts {
                let before = row.get(&name).and_then(Value::as_u64).unwrap_or(0);
                row.insert(name, (before + count).into());
            }
        })
    }

    /// Sets a row's value to what was last seen, where a sum would say nothing.
    pub(crate) fn set(&mut self, part: &str, row: &str, name: &str, value: u64) -> Result<(), String> {
        self.change(part, |document| {
            if let Some(row) = object(document, part).and_then(|rows| object(rows, row)) {
                row.insert(name.to_owned(), value.into());
            }
        })
    }

    /// What a row counts so far.
    pub(crate) fn count(&self, part: &str, row: &str, name: &str) -> u64 {
        self.document.get(part).and_then(|rows| rows[row][name].as_u64()).unwrap_or(0)
    }

    /// A promise was seen broken: the seed and the words stay.
    pub(crate) fn fail(&mut self, part: &str, seed: &str, words: &str) -> Result<(), String> {
        eprintln!("FAILED {part}, seed {seed}: {words}");
        let words: String = words.chars().take(WORDS_MAX).collect();
        let commit = self.commit.clone();
        self.change(part, |document| {
            let count = failures(document) + 1;
            document.insert("failures_seen".into(), count.into());
            let list = document.entry("failures").or_insert_with(|| json!([]));
            if let Some(list) = list.as_array_mut().filter(|list| list.len() < FAILURES_MAX) {
                list.push(json!({ "part": part, "seed": seed, "seen": words, "commit": commit }));
            }
        })
    }

    /// With which commit and on which day the last figure of a part was obtained.
    pub(crate) fn obtained(&self, part: &str) -> (&str, &str) {
        let word = |name: &str| self.document.get(OBTAINED).and_then(|all| all[part][name].as_str());
        (word("commit").unwrap_or("?"), word("date").unwrap_or("?"))
    }

    /// The failures whose words are kept.
    pub(crate) fn failing(&self) -> &[Value] {
        self.document.get("failures").and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// Adds everything that another file of results has.
    pub(crate) fn take_in(&mut self, other: &Self) -> Result<(), String> {
        for (part, rows) in other.parts() {
            for (row, values) in rows {
                let mut sums = Vec::new();
                for (name, value) in values.as_object().into_iter().flatten() {
                    let Some(value) = value.as_u64() else { continue };
                    if is_last_seen(part, name) {
                        self.set(part, row, name, value)?;
                    } else {
                        sums.push((name.clone(), value));
                    }
                }
                self.add_named(part, row, sums)?;
            }
        }
        for failure in other.document.get("failures").and_then(Value::as_array).into_iter().flatten() {
            let word = |name: &str| failure[name].as_str().unwrap_or_default();
            self.fail(word("part"), word("seed"), word("seen"))?;
        }
        for (part, obtained) in other.document.get("obtained").and_then(Value::as_object).into_iter().flatten() {
            self.change(part, |document| {
                object(document, OBTAINED).and_then(|all| all.insert(part.clone(), obtained.clone()));
            })?;
        }
        Ok(())
    }

    /// Does something to what is in the file now: others add to it at the same time. What is killed here loses this one change.
    fn change(&mut self, part: &str, what: impl FnOnce(&mut Map<String, Value>)) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("cannot save {}: {error}", self.path.display());
        // Let go when it is closed.
        let lock = std::fs::File::create(self.path.with_extension("lock")).map_err(failed)?;
        lock.lock().map_err(failed)?;
        self.document = read(&self.path)?;
        let obtained = json!({ "commit": self.commit, "date": self.date });
        object(&mut self.document, OBTAINED).and_then(|all| all.insert(part.to_owned(), obtained));
        what(&mut self.document);
        let text = serde_json::to_string_pretty(&self.document).unwrap_or_default() + "\n";
        let beside = self.path.with_extension("new");
        std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, &self.path)).map_err(failed)
    }

    /// The parts with their rows.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (&str, &Map<String, Value>)> {
        let parts = self.document.iter().filter(|(name, _)| *name != OBTAINED);
        parts.filter_map(|(name, rows)| Some((name.as_str(), rows.as_object()?)))
    }
}

fn read(path: &Path) -> Result<Map<String, Value>, String> {
    match std::fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map_err(|error| format!("{} is no results file: {error}; delete it to begin anew", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Map::new()),
        Err(error) => Err(format!("cannot read {}: {error}", path.display())),
    }
}

fn failures(document: &Map<String, Value>) -> u64 {
    document.get("failures_seen").and_then(Value::as_u64).unwrap_or(0)
}

/// What has this name; made if it is not there.
fn object<'a>(parent: &'a mut Map<String, Value>, name: &str) -> Option<&'a mut Map<String, Value>> {
    parent.entry(name).or_insert_with(|| json!({})).as_object_mut()
}

fn is_last_seen(part: &str, name: &str) -> bool {
    matches!(part, "life" | "soak") || LAST_SEEN.contains(&name)
}

/// What a program prints; nothing if it cannot.
fn said(program: &str, args: &[&str]) -> String {
    let output = std::process::Command::new(program).args(args).stderr(std::process::Stdio::null()).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}
