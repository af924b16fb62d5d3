//! A wrong command line, explained as every other error: what is wrong, and what to write instead.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::explain::Failure;
use crate::render::clean;

/// What other programs call our verbs.
const SYNONYMS: [(&str, &str); 64] = [
    ("add", "run"),
    ("start", "run"),
    ("exec", "run"),
    ("spawn", "run"),
    ("submit", "run"),
    ("enqueue", "run"),
    ("launch", "run"),
    ("list", "ps"),
    ("ls", "ps"),
    ("status", "ps"),
    ("jobs", "ps"),
    ("tasks", "ps"),
    ("queue", "ps"),
    ("inspect", "show"),
    ("info", "show"),
    ("describe", "show"),
    ("log", "logs"),
    ("tail", "logs"),
    ("cat", "logs"),
    ("output", "logs"),
    ("follow", "logs"),
    ("await", "wait"),
    ("join", "wait"),
    ("stop", "kill"),
    ("cancel", "kill"),
    ("terminate", "kill"),
    ("abort", "kill"),
    ("signal", "kill"),
    ("pause", "kill --signal STOP ID"),
    ("suspend", "kill --signal STOP ID"),
    ("resume", "kill --signal CONT ID"),
    ("unpause", "kill --signal CONT ID"),
    ("continue", "kill --signal CONT ID"),
    ("history", "ps -a"),
    ("notices", "inbox"),
    ("notifications", "inbox"),
    ("messages", "inbox"),
    ("events", "inbox"),
    ("read", "inbox"),
    ("input", "send"),
    ("write", "send"),
    ("stdin", "send"),
    ("restart", "retry"),
    ("rerun", "retry"),
    ("again", "retry"),
    ("remove", "rm"),
    ("delete", "rm"),
    ("forget", "rm"),
    ("clean", "prune"),
    ("gc", "prune"),
    ("health", "doctor"),
    ("check", "doctor"),
    ("tests", "results"),
    ("errors", "diagnostics"),
    ("detach", "release"),
    ("sessions", "session ls"),
    ("server", "daemon"),
    ("serve", "daemon run"),
    ("shutdown", "daemon stop"),
    ("install", "setup"),
    ("init", "setup"),
    ("hooks", "setup"),
    ("completion", "completions"),
    ("version", "--version"),
];
/// Options that other programs have on the same verb, and how it is done here.
const HABITS: [(&str, &[&str], &str); 9] = [
    (
        "run",
        &["-i", "-t", "--tty", "--interactive"],
        "a terminal is given by --pty, and reached by attach: ringback run --pty -- PROGRAM, then ringback attach ID",
    ),
    (
        "run",
        &["-d", "--detach", "--background"],
        "run returns at once by itself; --lease detached lets the task outlive its session",
    ),
    ("run", &["--rm"], "ended tasks are kept, so that their output can be read; ringback rm ID forgets one"),
    ("run", &["--restart"], "nothing is started again by itself; ringback retry ID runs an ended task again"),
    (
        "run",
        &["--after", "--depends-on"],
        "no task waits for another by itself: ringback run -c 'ringback wait ID && PROGRAM'",
    ),
    ("run", &["-w", "--workdir"], "the folder is named by -C: ringback run -C DIR -- PROGRAM"),
    (
        "run",
        &["-m", "--memory", "--cpus", "--pids-limit"],
        "limits are one option: ringback run --limit mem=2GiB,pids=200,cpu=150% -- PROGRAM",
    ),
    ("logs", &["-t"], "the time before each line: ringback logs --timestamps ID"),
    ("wait", &["-n"], "the first of the live tasks that ends: ringback wait --any"),
];
/// How many letters a mistyped verb may differ by.
const TYPOS_MAX: usize = 2;
/// The longest message, characters: a wrong word may be a whole script.
const MESSAGE_CHARS: usize = 400;

/// What is wrong with the command line, and what to write instead.
pub(super) fn explain(error: &clap::Error, args: &[OsString]) -> Failure {
    let (verb, command) = verb_of(args);
    let text = error.to_string();
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            if let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) {
                let message = format!("`{}` is no verb of {verb}", clean::short(word, 40));
                return Failure::usage(message, verb_hint(word, &verb, &command));
            }
        }
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            return Failure::usage(format!("`{verb}` alone does nothing"), alternatives(&verb, &command));
        }
        _ => {}
    }
    let first = text.split("\n\n").next().unwrap_or_default();
    let message = first.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    let message = clean::short(message.strip_prefix("error: ").unwrap_or(&message), MESSAGE_CHARS);
    Failure::usage(message, hint(error, &text, &verb, args))
}

/// What to write instead of a command line of a verb that there is.
fn hint(error: &clap::Error, text: &str, verb: &str, args: &[OsString]) -> String {
    let usage = || format!("write it as: {}", usage_of(text).unwrap_or_else(|| format!("{verb} --help")));
    let similar = text.lines().find_map(|line| line.trim().strip_prefix("tip: ")).filter(|tip| tip.contains("similar"));
    match (similar, error.kind()) {
        (_, ErrorKind::UnknownArgument) if habit(error, verb).is_some() => {
            habit(error, verb).unwrap_or_default().to_owned()
        }
        (Some(similar), _) => similar.to_owned(),
        // Elsewhere `kill -9` and `kill -s NAME` name a signal.
        (None, ErrorKind::UnknownArgument | ErrorKind::ArgumentConflict) if verb == "ringback kill" => {
            let ids = ids_of(args);
            format!(
                "to stop it at once with all that it started: ringback kill --now {ids}; all tasks of a session: \
                 ringback kill -s SESSION; to signal its main process group alone: ringback kill --signal NAME {ids}"
            )
        }
        (None, ErrorKind::MissingRequiredArgument) if verb == "ringback kill" => {
            format!("{}, or for all live tasks of a session: ringback kill -s SESSION", usage())
        }
        (None, ErrorKind::MissingRequiredArgument) if verb == "ringback wait" => {
            let all = "or for the live tasks of the session: ringback wait --all (or --any for the first that ends)";
            format!("{}, {all}", usage())
        }
        // The parser's own advice, to pass an option it does not know as a value, is for few.
        (None, ErrorKind::UnknownArgument) => format!("`{verb} --help` lists what it takes"),
        (None, ErrorKind::InvalidValue | ErrorKind::ValueValidation | ErrorKind::InvalidUtf8) => {
            format!("`{verb} --help` says what it may be")
        }
        (None, _) => usage(),
    }
}

/// What another program's option is here.
fn habit(error: &clap::Error, verb: &str) -> Option<&'static str> {
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else { return None };
    let name = option.split('=').next().unwrap_or_default();
    let verb = verb.strip_prefix("ringback ")?;
    HABITS.iter().find(|(of, options, _)| *of == verb && options.contains(&name)).map(|(.., hint)| *hint)
}

/// The ids that stand on the command line of a verb, or the word for one.
fn ids_of(args: &[OsString]) -> String {
    let words = args.iter().skip(2).map(|word| word.to_string_lossy());
    let ids: Vec<String> = words.filter(|word| is_id(word)).map(std::borrow::Cow::into_owned).collect();
    if ids.is_empty() { "ID".to_owned() } else { ids.join(" ") }
}

/// Whether it is written as an id is, or the begin of one.
fn is_id(word: &str) -> bool {
    word.len() <= 12 && !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

/// The verb that these arguments name, as it is written, and what it is.
fn verb_of(args: &[OsString]) -> (String, clap::Command) {
    let (mut verb, mut command) = ("ringback".to_owned(), super::command().disable_help_subcommand(true));
    command.build();
    for word in args.iter().skip(1) {
        let word = word.to_string_lossy();
        match command.find_subcommand(word.as_ref()) {
            Some(found) => {
                let found = found.clone();
                verb = format!("{verb} {}", found.get_name());
                command = found;
            }
            // Of the options before a verb none has a value.
            None if word.starts_with('-') && word != "--" => {}
            None => break,
        }
    }
    (verb, command)
}

/// The usage that the parser has found, in one line.
fn usage_of(text: &str) -> Option<String> {
    let (_, usage) = text.split_once("Usage: ")?;
    let lines: Vec<&str> = usage.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    Some(lines.join(", or: "))
}

fn verb_hint(word: &str, verb: &str, command: &clap::Command) -> String {
    let known = SYNONYMS.iter().find(|(other, _)| verb == "ringback" && *other == word).map(|(_, ours)| *ours);
    let names = || command.get_subcommands().filter(|verb| !verb.is_hide_set()).map(clap::Command::get_name);
    // Of a short word little is left after two changes.
    let most = ((word.chars().count() + 1) / 3).min(TYPOS_MAX);
    let near = || names().map(|name| (distance(word, name), name)).min().filter(|(far, _)| *far <= most);
    match (known.or_else(|| near().map(|(_, name)| name)), verb) {
        (Some(name), "ringback") => {
            format!("did you mean `ringback {name}`? To start a program: ringback run -- {}", program(word))
        }
        (Some(name), _) => format!("did you mean `{verb} {name}`?"),
        (None, "ringback") => {
            format!("`ringback` alone lists the verbs; to start a program: ringback run -- {}", program(word))
        }
        (None, _) => alternatives(verb, command),
    }
}

fn program(word: &str) -> String {
    shlex::try_quote(&clean::short(word, 40)).map_or_else(|_| "PROGRAM".to_owned(), std::borrow::Cow::into_owned)
}

fn alternatives(verb: &str, command: &clap::Command) -> String {
    let names = command.get_subcommands().filter(|verb| !verb.is_hide_set() && verb.get_name() != "help");
    let all: Vec<String> = names.map(|name| format!("`{verb} {}`", name.get_name())).collect();
    format!("it is one of {}", all.join(", "))
}

/// How many letters must be changed, added, left out or swapped with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let same = usize::from(a[i - 1] != b[j - 1]);
                let mut best = (rows[i - 1][j] + 1).min(rows[i][j - 1] + 1).min(rows[i - 1][j - 1] + same);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    best = best.min(rows[i - 2][j - 2] + 1);
                }
                best
            };
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(args: &[&str]) -> (String, String) {
        let all: Vec<OsString> = [&["ringback"], args].concat().iter().map(OsString::from).collect();
        let failure = explain(&super::super::command().try_get_matches_from(&all).unwrap_err(), &all);
        (failure.message, failure.hint.unwrap_or_default())
    }

    #[test]
    fn a_mistyped_verb_or_the_word_of_another_program_leads_to_ours() {
        for (verb, ours) in [("rnu", "run"), ("stop", "kill"), ("kil", "kill"), ("list", "ps"), ("inbx", "inbox")] {
            let (message, hint) = check(&[verb]);
            assert_eq!(message, format!("`{verb}` is no verb of ringback"));
            assert!(hint.contains(&format!("did you mean `ringback {ours}`?")), "{hint}");
        }
        assert!(check(&["cargo-nextest"]).1.contains("ringback run -- cargo-nextest"));
    }

    #[test]
    fn every_word_of_another_program_leads_to_a_verb_that_there_is() {
        for (word, ours) in SYNONYMS {
            assert!(super::super::command().find_subcommand(word).is_none(), "{word} is a verb of ours");
            let words: Vec<&str> = ["ringback"].into_iter().chain(ours.split(' ')).collect();
            let unknown = super::super::command().try_get_matches_from(words).err();
            assert!(unknown.is_none_or(|error| error.kind() != ErrorKind::InvalidSubcommand), "{ours}");
        }
    }

    #[test]
    fn a_verb_of_a_verb_leads_to_those_that_there_are() {
        let (message, hint) = check(&["daemon", "foo"]);
        assert_eq!(message, "`foo` is no verb of ringback daemon");
        assert!(hint.contains("`ringback daemon stop`") && !hint.contains("deliver"), "{hint}");
        assert_eq!(check(&["daemon", "stopp"]).1, "did you mean `ringback daemon stop`?");
        let (message, hint) = check(&["session"]);
        assert_eq!(message, "`ringback session` alone does nothing");
        assert!(hint.contains("`ringback session end`") && hint.contains("`ringback session ls`"), "{hint}");
    }

    #[test]
    fn a_habit_of_another_program_leads_to_the_way_it_is_done_here() {
        for (verb, options, hint) in HABITS {
            for option in options {
                assert_eq!(check(&[verb, option, "x"]).1, hint, "{verb} {option}");
            }
        }
        assert!(check(&["run", "-it", "bash"]).1.contains("ringback run --pty"));
        assert!(check(&["run", "--restart=always", "true"]).1.contains("ringback retry ID"));
        assert!(check(&["pause", "k3"]).1.contains("`ringback kill --signal STOP ID`"));
        assert!(check(&["history"]).1.contains("`ringback ps -a`"));
    }

    #[test]
    fn a_signal_that_is_meant_to_kill_leads_to_what_takes_the_whole_tree() {
        let hint = check(&["kill", "-9", "k3zd"]).1;
        assert!(hint.starts_with("to stop it at once with all that it started: ringback kill --now k3zd;"), "{hint}");
        assert!(check(&["kill", "--all"]).1.contains("ringback kill -s SESSION"));
        assert!(check(&["kill", "-s", "KILL", "k3zd"]).1.contains("ringback kill --now k3zd"));
    }

    #[test]
    fn options_and_missing_words_are_explained_in_one_line_with_a_hint() {
        let (message, hint) = check(&["kill"]);
        assert_eq!(message, "the following required arguments were not provided: <ID>...");
        assert!(hint.contains("ringback kill") && hint.ends_with("ringback kill -s SESSION"), "{hint}");
        let hint = check(&["wait"]).1;
        assert!(hint.contains("ringback wait --all") && hint.contains("--any"), "{hint}");
        let (message, hint) = check(&["run", "--tiemout", "5s", "true"]);
        assert_eq!(message, "unexpected argument '--tiemout' found");
        assert!(hint.contains("'--timeout'"), "{hint}");
        let (message, _) = check(&["run", "--timeout", "0", "true"]);
        assert!(message.contains("leave the option away for no limit"), "{message}");
        assert_eq!(check(&["show", "--wat", "x"]).1, "`ringback show --help` lists what it takes");
        let long = "x".repeat(100_000);
        assert!(check(&["run", "--timeout", &long, "true"]).0.len() < 2 * MESSAGE_CHARS);
    }
}
