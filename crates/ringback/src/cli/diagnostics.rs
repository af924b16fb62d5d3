//! `ringback diagnostics`: what compilers, linters and crashing programs said in the output of a task.

use clap::Args;
use ringback_host::wire::{Reply, Request};
use ringback_render::recognise::{Diagnostic, Findings, Severity};
use serde_json::json;

use super::door::{self, Door};
use crate::explain::Done;
use crate::output;
use crate::render::json::document;
use crate::render::style::{Style, Tone};
use crate::render::{clean, task as render};

/// List what compilers and crashes said in the output of a task
///
/// Messages are read from the output of known tools, each with its file, its line, and the line of the output that has it.
/// That nothing is listed says nothing: the verdict is the exit status.
#[derive(Debug, Args)]
pub(crate) struct Diagnostics {
    /// Id or unique prefix
    id: String,
    /// List errors only
    #[arg(long)]
    errors: bool,
}

impl Diagnostics {
    /// Lists them.
    pub(crate) fn perform(self, door: Door) -> Done {
        let Reply::Task { task, .. } = door::client(None)?.call(Request::Show { id: self.id })? else {
            return Err(door::unexpected());
        };
        let (found, _) = output::findings(&task)?;
        let all = found.diagnostics.iter().filter(|said| !self.errors || said.severity == Severity::Error);
        let all: Vec<&Diagnostic> = all.collect();
        if door.json {
            door::document(&document(json!({
                "id": task.id, "state": task.state, "exit_code": task.exit_code, "verdict": render::verdict(&task),
                "diagnostics": all, "left_out": found.diagnostics_left_out, "suspects": found.suspects,
                "notes": found.notes,
            })))?;
            return Ok(0);
        }
        if door.quiet {
            door::out(&format!("{}\n", task.id))?;
            return Ok(0);
        }
        let mut lines = vec![render::verdict(&task)];
        lines.extend(page(&found, &all, door::style()));
        door::out_lines(lines.into_iter())?;
        Ok(0)
    }
}

fn page(found: &Findings, all: &[&Diagnostic], style: Style) -> Vec<String> {
    let mut lines = Vec::new();
    for said in all {
        let (word, tone) = match said.severity {
            Severity::Error => ("error", Tone::Bad),
            Severity::Warning => ("warning", Tone::Warn),
        };
        let code = said.code.as_deref().map_or(String::new(), |code| format!("[{}]", clean::line(code)));
        let place = said.place().map_or(String::new(), |place| format!("  {}", clean::line(&place.to_string())));
        let message = clean::line(&said.message);
        let (word, line, source) = (style.paint(tone, word), said.output_line, said.source);
        lines.push(format!("L{line} {word}{code}: {message}{place} ({source})"));
    }
    if found.diagnostics_left_out > 0 {
        lines.push(format!("and {} more", found.diagnostics_left_out));
    }
    if all.is_empty() {
        lines.push(
            "no messages of known tools were recognised, which does not mean that there were no errors".to_owned(),
        );
        let suspects = found.suspects.iter();
        lines
            .extend(suspects.map(|suspect| {
                format!("L{} looks like an error: {}", suspect.output_line, clean::line(&suspect.text))
            }));
    }
    lines.extend(found.notes.iter().map(|note| format!("note: {}", clean::line(&note.text))));
    lines
}
