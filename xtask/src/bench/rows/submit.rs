//! What a submission costs the one who submits.

use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use super::super::Options;
use super::super::mcp::Server;
use super::super::measure::{Row, Samples, Target, floor, pause, time};
use super::super::peers;
use super::super::stage::{Stage, submit};
use crate::Done;

const BY_CLI: &str = "the start of a program that needs no C library (0.2 ms and 9 page faults, `docs/decisions/0015`), the daemon \
    0.45 ms and one fdatasync (0.2 ms where the disk is kept busy, 0.5 to 0.9 where it was at rest, as here between two samples; the \
    keeper is started after the answer), and two changes of processor for the question and the answer. The floor starts one program \
    and syncs nothing.";
const NEXT_BY_CLI: &str = NEXT_BY_LIBRARY;
const BY_MCP: &str = "the library's path (below), two changes of processor more for the client's line and its answer, and 80,000 instructions of \
    the server on the thread that reads: the call, what the command inherits, one question to the daemon, the structure and the text of the \
    answer (`docs/decisions/0017`).";
const NEXT_BY_MCP: &str =
    "the environment as it was captured for the last call, and an answer that is written without being built first.";
const BY_LIBRARY: &str = "two wake-ups for one round trip, one fdatasync (the largest part: the data, on an ext4 without a journal the \
    inode, and the flush, one after the other, each with its own wake-up), reading the request, one look at a folder and one write into a file that were made ahead, and one row of the database. The keeper is started \
    after the answer.";
const NEXT_BY_LIBRARY: &str = "nothing but the sync is left that is large, and that is what the promise costs; a keeper made ahead would \
    change nothing here, since nobody waits for it.";

/// Between two samples: what the last one left running is over by then.
const PAUSE: Duration = Duration::from_millis(6);

/// `ringback run -q -- true`, beside the peers, each sample next to one of the floor.
pub(super) fn by_cli(stage: &Stage, options: &Options) -> Done<Vec<Row>> {
    let homes = [stage.home()?, stage.unsynced_home()?];
    let peers = peers::start_all(stage)?;
    let mut others: Vec<(String, Samples)> = peers.iter().map(|peer| (peer.name(), Samples::default())).collect();
    let (mut ours, mut bare) = ([Samples::default(), Samples::default()], Samples::default());
    for home in &homes {
        time(&mut home.ringback(["run", "-q", "--", "true"]))?;
    }
    for _ in 0..options.samples {
        bare.push_time(floor()?);
        for (home, samples) in homes.iter().zip(&mut ours) {
            samples.push_time(time(&mut home.ringback(["run", "-q", "--", "true"]))?);
            pause(PAUSE);
        }
        for (peer, (_, samples)) in peers.iter().zip(&mut others) {
            samples.push_time(peer.submit(&["true"])?);
            pause(PAUSE);
        }
    }
    let [ours, unsynced] = ours;
    let row = Row::new("submit by the command line", "ms", ours, Target::Ratio(1.4)).over(bare.clone()).beside(others);
    Ok(vec![row.because(BY_CLI, NEXT_BY_CLI), Row::unsynced(unsynced, bare)])
}

/// The tool `run` of the MCP server, answered with a handle. The servers of others stand still while they are not asked.
pub(super) fn by_mcp(stage: &Stage, options: &Options) -> Done<Vec<Row>> {
    let homes = [stage.home()?, stage.unsynced_home()?];
    let mut servers = Vec::new();
    for home in &homes {
        let mut server = Server::start(&mut home.ringback(["mcp"]))?;
        hand_over(&mut server)?;
        servers.push(server);
    }
    let (mut ours, mut bare) = ([Samples::default(), Samples::default()], Samples::default());
    let mut services = peers::start_servers(stage)?;
    let mut others: Vec<(String, Samples)> = services.iter().map(|peer| (peer.name(), Samples::default())).collect();
    for service in &services {
        service.rest(Signal::STOP)?;
    }
    for _ in 0..options.samples {
        bare.push_time(floor()?);
        for (server, samples) in servers.iter_mut().zip(&mut ours) {
            samples.push_time(hand_over(server)?);
            pause(PAUSE);
        }
        for (service, (_, samples)) in services.iter_mut().zip(&mut others) {
            service.rest(Signal::CONT)?;
            pause(PAUSE);
            samples.push_time(service.submit("true")?);
            pause(PAUSE);
            service.rest(Signal::STOP)?;
        }
    }
    let [ours, unsynced] = ours;
    let row = Row::new("submit by MCP over stdio", "ms", ours, Target::Ratio(1.0)).over(bare.clone()).beside(others);
    Ok(vec![row.because(BY_MCP, NEXT_BY_MCP), Row::unsynced(unsynced, bare)])
}

/// How long a handle takes; as an agent does, what has ended is heard before more is asked for.
fn hand_over(server: &mut Server) -> Done<Duration> {
    let begun = Instant::now();
    let handle = server.call("run", &json!({"command": "true", "wait_ms": 0}))?;
    let took = begun.elapsed();
    server.call("wait", &json!({"ids": [handle["result"]["structuredContent"]["id"]]}))?;
    Ok(took)
}

/// The client library, on one connection.
pub(super) fn by_library(stage: &Stage, options: &Options) -> Done<Vec<Row>> {
    let home = stage.home()?;
    let mut client = home.client()?;
    let (mut ours, mut bare) = (Samples::default(), Samples::default());
    submit(&mut client, &["true"])?;
    for _ in 0..options.samples {
        bare.push_time(floor()?);
        let begun = Instant::now();
        submit(&mut client, &["true"])?;
        ours.push_time(begun.elapsed());
        pause(PAUSE);
    }
    drop(client);
    let home = stage.unsynced_home()?;
    let mut client = home.client()?;
    let mut unsynced = Samples::default();
    submit(&mut client, &["true"])?;
    for _ in 0..options.samples {
        let begun = Instant::now();
        submit(&mut client, &["true"])?;
        unsynced.push_time(begun.elapsed());
        pause(PAUSE);
    }
    let slowest = Samples::once(ours.quantile(0.99));
    Ok(vec![
        Row::new("submit by the library", "ms", ours, Target::Ratio(0.7))
            .over(bare.clone())
            .because(BY_LIBRARY, NEXT_BY_LIBRARY),
        Row::unsynced(unsynced, bare.clone()),
        Row::new("submit by the library, 99th percentile", "ms", slowest, Target::Ratio(3.0)).over(bare).because(
            "a copy of the log into the database every 1,000 pages, and whoever else used the disk at that moment.",
            "to copy the log when nothing waits, and not within a commit.",
        ),
    ])
}

/// `run` where no daemon runs yet, in a home that exists.
pub(super) fn first(stage: &Stage, options: &Options) -> Done<Vec<Row>> {
    let home = stage.home()?;
    let mut ours = Samples::default();
    for _ in 0..(options.samples / 10).max(3) {
        time(&mut home.ringback(["daemon", "stop"])).or_else(|_| floor())?;
        ours.push_time(time(&mut home.ringback(["run", "-q", "--", "true"]))?);
    }
    Ok(vec![Row::new("`run` when no daemon runs yet", "ms", ours, Target::Amount(15.0)).because(
        "the start of a second program, opening the database, the lock, the socket, and one submission.",
        "to listen before the database is open, so that the client's part and the daemon's overlap.",
    )])
}

/// `ringback --version` against `true`.
pub(super) fn start_up(stage: &Stage, options: &Options) -> Done<Vec<Row>> {
    let (mut ours, mut bare) = (Samples::default(), Samples::default());
    for _ in 0..options.samples {
        bare.push_time(time(&mut Command::new("/bin/true"))?);
        ours.push_time(time(Command::new(&stage.program).arg("--version"))?);
    }
    Ok(vec![
        Row::new("`ringback --version`, against `true`", "ms", ours, Target::Ratio(1.5))
            .over(bare)
            .because("mapping a larger file; it is answered before the C library has begun.", "a smaller file."),
    ])
}
