//! Calls `perf`, and makes its samples a picture.

use std::env;
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use inferno::collapse::Collapse as _;
use inferno::collapse::perf::{Folder, Options as Folding};
use inferno::flamegraph::{self, Palette, color::BasicPalette};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::Part;
use crate::Done;
use crate::built;

/// Programs whose samples are drawn: not the commands that are run, and not who drives.
const OURS: [&str; 2] = ["ringback", "ringback-keeper"];
/// It lies in the repository.
const PICTURE_BYTES_MAX: usize = 250_000;
/// Bytes of the stack that each sample has for finding its callers.
const STACK_BYTES: u32 = 16_384;

/// The release program with the names of its functions; nothing else of the build is made again.
pub(super) fn program() -> Done<PathBuf> {
    let mut cargo = built::cargo();
    cargo.args([
        "rustc",
        "--release",
        "--quiet",
        "--package",
        "ringback",
        "--bin",
        "ringback",
        "--",
        "-C",
        "strip=none",
    ]);
    if !cargo.status()?.success() {
        return Err("ringback was not built".into());
    }
    let copy = built::target().join("flame/ringback");
    fs::create_dir_all(built::target().join("flame"))?;
    fs::copy(built::target().join("release/ringback"), &copy)?;
    Ok(copy)
}

/// Records one part and writes its picture.
pub(super) fn one(part: Part, program: &Path, frequency: u32) -> Done {
    let scratch = tempfile::tempdir_in(built::target().join("flame"))?;
    let path = |name: &str| scratch.path().join(name);
    for fifo in ["orders", "answers"] {
        mknodat(CWD, path(fifo), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
    }
    let mut record = Command::new("perf");
    record.args(["record", "--quiet", "-e", "cpu-clock", "--delay=-1", "-F", &frequency.to_string(), "--call-graph"]);
    record.arg(format!("dwarf,{STACK_BYTES}"));
    record.arg(format!("--control=fifo:{},{}", path("orders").display(), path("answers").display()));
    record.arg("-o").arg(path("data")).arg("--").arg(env::current_exe()?).args(["drive", part.word()]);
    record.arg(program).arg(path("orders")).arg(path("answers"));
    let status = record.status().map_err(|error| format!("perf (Debian: linux-perf): {error}"))?;
    if !status.success() {
        return Err(format!("perf record ended with {status}").into());
    }
    let mut script = Command::new("perf");
    script.args(["script", "--no-inline", "-F", "comm,pid,tid,time,event,ip,sym,dso", "-i"]).arg(path("data"));
    let script = script.stderr(Stdio::null()).output()?;
    let mut folded = Vec::new();
    Folder::from(Folding::default()).collapse(Cursor::new(script.stdout), &mut folded)?;
    let folded = String::from_utf8(folded)?;
    let ours: Vec<String> = folded
        .lines()
        .filter(|line| OURS.iter().any(|name| line.split(';').next() == Some(name)))
        // A static program's first frame has no name.
        .map(|line| line.replacen(";[unknown];", ";", 1))
        .collect();
    let picture = picture(part, &ours)?;
    let name = format!("docs/flame-{}.svg", part.word());
    println!("{name}: {} stacks, {} kB", ours.len(), picture.len() / 1_000);
    Ok(fs::write(built::root().join(name), picture)?)
}

/// The picture, without what is too narrow to be read where there is too much of it.
fn picture(part: Part, folded: &[String]) -> Done<String> {
    for percent in [0.1, 0.2, 0.4, 0.8] {
        let picture = with_all_above(part, folded, percent)?;
        if picture.len() <= PICTURE_BYTES_MAX {
            return Ok(picture);
        }
    }
    Err("the picture is too large for a page".into())
}

fn with_all_above(part: Part, folded: &[String], percent: f64) -> Done<String> {
    let mut options = flamegraph::Options::default();
    let title = match part {
        Part::Submit => "ringback run -q -- true: client, daemon, start of the keeper",
        Part::End => "tasks that end one after the other: keeper, daemon, one waiting client",
        Part::Capture => "a gigabyte of lines: the keeper",
    };
    title.clone_into(&mut options.title);
    options.colors = Palette::Basic(BasicPalette::Hot);
    options.hash = true;
    options.min_width = percent;
    "samples".clone_into(&mut options.count_name);
    let mut picture = Vec::new();
    flamegraph::from_lines(&mut options, folded.iter().map(String::as_str), &mut picture)?;
    let picture = String::from_utf8(picture)?;
    // Whose machine it was is nobody's business.
    let root = built::root().canonicalize()?.to_string_lossy().into_owned();
    if picture.contains(&root) { Err("the picture names this checkout".into()) } else { Ok(picture) }
}
