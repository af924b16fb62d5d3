//! The plain forms of `run`, read without the parser: what is written most often does not pay for every option there is.
//!
//! Nothing is decided here that the parser would decide otherwise: a test compares them. What is not plain is left to it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use super::door::Door;
use super::run::Run;
use super::value;

/// `run` with plain options and its command; nothing for any other command line, be it right or wrong.
pub(super) fn read(args: &[OsString]) -> Option<(Door, Run)> {
    let (_, args) = args.split_first()?;
    let (verb, mut rest) = args.split_first()?;
    if verb != "run" {
        return None;
    }
    let (mut door, mut run) = (Door { json: false, quiet: false }, Run::default());
    while let Some((word, after)) = rest.split_first() {
        match word.to_str()? {
            "-q" | "--quiet" if !door.quiet => door.quiet = true,
            "--json" if !door.json => door.json = true,
            "--" => {
                run.argv = after.to_vec();
                break;
            }
            option if option.starts_with('-') => {
                let (value, after) = after.split_first()?;
                set(&mut run, option, value)?;
                rest = after;
                continue;
            }
            // A second `--` is for the parser to understand.
            _ if after.iter().any(|word| word == "--") => return None,
            _ => {
                run.argv = rest.to_vec();
                break;
            }
        }
        rest = after;
    }
    // One of both, and not both.
    (run.argv.is_empty() == run.script.is_some()).then_some((door, run))
}

/// Sets an option to its value, if both are plain and it has none yet.
fn set(run: &mut Run, option: &str, value: &OsStr) -> Option<()> {
    if value.is_empty() || value.as_bytes().starts_with(b"-") {
        return None;
    }
    let text = || value.to_str().map(str::to_owned);
    let was_there = match option {
        "-n" | "--name" => run.name.replace(text()?).is_some(),
        "-s" | "--session" => run.session.replace(text()?).is_some(),
        "-C" | "--cwd" => run.cwd.replace(value.into()).is_some(),
        "--timeout" => run.timeout.replace(value::limit(value.to_str()?).ok()?).is_some(),
        "-c" => run.script.replace(value.to_owned()).is_some(),
        _ => return None,
    };
    (!was_there).then_some(())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::super::{Cli, Verb};
    use super::*;

    const WORDS: [&str; 18] = [
        "-q",
        "--json",
        "--quiet",
        "-n",
        "--name",
        "-s",
        "--session",
        "-C",
        "--cwd",
        "-c",
        "--timeout",
        "--",
        "-f",
        "-",
        "",
        "5s",
        "true",
        "run",
    ];

    /// Whether these words are plain; if so the parser reads the same in them.
    fn is_plain(words: &[&str]) -> bool {
        let args: Vec<OsString> = ["ringback", "run"].iter().chain(words).map(OsString::from).collect();
        let Some((door, run)) = read(&args) else { return false };
        let cli = Cli::try_parse_from(&args).unwrap_or_else(|error| panic!("{words:?} is wrong: {error}"));
        let Some(Verb::Run(theirs)) = &cli.verb else { panic!("{words:?}: {cli:?}") };
        assert_eq!(
            (door.json, door.quiet, format!("{run:?}")),
            (cli.json, cli.quiet, format!("{theirs:?}")),
            "{words:?}"
        );
        true
    }

    #[test]
    fn what_is_plain_is_read_as_the_parser_reads_it() {
        let mut plain = 0;
        for first in WORDS {
            plain += usize::from(is_plain(&[first]));
            for second in WORDS {
                plain += usize::from(is_plain(&[first, second]));
                for third in WORDS {
                    plain += usize::from(is_plain(&[first, second, third]));
                }
            }
        }
        assert!(plain > 1000, "{plain}");
    }

    #[test]
    fn what_is_written_most_often_is_plain() {
        for words in [
            &["--", "cargo", "test"][..],
            &["cargo", "test", "--json", "-q"],
            &["-q", "--", "true"],
            &["-n", "tests", "--timeout", "10m", "--", "cargo", "test", "--", "--nocapture"],
            &["--json", "-s", "mine", "-C", "/tmp", "-c", "a && b"],
        ] {
            assert!(is_plain(words), "{words:?}");
        }
        for words in [
            &["-f", "true"][..],
            &["-qn", "x", "true"],
            &["--name=x", "true"],
            &["-c", "a", "b"],
            &["-n", "-q", "true"],
        ] {
            assert!(!is_plain(words), "{words:?}");
        }
    }
}
