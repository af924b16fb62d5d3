//! Output made into text and into digests, bytes a second: `cargo bench -p ringback-render`.

use std::fmt;

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use ringback_render::digest::DigestOptions;
use ringback_render::{Digester, Line, Options, Renderer, Verdict};

/// Bytes of each output.
const BYTES: usize = 4 << 20;
/// Output is read in pieces of this size.
const PIECE: usize = 64 << 10;

fn main() {
    divan::main();
}

/// Kinds of output.
#[derive(Clone, Copy)]
enum Kind {
    Plain,
    Coloured,
    Errors,
    ProgressBar,
}

const KINDS: [Kind; 4] = [Kind::Plain, Kind::Coloured, Kind::Errors, Kind::ProgressBar];

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain",
            Self::Coloured => "coloured",
            Self::Errors => "errors",
            Self::ProgressBar => "progress bar",
        })
    }
}

fn output(kind: Kind) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(BYTES + 200);
    for number in 0_u64.. {
        let line = match kind {
            Kind::Plain => {
                format!("2026-01-01T00:00:{:02}Z worker {} compiled unit {number}\n", number % 60, number % 7)
            }
            Kind::Coloured => format!("\x1b[2m00:00\x1b[0m \x1b[1;34mapp::job\x1b[0m line {number}\n"),
            Kind::Errors => format!("src/unit{number}.c:3:5: error: expected ';' before 'return'\n"),
            Kind::ProgressBar => format!("\r\x1b[2K{} % of the whole, item {number}", number % 100),
        };
        bytes.extend_from_slice(line.as_bytes());
        if bytes.len() >= BYTES {
            break;
        }
    }
    bytes
}

#[divan::bench(args = KINDS)]
fn render(bencher: Bencher<'_, '_>, kind: Kind) {
    let bytes = output(kind);
    bencher.counter(BytesCount::new(bytes.len())).bench_local(|| {
        let (mut renderer, mut lines) = (Renderer::new(&Options::default()), 0);
        let mut out = |line: Line<'_>| lines += line.repeats;
        black_box(&bytes).chunks(PIECE).for_each(|piece| renderer.push(piece, &mut out));
        renderer.finish(&mut out);
        lines
    });
}

#[divan::bench(args = KINDS)]
fn digest(bencher: Bencher<'_, '_>, kind: Kind) {
    let bytes = output(kind);
    bencher.counter(BytesCount::new(bytes.len())).bench_local(|| {
        let mut digester = Digester::new(DigestOptions::default());
        black_box(&bytes).chunks(PIECE).for_each(|piece| digester.push(piece));
        digester.finish(&Verdict::default()).text.len()
    });
}
