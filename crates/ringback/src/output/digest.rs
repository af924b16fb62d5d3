//! The digest of a task, and everything that was recognised in its output and its reports.

use std::io;

use ringback_host::client::output::{Output, Piece};
use ringback_host::wire::TaskObject;
use ringback_render::digest::{Calls, DigestOptions};
use ringback_render::recognise::{Findings, Recogniser};
use ringback_render::scan::Scanner;
use ringback_render::{Digest, Digester, Options, Verdict};

use super::reports;
use crate::render::task as words;

/// The digest of a task, in at most `budget` bytes, for a reader at this door.
pub(crate) fn digest(task: &TaskObject, budget: usize, calls: Calls) -> io::Result<Digest> {
    let (columns, rows) = task.pty.map_or((None, Options::ROWS), |size| (Some(size.columns), size.rows));
    let mut digester = Digester::new(DigestOptions { budget, columns, rows, calls });
    pieces(task, &mut |piece| match piece {
        Piece::Bytes { bytes, .. } => digester.push(bytes),
        Piece::Gap(gap) => digester.gap(gap.from, gap.to, &gap.why),
    })?;
    let words = words::verdict(task);
    let verdict = Verdict {
        words: &words,
        id: &task.id,
        command: &task.command.display,
        script: task.command.script.as_deref(),
        has_ended: task.has_ended(),
        exit_code: if task.state == "exited" { task.exit_code } else { None },
        silence_ms: task.silence_ms,
        is_pty: task.pty.is_some(),
    };
    Ok(digester.finish_with(&verdict, |mentions| reports::read_all(task, mentions)))
}

/// Every test and every message that is recognised.
pub(crate) fn findings(task: &TaskObject) -> io::Result<Findings> {
    let (columns, rows) = task.pty.map_or((None, Options::ROWS), |size| (Some(size.columns), size.rows));
    let mut scanner = Scanner::new(Recogniser::new(true), columns, rows);
    pieces(task, &mut |piece| {
        if let Piece::Bytes { bytes, .. } = piece {
            scanner.push(bytes);
        }
    })?;
    let mut found = scanner.findings();
    let reports = reports::read_all(task, &found.mentions);
    found.add_reports(reports);
    Ok(found)
}

fn pieces(task: &TaskObject, take: &mut dyn FnMut(Piece<'_>)) -> io::Result<()> {
    let Some(mut output) = Output::open(task)? else { return Ok(()) };
    let end = output.len()?;
    output.scan(0..end, false, &mut |piece| {
        take(piece);
        Ok(())
    })?;
    Ok(())
}
