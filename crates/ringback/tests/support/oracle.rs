//! The oracle of the tests that kill: each command's own word, and chance that can be replayed.
//!
//! A command appends a line to a file when it starts, and writes its exit code to another one as its last act. What
//! ringback says later must agree with both.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Fifo, MINE, World, has_ended, id_of};

/// How long each loop goes on killing.
const KILLING: Duration = Duration::from_secs(6);

/// How many rounds it has at most: what up to five commands of each have to tell is read as one page of the inbox, of a thousand.
const ROUNDS_MAX: u64 = 190;

/// A source of chance that can be named: `RINGBACK_TEST_SEED` replays a run.
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new() -> Self {
        let named = std::env::var("RINGBACK_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(1, |since| since.as_nanos() as u64);
        let seed = named.unwrap_or(now) | 1;
        eprintln!("RINGBACK_TEST_SEED={seed}");
        Self(seed)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }

    /// Lets a random moment pass: chance is all that is waited for.
    pub(crate) fn moment(&mut self, most: Duration) {
        let nanos = self.below(u64::try_from(most.as_nanos()).unwrap());
        let pause = rustix::event::Timespec { tv_sec: 0, tv_nsec: i64::try_from(nanos).unwrap().min(999_999_999) };
        let _ = rustix::event::poll(&mut [], Some(&pause));
    }
}

/// The commands of one loop and what they themselves say of what they did.
pub(crate) struct Oracle {
    pub(crate) folder: PathBuf,
    pub(crate) go: Fifo,
    /// By number: the id, once `run` has said it.
    pub(crate) ids: BTreeMap<u64, String>,
    pub(crate) asked: u64,
}

impl Oracle {
    pub(crate) fn new(world: &World) -> Self {
        let folder = world.work("oracle");
        std::fs::create_dir(&folder).unwrap();
        Self { folder, go: world.fifo("go"), ids: BTreeMap::new(), asked: 0 }
    }

    /// Asks for one more command. A client that the daemon's death cut off may fail, and its command may still run.
    pub(crate) fn ask(&mut self, world: &World, held: bool) {
        let n = self.asked;
        self.asked += 1;
        let hold = if held { format!("read x < {};", self.go.word()) } else { String::new() };
        let script = format!(
            "echo start >> {0}/starts.{n}; echo begin {n}; {hold} seq {n} $(({n} + 40)); echo {1} > {0}/code.{n}; exit {1}",
            self.folder.display(),
            n % 251
        );
        let said = world.rb(&["run", "-c", &script]);
        match said.code {
            Some(0) => drop(self.ids.insert(n, id_of(&said))),
            _ => assert!(said.err.contains("hint:"), "{said:?}"),
        }
    }

    pub(crate) fn lines(&self, kind: &str, n: u64) -> Vec<String> {
        let text = std::fs::read_to_string(self.folder.join(format!("{kind}.{n}"))).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Everything that ringback says against everything the commands said, as far as who died leaves it certain.
    pub(crate) fn check(&self, world: &World, died: Died) -> Counts {
        let mut counts = Counts::default();
        for (n, id) in &self.ids {
            let task = world.end(id);
            assert!(has_ended(&task));
            match task["state"].as_str().unwrap() {
                "exited" => self.check_exited(world, *n, &task, died),
                "lost" if died != Died::Daemons => {
                    assert_eq!(task["reason"], "monitor_died", "{task:#}");
                    assert_eq!(task["exit_code"], Value::Null);
                    counts.lost += 1;
                }
                other => panic!("{other}: {task:#}"),
            }
            counts.told += 1;
        }
        for n in 0..self.asked {
            assert!(self.lines("starts", n).len() <= 1, "command {n} was started twice");
        }
        self.check_notices(world);
        counts
    }

    fn check_exited(&self, world: &World, n: u64, task: &Value, died: Died) {
        assert_eq!(self.lines("starts", n).len(), 1, "{task:#}");
        assert_eq!(self.lines("code", n), [task["exit_code"].to_string()], "its own word differs: {task:#}");
        let expected: String = (n..=n + 40).map(|line| format!("{line}\n")).collect();
        let id = task["id"].as_str().unwrap();
        let (output, expected) = (String::from_utf8(world.output(id)).unwrap(), format!("begin {n}\n{expected}"));
        if died == Died::Both {
            assert!(expected.starts_with(&output), "{output:?}: {task:#}");
        } else {
            assert_eq!(output, expected, "{task:#}");
        }
    }

    fn check_notices(&self, world: &World) {
        let notices = world.inbox(MINE);
        let mut told: BTreeMap<String, u32> = BTreeMap::new();
        for (at, notice) in notices.iter().enumerate() {
            assert_eq!(notice["seq"], at + 1, "in order, without a hole");
            *told.entry(notice["task"].as_str().unwrap().to_owned()).or_default() += 1;
        }
        for (id, times) in &told {
            assert_eq!(*times, 1, "{id} was told {times} times");
        }
        for id in self.ids.values() {
            assert!(told.contains_key(id), "{id} was never told");
        }
    }
}

/// Who was killed, and so what may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Died {
    /// Only daemons or clients: nothing.
    Daemons,
    /// Only keepers, under a living daemon: outcomes may be lost, no byte.
    Keepers,
    /// Both at once: what was in a pipe that nobody had open any more went with it.
    Both,
}

/// How many endings were checked.
#[derive(Default, Debug)]
pub(crate) struct Counts {
    pub(crate) told: u64,
    pub(crate) lost: u64,
}

/// Repeats `act` until it was enough, and says how often.
pub(crate) fn until_over(mut act: impl FnMut(u64)) -> u64 {
    let until = Instant::now() + KILLING;
    let mut rounds = 0;
    while Instant::now() < until && rounds < ROUNDS_MAX {
        act(rounds);
        rounds += 1;
    }
    rounds
}
