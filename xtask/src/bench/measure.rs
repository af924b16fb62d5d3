//! Samples and what is said of them; the floor of the machine.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use rustix::time::{ClockId, clock_gettime};

use crate::Done;

/// Samples of one thing, in its unit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    /// One figure, seen once.
    pub(crate) fn once(value: f64) -> Self {
        Self(vec![value])
    }

    pub(crate) fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    /// A time, in milliseconds.
    pub(crate) fn push_time(&mut self, time: Duration) {
        self.0.push(time.as_secs_f64() * 1e3);
    }

    /// The value below which this share (0 to 1) of the samples lies; 0 where there are none.
    pub(crate) fn quantile(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "an index of few samples"
        )]
        let at = (sorted.len() as f64 * share) as usize;
        sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
    }

    pub(crate) fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    pub(crate) fn min(&self) -> f64 {
        self.quantile(0.0)
    }

    pub(crate) fn max(&self) -> f64 {
        self.quantile(1.0)
    }
}

/// What a row is aimed at.
#[derive(Clone, Copy)]
pub(crate) enum Target {
    /// At most this many times the floor.
    Ratio(f64),
    /// At most this much, in the row's unit.
    Amount(f64),
    /// It is shown beside another row.
    Shown,
}

/// One line of the table.
pub(crate) struct Row {
    pub(crate) name: String,
    /// `ms`, `MB`, `KB`, `s`.
    pub(crate) unit: &'static str,
    pub(crate) ours: Samples,
    /// Samples of the floor, taken between ours; rows about sizes have none.
    pub(crate) floor: Option<Samples>,
    pub(crate) peers: Vec<(String, Samples)>,
    pub(crate) target: Target,
    /// What the distance to the floor is made of.
    pub(crate) made_of: &'static str,
    /// What would be tried next, where the target is missed.
    pub(crate) next: &'static str,
}

impl Row {
    pub(crate) fn new(name: impl Into<String>, unit: &'static str, ours: Samples, target: Target) -> Self {
        Self { name: name.into(), unit, ours, floor: None, peers: Vec::new(), target, made_of: "", next: "" }
    }

    /// The row above, in a home whose commits are not synced.
    pub(crate) fn unsynced(ours: Samples, floor: Samples) -> Self {
        Self::new("the same with `durability = \"process\"`", "ms", ours, Target::Shown)
            .over(floor)
            .because("no sync: what is killed loses nothing, a power cut takes the last of it.", "")
    }

    pub(crate) fn over(mut self, floor: Samples) -> Self {
        self.floor = Some(floor);
        self
    }

    pub(crate) fn beside(mut self, peers: Vec<(String, Samples)>) -> Self {
        self.peers = peers;
        self
    }

    /// What the distance to the floor is made of, and what would be tried next where the target is missed.
    pub(crate) fn because(mut self, made_of: &'static str, next: &'static str) -> Self {
        self.made_of = made_of;
        self.next = next;
        self
    }

    /// These samples' median against the floor's.
    pub(crate) fn ratio(&self, samples: &Samples) -> Option<f64> {
        self.floor.as_ref().map(|floor| samples.median() / floor.median())
    }

    /// What was aimed at, for people.
    pub(crate) fn aim(&self) -> String {
        match self.target {
            Target::Ratio(most) => format!("≤ {most} ×"),
            Target::Amount(most) => format!("≤ {most} {}", self.unit),
            Target::Shown => "–".to_owned(),
        }
    }

    /// Whether our median is past what was aimed at.
    pub(crate) fn is_missed(&self) -> bool {
        match self.target {
            Target::Ratio(most) => self.ratio(&self.ours).is_some_and(|ratio| ratio > most),
            Target::Amount(most) => self.ours.median() > most,
            Target::Shown => false,
        }
    }
}

/// Starts this, with nothing on its standard streams, and waits for its end.
pub(crate) fn time(command: &mut Command) -> io::Result<Duration> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let begun = Instant::now();
    let status = command.spawn()?.wait()?;
    let taken = begun.elapsed();
    if status.success() { Ok(taken) } else { Err(io::Error::other(format!("{command:?} ended with {status}"))) }
}

/// Keeps two samples apart.
#[expect(clippy::disallowed_methods, reason = "nothing is waited for: the machine is left alone for a while")]
pub(crate) fn pause(time: Duration) {
    thread::sleep(time);
}

/// The floor: `posix_spawn` of `sh -c true`, and the wait for its end.
pub(crate) fn floor() -> io::Result<Duration> {
    time(Command::new("/bin/sh").args(["-c", "true"]))
}

/// Seconds that both sides of all processes of the machine took from all processors so far (`proc_stat(5)`: ticks of 1/100 s).
pub(crate) fn machine_cpu() -> Done<f64> {
    let stat = fs::read_to_string("/proc/stat")?;
    let words = stat.lines().next().unwrap_or_default().split_whitespace().skip(1);
    let ticks: Vec<f64> = words.filter_map(|word| word.parse().ok()).collect();
    // user, nice, system, (idle, iowait), irq, softirq
    Ok([0, 1, 2, 5, 6].iter().filter_map(|at| ticks.get(*at)).sum::<f64>() / 100.0)
}

/// The value of a `Name: 12 kB` line of a file in /proc, in KiB.
pub(crate) fn proc_kib(path: &str, name: &str) -> Done<f64> {
    let text = fs::read_to_string(path)?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let number = value.and_then(|value| value.split_whitespace().next()).ok_or(format!("no {name} in {path}"))?;
    Ok(number.parse()?)
}

/// The monotonic clock, in nanoseconds.
pub(crate) fn monotonic() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// A program that says when it ended.
#[derive(Args)]
pub(crate) struct Stamp {
    milliseconds: u64,
    file: PathBuf,
}

impl Stamp {
    /// Sleeps, then writes the clock as the last act before the end.
    pub(crate) fn write(&self) -> Done {
        pause(Duration::from_millis(self.milliseconds));
        Ok(fs::write(&self.file, monotonic().to_string())?)
    }
}
