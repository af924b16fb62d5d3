//! A wrong command line, explained as every other error: what is wrong, and what to write instead.

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::explain::Failure;
use crate::render::clean;

/// What other programs call our verbs.
const SYNONYMS: [(&str, &str); 17] = [
    ("add", "run"),
    ("start", "run"),
    ("exec", "run"),
    ("spawn", "run"),
    ("list", "ps"),
    ("ls", "ps"),
    ("status", "ps"),
    ("inspect", "show"),
    ("info", "show"),
    ("log", "logs"),
    ("tail", "logs"),
    ("output", "logs"),
    ("stop", "kill"),
    ("cancel", "kill"),
    ("notices", "inbox"),
    ("restart", "retry"),
    ("remove", "rm"),
];
/// How many letters a mistyped verb may differ by.
const TYPOS_MAX: usize = 2;

/// What is wrong with the command line, and what to write instead.
pub(super) fn explain(error: &clap::Error) -> Failure {
    let text = error.to_string();
    let mut paragraphs = text.split("\n\n");
    let first = paragraphs.next().unwrap_or_default();
    let message = first.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    let message = message.strip_prefix("error: ").unwrap_or(&message).to_owned();
    if error.kind() == ErrorKind::InvalidSubcommand
        && let Some(ContextValue::String(verb)) = error.get(ContextKind::InvalidSubcommand)
    {
        return Failure::usage(format!("`{}` is no verb of ringback", clean::short(verb, 40)), verb_hint(verb));
    }
    let after = text.get(first.len()..).unwrap_or_default();
    let found =
        |prefix: &str| after.lines().map(str::trim).find_map(|line| line.strip_prefix(prefix)).map(str::to_owned);
    let hint = found("tip: ").or_else(|| found("Usage: ").map(|usage| format!("write it as: {usage}")));
    Failure::usage(message, hint.unwrap_or_else(|| "`ringback help` and `ringback help VERB` say how".to_owned()))
}

fn verb_hint(verb: &str) -> String {
    let command = super::command();
    let names: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
    let known = SYNONYMS.iter().find(|(other, _)| *other == verb).map(|(_, ours)| *ours);
    let near = || names.iter().map(|name| (distance(verb, name), *name)).min().filter(|(far, _)| *far <= TYPOS_MAX);
    match known.or_else(|| near().map(|(_, name)| name)) {
        Some(name) => format!("did you mean `ringback {name}`? To start a program: ringback run -- PROGRAM"),
        None => "`ringback` alone lists the verbs; to start a program: ringback run -- PROGRAM".to_owned(),
    }
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
        let all = [&["ringback"], args].concat();
        let failure = explain(&super::super::command().try_get_matches_from(all).unwrap_err());
        (failure.message, failure.hint.unwrap_or_default())
    }

    #[test]
    fn a_mistyped_verb_or_the_word_of_another_program_leads_to_ours() {
        for (verb, ours) in [("rnu", "run"), ("stop", "kill"), ("kil", "kill"), ("list", "ps"), ("inbx", "inbox")] {
            let (message, hint) = check(&[verb]);
            assert_eq!(message, format!("`{verb}` is no verb of ringback"));
            assert!(hint.contains(&format!("did you mean `ringback {ours}`?")), "{hint}");
        }
        assert!(check(&["cargo-nextest"]).1.contains("ringback run -- PROGRAM"));
    }

    #[test]
    fn options_and_missing_words_are_explained_in_one_line_with_a_hint() {
        let (message, hint) = check(&["kill"]);
        assert_eq!(message, "the following required arguments were not provided: <ID>...");
        assert!(hint.contains("ringback kill"), "{hint}");
        let (message, hint) = check(&["run", "--tiemout", "5s", "true"]);
        assert_eq!(message, "unexpected argument '--tiemout' found");
        assert!(hint.contains("'--timeout'"), "{hint}");
        let (message, _) = check(&["run", "--timeout", "0", "true"]);
        assert!(message.contains("leave the option away for no limit"), "{message}");
    }
}
