//! `ringback setup`: makes agents use ringback.

use std::env;
use std::path::{Path, PathBuf};

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::door::{self, Door};
use crate::explain::{Done, EXIT_FAILED, Failure};
use crate::render::clean;
use crate::render::json::document;
use crate::setup::{AGENTS, AGENTS_MD, Agent, Outcome, Places, State, Wish, carry_out, snippets};

#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
/// Make agents use ringback: MCP server, hooks and plugins, in their own settings
///
/// Without an agent: all that are found. What is in the settings stays as it is, order and comments too; a second time
/// changes nothing; --undo takes away what was put in. A file that cannot be read is left alone.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ringback setup --dry-run\n  ringback setup claude\n  ringback setup --print agents-md"
)]
pub(crate) struct Setup {
    /// Which agents
    #[arg(value_enum, value_name = "AGENT")]
    agents: Vec<Which>,
    /// In the settings of the project in this folder, not of the person
    #[arg(long)]
    project: bool,
    /// Take it away again
    #[arg(long, conflicts_with = "print")]
    undo: bool,
    /// Print what is to be put into which file, to do it by hand
    #[arg(long)]
    print: bool,
    /// Show what would change, and change nothing
    #[arg(long, conflicts_with = "print")]
    dry_run: bool,
}

/// A word for whom to set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    /// This agent.
    One(Agent),
    /// All that are found.
    All,
    /// None: a paragraph to read.
    AgentsMd,
}

impl ValueEnum for Which {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [Which; AGENTS.len() + 2] = {
            let mut all = [Which::All; AGENTS.len() + 2];
            let mut at = 0;
            while at < AGENTS.len() {
                all[at] = Which::One(AGENTS[at]);
                at += 1;
            }
            all[at + 1] = Which::AgentsMd;
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match self {
            Self::One(agent) => PossibleValue::new(agent.name()),
            Self::All => PossibleValue::new("all").help("All that are found"),
            Self::AgentsMd => {
                PossibleValue::new("agents-md").help("A paragraph for AGENTS.md or CLAUDE.md (only with --print)")
            }
        })
    }
}

impl Setup {
    /// Does it.
    pub(crate) fn perform(self, door: Door) -> Done {
        if self.agents.contains(&Which::AgentsMd) {
            if !self.print {
                let hint = "ringback setup --print agents-md >> AGENTS.md";
                return Err(Failure::usage("agents-md is only printed; your AGENTS.md is yours to write", hint));
            }
            return print(door, &[Snippet { agent: None, path: "AGENTS.md".into(), text: AGENTS_MD.to_owned() }]);
        }
        let project = if self.project { Some(env::current_dir()?) } else { None };
        let places = Places::find(project).ok_or_else(|| {
            Failure::new("no_home", "there is no home folder: HOME is not set", Some("set HOME".to_owned()))
        })?;
        let program = program()?;
        let one = |which: &Which| if let Which::One(agent) = which { Some(*agent) } else { None };
        // `all` beside a name is all.
        let all = self.agents.contains(&Which::All);
        let agents: Vec<Agent> = if all { Vec::new() } else { self.agents.iter().filter_map(one).collect() };
        if self.print {
            if agents.is_empty() {
                return Err(Failure::usage("say for which agent", "ringback setup --print claude"));
            }
            let of = |agent: &Agent| {
                let files = snippets(*agent, &places, &program).into_iter();
                files.map(|(path, text)| Snippet { agent: Some(*agent), path, text }).collect::<Vec<_>>()
            };
            return print(door, &agents.iter().flat_map(of).collect::<Vec<_>>());
        }
        let wish = Wish { agents, undo: self.undo, dry_run: self.dry_run };
        let outcomes = carry_out(&places, &program, &wish)?;
        say(door, &outcomes, &wish)?;
        let failed = outcomes.iter().any(|outcome| matches!(outcome.state, State::Failed(_)));
        Ok(if failed { EXIT_FAILED } else { 0 })
    }
}

/// How ringback is called from elsewhere: by its name where that finds this very program, else by its path.
fn program() -> Result<String, Failure> {
    let own = env::current_exe()?;
    let path = env::var_os("PATH").unwrap_or_default();
    let same = |found: &PathBuf| found.canonicalize().ok() == own.canonicalize().ok();
    let found = env::split_paths(&path).map(|folder| folder.join("ringback")).find(|program| program.is_file());
    Ok(if found.is_some_and(|found| same(&found)) { "ringback".to_owned() } else { own.to_string_lossy().into_owned() })
}

/// What belongs into a file.
struct Snippet {
    agent: Option<Agent>,
    path: PathBuf,
    text: String,
}

fn print(door: Door, snippets: &[Snippet]) -> Done {
    if door.json {
        let file = |one: &Snippet| json!({ "agent": one.agent.map(Agent::name), "path": one.path.to_string_lossy(), "text": one.text });
        door::document(&document(json!({ "files": snippets.iter().map(file).collect::<Vec<_>>() })))?;
        return Ok(0);
    }
    for Snippet { agent, path, text } in snippets {
        match agent {
            Some(_) => door::out(&format!("# {}\n{}\n", shown(path), text.trim_end()))?,
            // It is appended to a file of the person.
            None => door::out(text)?,
        }
    }
    Ok(0)
}

fn say(door: Door, outcomes: &[Outcome], wish: &Wish) -> Result<(), Failure> {
    if door.json {
        let files: Vec<Value> = outcomes.iter().map(object).collect();
        return door::document(&document(json!({ "dry_run": wish.dry_run, "files": files })));
    }
    for outcome in outcomes {
        let path = shown(&outcome.path);
        let word = match (&outcome.state, wish.dry_run) {
            (State::Failed(why), _) => {
                door::talk(&format!("error: {path} is left alone: {}", clean::line(why)));
                continue;
            }
            (State::Same, _) => "unchanged",
            (State::Made, false) => "made",
            (State::Made, true) => "would make",
            (State::Changed, false) => "changed",
            (State::Changed, true) => "would change",
            (State::Removed, false) => "removed",
            (State::Removed, true) => "would remove",
        };
        if !door.quiet {
            door::out(&format!("{word} {path}\n{}", outcome.difference))?;
        }
    }
    let mut told = Vec::new();
    for outcome in outcomes.iter().filter(|outcome| !matches!(outcome.state, State::Same | State::Failed(_))) {
        if !wish.dry_run && !wish.undo && !told.contains(&outcome.next) {
            told.push(outcome.next);
            door.note(&format!("hint: {}", outcome.next));
        }
    }
    Ok(())
}

fn object(outcome: &Outcome) -> Value {
    let (state, error) = match &outcome.state {
        State::Made => ("made", None),
        State::Changed => ("changed", None),
        State::Same => ("unchanged", None),
        State::Removed => ("removed", None),
        State::Failed(why) => ("failed", Some(why)),
    };
    json!({ "agent": outcome.agent.name(), "path": outcome.path.to_string_lossy(), "state": state, "error": error,
        "difference": outcome.difference })
}

/// A path as people write it.
fn shown(path: &Path) -> String {
    let home = env::var_os("HOME").map(PathBuf::from);
    let inside = home.and_then(|home| path.strip_prefix(home).ok().map(Path::to_owned));
    clean::line(&inside.map_or_else(|| path.to_string_lossy().into_owned(), |inside| format!("~/{}", inside.display())))
}
