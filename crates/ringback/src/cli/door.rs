//! What every verb needs: where to speak, who asks, and a client.

use std::env;
use std::ffi::OsString;
use std::io::{self, Write as _};

use jiff::Timestamp;
use ringback_core::spec::is_label;
use ringback_host::client::{Client, ClientError};
use ringback_host::home::Home;
use ringback_host::wire::{Caller, Fault, Reply, Request, TaskObject};
use ringback_sys::birth;
use serde::Serialize;
use serde_json::json;

use crate::explain::{Done, EXIT_FAILED, EXIT_INTERRUPTED, Failure};
use crate::render::style::{Style, Tone};
use crate::render::{clean, json};

/// The system's number for a descriptor that is not open (errno(3)).
const EBADF: i32 = 9;

/// How this call speaks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Door {
    /// One JSON document on stdout.
    pub(crate) json: bool,
    /// Ids only.
    pub(crate) quiet: bool,
}

impl Door {
    /// Says something to a person; programs that asked for JSON or for ids alone do not get it.
    pub(crate) fn note(self, text: &str) {
        if !self.json && !self.quiet {
            talk(text);
        }
    }

    /// Says that something is probably not as it was meant.
    pub(crate) fn warn(self, message: &str, hint: &str) {
        if !self.quiet {
            talk(&labelled("warning", Tone::Warn, message, Some(hint)));
        }
    }

    /// What was interrupted was the looking, not the tasks. Gives the exit code.
    pub(crate) fn say_still_running(self, ids: &[String]) -> u8 {
        if !self.quiet {
            talk(&format!("still running: ringback kill {}", ids.join(" ")));
        }
        EXIT_INTERRUPTED
    }

    /// Explains a failure and gives its exit code.
    pub(crate) fn fail(self, failure: &Failure) -> u8 {
        if failure.is_quiet() {
            return failure.exit;
        }
        talk(&labelled("error", Tone::Bad, &clean::line(&failure.message), failure.hint.as_deref()));
        if self.json {
            // If this cannot be written, stderr has it already.
            let _unwritten = document(&failure.json());
        }
        failure.exit
    }
}

/// stdout, whose errors say that they are of stdout.
pub(crate) struct Out(io::StdoutLock<'static>);

impl io::Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        check_stdout()?;
        self.0.write(bytes).map_err(unwritten)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(unwritten)
    }
}

/// stdout, for data.
pub(crate) fn stdout() -> Out {
    Out(io::stdout().lock())
}

/// An error if nothing that is written to stdout goes anywhere.
pub(crate) fn check_stdout() -> io::Result<()> {
    if birth::stdout_was_closed() { Err(unwritten(io::Error::from_raw_os_error(EBADF))) } else { Ok(()) }
}

fn unwritten(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::Interrupted => error,
        kind => io::Error::new(kind, format!("cannot write to stdout: {error}")),
    }
}

/// Writes data.
pub(crate) fn out(text: &str) -> Result<(), Failure> {
    put(text.as_bytes())
}

/// Writes data as it is.
pub(crate) fn put(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = stdout();
    stdout.write_all(bytes)?;
    Ok(stdout.flush()?)
}

/// Writes lines of data.
pub(crate) fn out_lines(lines: impl Iterator<Item = String>) -> Result<(), Failure> {
    let mut text = String::new();
    for line in lines {
        text.push_str(&line);
        text.push('\n');
    }
    out(&text)
}

/// Writes a text that is an answer of its own; in a document it is the field of this name.
pub(crate) fn text(door: Door, name: &str, text: &str) -> Done {
    if door.json {
        document(&json::document(json!({ name: text })))?;
    } else {
        out(text)?;
    }
    Ok(0)
}

/// Writes one document.
pub(crate) fn document(value: &impl Serialize) -> Result<(), Failure> {
    let mut line = serde_json::to_vec(value).map_err(io::Error::from)?;
    line.push(b'\n');
    put(&line)
}

/// Explains what could not be done where the rest could; the documents carry it themselves.
pub(crate) fn faults(faults: &[Fault]) {
    for fault in faults {
        talk(&labelled("error", Tone::Bad, &clean::line(&fault.message), fault.hint.as_deref()));
    }
}

/// A client for this session, and a daemon if none runs.
pub(crate) fn client(session: Option<&str>) -> Result<Client, Failure> {
    Ok(crate::caller::client(&Home::find()?, caller(session)?)?)
}

/// Colour rules of stdout.
pub(crate) fn style() -> Style {
    Style::of_stdout()
}

/// The present.
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}

/// Writes to stderr. A stderr that is gone is no reason to fail.
pub(crate) fn talk(text: &str) {
    let _unheard = writeln!(io::stderr().lock(), "{text}");
}

fn labelled(label: &str, tone: Tone, message: &str, hint: Option<&str>) -> String {
    let style = Style::of_stderr();
    let hint = hint.map(|hint| format!("\n{} {hint}", style.paint(Tone::Busy, "hint:"))).unwrap_or_default();
    format!("{} {message}{hint}", style.paint(tone, &format!("{label}:")))
}

/// Who asks: the session that was named, else as the variables say.
pub(crate) fn caller(session: Option<&str>) -> Result<Caller, Failure> {
    caller_where(session, |name| env::var_os(name))
}

/// The same, where the variables are these.
pub(crate) fn caller_where(session: Option<&str>, var: impl Fn(&str) -> Option<OsString>) -> Result<Caller, Failure> {
    if let Some(session) = session {
        check_session(session)?;
        return Ok(crate::caller::of(session.to_owned()));
    }
    let name = crate::caller::OWN_VARIABLE;
    if let Some(why) = crate::caller::bad_name(var(name).as_deref()) {
        let hint = format!("unset {name}, or set it to one line of 1 to 256 bytes, or pass --session");
        return Err(Failure {
            code: "bad_session".to_owned(),
            ..Failure::usage(format!("the variable {name} cannot be the name of a session: {why}"), hint)
        });
    }
    Ok(crate::caller::of(crate::caller::session(|name| var(name)?.into_string().ok())))
}

/// The option that a command in a hint needs to speak for the session that was named by option here.
pub(crate) fn speaks_for(named: Option<&str>) -> String {
    let word = |name| shlex::try_quote(name).map_or_else(|_| name.to_owned(), std::borrow::Cow::into_owned);
    named.map(|name| format!(" -s {}", clean::line(&word(name)))).unwrap_or_default()
}

/// A usage error if this cannot be the name of a session.
pub(crate) fn check_session(session: &str) -> Result<(), Failure> {
    if is_label(session) {
        return Ok(());
    }
    let message = format!("`{}` cannot be the name of a session", clean::short(session, 60));
    let hint = "a session's name is one line of 1 to 256 bytes";
    Err(Failure { code: "bad_session".to_owned(), ..Failure::usage(message, hint) })
}

/// Tells the daemon that the endings of these tasks were shown to the session that owns them. Only to be called after
/// they were written: what was not shown must be offered again.
pub(crate) fn heard(client: &mut Client, tasks: &[TaskObject]) {
    let own = |task: &&TaskObject| task.has_ended() && task.session == client.caller().session;
    let tasks: Vec<String> = tasks.iter().filter(own).map(|task| task.id.clone()).collect();
    if !tasks.is_empty() {
        // Answered, so that whoever looks after us finds it heard; unsaid, the ending is offered again, which is the safe side.
        let ack = Request::Ack { up_to: None, seqs: Vec::new(), tasks: Vec::new(), endings: tasks };
        let _unheard = client.call(ack);
    }
}

/// The tasks of an answer, and what could not be done.
pub(crate) struct Tasks {
    pub(crate) list: Vec<TaskObject>,
    pub(crate) timed_out: bool,
    pub(crate) next: Option<u64>,
    pub(crate) faults: Vec<Fault>,
}

/// Takes an answer that must be tasks.
pub(crate) fn tasks(reply: Reply) -> Result<Tasks, Failure> {
    match reply {
        Reply::Tasks { tasks, timed_out, next, faults } => Ok(Tasks { list: tasks, timed_out, next, faults }),
        _ => Err(unexpected()),
    }
}

/// The failure for an answer that does not belong to the question.
pub(crate) fn unexpected() -> Failure {
    ClientError::Unexpected.into()
}

/// Exit code of a verb that may not have done all of its work.
pub(crate) fn exit_code(faults: &[Fault]) -> u8 {
    if faults.is_empty() { 0 } else { EXIT_FAILED }
}
