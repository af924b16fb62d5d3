//! From the options of `run` to what is asked of the daemon.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;

use ringback_host::client::{Capture, EnvMode};
use ringback_host::quantity::millis;
use ringback_host::wire::{ByteBuf, Command, FRAME_BYTES_MAX, RunRequest, Spoken, TerminalSize};

use super::{Mode, Run, Term, word};
use crate::explain::Failure;
use crate::render::clean;
use crate::terminal;

impl Run {
    pub(super) fn request(&self) -> Result<RunRequest, Failure> {
        // This program has one thread, so the umask may be changed for a moment to be read (umask(2)).
        let umask = ringback_sys::files::umask(0o077);
        ringback_sys::files::umask(umask);
        let captured =
            self.capture(self.env_files.with(&self.env)?, umask).request(self.command()?).map_err(|error| {
                let hint = Some("pass -C a folder that exists".to_owned());
                Failure::new("cwd", format!("cannot tell the current folder: {error}"), hint)
            })?;
        Ok(self.wanted(captured))
    }

    /// The request that a command line makes which came with everything that its command inherits; nothing if something has to be
    /// looked up for it.
    pub(in super::super) fn request_of(&self, spoken: &Spoken) -> Option<RunRequest> {
        let reads_a_file = !self.env_files.is_empty() || self.script.as_ref().is_some_and(|script| script == "-");
        if self.cwd.is_some() || reads_a_file {
            return None;
        }
        let capture = self.capture(self.env.clone(), spoken.umask);
        Some(self.wanted(capture.request_of(spoken, self.command().ok()?)))
    }

    fn capture(&self, env: Vec<(OsString, OsString)>, umask: u32) -> Capture {
        let env_mode = match self.env_mode {
            Mode::Inherit => EnvMode::Inherit,
            Mode::Clean => EnvMode::Clean,
            Mode::Replace => EnvMode::Replace,
        };
        Capture { env_mode, env_remove: self.env_remove.clone(), env, cwd: self.cwd.clone(), umask: Some(umask) }
    }

    /// Adds what was asked for to what is inherited.
    fn wanted(&self, captured: RunRequest) -> RunRequest {
        let mut request = RunRequest {
            name: self.name.clone(),
            session: String::new(),
            timeout_ms: self.timeout.map(millis),
            idle_timeout_ms: self.idle_timeout.map(millis),
            grace_ms: self.grace.map(millis),
            output_max: self.max_output,
            output_policy: word(&self.output_policy),
            stdin: self.stdin,
            pty: self.pty.map(|size| size.or_else(terminal::own_size).unwrap_or(TerminalSize::USUAL)),
            split: self.split,
            term_main_only: self.term == Term::Main,
            leftovers: word(&self.leftovers),
            lease: word(&self.lease),
            binding: self.binding.clone(),
            key: self.key.clone(),
            if_running: word(&self.if_running),
            progress_ms: self.progress.map(|pace| millis(pace.first)),
            progress_max_ms: self.progress.and_then(|pace| pace.longest).map(millis),
            progress_fd: self.progress_fd,
            watch: self.watch.clone(),
            watch_literal: self.watch_literal.clone(),
            ready: self.ready.clone(),
            ..captured
        };
        self.hold_back.put(&mut request);
        request
    }

    fn command(&self) -> Result<Command, Failure> {
        let Some(script) = &self.script else {
            return Ok(Command::Argv(self.argv.iter().map(|word| ByteBuf::from(word.as_bytes())).collect()));
        };
        if script == "-" && self.stdin && self.follow {
            let hint = "leave --stdin away, or give the script as a word";
            return Err(Failure::usage("stdin is the script already, and cannot be that of the task too", hint));
        }
        let shell = match &self.shell {
            None => Vec::new(),
            Some(words) => shlex::split(words).filter(|words| !words.is_empty()).ok_or_else(|| {
                Failure::usage(format!("`{}` is not a shell", clean::line(words)), "write it like --shell 'bash -e'")
            })?,
        };
        let shell = shell.into_iter().map(|word| ByteBuf::from(word.into_bytes())).collect();
        Ok(Command::Script { text: ByteBuf::from(script_text(script)?), shell })
    }
}

/// The script; `-` is what comes on stdin, which may be longer than an argument (128 KiB, execve(2)).
fn script_text(script: &OsStr) -> Result<Vec<u8>, Failure> {
    if script != "-" {
        return Ok(script.as_bytes().to_vec());
    }
    let mut text = Vec::new();
    // One byte more than a request can carry, so that the daemon's refusal names the size.
    io::stdin().lock().take(FRAME_BYTES_MAX as u64 + 1).read_to_end(&mut text)?;
    Ok(text)
}
