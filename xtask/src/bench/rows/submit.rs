//! What a submission costs the one who submits.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;

use super::super::Options;
use super::super::mcp::Server;
use super::super::measure::{Row, Samples, floor, pause, time};
use super::super::peers;
use super::super::stage::{Stage, submit};
use crate::Done;

/// Between two samples: what the last one left running is over by then.
const PAUSE: Duration = Duration::from_millis(6);

/// `ringback run -q -- true`, beside the peers, each sample next to one of the floor.
pub(super) fn by_cli(stage: &Stage, options: &Options) -> Done<Vec<Row>> {
    let home = stage.home()?;
    let peers = peers::start_all(stage)?;
    let mut others: Vec<(String, Samples)> = peers.iter().map(|peer| (peer.name(), Samples::default())).collect();
    let (mut ours, mut bare) = (Samples::default(), Samples::default());
    time(&mut home.ringback(["run", "-q", "--", "true"]))?;
    for _ in 0..options.samples {
        bare.push_time(floor()?);
        ours.push_time(time(&mut home.ringback(["run", "-q", "--", "true"]))?);
        pause(PAUSE);
        for (peer, (_, samples)) in peers.iter().zip(&mut others) {
            samples.push_time(peer.submit(&["true"])?);
            pause(PAUSE);
        }
    }
    Ok(vec![Row::new("submit by the command line", "ms", ours, "≤ 1.4 ×").over(bare).beside(others)])
}

/// The tool `run` of the MCP server, answered with a handle.
pub(super) fn by_mcp(stage: &Stage, options: &Options) -> Done<Vec<Row>> {
    let home = stage.home()?;
    let mut server = Server::start(&mut home.ringback(["mcp"]))?;
    let (mut ours, mut bare) = (Samples::default(), Samples::default());
    let arguments = json!({"command": "true", "wait_ms": 0});
    server.call("run", &arguments)?;
    for _ in 0..options.samples {
        bare.push_time(floor()?);
        let begun = Instant::now();
        server.call("run", &arguments)?;
        ours.push_time(begun.elapsed());
        pause(PAUSE);
    }
    Ok(vec![Row::new("submit by MCP over stdio", "ms", ours, "≤ 1.0 ×").over(bare)])
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
    let slowest = Samples::once(ours.quantile(0.99));
    Ok(vec![
        Row::new("submit by the library", "ms", ours, "≤ 0.7 ×").over(bare.clone()),
        Row::new("the same, 99th percentile", "ms", slowest, "≤ 3 ×").over(bare),
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
    Ok(vec![Row::new("`run` when no daemon runs yet", "ms", ours, "≤ 15 ms")])
}

/// `ringback --version` against `true`.
pub(super) fn start_up(stage: &Stage, options: &Options) -> Done<Vec<Row>> {
    let (mut ours, mut bare) = (Samples::default(), Samples::default());
    for _ in 0..options.samples {
        bare.push_time(time(&mut Command::new("/bin/true"))?);
        ours.push_time(time(Command::new(&stage.program).arg("--version"))?);
    }
    Ok(vec![Row::new("`ringback --version`, against `true`", "ms", ours, "≤ 1.5 ×").over(bare)])
}
