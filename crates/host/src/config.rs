//! What the user may set: `$XDG_CONFIG_HOME/ringback/config.toml`.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringback_core::retention;
use serde::Deserialize;

use crate::limits::{Limits, LimitsError};
use crate::quantity::{self, QuantityError};
use crate::sink::{self, RawSink, Sink};

/// Longest config file that is read, bytes: a config is a page, not a data file.
const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// How long an output stays where its path says when nobody says otherwise: whoever was told of it has looked by then.
const PACK_AFTER: Duration = Duration::from_hours(24);

/// The settings, with their defaults filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Wall-clock limit of a task that names none.
    pub default_timeout: Option<Duration>,
    /// How much a task may use that does not say it itself.
    pub limit: Limits,
    /// How long TERM may take before KILL.
    pub grace: Duration,
    /// Cap of one task's output on disk, bytes; 0 is none.
    pub max_output: u64,
    /// How many bytes stay free on the disk of the home, 0 for none; nothing is a share of the disk.
    pub free_space_floor: Option<u64>,
    /// How many tasks run at once; the others are queued.
    pub max_running: u32,
    /// What happens to callers that are more confined than the daemon.
    pub confined: Confined,
    /// Whether tasks get cgroups of their own.
    pub cgroup: Cgroup,
    /// What that which was acknowledged survives.
    pub durability: Durability,
    /// How long ended tasks are kept when `prune` names no age.
    pub keep: Duration,
    /// How many ended tasks are kept at most; 0 is no limit. Past it the oldest that were heard go.
    pub keep_tasks: u64,
    /// How much disk ended tasks take at most, bytes; 0 is no limit.
    pub quota: u64,
    /// How long after its end a task that was heard is let go by itself; nothing is never.
    pub forget_after: Option<Duration>,
    /// How long after its end the small output of a task moves into the database; nothing is never.
    pub pack_after: Option<Duration>,
    /// The words of the shell that runs scripts.
    pub shell: String,
    /// How long an awaited task may be silent before its session is told; nothing is for ever.
    pub stall_after: Option<Duration>,
    /// Where notices are sent besides the inbox.
    pub sinks: Vec<Sink>,
}

/// What happens to callers that are more confined than the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confined {
    /// They are refused, so that nobody leaves a sandbox through the socket.
    #[default]
    Refuse,
    /// They are served.
    Allow,
}

/// Whether tasks get cgroups of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cgroup {
    /// Where a writable cgroup of version 2 is delegated to the daemon.
    #[default]
    Auto,
    /// Never.
    Off,
}

/// What that which was acknowledged survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Whatever dies, and the machine's power: it is synced before it is acknowledged.
    #[default]
    Power,
    /// Whatever dies. After a power cut the last of it may be missing, for disks on which a sync takes long.
    Process,
}

impl Durability {
    /// The word of the config and of `daemon status`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Power => "power",
            Self::Process => "process",
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            default_timeout: None,
            limit: Limits::default(),
            grace: Duration::from_millis(ringback_core::spec::GRACE_MS),
            max_output: ringback_core::spec::OUTPUT_BYTES_MAX,
            free_space_floor: None,
            max_running: ringback_core::board::RUNNING_MAX,
            confined: Confined::Refuse,
            cgroup: Cgroup::Auto,
            durability: Durability::Power,
            keep: Duration::from_millis(retention::KEEP_MS),
            keep_tasks: retention::KEEP_COUNT,
            quota: retention::QUOTA_BYTES,
            forget_after: None,
            pack_after: Some(PACK_AFTER),
            shell: "sh".to_owned(),
            stall_after: Some(Duration::from_millis(ringback_core::watch::STALL_MS)),
            sinks: Vec::new(),
        }
    }
}

/// Why the config cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It cannot be read.
    #[error("cannot read config {}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is not TOML, or has a key or value that is not known. The message carries key, line and column.
    #[error("config {} is not valid: {message}", path.display())]
    Invalid {
        /// Which file.
        path: PathBuf,
        /// What, and in which line.
        message: String,
    },
    /// A value is not what the key means.
    #[error("config {}: `{key}`: {message}", path.display())]
    Value {
        /// Which file.
        path: PathBuf,
        /// Which key.
        key: &'static str,
        /// What is wrong.
        message: String,
    },
}

impl ConfigError {
    /// What can be done next.
    pub fn hint(&self) -> String {
        match self {
            Self::Read { path, .. } => format!("make {} readable, or move it away to use the defaults", path.display()),
            Self::Invalid { path, .. } => format!("edit {}, or move it away to use the defaults", path.display()),
            Self::Value { path, key, .. } => {
                format!("correct `{key}` in {}, or move the file away to use the defaults", path.display())
            }
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Raw {
    default_timeout: Option<String>,
    limit: Option<String>,
    grace: Option<String>,
    max_output: Option<String>,
    free_space_floor: Option<String>,
    max_running: Option<u32>,
    confined: Option<Confined>,
    cgroup: Option<Cgroup>,
    durability: Option<Durability>,
    keep: Option<String>,
    keep_tasks: Option<u64>,
    quota: Option<String>,
    forget_after: Option<String>,
    pack_after: Option<String>,
    shell: Option<String>,
    stall_after: Option<String>,
    sink: Vec<RawSink>,
}

impl Config {
    /// Where the config is looked for, or nothing where neither `XDG_CONFIG_HOME` nor `HOME` is set.
    pub fn path() -> Option<PathBuf> {
        let base = crate::home::absolute_var("XDG_CONFIG_HOME").or_else(|| {
            env::var_os("HOME").filter(|home| !home.is_empty()).map(|home| Path::new(&home).join(".config"))
        })?;
        Some(base.join("ringback").join("config.toml"))
    }

    /// The user's config; without a file, the defaults.
    pub fn load() -> Result<Self, ConfigError> {
        Self::path().map_or_else(|| Ok(Self::default()), |path| Self::load_from(&path))
    }

    /// The config in this file; if there is none, the defaults.
    pub fn load_from(path: &Path) -> Result<Self, ConfigError> {
        let read = |source| ConfigError::Read { path: path.to_owned(), source };
        match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(read(error)),
            Ok(meta) if meta.len() > CONFIG_BYTES_MAX => {
                return Err(read(io::Error::new(io::ErrorKind::FileTooLarge, "longer than 1 MiB")));
            }
            Ok(_) => {}
        }
        Self::parse(&fs::read_to_string(path).map_err(read)?, path)
    }

    fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let raw: Raw = toml::from_str(text)
            .map_err(|error| ConfigError::Invalid { path: path.to_owned(), message: located(text, &error) })?;
        let defaults = Self::default();
        let wrong =
            |key, error: QuantityError| ConfigError::Value { path: path.to_owned(), key, message: error.to_string() };
        let time = |key, text: Option<String>| match text {
            Some(text) => quantity::duration(&text).map(Some).map_err(|error| wrong(key, error)),
            None => Ok(None),
        };
        let size = |key, text: Option<String>| match text {
            Some(text) => quantity::size(&text).map(Some).map_err(|error| wrong(key, error)),
            None => Ok(None),
        };
        Ok(Self {
            default_timeout: time("default_timeout", raw.default_timeout)?.filter(|limit| !limit.is_zero()),
            limit: limits(raw.limit.as_deref(), path)?,
            grace: time("grace", raw.grace)?.unwrap_or(defaults.grace),
            max_output: size("max_output", raw.max_output)?.unwrap_or(defaults.max_output),
            free_space_floor: size("free_space_floor", raw.free_space_floor)?,
            max_running: raw.max_running.unwrap_or(defaults.max_running).max(1),
            confined: raw.confined.unwrap_or_default(),
            cgroup: raw.cgroup.unwrap_or_default(),
            durability: raw.durability.unwrap_or_default(),
            keep: time("keep", raw.keep)?.unwrap_or(defaults.keep),
            keep_tasks: raw.keep_tasks.unwrap_or(defaults.keep_tasks),
            quota: size("quota", raw.quota)?.unwrap_or(defaults.quota),
            forget_after: time("forget_after", raw.forget_after)?.filter(|age| !age.is_zero()),
            pack_after: time("pack_after", raw.pack_after)?.or(defaults.pack_after).filter(|age| !age.is_zero()),
            shell: raw.shell.filter(|shell| !shell.trim().is_empty()).unwrap_or(defaults.shell),
            stall_after: match time("stall_after", raw.stall_after)? {
                Some(after) => Some(after).filter(|after| !after.is_zero()),
                None => defaults.stall_after,
            },
            sinks: sink::read(raw.sink).map_err(|message| ConfigError::Value {
                path: path.to_owned(),
                key: "sink",
                message,
            })?,
        })
    }
}

fn limits(text: Option<&str>, path: &Path) -> Result<Limits, ConfigError> {
    let wrong =
        |error: LimitsError| ConfigError::Value { path: path.to_owned(), key: "limit", message: error.to_string() };
    text.map_or_else(|| Ok(Limits::default()), |text| Limits::parse(text).map_err(wrong))
}

/// The parser's message with the line it is about: `unknown field `grce` (line 3)`.
fn located(text: &str, error: &toml::de::Error) -> String {
    let message = error.message().trim_end();
    match error.span() {
        Some(span) => {
            let line = text.get(..span.start).map_or(0, |before| before.matches('\n').count()) + 1;
            format!("{message} (line {line})")
        }
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<Config, String> {
        Config::parse(text, Path::new("/c/config.toml")).map_err(|error| error.to_string())
    }

    #[test]
    fn an_empty_config_is_the_defaults_and_a_full_one_is_read() {
        assert_eq!(check(""), Ok(Config::default()));
        let config = check(
            "default_timeout = '1h'\nlimit = 'mem=2GiB,pids=500'\ngrace = '3s'\nmax_output = '10MiB'\nfree_space_floor = '2GiB'\nmax_running = 7\nconfined = 'allow'\ncgroup = 'off'\ndurability = 'process'\nkeep = '1d'\nkeep_tasks = 9\nquota = '1GiB'\nforget_after = '2d'\npack_after = '0'\nshell = 'bash -e'\nstall_after = '0s'",
        );
        let expected = Config {
            default_timeout: Some(Duration::from_hours(1)),
            limit: Limits { mem_bytes: Some(2 << 30), pids: Some(500), cpu_percent: None },
            grace: Duration::from_secs(3),
            max_output: 10 << 20,
            free_space_floor: Some(2 << 30),
            max_running: 7,
            confined: Confined::Allow,
            cgroup: Cgroup::Off,
            durability: Durability::Process,
            keep: Duration::from_hours(24),
            keep_tasks: 9,
            quota: 1 << 30,
            forget_after: Some(Duration::from_hours(48)),
            pack_after: None,
            shell: "bash -e".to_owned(),
            stall_after: None,
            sinks: Vec::new(),
        };
        assert_eq!(config, Ok(expected));
    }

    #[test]
    fn a_mistake_is_named_with_its_key_and_line() {
        let unknown = check("grace = '3s'\ngrce = '3s'\n").unwrap_err();
        assert!(unknown.contains("grce") && unknown.contains("line 2"), "{unknown}");
        let error = Config::parse("grce = '3s'", Path::new("/c/config.toml")).unwrap_err();
        let said = format!("{error}; {}", error.hint());
        assert_eq!(said.matches("stall_after").count(), 1, "the known keys stand there once: {said}");
        let value = check("grace = 'soon'").unwrap_err();
        assert!(value.contains("`grace`") && value.contains("soon"), "{value}");
        let limit = check("limit = 'mem=lots'").unwrap_err();
        assert!(limit.contains("`limit`") && limit.contains("mem=512MiB"), "{limit}");
        let choice = check("confined = 'maybe'").unwrap_err();
        assert!(choice.contains("maybe") && choice.contains("line 1"), "{choice}");
    }
}
