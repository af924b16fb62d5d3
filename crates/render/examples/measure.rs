//! Measures digest and rendering of a large log, and how small the digest of each given file is.
//!
//! `cargo run --release -p ringback-render --example measure [FILE…]`

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use ringback_render::digest::DigestOptions;
use ringback_render::{Digester, Line, Options, Renderer, Verdict, render_all};

const LOG_BYTES: u64 = 100 << 20;

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    let log = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/measure.log");
    for (name, line) in [("plain", plain as fn(u64) -> String), ("coloured", coloured), ("full of errors", errors)] {
        write_log(&log, line)?;
        let (time, size) = digest(&log)?;
        writeln!(out, "{name}: digest of 100 MiB in {time:.0?}, {size} B; resident set {} kB", peak_kb())?;
        let (time, lines) = render(&log)?;
        writeln!(out, "{name}: rendered at {} MiB/s, {lines} lines; resident set {} kB", rate(time), peak_kb())?;
    }
    fs::remove_file(&log)?;
    for path in std::env::args().skip(1) {
        let raw = fs::read(&path)?;
        let options = Options { columns: Some(120), rows: 40, ..Options::default() };
        let mut digester = Digester::new(DigestOptions { columns: Some(120), rows: 40, ..DigestOptions::default() });
        digester.push(&raw);
        let size = digester.finish(&Verdict::default()).text.len();
        writeln!(out, "{path}: {} B raw, {} B rendered, {size} B digest", raw.len(), render_all(&raw, &options).len())?;
    }
    Ok(())
}

fn plain(number: u64) -> String {
    format!("2026-01-01T00:00:{:02}Z worker {} compiled unit {number} of the library\n", number % 60, number % 7)
}

fn coloured(number: u64) -> String {
    format!("\x1b[2m2026-01-01T00:00:00Z\x1b[0m \x1b[34mDEBUG\x1b[0m \x1b[1;34mapp::job\x1b[0m line {number}\n")
}

fn errors(number: u64) -> String {
    format!("src/unit{number}.c:3:5: error: expected ';' before 'return'\n")
}

fn write_log(path: &Path, line: impl Fn(u64) -> String) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    let mut written = 0;
    for number in 0.. {
        let line = line(number);
        file.write_all(line.as_bytes())?;
        written += line.len() as u64;
        if written >= LOG_BYTES {
            break;
        }
    }
    file.flush()
}

fn read(path: &Path, mut take: impl FnMut(&[u8])) -> io::Result<()> {
    let (mut file, mut block) = (File::open(path)?, vec![0; 64 << 10]);
    loop {
        match file.read(&mut block)? {
            0 => return Ok(()),
            count => take(&block[..count]),
        }
    }
}

fn digest(path: &Path) -> io::Result<(Duration, usize)> {
    let begin = Instant::now();
    let mut digester = Digester::new(DigestOptions::default());
    read(path, |bytes| digester.push(bytes))?;
    let size = digester.finish(&Verdict::default()).text.len();
    Ok((begin.elapsed(), size))
}

fn render(path: &Path) -> io::Result<(Duration, u64)> {
    let begin = Instant::now();
    let (mut renderer, mut lines) = (Renderer::new(&Options::default()), 0);
    let mut out = |line: Line<'_>| lines += line.repeats;
    read(path, |bytes| renderer.push(bytes, &mut out))?;
    renderer.finish(&mut out);
    Ok((begin.elapsed(), lines))
}

/// MiB in a second.
fn rate(time: Duration) -> u128 {
    u128::from(LOG_BYTES >> 20) * 1000 / time.as_millis().max(1)
}

/// `VmHWM` of `proc_pid_status(5)`.
fn peak_kb() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}
