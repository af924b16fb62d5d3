//! `cargo xtask flame`: where the time of a submission, an ending and a capture goes, as pictures in docs/.
//!
//! Recorded with `perf` (Debian's `linux-perf`) by the processor's clock, so that it works in virtual machines too. The
//! library that draws is behind the feature `flame`: nothing else waits for its build.

#[cfg(feature = "flame")]
mod draw;
mod drive;

use clap::{Args, ValueEnum};

use crate::Done;

pub(crate) use drive::Drive;

/// What to record.
#[derive(Args)]
pub(crate) struct Options {
    /// Only these parts (may be given again).
    #[arg(long, value_name = "PART")]
    only: Vec<Part>,
    /// Samples a second, of each processor.
    #[arg(long, default_value_t = 1_999, value_name = "N")]
    frequency: u32,
}

/// What is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// `ringback run -q -- true`, one after the other: the client, the daemon and the keeper's start.
    Submit,
    /// Tasks that end one after the other while somebody waits for all of them.
    End,
    /// A gigabyte of lines.
    Capture,
}

impl Part {
    #[cfg(feature = "flame")]
    const ALL: [Self; 3] = [Self::Submit, Self::End, Self::Capture];

    fn word(self) -> &'static str {
        match self {
            Self::Submit => "submit",
            Self::End => "end",
            Self::Capture => "capture",
        }
    }
}

/// Records and draws.
#[cfg(feature = "flame")]
pub(crate) fn run(options: &Options) -> Done {
    let program = draw::program()?;
    for part in Part::ALL {
        if options.only.is_empty() || options.only.contains(&part) {
            draw::one(part, &program, options.frequency)?;
        }
    }
    Ok(())
}

/// Has itself built with what draws, and does it there.
#[cfg(not(feature = "flame"))]
pub(crate) fn run(options: &Options) -> Done {
    let mut again = crate::built::cargo();
    again.args(["run", "--quiet", "--release", "--package", "xtask", "--features", "flame", "--", "flame"]);
    again.arg(format!("--frequency={}", options.frequency));
    again.args(options.only.iter().map(|part| format!("--only={}", part.word())));
    if again.status()?.success() { Ok(()) } else { Err("nothing was drawn".into()) }
}
