//! A new task: checked, written into its folder, and given to the board.

use std::io;

use mio::Token;
use ringback_core::id::TaskId;
use ringback_core::spec::{self, IfRunning, Lease, Leftovers, OutputPolicy, Sandbox};
use ringback_core::watch::{PROGRESS_MAX_MS, PROGRESS_MIN_MS};
use ringback_sys::process;
use serde_bytes::ByteBuf;

use super::Daemon;
use super::ask::check_session;
use super::crash::crash_point;
use super::error::{DaemonError, fault, store_fault};
use super::folder::{self, Private};
use super::hold_back;
use super::live::Live;
use super::pattern::Patterns;
use super::tell::{Say, Tell};
use crate::home::Home;
use crate::spoken::Saying;
use crate::store::{Asked, Row, StoredCommand, StoredWatch};
use crate::wire::{Caller, Command, Fault, RunRequest};

/// How long a binding may be, bytes: it is echoed in every answer and notice of its task.
const BINDING_BYTES_MAX: usize = 64 << 10;

/// How many tasks may wait for their turn: a loop that starts tasks is stopped before it fills the disk.
const QUEUED_MAX: usize = 100_000;

/// How many notices of one session may be unheard: each is a row, and keeps its task from being let go. Who has not read so
/// many reads none.
const UNHEARD_MAX: u64 = 100_000;

/// How much of a script stands in the store. A longer one is in the task folder from the begin, one that fits is written there
/// from the store when its task starts.
const SCRIPT_KEPT_BYTES: usize = 4096;

/// A task as it is wanted, read once into what is true of it.
struct Wanted {
    session: String,
    lease: Lease,
    asked: Asked,
    private: Private,
    /// How many of the session's unheard notices are answered with it.
    unheard_max: u32,
}

impl Daemon {
    /// Somebody asks for a task.
    pub(super) fn ask_run(
        &mut self,
        to: Token,
        caller: &Caller,
        run: RunRequest,
        say: Option<Saying>,
    ) -> Result<(), Fault> {
        let session = if run.session.is_empty() { caller.session.clone() } else { run.session.clone() };
        let wanted = self.read_run(run, session)?;
        self.begin(to, &caller.by, wanted, say)
    }

    /// Somebody asks for an ended task once more.
    pub(super) fn ask_retry(&mut self, to: Token, caller: &Caller, text: &str) -> Result<(), Fault> {
        let id = self.resolve(text)?;
        if self.board.get(id).is_some_and(|entry| !entry.state.has_ended()) {
            return Err(fault(
                "still_running",
                format!("cannot retry {id}: it has not ended"),
                format!("`ringback wait {id}` waits for it"),
            ));
        }
        let row = self.store.task(id).map_err(|error| store_fault(&error))?;
        let row = row.ok_or_else(|| fault("unknown_id", format!("no task has the id {id}"), String::new()))?;
        if row.packed {
            return Err(fault(
                "not_kept",
                format!("cannot retry {id}: its environment was let go some time after its end"),
                format!("run it anew: `ringback run -- …`; `ringback show {id}` shows what it was"),
            ));
        }
        let private = folder::private_of(&self.dir(id), &row.asked.command).map_err(|error| {
            fault("not_readable", format!("cannot read what {id} was: {error}"), "run the command anew".into())
        })?;
        let lease = Lease::parse(&row.lease).unwrap_or_default();
        let (session, asked) = (caller.session.clone(), row.asked);
        self.begin(to, &caller.by, Wanted { session, lease, asked, private, unheard_max: 0 }, None)
    }

    fn begin(&mut self, to: Token, by: &str, wanted: Wanted, say: Option<Saying>) -> Result<(), Fault> {
        let Wanted { session, lease, asked, private, unheard_max } = wanted;
        check_session(&session)?;
        if self.board.waiting() >= QUEUED_MAX {
            let hint = "wait until some have ended, or stop some: `ringback kill -s SESSION`".to_owned();
            return Err(fault("queue_full", format!("{QUEUED_MAX} tasks wait for their turn already"), hint));
        }
        let inbox_empty = self.check_inbox(&session)?;
        let mut id = self.next_id()?;
        let row = Row {
            seq: 0,
            id,
            session,
            lease: lease.word().to_owned(),
            live: true,
            created_ms: process::wall_ms(),
            asked,
            facts: None,
            stop: None,
            watch: StoredWatch::default(),
            disk_bytes: 0,
            packed: false,
        };
        let mut live = Live::new(row);
        let ask = live.ask();
        // A folder for a task that will not be is work and dirt, so the key is looked at first.
        if self.board.would_insert(&ask) {
            self.prepare(&mut live, &private)?;
            crash_point("daemon.after-folder");
            id = live.row.id;
            self.lives.insert(id, live);
        }
        let effects = self.board.ask(id, ask, by);
        let say = match Self::same_key(&effects) {
            None => Say::Begun { id, inbox_empty, unheard_max, say },
            Some((existing, None)) => Say::Task { id: existing, existing: true },
            Some((existing, Some(key))) => {
                return Err(fault(
                    "key_taken",
                    format!("task {existing} of this session has the key {key:?} and has not ended"),
                    format!("wait for it (`ringback wait {existing}`), or use --if-running reuse or replace"),
                ));
            }
        };
        self.apply(effects);
        self.round.tells.push(Tell { to, say });
        Ok(())
    }

    /// Writes what only the caller knows into the folder of a new task: the one that was made ahead, or if somebody has spoilt
    /// that, one of its own.
    fn prepare(&mut self, live: &mut Live, private: &Private) -> Result<(), Fault> {
        let free_min = self.space.room()?;
        loop {
            let id = live.row.id;
            let dir = self.dir(id);
            let about = folder::About { id, session: &live.row.session, asked: &live.row.asked, free_min };
            let ahead = self.take_blank(id);
            let was_blank = ahead.is_some();
            match folder::prepare(&dir, &about, private, ahead) {
                Ok(()) => return Ok(()),
                Err(_) if was_blank && !self.has_lost_home() => live.row.id = self.new_id()?,
                Err(_) if self.has_lost_home() => return Err(moved_fault(&self.home)),
                Err(error) => {
                    let _ = folder::delete(&dir);
                    return Err(folder_fault(&error));
                }
            }
            let _ = folder::delete(&dir);
        }
    }

    /// A session that never reads gets nothing more to read; whether there is nothing that it has not heard.
    fn check_inbox(&self, session: &str) -> Result<bool, Fault> {
        let at_most = self.store.unheard_at_most(session).map_err(|error| store_fault(&error))?;
        // Counted only where that could be too many.
        if at_most < UNHEARD_MAX
            || self.store.unheard(Some(session)).map_err(|error| store_fault(&error))? < UNHEARD_MAX
        {
            return Ok(at_most == 0 && self.unwritten_notices(session).is_empty());
        }
        let hint = format!("read them: `ringback inbox -s {session} --take`, or `ringback ack --all -s {session}`");
        Err(fault("inbox_full", format!("session {session} has {UNHEARD_MAX} notices that nobody has heard"), hint))
    }

    pub(super) fn new_id(&self) -> Result<TaskId, Fault> {
        loop {
            let bits = process::random_u64()
                .map_err(|error| fault("no_random", format!("cannot make an id: {error}"), String::new()))?;
            let id = TaskId::from_bits(bits);
            if !self.lives.contains_key(&id) && self.store.is_free(id).map_err(|error| store_fault(&error))? {
                return Ok(id);
            }
        }
    }

    /// The words of the shell that runs a script for which none was named.
    fn default_shell(&self) -> Result<Vec<ByteBuf>, Fault> {
        let words = shlex::split(&self.config.shell).unwrap_or_default();
        if words.is_empty() {
            let message = format!("the shell of the config, {:?}, cannot be read as words", self.config.shell);
            return Err(fault("bad_shell", message, "mend `shell` in the config, for example `shell = \"sh\"`".into()));
        }
        Ok(words.into_iter().map(ByteBuf::from).collect())
    }

    /// Reads a request once into what is true of the task.
    fn read_run(&self, run: RunRequest, session: String) -> Result<Wanted, Fault> {
        check(&run)?;
        let (words, script) = match run.command {
            Command::Argv(words) => (words, None),
            Command::Script { text, shell } if shell.is_empty() => (self.default_shell()?, Some(text)),
            Command::Script { text, shell } => (shell, Some(text)),
        };
        if words.first().is_none_or(|word| word.is_empty()) {
            return Err(fault(
                "empty_command",
                "there is no command to run".into(),
                "`ringback run -- PROGRAM [ARG…]`".into(),
            ));
        }
        let binding = run.binding.map(|binding| binding.to_string());
        if binding.as_ref().is_some_and(|binding| binding.len() > BINDING_BYTES_MAX) {
            let hint = format!("a binding is at most {BINDING_BYTES_MAX} bytes of JSON: put the rest into a file");
            return Err(fault("bad_binding", "the binding is too long".into(), hint));
        }
        let lease = word("lease", &run.lease, Lease::parse, Lease::WORDS)?;
        word("leftovers", &run.leftovers, Leftovers::parse, Leftovers::WORDS)?;
        word("output-policy", &run.output_policy, OutputPolicy::parse, OutputPolicy::WORDS)?;
        word("if-running", &run.if_running, IfRunning::parse, IfRunning::WORDS)?;
        let limit = run.limit.or(self.config.limit);
        let sandbox = word("sandbox", &run.sandbox, Sandbox::parse, Sandbox::WORDS)?;
        hold_back::check(sandbox, &run.cwd, &self.home)?;
        let ms = |duration: std::time::Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let asked = Asked {
            name: run.name,
            key: run.key,
            if_running: run.if_running,
            command: stored(&words, script.as_ref().map(|script| script.as_slice())),
            cwd: run.cwd,
            binding,
            limit,
            sandbox: sandbox.word().to_owned(),
            wall_ms: run.timeout_ms.or(self.config.default_timeout.map(ms)),
            idle_ms: run.idle_timeout_ms,
            grace_ms: run.grace_ms.unwrap_or_else(|| ms(self.config.grace)),
            output_policy: run.output_policy,
            output_max: run.output_max.unwrap_or(self.config.max_output),
            stdin: run.stdin || run.pty.is_some(),
            pty: run.pty,
            split: run.split,
            term_main_only: run.term_main_only,
            progress_fd: run.progress_fd,
            leftovers: run.leftovers,
            progress: progress(run.progress_ms, run.progress_max_ms)?,
            watch: run.watch,
            watch_literal: run.watch_literal,
            ready: run.ready,
        };
        Patterns::new(&asked)?;
        let private = Private {
            words: words.into_iter().map(ByteBuf::into_vec).collect(),
            script: script.map(ByteBuf::into_vec),
            env: run.env.into_iter().map(ByteBuf::into_vec).collect(),
            umask: run.umask & 0o777,
            nice: run.nice,
            limits: run.limits,
        };
        Ok(Wanted { session, lease, asked, private, unheard_max: run.unheard_max })
    }
}

/// Looks at everything that needs no more than a look.
fn check(run: &RunRequest) -> Result<(), Fault> {
    for (what, label) in [("name", &run.name), ("key", &run.key)] {
        if label.as_deref().is_some_and(|label| !spec::is_label(label)) {
            return Err(fault(
                "bad_label",
                format!("the {what} cannot be used"),
                format!("a {what} is one line of 1 to 256 bytes"),
            ));
        }
    }
    if run.timeout_ms == Some(0) || run.idle_timeout_ms == Some(0) {
        return Err(fault(
            "bad_timeout",
            "a limit of 0 would end the task before it began".into(),
            "leave the limit out for none".into(),
        ));
    }
    super::terminal::check(run)?;
    if run.cwd.first() != Some(&b'/') {
        return Err(fault(
            "bad_cwd",
            "the working directory is not an absolute path".into(),
            "pass `--cwd` an absolute path".into(),
        ));
    }
    Ok(())
}

/// First and longest pause between notices of progress; the longest is never below the first.
fn progress(base_ms: Option<u64>, max_ms: Option<u64>) -> Result<Option<(u64, u64)>, Fault> {
    match base_ms {
        None | Some(0) => Ok(None),
        Some(base_ms) if base_ms < PROGRESS_MIN_MS => Err(fault(
            "bad_progress",
            format!("progress every {base_ms} ms is more than anybody can read"),
            format!("ask for {PROGRESS_MIN_MS} ms or more, for example `--progress 2s..30s`"),
        )),
        Some(base_ms) => Ok(Some((base_ms, max_ms.unwrap_or(PROGRESS_MAX_MS).max(base_ms)))),
    }
}

fn stored(words: &[ByteBuf], script: Option<&[u8]>) -> StoredCommand {
    let kept = script.map(|script| ByteBuf::from(&script[..script.len().min(SCRIPT_KEPT_BYTES)]));
    let cut = script.is_some_and(|script| script.len() > SCRIPT_KEPT_BYTES);
    StoredCommand { words: words.to_vec(), script: kept, cut }
}

fn word<T: Default>(what: &str, text: &str, parse: fn(&str) -> Option<T>, words: &[&str]) -> Result<T, Fault> {
    if text.is_empty() {
        return Ok(T::default());
    }
    parse(text).ok_or_else(|| {
        let hint = format!("--{what} is one of {}", words.join(", "));
        fault("bad_word", format!("{text:?} is not a value of --{what}"), hint)
    })
}

fn moved_fault(home: &Home) -> Fault {
    let moved = DaemonError::Moved { home: home.root().to_owned() };
    Fault { code: "home_moved".into(), message: moved.to_string(), hint: moved.hint() }
}

fn folder_fault(error: &io::Error) -> Fault {
    let message = format!("cannot write the folder of the task: {error}");
    match error.kind() {
        io::ErrorKind::InvalidInput => fault(
            "bad_command",
            format!("cannot run it: {error}"),
            "a command cannot contain NUL bytes, nor be longer than the kernel takes".into(),
        ),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            fault("store_full", message, "free some space, for example by `ringback prune`".into())
        }
        _ => fault("folder_failed", message, "`ringback doctor` looks at the home".into()),
    }
}
