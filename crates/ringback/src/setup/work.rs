//! Carries setup and undo out, file by file: a file that cannot be edited is left alone, and the others go on.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use ringback_host::home::Home;

use super::agents::{AGENTS, Agent, Content, Entry, MARK, Plan};
use super::difference::difference;
use super::jsonc::{self, Edited};
use super::note::{Note, Notes, number};
use super::place::Places;
use super::tables;
use crate::explain::Failure;

/// The longest file that is edited, bytes: an agent keeps its history in one of them.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// What is wished.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    /// For these agents; none is all that are found.
    pub(crate) agents: Vec<Agent>,
    /// Take it away again.
    pub(crate) undo: bool,
    /// Only say what would be done.
    pub(crate) dry_run: bool,
}

/// What became of one file.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) agent: Agent,
    pub(crate) path: PathBuf,
    pub(crate) state: State,
    /// What changes in it.
    pub(crate) difference: String,
    /// What is left to the person.
    pub(crate) next: &'static str,
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It was not there.
    Made,
    /// It was edited.
    Changed,
    /// Nothing was to be done.
    Same,
    /// It was ours alone.
    Removed,
    /// It was left alone.
    Failed(String),
}

/// Does it for all agents that are wished.
pub(crate) fn carry_out(places: &Places, program: &str, wish: &Wish) -> Result<Vec<Outcome>, Failure> {
    let found: Vec<Agent> = AGENTS.into_iter().filter(|agent| places.has(*agent)).collect();
    let agents = if wish.agents.is_empty() { &found } else { &wish.agents };
    if agents.is_empty() {
        let names = AGENTS.map(Agent::name).join(", ");
        let hint = Some(format!("name one: ringback setup claude (it may be {names})"));
        return Err(Failure::new("no_agent", "no agent was found in the home folder", hint));
    }
    let home = Home::find()?;
    let mut outcomes = Vec::new();
    for agent in agents {
        let mut plans = agent.plans(places, program);
        if wish.undo {
            // A folder is noted at the first file that was made in it, and goes with it.
            plans.reverse();
        }
        for plan in plans {
            let Done { state, difference } = Task { plan: &plan, notes: Notes::of(&home), home: &home, wish }.perform();
            outcomes.push(Outcome { agent: *agent, path: plan.path, state, difference, next: agent.next() });
        }
    }
    Ok(outcomes)
}

/// The text of a file that has nothing else in it.
pub(super) fn new_text(content: &Content) -> Result<String, String> {
    Ok(put(content, "")?.text)
}

struct Done {
    state: State,
    difference: String,
}

struct Task<'a> {
    plan: &'a Plan,
    notes: Notes,
    home: &'a Home,
    wish: &'a Wish,
}

impl Task<'_> {
    fn perform(&self) -> Done {
        // A link into a folder of dotfiles stays one.
        let path = fs::canonicalize(&self.plan.path).unwrap_or_else(|_| self.plan.path.clone());
        let done = read(&path).and_then(|before| match (self.wish.undo, before) {
            (false, before) => self.set_up(&path, before.as_deref()),
            (true, Some(before)) => self.undo(&path, &before),
            (true, None) => Ok(Done { state: State::Same, difference: String::new() }),
        });
        done.unwrap_or_else(|why| Done { state: State::Failed(why), difference: String::new() })
    }

    fn set_up(&self, path: &Path, before: Option<&str>) -> Result<Done, String> {
        let text = before.unwrap_or_default();
        let Edited { text: after, made } = put(&self.plan.content, text)?;
        if before == Some(after.as_str()) {
            return Ok(Done { state: State::Same, difference: String::new() });
        }
        let state = if before.is_some() { State::Changed } else { State::Made };
        let done = Done { state, difference: difference(text, &after) };
        if self.wish.dry_run {
            return Ok(done);
        }
        let mut note = self.notes.load(path).unwrap_or_else(|| Note {
            path: path.to_string_lossy().into_owned(),
            existed: before.is_some(),
            ..Note::default()
        });
        note.made.extend(made);
        let back = take(&self.plan.content, &after, Some(&note.made))?;
        let is_exact = if note.existed { back == text } else { is_bare(&self.plan.content, &back) };
        note.exact = (!is_exact && note.existed).then(|| (text.to_owned(), number(&after)));
        note.folders.extend(make_folders(path)?);
        // The note first: a change without one could not be taken back as exactly.
        self.home.prepare().map_err(|error| error.to_string())?;
        self.notes.save(path, &note).map_err(|failure| failure.message)?;
        write(path, before, &after)?;
        Ok(done)
    }

    fn undo(&self, path: &Path, before: &str) -> Result<Done, String> {
        let note = self.notes.load(path);
        let exact = note.as_ref().and_then(|note| note.exact.as_ref()).filter(|(_, after)| *after == number(before));
        let after = match exact {
            Some((text, _)) => text.clone(),
            None => take(&self.plan.content, before, note.as_ref().map(|note| note.made.as_slice()))?,
        };
        if after == before {
            return Ok(Done { state: State::Same, difference: String::new() });
        }
        let whole = matches!(self.plan.content, Content::Whole(_));
        let ours_alone = note.as_ref().map_or(whole, |note| !note.existed) && is_bare(&self.plan.content, &after);
        let state = if ours_alone { State::Removed } else { State::Changed };
        let done = Done { state, difference: difference(before, &after) };
        if self.wish.dry_run {
            return Ok(done);
        }
        if ours_alone {
            fs::remove_file(path).map_err(|error| format!("it cannot be removed: {error}"))?;
            for folder in note.iter().flat_map(|note| note.folders.iter().rev()) {
                // One with something else in it stays.
                let _kept = fs::remove_dir(folder);
            }
        } else {
            write(path, Some(before), &after)?;
        }
        self.notes.forget(path);
        Ok(done)
    }
}

fn put(content: &Content, text: &str) -> Result<Edited, String> {
    match content {
        Content::Json(entries) => jsonc::put(text, entries),
        Content::Toml(path, values) => Ok(Edited { text: tables::put(text, path, values)?, made: Vec::new() }),
        Content::Whole(whole) if text.is_empty() || text.starts_with(MARK) => {
            Ok(Edited { text: whole.clone(), made: Vec::new() })
        }
        Content::Whole(_) => Err("it is another file of this name".to_owned()),
    }
}

/// Without a note everything that is empty without us is taken for made by us.
fn take(content: &Content, text: &str, made: Option<&[Vec<String>]>) -> Result<String, String> {
    match content {
        Content::Json(entries) => {
            let made = made.map_or_else(|| all_made(entries), <[_]>::to_vec);
            jsonc::take(text, entries, &made)
        }
        Content::Toml(path, _) => tables::take(text, path),
        Content::Whole(_) if text.starts_with(MARK) => Ok(String::new()),
        Content::Whole(_) => Ok(text.to_owned()),
    }
}

fn all_made(entries: &[Entry]) -> Vec<Vec<String>> {
    let mut all: Vec<Vec<String>> = Vec::new();
    for entry in entries {
        if let Entry::Server { path, .. } | Entry::Hook { path, .. } = entry {
            let prefixes =
                (1..=path.len()).map(|length| path[..length].iter().map(|name| (*name).to_owned()).collect());
            for prefix in prefixes {
                if !all.contains(&prefix) {
                    all.push(prefix);
                }
            }
        }
    }
    all
}

fn is_bare(content: &Content, text: &str) -> bool {
    match content {
        Content::Json(_) => jsonc::is_bare(text),
        Content::Toml(..) | Content::Whole(_) => tables::is_bare(text),
    }
}

/// The text of a file; nothing if there is none.
fn read(path: &Path) -> Result<Option<String>, String> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(|error| format!("it cannot be read: {error}"))?,
    };
    let mut text = String::new();
    match file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text) {
        Ok(length) if length as u64 > FILE_BYTES_MAX => Err(format!("it is longer than {FILE_BYTES_MAX} bytes")),
        Ok(_) => Ok(Some(text)),
        Err(error) => Err(format!("it cannot be read: {error}")),
    }
}

/// Makes the folders of a file; those that were missing, the outer ones first.
fn make_folders(path: &Path) -> Result<Vec<PathBuf>, String> {
    let Some(parent) = path.parent() else { return Ok(Vec::new()) };
    let missing: Vec<PathBuf> = parent.ancestors().take_while(|folder| !folder.exists()).map(Path::to_owned).collect();
    fs::create_dir_all(parent).map_err(|error| format!("its folder cannot be made: {error}"))?;
    Ok(missing.into_iter().rev().collect())
}

/// Puts a text in the place of another one, whole or not at all, unless the file was changed in between.
fn write(path: &Path, before: Option<&str>, after: &str) -> Result<(), String> {
    let cannot = |error: io::Error| format!("it cannot be written: {error}");
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".ringback-{}", std::process::id()));
    let beside = PathBuf::from(beside);
    // Settings hold tokens: whatever the umask, and also if we die in the middle, nobody else can read the new text.
    let written = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&beside).and_then(|mut file| {
        file.write_all(after.as_bytes())?;
        if before.is_some() {
            file.set_permissions(fs::metadata(path)?.permissions())?;
        }
        file.sync_data()
    });
    let answer = written.map_err(cannot).and_then(|()| {
        if read(path)?.as_deref() != before {
            return Err("somebody else is writing it; try again".to_owned());
        }
        fs::rename(&beside, path).map_err(cannot)
    });
    if answer.is_err() {
        // The error that counts is the first one.
        let _ = fs::remove_file(&beside);
    }
    answer
}
