//! From a command's last act until those who wait for it know.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use ringback_host::wire::{Reply, Request};

use super::super::Options;
use super::super::measure::{Row, Samples, Target, monotonic, time};
use super::super::peers::{self, Peer};
use super::super::stage::{Lodging, Stage, submit};
use crate::Done;

const WAITER: &str = "the same path as a notice's, and then the line that is printed (no output is read for it), and a second question: what \
    was printed is acknowledged before the program ends, so that nobody is told twice (committed, and synced after the answer: \
    docs/decisions/0016); and the end of the program itself, with its 140 pages.";
const NEXT_WAITER: &str = "a `wait` without a C library, as `run` has it (docs/decisions/0015): the daemon would say the line, and the program \
    end with 9 pages. To end without the answer to the acknowledgement would now and then tell an ending twice, which the promise forbids.";

/// How long the command sleeps: the waiter has settled by then.
const SLEEP: &str = "300";

/// `wait` of the command line beside the peers', and the notice in the inbox; the floor is a bare wait for the child.
pub(super) fn measure(stage: &Stage, options: &Options) -> Done<Vec<Row>> {
    let rounds = (options.samples / 8).max(5);
    let xtask = env::current_exe()?.to_string_lossy().into_owned();
    let folder = stage.folder()?;
    let file = folder.path().join("stamp");
    let path = file.to_string_lossy().into_owned();
    let argv = [xtask.as_str(), "stamp", SLEEP, path.as_str()];
    let homes = [stage.home()?, stage.unsynced_home()?];
    let mut bare = Samples::default();
    let mut told = [Told::default(), Told::default()];
    for _ in 0..rounds {
        time(Command::new(&xtask).args(&argv[1..]))?;
        bare.push(since(&file)?);
        for (home, told) in homes.iter().zip(&mut told) {
            told.once(home, &argv, &file)?;
        }
    }
    let [Told { waiter, inbox }, unsynced] = told;
    let others = beside(&peers::start_all(stage)?, &argv, &file, rounds)?;
    Ok(vec![
        Row::new("end → `wait` of the command line returns", "ms", waiter, Target::Ratio(2.0))
            .over(bare.clone())
            .beside(others)
            .because(WAITER, NEXT_WAITER),
        Row::unsynced(unsynced.waiter, bare.clone()),
        Row::new("end → notice in the inbox, durable", "ms", inbox, Target::Ratio(2.5)).over(bare.clone()).because(
            "the keeper's two records of the end and its hint to the daemon (30 system calls), one transaction with outcome and notice \
             (9 pages, one fdatasync, which is most of it), and the answer: three wake-ups where the bare wait has one. The daemon is \
             awake by then: it watches the main process, too.",
            "fewer pages: five of the nine are indices and the count of what is kept.",
        ),
        Row::unsynced(unsynced.inbox, bare),
    ])
}

/// What was seen in one home.
#[derive(Default)]
struct Told {
    waiter: Samples,
    inbox: Samples,
}

impl Told {
    /// One ending for a `wait`, and one for the inbox.
    fn once(&mut self, home: &Lodging<'_>, argv: &[&str], file: &Path) -> Done {
        let mut client = home.client()?;
        let id = submit(&mut client, argv)?;
        time(&mut home.ringback(["wait", &id]))?;
        self.waiter.push(since(file)?);
        take_all(&mut client)?;
        submit(&mut client, argv)?;
        let Reply::Notices { .. } = client.call(Request::Inbox { after: None, wait_ms: Some(30_000), limit: 10 })?
        else {
            return Err("no notices".into());
        };
        self.inbox.push(since(file)?);
        take_all(&mut client)
    }
}

fn beside(peers: &[Peer], argv: &[&str], file: &Path, rounds: usize) -> Done<Vec<(String, Samples)>> {
    let mut others = Vec::new();
    for peer in peers {
        let mut samples = Samples::default();
        for _ in 0..rounds {
            if peer.wait_for(argv)? {
                samples.push(since(file)?);
            }
        }
        if samples.max() > 0.0 {
            others.push((peer.name(), samples));
        }
    }
    Ok(others)
}

/// Milliseconds since the stamp was written.
#[expect(clippy::cast_precision_loss, reason = "nanoseconds of some milliseconds")]
fn since(file: &Path) -> Done<f64> {
    let now = monotonic();
    let stamp: i64 = fs::read_to_string(file)?.parse()?;
    Ok((now - stamp) as f64 / 1e6)
}

/// Acknowledges what is in the inbox, so that the next wait is for the next ending.
fn take_all(client: &mut ringback_host::client::Client) -> Done {
    client.call(Request::Ack {
        up_to: Some(u64::MAX >> 1),
        seqs: Vec::new(),
        tasks: Vec::new(),
        endings: Vec::new(),
    })?;
    Ok(())
}
