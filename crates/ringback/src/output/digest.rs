//! The digest of a task, and everything that was recognised in its output and its reports.

use std::io;

use jiff::Timestamp;
use ringback_host::client::output::{Output, Part, Piece};
use ringback_host::wire::TaskObject;
use ringback_render::digest::{Calls, DigestOptions, Skipper};
use ringback_render::junit::Report;
use ringback_render::kept::ReportFile;
use ringback_render::recognise::{Findings, Mention, Recogniser};
use ringback_render::scan::{GLANCE_BACK_BYTES, Glance, Scanner, Veil};
use ringback_render::{Digest, Digester, Options, Verdict};
use serde::Serialize;

use super::reports::{self, Read};
use crate::render::task as words;

/// Shells that run a script which is their argument.
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "zsh", "ksh", "ash"];
/// Those of their long options that have a word of their own (bash(1)).
const FILE_OPTIONS: [&str; 2] = ["--rcfile", "--init-file"];

/// The digest of a task, in at most `budget` bytes, for a reader at this door.
pub(crate) fn digest(task: &TaskObject, budget: usize, calls: Calls) -> io::Result<Digest> {
    let (columns, rows) = task.pty.map_or((None, Options::ROWS), |size| (Some(size.columns), size.rows));
    let mut digester = Digester::new(DigestOptions { budget, columns, rows, calls });
    if task.pty.is_some() {
        pieces(task, None, &mut |piece| match piece {
            Piece::Bytes { bytes, .. } => digester.push(bytes),
            Piece::Gap(gap) => digester.gap(gap.from, gap.to, &gap.why),
        })?;
    } else if let Some(output) = Output::open(task)? {
        digester = survey(&output, digester)?;
    }
    let words = words::verdict(task);
    let (shell_options, script) = script(task).unzip();
    let verdict = Verdict {
        words: &words,
        id: &task.id,
        command: &task.command.display,
        script,
        shell_options: shell_options.as_deref().unwrap_or_default(),
        has_ended: task.has_ended(),
        exit_code: if task.state == "exited" { task.exit_code } else { None },
        silence_ms: task.silence_ms,
        is_pty: task.pty.is_some(),
    };
    let reports = |mentions: &[Mention]| reports::of(task, mentions).into_iter().map(named).collect();
    Ok(digester.finish_with(&verdict, reports))
}

/// The script that a shell runs, also where it was called by its name, and what the shell was told before it.
fn script(task: &TaskObject) -> Option<(String, &str)> {
    let command = &task.command;
    if let Some(script) = &command.script {
        let shell = command.shell.as_deref().unwrap_or_default();
        return Some((shell.split_once(' ').map_or(String::new(), |(_, options)| options.to_owned()), script));
    }
    let (program, arguments) = command.argv.as_deref()?.split_first()?;
    let name = program.rsplit('/').next().unwrap_or_default();
    if !SHELLS.contains(&name) {
        return None;
    }
    let (mut has_script, mut at) = (false, 0);
    // What comes after the first word that is no option is for the script: a file has options of its own.
    while let Some(word) = arguments.get(at).filter(|word| word.starts_with(['-', '+'])) {
        let is_long = word.starts_with("--");
        has_script |= !is_long && word.starts_with('-') && word.contains('c');
        let takes_next = if is_long { FILE_OPTIONS.contains(&word.as_str()) } else { word.ends_with(['o', 'O']) };
        at += 1 + usize::from(takes_next);
    }
    let script = arguments.get(at).filter(|_| has_script)?;
    Some((arguments[..at].join(" "), script))
}

/// Gives an output to a digester, or only counts what of it says nothing. Secrets are hidden in what is shown.
fn survey(output: &Output, mut digester: Digester) -> io::Result<Digester> {
    if let Some(hide) = output.hider() {
        digester = digester.veiled(Veil::new(Output::HIDER_BYTES, hide));
    }
    let mut skipper = Skipper::default();
    output.survey(0..output.len()?, GLANCE_BACK_BYTES, &Glance::add, &mut |part| {
        Ok(match part {
            Part::Block(block, glance) => skipper.next(&mut digester, block, glance),
            Part::Gap(gap) => {
                let block = skipper.flush(&mut digester);
                digester.gap(gap.from, gap.to, &gap.why);
                block
            }
        })
    })?;
    skipper.flush(&mut digester);
    Ok(digester)
}

/// A report file that findings were read from.
#[derive(Debug, Serialize)]
pub(crate) struct Source {
    /// Its path.
    pub(crate) path: String,
    /// When it was written.
    pub(crate) written_at: String,
    /// Whether it was read when the task ended, and kept.
    pub(crate) kept: bool,
    /// Whether it is the `same` now, `changed` or `gone`.
    pub(crate) file: &'static str,
}

fn named(read: Read) -> (String, Report) {
    (read.file.path, read.file.report)
}

/// Every test and every message that is recognised, and the report files that some of them are from.
pub(crate) fn findings(task: &TaskObject) -> io::Result<(Findings, Vec<Source>)> {
    let (columns, rows) = task.pty.map_or((None, Options::ROWS), |size| (Some(size.columns), size.rows));
    let mut scanner = Scanner::new(Recogniser::new(true), columns, rows);
    pieces(task, None, &mut |piece| {
        if let Piece::Bytes { bytes, .. } = piece {
            scanner.push(bytes);
        }
    })?;
    let mut found = scanner.findings();
    let reports = reports::of(task, &found.mentions);
    let source = |Read { file: ReportFile { path, written_ms, .. }, is_kept }: &Read| Source {
        path: path.clone(),
        written_at: Timestamp::from_millisecond(*written_ms).unwrap_or_default().to_string(),
        kept: *is_kept,
        file: reports::fate(task, path, *written_ms),
    };
    let sources = reports.iter().map(source).collect();
    found.add_reports(reports.into_iter().map(named).collect());
    Ok((found, sources))
}

/// Gives every piece of an output, or of its last `last` bytes.
pub(super) fn pieces(task: &TaskObject, last: Option<u64>, take: &mut dyn FnMut(Piece<'_>)) -> io::Result<()> {
    let Some(mut output) = Output::open(task)? else { return Ok(()) };
    let end = output.len()?;
    let begin = last.map_or(0, |last| end.saturating_sub(last));
    output.scan_ahead(begin..end, &mut |piece| {
        take(piece);
        Ok(())
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_what_a_shell_was_given_and_no_word_for_its_file() {
        let told = |words: &[&str]| {
            let mut task = TaskObject::default();
            task.command.argv = Some(words.iter().map(|word| (*word).to_owned()).collect());
            script(&task).map(|(options, script)| format!("{options}: {script}"))
        };
        assert_eq!(told(&["/bin/bash", "-lc", "a | b", "name"]).as_deref(), Some("-lc: a | b"));
        assert_eq!(told(&["bash", "-eo", "pipefail", "-c", "a | b"]).as_deref(), Some("-eo pipefail -c: a | b"));
        assert_eq!(told(&["bash", "--norc", "-ce", "a"]).as_deref(), Some("--norc -ce: a"));
        assert_eq!(told(&["sh", "-c", "-e", "a"]).as_deref(), Some("-c -e: a"));
        for none in [&["bash", "run.sh", "-c", "a | b"][..], &["bash", "-e", "run.sh", "-c", "a | b"], &["sh", "-c"]] {
            assert_eq!(told(none), None, "{none:?}");
        }
        assert_eq!(told(&["bash", "--rcfile", "-c", "run.sh"]), None);
    }
}
