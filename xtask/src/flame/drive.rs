//! The work that is recorded: this program does it as the child of `perf`, which follows everything that is started in it.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::PathBuf;

use clap::Args;

use super::Part;
use crate::Done;
use crate::bench::{Stage, await_ends, submit, time};

/// Submissions of the part `submit`.
const SUBMISSIONS: usize = 400;
/// Tasks of the part `end`, which end this far from each other.
const ENDINGS: u32 = 400;
const APART_MS: u32 = 5;
/// They are all submitted by then, seconds.
const BEGIN_S: f64 = 4.0;

/// What is done, and how the recording is begun and ended.
#[derive(Args)]
pub(crate) struct Drive {
    part: Part,
    program: PathBuf,
    /// FIFO that `perf` reads its orders from.
    orders: PathBuf,
    /// FIFO in which it says that it has obeyed.
    answers: PathBuf,
}

impl Drive {
    /// Does the work, and has its middle recorded.
    pub(crate) fn run(&self) -> Done {
        let stage = Stage::with(&self.program)?;
        let home = stage.home()?;
        let mut recorder = Recorder {
            orders: OpenOptions::new().write(true).open(&self.orders)?,
            answers: File::open(&self.answers)?,
        };
        let mut client = home.client()?;
        match self.part {
            Part::Submit => {
                for number in 0..SUBMISSIONS + 50 {
                    // The first ones find cold caches.
                    if number == 50 {
                        recorder.order("enable")?;
                    }
                    time(&mut home.ringback(["run", "-q", "--", "true"]))?;
                }
            }
            Part::End => {
                let mut ids = Vec::new();
                for number in 0..ENDINGS {
                    let seconds = BEGIN_S + f64::from(number * APART_MS) / 1e3;
                    ids.push(submit(&mut client, &["sleep", &seconds.to_string()])?);
                }
                recorder.order("enable")?;
                await_ends(&mut client, &ids)?;
            }
            Part::Capture => {
                recorder.order("enable")?;
                let flood = "yes 'a line of the usual length, as compilers and tests write them' | head -c 1000M";
                time(&mut home.ringback(["run", "-q", "--wait", "-c", flood]))?;
            }
        }
        recorder.order("disable")
    }
}

struct Recorder {
    orders: File,
    answers: File,
}

impl Recorder {
    /// Says what to do, and waits until it is done (perf-record(1), `--control`).
    fn order(&mut self, word: &str) -> Done {
        writeln!(self.orders, "{word}")?;
        let mut answer = [0; 5];
        self.answers.read_exact(&mut answer)?;
        if &answer[..4] == b"ack\n" { Ok(()) } else { Err(format!("perf answered {answer:?}").into()) }
    }
}
