//! `ringback attach`: the terminal of a task, at ours; or its output and our stdin, where it has none.

use std::fmt::Write as _;
use std::io::{self, BufWriter, IsTerminal as _};
use std::os::fd::AsFd as _;

use clap::Args;
use ringback_host::client::Client;
use ringback_host::client::output::{Follow, Output, Piece, Turn};
use ringback_host::wire::{Reply, Request, TaskObject, TerminalSize};
use ringback_render::Picture;
use ringback_sys::signals::{SIGHUP, SIGINT, SIGTERM, SIGWINCH, SignalFd};
use ringback_sys::watch::For;

use super::door::{self, Door, heard};
use super::follow::{self, OnInterrupt};
use super::input::{Chord, Input};
use super::printer::{Choice, Printer};
use crate::explain::{Done, EXIT_INTERRUPTED, Failure};
use crate::output::picture;
use crate::render::task as render;
use crate::terminal::{self, Key, Lent};

/// How many lines of the output it begins with, where there is no terminal.
const LINES: u64 = 50;
/// The key that leaves, as telnet has it: no shell, editor or pager needs it.
const DETACH_KEYS: &str = "ctrl-]";

const EXAMPLES: &str = "\
Examples:
  ringback attach ID                                  # leave with ctrl-]
  ringback attach --detach-keys ctrl-p,ctrl-q ID      # as docker has it
  ringback attach --no-stdin ID                       # only look";

/// Go to the terminal of a task; leave it with ctrl-], and it runs on
///
/// What is there is shown, keys go to the task, and its terminal takes the size of this one. Several may be attached at
/// once: all see the same, and what they type comes in the order of arrival. The exit code is the task's; whoever leaves
/// before the end gets 130. Of a task without a terminal the output is shown, and our stdin goes to its stdin if it was
/// started with --stdin.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Attach {
    /// Id or unique prefix
    id: String,
    /// Leave with these keys
    #[arg(long, value_name = "KEY[,KEY]", value_parser = chord, default_value = DETACH_KEYS)]
    detach_keys: Box<[Key]>,
    /// Type nothing, only look
    #[arg(long)]
    no_stdin: bool,
}

impl Attach {
    /// Stays until the task ends or the reader leaves.
    pub(crate) fn perform(self, door: Door) -> Done {
        door::check_stdout()?;
        let mut client = door::client(None)?;
        let Reply::Task { task, .. } = client.call(Request::Show { id: self.id.clone() })? else {
            return Err(door::unexpected());
        };
        let keys = terminal::bytes_of(&self.detach_keys);
        let types = !self.no_stdin && Input::is_taken_by(&task);
        if task.pty.is_some()
            && !door.json
            && let Some(lent) = Lent::begin()?
        {
            let visit = Visit { door, task: &task, lent, types, keys, is_new: false };
            return visit.stay(client);
        }
        look(door, client, &task, types)
    }
}

/// Keys, not as a list: for clap a list is an option that is repeated.
fn chord(text: &str) -> Result<Box<[Key]>, String> {
    terminal::parse(text).map(Vec::into_boxed_slice)
}

/// Goes to the terminal of a task that was just started; nothing if we have none.
pub(super) fn to_new(door: Door, client: Client, task: &TaskObject) -> Result<Result<u8, Client>, Failure> {
    if task.pty.is_none() || door.json {
        return Ok(Err(client));
    }
    let keys = terminal::bytes_of(&terminal::parse(DETACH_KEYS).unwrap_or_default());
    match Lent::begin()? {
        Some(lent) => Visit { door, task, lent, types: true, keys, is_new: true }.stay(client).map(Ok),
        None => Ok(Err(client)),
    }
}

/// Without a terminal on either side: its output, and our stdin.
fn look(door: Door, client: Client, task: &TaskObject, types: bool) -> Done {
    let interrupt = follow::catch_interrupt()?;
    let rendered = io::stdout().is_terminal() && !door.json;
    let choice = Choice { raw: !rendered, rendered, events: door.json.then(|| task.id.clone()), ..Choice::default() };
    let from = match Output::open_raw(task)? {
        Some(output) => output.tail_start(LINES, output.len()?)?,
        None => 0,
    };
    let mut out = BufWriter::new(door::stdout());
    let mut printer = Printer::new(choice, &mut out);
    let session = client.caller().session.clone();
    let input = if types { Some(Input::of_viewer(task, &session, None)?) } else { None };
    let leave = OnInterrupt::Leave(&interrupt);
    let ended = follow::stream(door, client, task, from, &mut printer, &leave, input)?;
    Ok(ended.map_or(EXIT_INTERRUPTED, |ended| render::exit_code(&ended)))
}

/// One reader at the terminal of one task.
struct Visit<'a> {
    door: Door,
    task: &'a TaskObject,
    lent: Lent,
    types: bool,
    keys: Vec<u8>,
    /// Whether everything that it has shown is shown, instead of its present picture.
    is_new: bool,
}

/// How a visit ended.
enum Left {
    /// With the task.
    Ended(Box<TaskObject>),
    /// By the chord.
    Detached,
    /// By a signal.
    Signal(i32),
}

impl Visit<'_> {
    fn stay(mut self, client: Client) -> Done {
        let session = client.caller().session.clone();
        let left = self.visit(client);
        let Self { door, task, lent, .. } = self;
        // Given back before anything is said, or fails.
        drop(lent);
        match left? {
            Left::Ended(ended) => {
                door.note(&format!("{} {}", ended.id, render::verdict(&ended)));
                if let Ok(mut client) = door::client(Some(&session)) {
                    heard(&mut client, std::slice::from_ref(&ended));
                }
                Ok(render::exit_code(&ended))
            }
            Left::Detached => {
                door.note(&format!("detached; {} runs on: ringback attach {}", task.id, task.id));
                Ok(EXIT_INTERRUPTED)
            }
            Left::Signal(signal) => Ok(u8::try_from(128 + signal).unwrap_or(EXIT_INTERRUPTED)),
        }
    }

    fn visit(&mut self, client: Client) -> Result<Left, Failure> {
        let signals = SignalFd::block_and_open(&[SIGINT, SIGHUP, SIGTERM, SIGWINCH])?;
        let session = client.caller().session.clone();
        let mut sizer = door::client(Some(&session))?;
        let chord = Chord::new(std::mem::take(&mut self.keys));
        let mut input = if self.types { Some(Input::of_viewer(self.task, &session, chord)?) } else { None };
        let mut follow = Follow::start(client, self.task)?;
        let mut output = Output::open_raw(self.task)?;
        let mut at = self.arrive(output.as_mut(), &mut sizer)?;
        loop {
            self.copy(&mut output, &mut at)?;
            let mut others = vec![(signals.as_fd(), For::Read)];
            others.extend(input.as_ref().and_then(Input::awaited));
            others.extend(input.as_ref().and_then(Input::awaited_besides));
            match (follow.next(&others)?, &mut input) {
                (Turn::Ready(0), _) => match signals.read()? {
                    Some(SIGWINCH) => self.fit(&mut sizer),
                    Some(signal) => return Ok(Left::Signal(signal)),
                    None => {}
                },
                (Turn::Ready(1), Some(input)) => input.go_on()?,
                (Turn::Ready(_), Some(input)) => input.read_besides()?,
                (Turn::Grown, _) | (Turn::Ready(_), None) => {}
                (Turn::Ended(ended), _) => {
                    self.copy(&mut output, &mut at)?;
                    return Ok(Left::Ended(ended));
                }
            }
            if input.as_ref().is_some_and(Input::has_detached) {
                return Ok(Left::Detached);
            }
        }
    }

    /// Shows the present picture and gives the terminal our size; where the output goes on.
    fn arrive(&mut self, output: Option<&mut Output>, sizer: &mut Client) -> Result<u64, Failure> {
        let mut at = 0;
        let mut is_alternate = false;
        if let Some(output) = output.filter(|_| !self.is_new) {
            at = output.len()?;
            let picture = picture(self.task, output, at)?;
            is_alternate = picture.is_alternate;
            self.lent.show(paint(&picture).as_bytes())?;
        }
        let own = terminal::own_size();
        // A full-screen program paints itself anew when its size changes; our picture of it has no colours.
        if let Some(TerminalSize { columns, rows }) = own.filter(|own| is_alternate && Some(*own) == self.task.pty) {
            self.ask_size(sizer, TerminalSize { columns, rows: rows.saturating_sub(1).max(1) });
        }
        self.fit(sizer);
        Ok(at)
    }

    /// Gives the task's terminal the size of ours.
    fn fit(&self, sizer: &mut Client) {
        if let Some(size) = terminal::own_size() {
            self.ask_size(sizer, size);
        }
    }

    fn ask_size(&self, sizer: &mut Client, size: TerminalSize) {
        // A task that has just ended has no size any more; its end comes next.
        let _ended = sizer.call(Request::Resize { id: self.task.id.clone(), size });
    }

    /// Shows what has come since.
    fn copy(&mut self, output: &mut Option<Output>, at: &mut u64) -> Result<(), Failure> {
        if output.is_none() {
            *output = Output::open_raw(self.task)?;
        }
        let Some(output) = output else { return Ok(()) };
        let end = output.len()?;
        if end > *at {
            *at = output.scan(*at..end, false, &mut |piece| match piece {
                Piece::Bytes { bytes, .. } => self.lent.show(bytes),
                Piece::Gap(_) => Ok(()),
            })?;
        }
        Ok(())
    }
}

/// The picture as bytes for a terminal of any size, with the cursor where it is in it.
fn paint(picture: &Picture) -> String {
    let mut text = String::new();
    if picture.is_alternate {
        text.push_str("\u{1b}[?1049h\u{1b}[H\u{1b}[2J");
    }
    text.push_str(&picture.rows.join("\r\n"));
    let below = picture.rows.len().saturating_sub(picture.row + 1);
    if below > 0 {
        // A String never refuses to grow.
        let _ = write!(text, "\u{1b}[{below}A");
    }
    text.push('\r');
    if picture.column > 0 {
        let _ = write!(text, "\u{1b}[{}C", picture.column);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_painted_with_its_cursor() {
        let rows = vec!["$ ls".to_owned(), "a b".to_owned(), String::new()];
        let picture = Picture { rows, row: 1, column: 2, is_alternate: false };
        assert_eq!(paint(&picture), "$ ls\r\na b\r\n\u{1b}[1A\r\u{1b}[2C");
        assert_eq!(paint(&Picture::default()), "\r");
    }
}
