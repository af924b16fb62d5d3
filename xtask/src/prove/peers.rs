//! The same kills for others that run commands in the background: whoever of theirs looks after a task is killed at random.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Pid;

use super::chance::{Chance, pause};
use super::results::Counts;
use super::subject::finish;
use super::zoo::{Ends, Kind, ZOO};
use super::{Trial, is_installed, processes, target};

/// Tasks of one round.
const TASKS: u64 = 40;
/// The longest pause between two tasks, each of which is followed by a kill every second time.
const PAUSE: Duration = Duration::from_millis(150);

/// How one of them is spoken to. In the words `{D}` is a folder of the round.
struct Peer {
    name: &'static str,
    /// The program that must be installed, and that is killed.
    program: &'static str,
    /// A shell script that starts `$1` in the background, as a user would, and prints what names it.
    start: &'static str,
    /// Prints the exit code of `$1`, or nothing.
    outcome: &'static str,
    /// Prints the output of `$1`.
    output: &'static str,
}

const PEERS: [Peer; 4] = [
    Peer {
        name: "nohup",
        program: "nohup",
        start: "o=$(mktemp {D}/out.XXXXXX); nohup sh -c \"$1\" > $o 2> /dev/null < /dev/null & echo $o",
        outcome: "",
        output: "cat $1",
    },
    Peer {
        name: "nq",
        program: "nq",
        start: "NQDIR={D} nq sh -c \"$1\"",
        outcome: "sed -n 's/^\\[exited with status \\([0-9]*\\).*/\\1/p' {D}/$1",
        output: "sed -e '1,2d' -e '/^\\[exited with status/d' {D}/$1 | sed -e '${/^$/d}'",
    },
    // Its tasks are children of its server, which is started again by whoever adds the next one. After a death it has
    // paused its queue, so it is told to go on.
    Peer {
        name: "pueue",
        program: "pueued",
        start: "export PUEUE_CONFIG_PATH={D}/pueue.yml
            [ -e $PUEUE_CONFIG_PATH ] || printf 'shared:\n  use_unix_socket: true\n  pueue_directory: {D}/data\n  runtime_directory: {D}\nclient: {}\ndaemon: {}\n' > $PUEUE_CONFIG_PATH
            for try in 1 2 3 4 5 6 7 8 9 10; do
                pueue status > /dev/null 2>&1 || { pueued -d > /dev/null 2>&1; sleep 0.2; pueue parallel 8 > /dev/null 2>&1; pueue start --all > /dev/null 2>&1; }
                pueue add --print-task-id --escape -- sh -c \"$1\" 2> /dev/null && break
            done",
        outcome: "export PUEUE_CONFIG_PATH={D}/pueue.yml
            pueue status > /dev/null 2>&1 || { pueued -d > /dev/null 2>&1; sleep 0.5; }
            pueue status --json 2> /dev/null | python3 -c 'import json, sys
r = json.load(sys.stdin)[\"tasks\"].get(sys.argv[1], {}).get(\"status\", {})
r = r.get(\"Done\", {}).get(\"result\") if isinstance(r, dict) else None
print(0 if r == \"Success\" else r[\"Failed\"] if isinstance(r, dict) and \"Failed\" in r else \"\")' $1",
        output: "cat {D}/data/task_logs/$1.log",
    },
    Peer {
        name: "task-spooler",
        program: "tsp",
        start: "TS_SOCKET={D}/socket TMPDIR={D} TS_SLOTS=8 tsp sh -c \"$1\"",
        outcome: "TS_SOCKET={D}/socket tsp -i $1 2> /dev/null | sed -n 's/^Exit status: died with exit code \\([0-9]*\\).*/\\1/p'",
        output: "o=$(TS_SOCKET={D}/socket tsp -o $1 2> /dev/null) && cat $o",
    },
];

pub(crate) fn run(trial: &mut Trial<'_>) -> Result<(), String> {
    for peer in &PEERS {
        if !is_installed(peer.program) && !own_folder().join(peer.program).is_file() {
            println!("peers: {} is not installed", peer.name);
            continue;
        }
        let until = Instant::now() + trial.time / 3;
        let mut round = 0;
        while round == 0 || Instant::now() < until {
            let counts = one_round(peer, trial.seed + round)?;
            trial.results.add("peers", peer.name, &counts)?;
            round += 1;
        }
    }
    Ok(())
}

/// Where peers are looked for that are installed beside the build: `cargo install pueue --locked --root target/peers`.
fn own_folder() -> PathBuf {
    target().join("peers/bin")
}

fn shell(script: &str, folder: &Path, argument: &str, mark: &str) -> String {
    let script = script.replace("{D}", &folder.display().to_string());
    let mut command = Command::new("sh");
    command.args(["-c", &script, "sh", argument]).env("PROVE_MARK", mark).current_dir(folder).stdin(Stdio::null());
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", own_folder().display()));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    // One that hangs has said nothing.
    child.ok().and_then(finish).map(|said| said.out.trim_end().to_owned()).unwrap_or_default()
}

/// Asks, kills and looks, with the commands of the zoo that end by themselves and leave nothing behind.
fn one_round(peer: &Peer, seed: u64) -> Result<Counts, String> {
    let folder = tempfile::Builder::new().prefix("peers").tempdir().map_err(|error| format!("no folder: {error}"))?;
    let oracle = folder.path().join("oracle");
    std::fs::create_dir(&oracle).map_err(|error| format!("no folder: {error}"))?;
    let mark = format!("peer-{seed}-{}", std::process::id());
    let mut chance = Chance::new(seed);
    let kinds =
        ZOO.iter().filter(|kind| kind.ends == Ends::Itself && !kind.is_quick() && !kind.script.contains("1000"));
    let kinds: Vec<&Kind> = kinds.collect();
    let (mut asked, mut kills) = (Vec::new(), 0);
    for number in 0..TASKS {
        let kind = kinds[usize::try_from(chance.below(kinds.len() as u64)).unwrap_or(0)];
        let handle = shell(peer.start, folder.path(), &kind.script(number, &oracle), &mark);
        asked.push((kind, number, handle));
        chance.moment(PAUSE);
        if chance.once_in(2) {
            let own = |pid: &Pid| processes::has_environment(*pid, &format!("PROVE_MARK={mark}"));
            let minders: Vec<Pid> = processes::with_argument(peer.program, "").into_iter().filter(own).collect();
            if !minders.is_empty() {
                let minder = minders[usize::try_from(chance.below(minders.len() as u64)).unwrap_or(0)];
                kills += u64::from(processes::kill(minder, |pid| own(&pid)));
            }
        }
    }
    settle(&oracle, &asked);
    let mut counts = Counts::from([("rounds", 1), ("tasks", TASKS), ("kills", kills)]);
    for name in ["lost", "wrong", "bytes_missing", "never_started"] {
        counts.insert(name, 0);
    }
    let mut count = |name: &'static str, is: bool| *counts.entry(name).or_default() += u64::from(is);
    for (kind, number, handle) in &asked {
        let own_word = std::fs::read_to_string(oracle.join(format!("code.{number}"))).unwrap_or_default();
        let said =
            if peer.outcome.is_empty() { String::new() } else { shell(peer.outcome, folder.path(), handle, &mark) };
        let started = oracle.join(format!("starts.{number}")).exists();
        count("never_started", !started);
        count("lost", said.is_empty());
        count("wrong", !said.is_empty() && said != own_word.trim());
        let output = shell(peer.output, folder.path(), handle, &mark);
        let expected = kind.output(*number);
        count("bytes_missing", started && output.trim_end() != String::from_utf8_lossy(&expected).trim_end());
    }
    for pid in processes::marked(&format!("PROVE_MARK={mark}")) {
        processes::kill(pid, |_| true);
    }
    Ok(counts)
}

/// Every command that began has said how it ends, or nothing has changed for some seconds.
fn settle(oracle: &Path, asked: &[(&Kind, u64, String)]) {
    let mut quiet = 0;
    let mut before = 0;
    while quiet < 30 && before < asked.len() {
        pause(Duration::from_millis(100));
        let said: BTreeSet<u64> = asked.iter().map(|(_, number, _)| *number).collect();
        let now = said.iter().filter(|number| oracle.join(format!("code.{number}")).exists()).count();
        quiet = if now == before { quiet + 1 } else { 0 };
        before = now;
    }
}
