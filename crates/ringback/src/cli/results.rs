//! `ringback results`: the tests that a task ran, as its output and its report files say.

use clap::Args;
use ringback_host::wire::{Reply, Request, TaskObject};
use ringback_render::recognise::{Counts, Findings, Status, Test};
use serde_json::json;

use super::door::{self, Door};
use crate::explain::Done;
use crate::output::{self, Source};
use crate::render::count::count;
use crate::render::json::document;
use crate::render::style::{Style, Tone};
use crate::render::{age, clean, task as render};

/// List the tests of a task and how they ended
///
/// Tests are read from the report files that the task wrote (of `JUnit`'s form) and from the output of known runners. What report
/// files said is kept when the task ends, whoever writes over them later. The verdict is the exit status; what is listed adds
/// to it.
#[derive(Debug, Args)]
pub(crate) struct Results {
    /// Id or unique prefix
    id: String,
    /// List the tests that passed or were skipped too
    #[arg(long)]
    all: bool,
}

impl Results {
    /// Lists them.
    pub(crate) fn perform(self, door: Door) -> Done {
        let Reply::Task { task, .. } = door::client(None)?.call(Request::Show { id: self.id })? else {
            return Err(door::unexpected());
        };
        let (mut found, sources) = output::findings(&task)?;
        let exit_code = task.exit_code.filter(|_| task.state == "exited");
        found.note_contradictions(task.has_ended() && exit_code != Some(0), exit_code);
        // A report file lists its tests; what else counted the same ones does not have to.
        let unnamed = if self.all && sources.is_empty() { found.unnamed() } else { 0 };
        let left_out = found.tests_left_out.max(unnamed);
        let tests: Vec<&Test> = found.tests.iter().filter(|test| self.all || test.is_bad()).collect();
        if door.json {
            door::document(&document(json!({
                "id": task.id, "state": task.state, "exit_code": task.exit_code, "verdict": render::verdict(&task),
                "recognised": !found.counts.is_empty(), "counts": found.counts, "tests": tests,
                "tests_left_out": left_out, "notes": found.notes, "reports": sources,
            })))?;
        } else if door.quiet {
            door::out(&format!("{}\n", task.id))?;
        } else {
            let list = List { tests: &tests, left_out };
            door::out_lines(page(&task, &found, &sources, &list, door::style()).into_iter())?;
        }
        Ok(0)
    }
}

/// The tests that are listed, and how many are not.
struct List<'a> {
    tests: &'a [&'a Test],
    left_out: u64,
}

fn page(task: &TaskObject, found: &Findings, sources: &[Source], list: &List<'_>, style: Style) -> Vec<String> {
    let mut lines = vec![render::verdict(task)];
    if found.counts.is_empty() {
        lines.push("no test results were recognised, which says nothing about how the tests went".to_owned());
    }
    lines.extend(found.counts.iter().map(Counts::to_string));
    lines.extend(sources.iter().map(source_line));
    for test in list.tests {
        let (word, tone) = match test.status {
            Status::Passed => ("passed ", Tone::Good),
            Status::Failed => ("FAILED ", Tone::Bad),
            Status::Skipped => ("skipped", Tone::Dim),
            Status::Errored => ("ERROR  ", Tone::Bad),
        };
        let time = test.duration_ms.map_or(String::new(), |ms| format!("  {ms}ms"));
        let line = test.output_line.map_or(String::new(), |line| format!("  L{line}"));
        lines.push(format!("{} {}{time}{line}{}", style.paint(tone, word), clean::line(&test.name), place(test)));
        lines.extend(test.message.iter().map(|message| format!("        {}", clean::line(message))));
    }
    if list.left_out > 0 {
        lines.push(format!("and {}", count(list.left_out, "more test")));
    }
    lines.extend(found.notes.iter().map(|note| format!("note: {}", clean::line(&note.text))));
    lines
}

/// `read from junit.xml, written 3m 12s ago; kept when the task ended, and gone since`.
fn source_line(source: &Source) -> String {
    let age = age::ago(&source.written_at, door::now());
    let fate = match (source.kept, source.file) {
        (true, "gone") => "; kept when the task ended, and gone since",
        (true, "changed") => "; kept when the task ended, and written anew since",
        (true, _) => "; kept when the task ended",
        (false, _) => "",
    };
    format!("read from {}, written {age}{fate}", clean::line(&source.path))
}

fn place(test: &Test) -> String {
    let Some(path) = &test.path else { return String::new() };
    let line = test.line.map_or(String::new(), |line| format!(":{line}"));
    format!("  {}{line}", clean::line(path))
}
