//! Measures digest and rendering of large logs and of hostile ones, and how small the digest of each given file is.
//!
//! `cargo run --release -p ringback-render --example measure`, and with files behind it those alone; one over 16 MiB is
//! digested three times, each time after a reading that does nothing.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use ringback_render::digest::DigestOptions;
use ringback_render::{Digester, Line, Options, Renderer, Verdict, junit, render_all};

const LOG_BYTES: u64 = 100 << 20;
/// How large hostile logs are.
const HOSTILE_BYTES: u64 = 1 << 30;
/// A larger file is not held in memory.
const STREAMED_BYTES: u64 = 16 << 20;

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    if std::env::args().len() > 1 {
        return std::env::args().skip(1).try_for_each(|path| file(Path::new(&path), &mut out));
    }
    let log = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/measure.log");
    for (name, line) in [("plain", plain as fn(u64) -> String), ("coloured", coloured), ("full of errors", errors)] {
        write_log(&log, line)?;
        let (time, size) = digest(&log)?;
        writeln!(out, "{name}: digest of 100 MiB in {time:.0?}, {size} B; resident set {} kB", peak_kb())?;
        let (time, lines) = render(&log)?;
        writeln!(out, "{name}: rendered at {} MiB/s, {lines} lines; resident set {} kB", rate(time), peak_kb())?;
    }
    hostile(&log, &mut out)?;
    report(&log, &mut out)?;
    fs::remove_file(&log)
}

/// One given file: how small its digest is, or if it is large, how long that takes.
fn file(path: &Path, out: &mut impl Write) -> io::Result<()> {
    if fs::metadata(path)?.len() > STREAMED_BYTES {
        for _ in 0..3 {
            let (alone, alone_cpu) = timed(|| read(path, |_| {}))?;
            let (digest, digest_cpu) = timed(|| digest(path))?;
            writeln!(
                out,
                "{}: digest in {digest:.2?} ({digest_cpu:.2?} of a processor), reading alone {alone:.2?} ({alone_cpu:.2?}); \
                 resident set {} kB",
                path.display(),
                peak_kb()
            )?;
        }
        return Ok(());
    }
    let raw = fs::read(path)?;
    let options = Options { columns: Some(120), rows: 40, ..Options::default() };
    let mut digester = Digester::new(DigestOptions { columns: Some(120), rows: 40, ..DigestOptions::default() });
    digester.push(&raw);
    let size = digester.finish(&Verdict::default()).text.len();
    let rendered = render_all(&raw, &options).len();
    writeln!(out, "{}: {} B raw, {rendered} B rendered, {size} B digest", path.display(), raw.len())
}

/// A report of 200 MB.
fn report(log: &Path, out: &mut impl Write) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(log)?);
    file.write_all(b"<testsuite>")?;
    for number in 0..1_000_000 {
        let case = "classname='a.module.of.tests' time='0.001'><system-out>said something long about itself, as tests do, again and again, and so on</system-out></testcase>";
        writeln!(file, "<testcase name='case number {number}' {case}")?;
    }
    file.write_all(b"</testsuite>")?;
    file.flush()?;
    drop(file);
    let begin = Instant::now();
    let (found, error) = junit::read(io::BufReader::new(File::open(log)?));
    let (time, counts) = (begin.elapsed(), found.counts.first().map(ToString::to_string).unwrap_or_default());
    let size = fs::metadata(log)?.len() / 1_000_000;
    writeln!(out, "a report of {size} MB: {counts} in {time:.2?}, {error:?}; resident set {} kB", peak_kb())
}

/// What would break a careless reader, a GiB of it each.
fn hostile(log: &Path, out: &mut impl Write) -> io::Result<()> {
    let storms: [(&str, &[u8]); 7] = [
        ("one line", b"xxxxxxx "),
        ("empty lines", b"\n"),
        ("NULs", b"\0"),
        ("ESC", b"\x1b"),
        ("OSC 52 and OSC 8", b"\x1b]52;c;ZXZpbA==\x07\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\n"),
        ("broken UTF-8", b"\xe2\x89\xf0\x9f\x98\xff\xc0"),
        ("redraws", b"\r 42% of it \x1b[K"),
    ];
    for (name, piece) in storms {
        let block = piece.repeat((1 << 20) / piece.len());
        let mut file = BufWriter::new(File::create(log)?);
        (0..HOSTILE_BYTES >> 20).try_for_each(|_| file.write_all(&block))?;
        file.flush()?;
        let (time, size) = digest(log)?;
        writeln!(out, "{name}, 1 GiB: digest in {time:.2?}, {size} B; resident set {} kB", peak_kb())?;
        File::options().write(true).open(log)?.set_len(LOG_BYTES)?;
        let (time, lines) = render(log)?;
        writeln!(out, "{name}: rendered at {} MiB/s, {lines} lines; resident set {} kB", rate(time), peak_kb())?;
    }
    Ok(())
}

/// How long it takes, by the clock and by the processor.
fn timed<T>(work: impl FnOnce() -> io::Result<T>) -> io::Result<(Duration, Duration)> {
    let (begin, cpu) = (Instant::now(), processor());
    work()?;
    Ok((begin.elapsed(), processor().saturating_sub(cpu)))
}

/// How long this thread has run (`/proc/self/schedstat`, in nanoseconds).
fn processor() -> Duration {
    let text = fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0))
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
