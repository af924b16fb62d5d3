//! How much a task may use: `mem=2G,pids=200,cpu=50%`, read once.

use ringback_sys::cgroup::Controls;
use ringback_sys::process;
use serde::{Deserialize, Serialize};

use crate::quantity;

/// Less memory than this holds no program.
const MEM_BYTES_MIN: u64 = 1 << 20;
/// `pid_max` of Linux is at most this (proc(5)).
const PIDS_MAX: u64 = 1 << 22;
/// More processors than this has no machine; hundredths.
const CPU_PERCENT_MAX: u64 = 100 * 8192;

/// Limits of a whole tree. Nothing is not said, 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Memory, bytes.
    pub mem_bytes: Option<u64>,
    /// Processes and threads.
    pub pids: Option<u64>,
    /// CPU time, hundredths of one processor.
    pub cpu_percent: Option<u64>,
}

/// Why a text names no limits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitsError {
    /// A part is not `NAME=VALUE`, or its name is not known.
    #[error("`{0}` is no limit; write mem=SIZE, pids=NUMBER or cpu=PERCENT%, with commas between")]
    Unknown(String),
    /// One stands there twice.
    #[error("`{0}` is limited twice")]
    Twice(&'static str),
    /// Not a size, or too small.
    #[error("`mem={0}` is not a limit of memory; write it like mem=2G or mem=512MiB, at least 1MiB, or mem=none")]
    Mem(String),
    /// Not a number.
    #[error("`pids={0}` is not a limit of processes; write it like pids=200, or pids=none")]
    Pids(String),
    /// Not a share.
    #[error("`cpu={0}` is not a limit of CPU time; write it like cpu=50% of one processor, cpu=200%, or cpu=none")]
    Cpu(String),
}

impl Limits {
    /// Reads `mem=SIZE`, `pids=NUMBER` and `cpu=PERCENT%`, with commas between; `none` is no limit.
    pub fn parse(text: &str) -> Result<Self, LimitsError> {
        let mut limits = Self::default();
        for part in text.split(',').map(str::trim) {
            let unknown = || LimitsError::Unknown(part.to_owned());
            let (name, value) = part.split_once('=').ok_or_else(unknown)?;
            let value = value.trim();
            let number = |read: fn(&str) -> Option<u64>| if value == "none" { Some(0) } else { read(value) };
            let (place, name, read) = match name.trim() {
                "mem" => (&mut limits.mem_bytes, "mem", number(mem).ok_or(LimitsError::Mem(value.to_owned()))?),
                "pids" => (&mut limits.pids, "pids", number(pids).ok_or(LimitsError::Pids(value.to_owned()))?),
                "cpu" => (&mut limits.cpu_percent, "cpu", number(cpu).ok_or(LimitsError::Cpu(value.to_owned()))?),
                _ => return Err(unknown()),
            };
            if place.replace(read).is_some() {
                return Err(LimitsError::Twice(name));
            }
        }
        Ok(limits)
    }

    /// These, and the others where these say nothing; without what is 0.
    #[must_use]
    pub fn or(self, others: Self) -> Self {
        let set = |ours: Option<u64>, theirs: Option<u64>| ours.or(theirs).filter(|limit| *limit != 0);
        Self {
            mem_bytes: set(self.mem_bytes, others.mem_bytes),
            pids: set(self.pids, others.pids),
            cpu_percent: set(self.cpu_percent, others.cpu_percent),
        }
    }

    /// Whether nothing is limited.
    pub fn is_empty(&self) -> bool {
        self.or(Self::default()) == Self::default()
    }
}

/// The names of the limits that cgroups with these controllers hold.
pub fn held_by_cgroup(controls: Controls) -> Vec<String> {
    let all = [("mem", controls.memory), ("pids", controls.processes), ("cpu", controls.cpu)];
    all.into_iter().filter(|(_, is_held)| *is_held).map(|(name, _)| name.to_owned()).collect()
}

/// The names of those that the kernel's own limits (setrlimit(2)) hold where no cgroup does.
pub fn held_by_rlimit() -> Vec<String> {
    let all = [("mem", true), ("pids", process::is_user_limited())];
    all.into_iter().filter(|(_, is_held)| *is_held).map(|(name, _)| name.to_owned()).collect()
}

fn mem(text: &str) -> Option<u64> {
    quantity::size(text).ok().filter(|bytes| *bytes >= MEM_BYTES_MIN)
}

fn pids(text: &str) -> Option<u64> {
    text.parse().ok().filter(|pids| (1..=PIDS_MAX).contains(pids))
}

fn cpu(text: &str) -> Option<u64> {
    let percent = text.strip_suffix('%')?.trim_end().parse().ok()?;
    Some(percent).filter(|percent| (1..=CPU_PERCENT_MAX).contains(percent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_or_explained() {
        let all = Limits { mem_bytes: Some(2_000_000_000), pids: Some(200), cpu_percent: Some(50) };
        assert_eq!(Limits::parse("mem=2G,pids=200,cpu=50%"), Ok(all));
        assert_eq!(Limits::parse(" cpu = 150 % "), Ok(Limits { cpu_percent: Some(150), ..Limits::default() }));
        for (wrong, says) in [
            ("", "mem=SIZE"),
            ("mem", "mem=SIZE"),
            ("disk=1G", "`disk=1G` is no limit"),
            ("mem=lots", "mem=512MiB"),
            ("mem=1K", "at least 1MiB"),
            ("pids=0", "pids=200"),
            ("pids=-1", "pids=200"),
            ("cpu=50", "cpu=50%"),
            ("cpu=0%", "cpu=50%"),
            ("mem=1G,mem=2G", "`mem` is limited twice"),
            ("mem=1G,,pids=3", "`` is no limit"),
        ] {
            let said = Limits::parse(wrong).unwrap_err().to_string();
            assert!(said.contains(says), "{wrong}: {said}");
        }
    }

    #[test]
    fn what_is_said_counts_before_the_default_and_none_takes_it_away() {
        let config = Limits::parse("mem=1G,pids=9").unwrap();
        let merged = Limits::parse("mem=none,cpu=50%").unwrap().or(config);
        assert_eq!(merged, Limits { mem_bytes: None, pids: Some(9), cpu_percent: Some(50) });
        assert!(Limits::parse("pids=none").unwrap().is_empty() && !config.is_empty());
    }
}
