//! How far a running task is, as its output shows: by the sequence OSC 9;4, else by the last line that it drew.

use std::io;

use ringback_host::client::output::Output;
use ringback_host::wire::{ProgressObject, TaskObject};
use ringback_render::{Options, Progress, Renderer};

use crate::render::clean;

/// How much of an output's end is looked at: some redraws of a wide screen.
const TAIL_BYTES: u64 = 4096;
/// How much of the line that shows it is told, characters.
const TEXT_CHARS: usize = 100;
/// Who says so.
const TERMINAL: &str = "terminal";
const OUTPUT: &str = "output";

/// Adds what the output shows, unless the command itself has reported. An output that cannot be read shows nothing.
pub(crate) fn look(task: &mut TaskObject) {
    if task.output.bytes > 0 {
        look_now(task);
    }
}

/// The same, where the output may have grown since the task was asked for.
pub(crate) fn look_now(task: &mut TaskObject) {
    let reported = task.progress.as_ref().is_some_and(|progress| progress.source == ProgressObject::REPORTED);
    if task.state != "running" || reported {
        return;
    }
    if let Ok(Some(shown)) = shown(task) {
        task.progress = Some(shown);
    }
}

/// The same for many.
pub(crate) fn look_all<'a>(tasks: impl IntoIterator<Item = &'a mut TaskObject>) {
    tasks.into_iter().for_each(look);
}

fn shown(task: &TaskObject) -> io::Result<Option<ProgressObject>> {
    let Some(mut output) = Output::open(task)? else { return Ok(None) };
    let length = output.len()?;
    Ok(read(&output.read(length.saturating_sub(TAIL_BYTES)..length)?))
}

fn read(tail: &[u8]) -> Option<ProgressObject> {
    let mut renderer = Renderer::new(&Options::default());
    let mut last = String::new();
    renderer.push(tail, &mut |line| line.text.clone_into(&mut last));
    let (current, said) = (renderer.current(), renderer.progress());
    renderer.finish(&mut |line| line.text.clone_into(&mut last));
    let line = if current.trim().is_empty() { last } else { current };
    let text = Some(clean::short(line.trim(), TEXT_CHARS)).filter(|text| !text.is_empty());
    let of = |percent, source: &str| ProgressObject {
        percent,
        text: text.clone(),
        source: source.to_owned(),
        usual_ms: None,
    };
    match said {
        Some(Progress { percent, .. }) => Some(of(percent, TERMINAL)),
        None => Progress::of_text(&line).map(|Progress { percent, .. }| of(percent, OUTPUT)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(tail: &str) -> Option<(Option<u8>, String, String)> {
        read(tail.as_bytes()).map(|shown| (shown.percent, shown.source, shown.text.unwrap_or_default()))
    }

    #[test]
    fn the_sequence_counts_and_else_the_last_line_that_was_drawn() {
        let own = |text: &str| text.to_owned();
        assert_eq!(check("10%\r20%\r 30% of it"), Some((Some(30), own("output"), own("30% of it"))));
        assert_eq!(check("start\n[4/8] linking\n"), Some((Some(50), own("output"), own("[4/8] linking"))));
        assert_eq!(
            check("90%\n\u{1b}]9;4;1;12\u{7}Compiling a"),
            Some((Some(12), own("terminal"), own("Compiling a")))
        );
        assert_eq!(check("\u{1b}]9;4;3\u{7}"), Some((None, own("terminal"), String::new())));
        assert_eq!((check("30%\nand now for something else\n"), check("")), (None, None));
    }
}
