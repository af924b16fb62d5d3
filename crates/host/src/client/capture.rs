//! What a task inherits from its caller: environment, folder, umask, nice and limits.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use ringback_core::secret::looks_secret;
use serde_bytes::ByteBuf;

use crate::wire::{Command, RunRequest, Spoken};

/// What becomes of the caller's environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum EnvMode {
    /// The command gets it as it is.
    #[default]
    Inherit,
    /// The command gets it without the names that look like secrets.
    Clean,
    /// The command gets nothing of it.
    Replace,
}

/// What is captured, and what is changed on the way.
#[derive(Clone, Debug, Default)]
pub struct Capture {
    /// What becomes of the caller's environment.
    pub env_mode: EnvMode,
    /// Names that are taken away.
    pub env_remove: Vec<OsString>,
    /// Names and values that are set, last of all.
    pub env: Vec<(OsString, OsString)>,
    /// Working directory; a relative one starts at the caller's.
    pub cwd: Option<PathBuf>,
    /// The umask, where the caller knows it; else it is read from `/proc`, because asking the kernel means changing it
    /// for a moment (umask(2)), which is wrong in a program with threads.
    pub umask: Option<u32>,
}

/// The names that ringback itself sets in every task.
const OWN_NAMES: [&str; 3] = ["RINGBACK_ID", "RINGBACK_SESSION", "RINGBACK_PROGRESS_FD"];
/// What no task inherits: with Claude Code's token one speaks as its session, and what a task gets is kept on disk.
const NOT_PASSED_ON: [&str; 1] = ["CLAUDE_CODE_MESSAGING_TOKEN"];

impl Capture {
    /// The request for `command` with everything of this process that the command is to inherit.
    pub fn request(&self, command: Command) -> io::Result<RunRequest> {
        Ok(RunRequest {
            command,
            cwd: ByteBuf::from(self.cwd()?.into_os_string().into_vec()),
            env: self.environment(env::vars_os()),
            umask: self.umask.or_else(own_umask).unwrap_or(0o022),
            nice: ringback_sys::process::nice(),
            limits: ringback_sys::process::soft_limits().to_vec(),
            ..RunRequest::default()
        })
    }

    /// The request for `command` with what a command line that came from elsewhere brought along: nothing is looked up here.
    pub fn request_of(&self, spoken: &Spoken, command: Command) -> RunRequest {
        RunRequest {
            command,
            cwd: spoken.cwd.clone(),
            env: self.environment(variables(&spoken.env)),
            umask: spoken.umask,
            nice: spoken.nice,
            limits: spoken.limits.clone(),
            ..RunRequest::default()
        }
    }

    /// As the kernel calls it, however it was spelled; one that is missing keeps its spelling, and the task will say so.
    fn cwd(&self) -> io::Result<PathBuf> {
        let asked = match &self.cwd {
            Some(cwd) if cwd.is_absolute() => cwd.clone(),
            Some(cwd) => here()?.join(strip_dot(cwd)),
            None => return here(),
        };
        Ok(asked.canonicalize().unwrap_or(asked))
    }

    fn environment(&self, inherited: impl Iterator<Item = (OsString, OsString)>) -> Vec<ByteBuf> {
        let set_later = |name: &OsStr| self.env.iter().any(|(other, _)| other == name);
        let kept = inherited.filter(|(name, _)| match self.env_mode {
            EnvMode::Inherit => true,
            EnvMode::Clean => !looks_secret(&name.to_string_lossy()),
            EnvMode::Replace => false,
        });
        let kept = kept.filter(|(name, _)| {
            !OWN_NAMES.iter().chain(&NOT_PASSED_ON).any(|own| name == own)
                && !self.env_remove.contains(name)
                && !set_later(name)
        });
        let mut all: Vec<ByteBuf> = kept.map(|(name, value)| pair(&name, &value)).collect();
        for (at, (name, value)) in self.env.iter().enumerate() {
            // The last of several values for one name counts.
            if !self.env[at + 1..].iter().any(|(later, _)| later == name) {
                all.push(pair(name, value));
            }
        }
        all
    }
}

/// The variables of an environment whose entries have a NUL between, as the standard library finds them: what has no `=` behind its
/// first character is none.
pub fn variables(environment: &[u8]) -> impl Iterator<Item = (OsString, OsString)> {
    environment.split(|byte| *byte == 0).filter_map(|entry| {
        let at = 1 + entry.get(1..)?.iter().position(|byte| *byte == b'=')?;
        let part = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
        Some((part(&entry[..at]), part(&entry[at + 1..])))
    })
}

fn pair(name: &OsStr, value: &OsStr) -> ByteBuf {
    let mut bytes = Vec::with_capacity(name.len() + value.len() + 1);
    bytes.extend_from_slice(name.as_bytes());
    bytes.push(b'=');
    bytes.extend_from_slice(value.as_bytes());
    ByteBuf::from(bytes)
}

/// The caller's folder; one that was deleted under us is still named by the shell's `PWD`, and the task will say that it
/// is missing.
fn here() -> io::Result<PathBuf> {
    env::current_dir().or_else(|error| crate::home::absolute_var("PWD").ok_or(error))
}

/// The umask of this process, from the line `Umask:` of `/proc/self/status` (proc(5), Linux 4.7).
pub fn own_umask() -> Option<u32> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"))?;
    u32::from_str_radix(line.trim(), 8).ok()
}

fn strip_dot(path: &Path) -> &Path {
    path.strip_prefix(".").unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(capture: &Capture, inherited: &[(&str, &str)]) -> Vec<String> {
        let inherited = inherited.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        capture.environment(inherited).into_iter().map(|pair| String::from_utf8(pair.into_vec()).unwrap()).collect()
    }

    #[test]
    fn the_environment_is_inherited_cleaned_or_replaced_and_then_changed() {
        let inherited = [
            ("PATH", "/bin"),
            ("GH_TOKEN", "t"),
            ("A", "1"),
            ("RINGBACK_ID", "outer"),
            ("CLAUDE_CODE_MESSAGING_TOKEN", "speaks as the session"),
        ];
        assert_eq!(check(&Capture::default(), &inherited), ["PATH=/bin", "GH_TOKEN=t", "A=1"]);
        let clean = Capture { env_mode: EnvMode::Clean, ..Capture::default() };
        assert_eq!(check(&clean, &inherited), ["PATH=/bin", "A=1"]);
        let changed = Capture {
            env_mode: EnvMode::Inherit,
            env_remove: vec!["PATH".into()],
            env: vec![("A".into(), "2".into()), ("A".into(), "3".into()), ("GH_TOKEN".into(), "u=v".into())],
            ..Capture::default()
        };
        assert_eq!(check(&changed, &inherited), ["A=3", "GH_TOKEN=u=v"]);
        let replaced = Capture { env_mode: EnvMode::Replace, ..changed };
        assert_eq!(check(&replaced, &inherited), ["A=3", "GH_TOKEN=u=v"]);
    }

    #[test]
    fn the_umask_is_read_without_changing_it() {
        let before = own_umask().unwrap();
        assert_eq!(ringback_sys::files::umask(before), before);
    }

    #[test]
    fn a_relative_folder_starts_at_the_callers() {
        let here = env::current_dir().unwrap();
        let cwd = |path: &str| Capture { cwd: Some(path.into()), ..Capture::default() }.cwd().unwrap();
        assert_eq!(cwd("sub"), here.join("sub"));
        assert_eq!(cwd("./sub"), here.join("sub"));
        assert_eq!(cwd("/tmp"), PathBuf::from("/tmp"));
    }
}
