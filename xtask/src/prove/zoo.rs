//! The commands that are run: well behaved ones, and trees that are hard to keep or to end. Each says itself what it did.

use std::path::Path;

use super::chance::Chance;

/// How a command ends if nobody kills it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    /// With the exit code that it wrote down before.
    Itself,
    /// By a signal of its own.
    Crash,
    /// By the limit that it was given.
    Limit,
    /// By the kernel, for want of memory.
    Memory,
    /// It cannot be started.
    Never,
    /// Only when it is stopped.
    Stopped,
}

/// One kind of command. In a script `{N}` is its number, `{M}` 40 more, `{C}` its exit code, `{D}` the oracle's folder.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) word: &'static str,
    pub(crate) options: &'static [&'static str],
    pub(crate) script: &'static str,
    pub(crate) ends: Ends,
    /// The last number that it counts to, from 1, where it is not `{N}` to `{M}`; 0 if it counts nothing.
    pub(crate) counts: Option<u64>,
    /// The cgroup that it goes into, by its name in the oracle's folder; where there is none, this kind is not run.
    pub(crate) room: Option<&'static str>,
    /// How often it is chosen: those that take a processor for long are rare, so that more die in the same time.
    pub(crate) weight: u64,
}

const PLAIN: Kind =
    Kind { word: "", options: &[], script: "", ends: Ends::Itself, counts: None, room: None, weight: 4 };
const TREE: Kind = Kind { ends: Ends::Stopped, counts: Some(0), ..PLAIN };
/// Of which many are asked for, by a client that stays: one process, or two, for some milliseconds.
const QUICK: Kind = Kind { counts: Some(0), weight: 0, ..PLAIN };

pub(crate) const ZOO: &[Kind] = &[
    Kind { word: "plain", script: "seq {N} {M}", ..PLAIN },
    Kind { word: "slow", script: "sleep 0.{C}; seq {N} {M}", ..PLAIN },
    Kind { word: "loud", script: "seq 1 20000", counts: Some(20_000), weight: 2, ..PLAIN },
    Kind {
        word: "slow and loud",
        script: "sleep 0.0{C}; seq 1 9000; sleep 0.{C}; seq 9001 20000",
        counts: Some(20_000),
        weight: 2,
        ..PLAIN
    },
    Kind { word: "holder of its pipe", script: "sleep 100000 & seq {N} {M}", ..PLAIN },
    Kind { word: "daemon by double fork", script: "(setsid -f sleep 100000 &); seq {N} {M}", ..PLAIN },
    Kind { word: "crash", script: "ulimit -c 0; seq {N} {M}; kill -SEGV $$", ends: Ends::Crash, ..PLAIN },
    Kind {
        word: "limit",
        options: &["--timeout", "150ms", "--grace", "20ms"],
        script: "seq {N} {M}; exec sleep 100000",
        ends: Ends::Limit,
        ..PLAIN
    },
    Kind { word: "no program", ends: Ends::Never, ..TREE },
    Kind { word: "deaf to TERM", script: "trap '' TERM; while :; do sleep 100000; done", ..TREE },
    Kind { word: "stopped", script: "sleep 100000 & kill -STOP $! $$; wait", ..TREE },
    Kind { word: "respawning", script: "setsid sh {D}/respawn.sh & sleep 100000", ..TREE },
    Kind { word: "zombies", script: "sleep 0.01 & exec sleep 100000", ..TREE },
    Kind {
        word: "forking",
        script: "i=0; while [ $i -lt 30 ]; do i=$((i+1)); (sleep 100000 &); done; sleep 100000",
        weight: 1,
        ..TREE
    },
    Kind {
        word: "victim of its memory",
        script: "echo $$ > {D}/memory/cgroup.procs && exec tail /dev/zero",
        ends: Ends::Memory,
        room: Some("memory"),
        weight: 1,
        ..TREE
    },
    // As many as the room has places, again and again, until somebody stops it.
    Kind {
        word: "fork bomb",
        script: "sh -c 'echo $$ > {D}/pids/cgroup.procs; b() { sleep 0.1; b | b & }; b' 2> /dev/null & exec sleep 100000",
        room: Some("pids"),
        weight: 1,
        ..TREE
    },
    Kind {
        word: "four levels",
        script: "sh -c 'sh -c \"setsid sh -c \\\"sleep 100000; true\\\"; true\"; true'; true",
        ..TREE
    },
    Kind { word: "quick", script: ":", ..QUICK },
    Kind { word: "quick success", script: "echo 0 > {D}/code.{N}; exit 0", ..QUICK },
    Kind { word: "quick with a child", script: "sleep 0.0{C}", ..QUICK },
];

/// A process that starts its successor in a new session and goes, again and again.
pub(crate) const RESPAWN: &str = "sleep 0.3\nsetsid sh $0 &\n";

/// One of the kinds, by its weight.
pub(crate) fn choose(chance: &mut Chance) -> (usize, &'static Kind) {
    let mut left = chance.below(ZOO.iter().map(|kind| kind.weight).sum());
    for (at, kind) in ZOO.iter().enumerate() {
        match left.checked_sub(kind.weight) {
            Some(rest) => left = rest,
            None => return (at, kind),
        }
    }
    (0, &ZOO[0])
}

/// One of the quick kinds.
pub(crate) fn choose_quick(number: u64) -> (usize, &'static Kind) {
    let words =
        ["quick", "quick success", "quick", "quick success", "quick", "quick success", "quick", "quick with a child"];
    let word = words[usize::try_from(number % 8).unwrap_or(0)];
    ZOO.iter().enumerate().find(|(_, kind)| kind.word == word).unwrap_or((0, &ZOO[0]))
}

impl Kind {
    /// Whether it is one of which many are asked for.
    pub(crate) fn is_quick(&self) -> bool {
        self.weight == 0
    }

    /// Whether it can be run with what is in the oracle's folder.
    pub(crate) fn has_room(&self, oracle: &Path) -> bool {
        self.room.is_none_or(|room| oracle.join(room).exists())
    }

    pub(crate) fn code(number: u64) -> u64 {
        number % 90 + 10
    }

    /// The script of this number, which writes into `oracle` that it began and, last, how it will exit.
    pub(crate) fn script(&self, number: u64, oracle: &Path) -> String {
        let last = match self.ends {
            Ends::Itself => "; echo {C} > {D}/code.{N}; exit {C}",
            // Whoever kills one of its children has it go on and end.
            Ends::Stopped => "; c=$?; echo $c > {D}/code.{N}; exit $c",
            Ends::Crash | Ends::Limit | Ends::Memory | Ends::Never => "",
        };
        let script = format!("echo s >> {{D}}/starts.{{N}}; echo begin {{N}}; {}{last}", self.script);
        let code = Self::code(number).to_string();
        let script = script.replace("{N}", &number.to_string()).replace("{M}", &(number + 40).to_string());
        script.replace("{C}", &code).replace("{D}", &oracle.display().to_string())
    }

    /// Everything that it writes.
    pub(crate) fn output(&self, number: u64) -> Vec<u8> {
        let (from, to) = match self.counts {
            Some(0) => (1, 0),
            Some(last) => (1, last),
            None => (number, number + 40),
        };
        let lines: String = (from..=to).fold(String::new(), |text, line| text + &line.to_string() + "\n");
        format!("begin {number}\n{lines}").into_bytes()
    }
}
