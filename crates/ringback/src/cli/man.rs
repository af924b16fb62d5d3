//! `ringback man`: man pages, from the command line itself, with what a page says beyond it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::door::{self, Door};
use crate::explain::{Done, Failure};
use crate::render::count::count;
use crate::render::json::document;

/// Exit codes, as every page names them.
const EXIT_STATUS: [(&str, &str); 9] = [
    (
        "0-255",
        "Of `run -f`, `run --wait`, `retry -f`, `wait`, `attach` and `logs -f --exit-code`: the task's own exit code.",
    ),
    ("128+N", "The task died of signal N, also when ringback sent it. 143 where it answered TERM with exit code 0."),
    ("0", "Of the other verbs: done. `run` alone: the task is recorded."),
    (
        "1",
        "`kill`, `session end`: a process survived, or nobody could look what is left. `doctor`: a check failed. \
           `demo`: something does not hold. `daemon status`: no daemon runs. `hook`: the hook failed.",
    ),
    ("2", "The command line is wrong."),
    ("124", "The wait timed out; the task runs on."),
    ("125", "ringback failed, or the task is lost."),
    ("126, 127", "The program could not be executed, or was not found."),
    (
        "130, 141",
        "You pressed Ctrl-C while looking or left `attach`, or who read the output went away; the task runs on.",
    ),
];
const ENVIRONMENT: [(&str, &str); 10] = [
    ("RINGBACK_HOME", "The home. Without it $XDG_STATE_HOME/ringback, without that ~/.local/state/ringback."),
    ("RINGBACK_SESSION", "The session, where no --session is given. Set in every task to the session of the task."),
    (
        "CLAUDE_CODE_SESSION_ID, CODEX_THREAD_ID, GEMINI_SESSION_ID",
        "The session, where RINGBACK_SESSION is not set; without any it is `default`.",
    ),
    ("RINGBACK_ID", "Set in every task: its id."),
    ("RINGBACK_PROGRESS_FD", "Set in a task of `run --progress-fd`: the descriptor for lines like `37 epoch 2`."),
    ("XDG_CONFIG_HOME", "Where the folder ringback/ with the config is; else ~/.config."),
    ("NO_COLOR", "No colours, if it is set and not empty."),
    ("CLICOLOR_FORCE", "Colours off a terminal too, if it is set and neither empty nor 0."),
    ("TERM", "No colours if it is `dumb`."),
    ("COLUMNS", "How wide the help is."),
];
const FILES: [(&str, &str); 6] = [
    ("~/.config/ringback/config.toml", "The config, read by the daemon when it starts."),
    ("~/.local/state/ringback/", "The home: folders 0700, files 0600, whatever the umask."),
    ("db.sqlite", "In the home: tasks and notices."),
    ("daemon.sock, daemon.lock, start.lock, daemon.log, news", "In the home: the daemon, one per home."),
    ("bin/HASH/ringback-keeper", "In the home: the program that holds each task."),
    ("t/ID[0..2]/ID/", "In the home: a task; `output` has its raw output at offsets that never change."),
];

/// Print the man page, or write one per verb
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Write ringback.1 and a page for each verb into this folder (made if it is missing)
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Man {
    /// Prints or writes them.
    pub(crate) fn perform(self, door: Door) -> Done {
        let mut command = super::command().disable_help_subcommand(true);
        command.build();
        let Some(dir) = self.dir else {
            return door::text(door, "man", &String::from_utf8_lossy(&page(&command)?));
        };
        let mut written = Vec::new();
        let done = fs::create_dir_all(&dir).and_then(|()| write(&command, &dir, &mut written));
        done.map_err(|error| {
            let message = format!("cannot write man pages to {}: {error}", dir.display());
            Failure::new("io", message, Some("is it a folder that you may write to?".to_owned()))
        })?;
        let files: Vec<_> = written.iter().map(|path| path.to_string_lossy()).collect();
        if door.json {
            door::document(&document(json!({ "files": files })))?;
        } else {
            door.note(&format!("{} written to {}", count(files.len() as u64, "page"), dir.display()));
        }
        Ok(0)
    }
}

/// Writes the page of this command and those of its verbs.
fn write(command: &clap::Command, dir: &Path, written: &mut Vec<PathBuf>) -> io::Result<()> {
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        write(verb, dir, written)?;
    }
    let path = dir.join(clap_mangen::Man::new(command.clone()).get_filename());
    fs::write(&path, page(command)?)?;
    written.push(path);
    Ok(())
}

fn page(command: &clap::Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    let man = clap_mangen::Man::new(command.clone());
    man.render(&mut page)?;
    let own = [("EXIT STATUS", &EXIT_STATUS[..]), ("ENVIRONMENT", &ENVIRONMENT[..]), ("FILES", &FILES[..])];
    for (title, entries) in own {
        page.extend_from_slice(format!(".SH {}\n", escaped(title)).as_bytes());
        for (term, text) in entries {
            page.extend_from_slice(format!(".TP\n\\fB{}\\fR\n{}\n", escaped(term), escaped(text)).as_bytes());
        }
    }
    Ok(page)
}

/// Text as roff takes it: no hyphenation marks for minus signs, and no line that is a request (groff(7)).
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}
