//! Streams a task's output until it ends: for `run -f` and `logs -f`.

use std::io::{self, BufWriter};
use std::os::fd::AsFd as _;

use ringback_host::client::Client;
use ringback_host::client::output::{Follow, Output, Turn};
use ringback_host::wire::{Reply, Request, TaskObject};
use ringback_sys::signals::{SIGINT, SignalFd};
use ringback_sys::watch::For;
use serde_json::json;

use super::bar::Bar;
use super::door::{self, Door, heard};
use super::input::Input;
use super::printer::{Choice, Printer};
use crate::explain::{Done, EXIT_INTERRUPTED, Failure};
use crate::output::enrich;
use crate::render::{json as documents, task as render};

/// What Ctrl-C means.
pub(super) enum OnInterrupt<'a> {
    /// Stop looking.
    Leave(&'a SignalFd),
    /// Once: SIGINT to the task. Twice: stop the task. Three times: leave it running.
    Press(&'a SignalFd),
}

/// Takes Ctrl-C from now on. To be called before there is something that it could be meant for.
pub(super) fn catch_interrupt() -> Result<SignalFd, Failure> {
    Ok(SignalFd::block_and_open(&[SIGINT])?)
}

/// Streams a task that was just started, and mirrors its exit code. With `feeds` our stdin is its.
pub(super) fn run(door: Door, client: Client, task: &TaskObject, interrupt: &SignalFd, feeds: bool) -> Done {
    door.note(&format!(
        "{} is running; first Ctrl-C goes to it, the second stops it, the third leaves it running",
        task.id
    ));
    let apart = task.stdout_path.is_some();
    let choice = Choice { apart, raw: true, events: door.json.then(|| task.id.clone()), ..Choice::default() };
    let mut out = BufWriter::new(door::stdout());
    let mut printer = Printer::new(choice, &mut out);
    printer.event(json!({ "event": "started", "task": task }))?;
    let input = if feeds { Some(Input::start(task, &client.caller().session)?) } else { None };
    let session = client.caller().session.clone();
    let ended = stream(door, client, task, 0, &mut printer, &OnInterrupt::Press(interrupt), input);
    if ended.as_ref().is_err_and(Failure::is_quiet) {
        // Who started it may believe that it went with its reader.
        say_if_running(door, task, &session);
    }
    match ended? {
        Some(ended) => Ok(render::exit_code(&ended)),
        None => Ok(EXIT_INTERRUPTED),
    }
}

fn say_if_running(door: Door, task: &TaskObject, session: &str) {
    let show = Request::Show { id: task.id.clone() };
    let Ok(Reply::Task { task, .. }) = door::client(Some(session)).and_then(|mut client| Ok(client.call(show)?)) else {
        return;
    };
    if !task.has_ended() {
        door.say_still_running(std::slice::from_ref(&task.id));
    }
}

/// Streams from `from` on; gives the task back once it has ended and everything was printed, or nothing if the reader left.
pub(super) fn stream(
    door: Door,
    client: Client,
    task: &TaskObject,
    from: u64,
    printer: &mut Printer<'_>,
    on_interrupt: &OnInterrupt<'_>,
    mut input: Option<Input>,
) -> Result<Option<TaskObject>, Failure> {
    let (OnInterrupt::Leave(interrupt) | OnInterrupt::Press(interrupt)) = on_interrupt;
    let mut presses =
        Presses { door, id: task.id.clone(), session: client.caller().session.clone(), second: None, count: 0 };
    let mut follow = Follow::start(client, task)?;
    let (mut output, mut at) = (None, from);
    let mut bar = Bar::start(door, task, &presses.session);
    loop {
        step_aside(output.as_ref(), false, at, &mut bar)?;
        copy(task, false, &mut output, &mut at, printer)?;
        let mut others = vec![(interrupt.as_fd(), For::Read)];
        others.extend(input.as_ref().and_then(Input::awaited));
        let own = others.len();
        // A line that has not ended is no place for another one.
        let drawn = bar.as_ref().filter(|_| printer.is_at_line_start());
        others.extend(drawn.map(Bar::awaited).unwrap_or_default());
        let pause = drawn.map(Bar::pause);
        match follow.next_within(&others, pause)? {
            Some(Turn::Grown) => {}
            Some(Turn::Ready(1)) if own == 2 => {
                if let Some(input) = &mut input {
                    input.go_on()?;
                }
            }
            None => bar.iter_mut().for_each(Bar::go_on),
            Some(Turn::Ready(other)) if other >= own => bar.iter_mut().for_each(Bar::go_on),
            Some(Turn::Ready(_)) => {
                bar.iter_mut().for_each(Bar::hide);
                interrupt.read()?;
                if presses.leave(on_interrupt)? {
                    printer.finish()?;
                    return Ok(None);
                }
            }
            Some(Turn::Ended(mut ended)) => {
                see_end(&mut output, &ended);
                step_aside(output.as_ref(), true, at, &mut bar)?;
                copy(&ended, true, &mut output, &mut at, printer)?;
                drop(bar);
                printer.finish()?;
                if door.json {
                    enrich(&mut ended);
                }
                say_ended(door, printer, &ended)?;
                // Everything was shown; a daemon that cannot be told so offers the notice again.
                if let Ok(mut client) = door::client(Some(&presses.session)) {
                    heard(&mut client, std::slice::from_ref(&ended));
                }
                return Ok(Some(*ended));
            }
        }
    }
}

/// What is missing is known now. A file that somebody removed was begun anew by the task's keeper, and is opened again.
fn see_end(output: &mut Option<Output>, ended: &TaskObject) {
    match output {
        Some(file) if file.is_removed() && !ended.output.packed.is => *output = None,
        Some(file) => file.update_gaps(ended),
        None => {}
    }
}

/// Takes the line at the bottom away if something is going to be printed.
fn step_aside(output: Option<&Output>, is_over: bool, at: u64, bar: &mut Option<Bar>) -> Result<(), Failure> {
    let Some(bar) = bar else { return Ok(()) };
    if output.map_or(Ok(0), |output| end_of(output, is_over, at))? > at {
        bar.hide();
    }
    Ok(())
}

/// Up to where is printed: without what may be the begin of a secret, unless nothing more comes.
fn end_of(output: &Output, is_over: bool, at: u64) -> io::Result<u64> {
    if is_over { output.len() } else { output.settled(at) }
}

/// Prints what has come since.
pub(super) fn copy(
    task: &TaskObject,
    is_over: bool,
    output: &mut Option<Output>,
    at: &mut u64,
    printer: &mut Printer<'_>,
) -> Result<(), Failure> {
    if output.is_none() {
        *output = if printer.choice().masked { Output::open(task)? } else { Output::open_raw(task)? };
    }
    let Some(output) = output else { return Ok(()) };
    let labels = printer.choice().needs_index();
    let end = end_of(output, is_over, *at)?;
    if end > *at {
        *at = output.scan(*at..end, labels, &mut |piece| printer.piece(piece))?;
        printer.flush()?;
    }
    Ok(())
}

pub(super) fn say_ended(door: Door, printer: &mut Printer<'_>, ended: &TaskObject) -> Result<(), Failure> {
    printer.event(json!({ "event": "ended", "task": documents::task(ended) }))?;
    printer.flush()?;
    door.note(&format!("{} {}", ended.id, render::verdict(ended)));
    if !ended.output.complete && !ended.leftovers.is_empty() {
        door.note("processes that it left behind may still write; their output is kept: ringback show says which");
    }
    Ok(())
}

/// How often Ctrl-C was pressed, and what was done about it.
struct Presses {
    door: Door,
    id: String,
    session: String,
    second: Option<Client>,
    count: u32,
}

impl Presses {
    /// Does what this press means; whether to leave.
    fn leave(&mut self, on_interrupt: &OnInterrupt<'_>) -> Result<bool, Failure> {
        self.count += 1;
        let ids = vec![self.id.clone()];
        match (on_interrupt, self.count) {
            (OnInterrupt::Press(_), 1) => {
                self.door.note("SIGINT sent to the task; press again to stop it");
                self.second()?.call(Request::Signal { ids, signal: SIGINT })?;
                Ok(false)
            }
            (OnInterrupt::Press(_), 2) => {
                self.door.note("stopping the task; press again to leave it to itself");
                // Not waited for: its end arrives where we look anyway.
                self.second()?.begin(Request::Kill { ids, session: None, grace_ms: None })?;
                Ok(false)
            }
            _ => {
                self.door.say_still_running(&ids);
                Ok(true)
            }
        }
    }

    fn second(&mut self) -> Result<&mut Client, Failure> {
        if self.second.is_none() {
            self.second = Some(door::client(Some(&self.session))?);
        }
        self.second.as_mut().ok_or_else(door::unexpected)
    }
}
