//! Processes that are nobody's business: they live beside the tasks, take pids over, and must never be hit.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::chance::{Chance, pause};

/// How many stand there all the time.
const STANDING: usize = 12;
/// Between two that come. Each costs as much as a task does, and it is tasks that are to be tried.
const PAUSE: Duration = Duration::from_millis(60);

/// Canaries that stand, and what became of those that come and go.
pub(crate) struct Canaries {
    standing: Vec<Child>,
    pub(crate) hit: AtomicU64,
    pub(crate) flown: AtomicU64,
}

fn start(time: &str) -> Option<Child> {
    let mut command = Command::new("setsid");
    command.args(["sleep", time]).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    // A mark of another home's task is not a mark of ours.
    command.env("RINGBACK_ID", "000000000000").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().ok()
}

impl Canaries {
    pub(crate) fn new() -> Self {
        let standing = (0..STANDING).filter_map(|_| start("100000")).collect();
        Self { standing, hit: AtomicU64::new(0), flown: AtomicU64::new(0) }
    }

    /// Lets canaries come and go until it is `over`, on numbers that the tasks leave behind.
    pub(crate) fn fly(&self, mut chance: Chance, over: &AtomicBool) {
        let mut flying: Vec<Child> = Vec::new();
        while !over.load(Ordering::Relaxed) {
            flying.extend(start(&format!("0.{}", chance.below(9))));
            pause(PAUSE);
            if flying.len() > 20 {
                self.land(flying.remove(0));
            }
        }
        for canary in flying {
            self.land(canary);
        }
    }

    fn land(&self, mut canary: Child) {
        self.flown.fetch_add(1, Ordering::Relaxed);
        let untouched = canary.wait().is_ok_and(|status| status.success());
        self.hit.fetch_add(u64::from(!untouched), Ordering::Relaxed);
    }

    /// Takes the standing ones away; whoever does not die of our own TERM was hit before.
    pub(crate) fn take_away(&mut self) -> u64 {
        for mut canary in self.standing.drain(..) {
            let lives = matches!(canary.try_wait(), Ok(None));
            let _ = canary.kill();
            let killed = canary.wait().is_ok_and(|status| status.signal() == Some(9));
            self.hit.fetch_add(u64::from(!lives || !killed), Ordering::Relaxed);
        }
        self.hit.load(Ordering::Relaxed)
    }
}
