//! Compiles what needs no C library on its own: the keeper into a binary, to be embedded by `src/image.rs`, and the front into
//! bytes that run wherever they are, for `src/entry.rs`.

use std::env::var;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::process::Command;

fn main() {
    println!("cargo::rustc-check-cfg=cfg(crash_points, front, has_front)");
    for watched in ["build.rs", "src/bare.rs", "src/keeper", "src/front", "src/raw", "src/form"] {
        println!("cargo::rerun-if-changed={watched}");
    }
    let debug = var("PROFILE").is_ok_and(|profile| profile == "debug");
    if debug {
        println!("cargo::rustc-cfg=crash_points");
    }
    let folder = var("OUT_DIR").unwrap_or_default();
    let target = var("TARGET").unwrap_or_default();
    let supported = target.contains("linux") && (target.starts_with("x86_64-") || target.starts_with("aarch64-"));
    if !supported {
        return empty(&format!("{folder}/ringback-keeper"));
    }
    keeper(&target, debug, &format!("{folder}/ringback-keeper"));
    // Elsewhere nobody has measured what it would save.
    if target.starts_with("x86_64-") && target.ends_with("-linux-gnu") {
        front(&target, &format!("{folder}/ringback-front"));
    }
}

fn keeper(target: &str, debug: bool, out: &str) {
    let tries = [(Linker::Compiler, true), (Linker::Compiler, false), (Linker::Lld, true)];
    if let Err(why) = first_of(tries, |(linker, lean)| {
        let mut rustc = rustc("keeper", target, out);
        rustc.args(["-C", "opt-level=z", "-C", "lto=fat", "-C", "strip=symbols", "-C", "relocation-model=static"]);
        if debug {
            rustc.args(["--cfg", "crash_points"]);
        }
        let arguments = ["-z", "norelro", "-z", "noseparate-code", "--no-eh-frame-hdr"];
        link(&mut rustc, out, linker, if lean { Some(LEAVE_OUT) } else { None }, &arguments)?;
        compile(rustc)
    }) {
        println!("cargo::warning=the keeper is not compiled on its own, tasks will need more memory: {why}");
        empty(out);
    }
}

/// The front has to run wherever it lies, so it has no address in it. What is optimised over crates (`lto`) calls the memory
/// functions through a table of addresses, as the standard library was built to do.
fn front(target: &str, out: &str) {
    match first_of([Linker::Compiler, Linker::Lld], |linker| {
        let mut rustc = rustc("front", target, out);
        rustc.args(["--cfg", "front", "-C", "opt-level=s", "-C", "lto=off", "-C", "relocation-model=pic"]);
        rustc.args(["-C", "relro-level=off"]);
        rustc.args(["-C", "link-arg=-no-pie"]);
        link(&mut rustc, out, linker, Some(FLAT), &["--oformat=binary", "--no-eh-frame-hdr", "-e", "front"])?;
        compile(rustc)
    }) {
        Ok(()) => {
            println!("cargo::rustc-cfg=has_front");
            // The compiler does not see that the assembler reads this file: what it has compiled before, it would take again.
            let mut sum = DefaultHasher::new();
            fs::read(out).unwrap_or_default().hash(&mut sum);
            println!("cargo::rustc-env=RINGBACK_FRONT_SUM={:016x}", sum.finish());
        }
        Err(why) => println!("cargo::warning=the front is not compiled, `run` will take longer to start: {why}"),
    }
}

/// The first try that succeeds, or why the first one did not.
fn first_of<T, const N: usize>(tries: [T; N], mut one: impl FnMut(T) -> Result<(), String>) -> Result<(), String> {
    let mut first = None;
    for each in tries {
        match one(each) {
            Ok(()) => return Ok(()),
            Err(why) => first = first.or(Some(why)),
        }
    }
    Err(first.unwrap_or_default())
}

fn empty(out: &str) {
    if let Err(error) = fs::write(out, b"") {
        println!("cargo::error=cannot write {out}: {error}");
    }
}

/// What links.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Linker {
    /// The C compiler that Rust links with on this machine.
    Compiler,
    /// The one that comes with Rust, for a foreign target without a compiler of its own.
    Lld,
}

/// Unwind tables that nobody reads: they come with `core`, and are a fifth of the file.
const LEAVE_OUT: &str = "SECTIONS { /DISCARD/ : { *(.eh_frame) *(.comment) } } INSERT AFTER .text;";

/// The front as flat bytes from 0 on, its entry first. Anything else than code and constants would need somebody to load it.
const FLAT: &str = "SECTIONS {
    . = 0;
    .front : { *(.front.entry) *(.text .text.*) *(.rodata .rodata.*) }
    .data : { *(.data .data.* .bss .bss.* .got .got.* .tdata .tdata.* .tbss .tbss.*) *(COMMON) }
    /DISCARD/ : { *(.eh_frame .eh_frame.* .comment .note .note.* .gnu.*) }
}
ASSERT(SIZEOF(.data) == 0, \"it has data or addresses\")";

/// The compiler for `src/WHAT/bin.rs`.
fn rustc(what: &str, target: &str, out: &str) -> Command {
    let mut rustc = Command::new(var("RUSTC").unwrap_or_else(|_| "rustc".into()));
    rustc.args([&format!("src/{what}/bin.rs"), "--crate-name", &format!("ringback_{what}")]);
    rustc.args(["--crate-type", "bin", "--edition", "2024", "--target", target, "-o", out]);
    rustc.args(["--cap-lints", "allow", "--check-cfg", "cfg(crash_points, front)"]);
    rustc.args(["-C", "panic=abort", "-C", "codegen-units=1", "-C", "force-unwind-tables=no"]);
    rustc.args(["-C", "target-feature=+crt-static"]);
    if target.contains("musl") {
        // Rust brings musl's start files, and there is a start of our own.
        rustc.args(["-C", "link-self-contained=no"]);
    }
    // A wrapper or flags meant for the workspace (coverage, sanitizers) would ask for a runtime that is not there.
    rustc.env_remove("CARGO_ENCODED_RUSTFLAGS").env_remove("RUSTFLAGS");
    rustc
}

fn compile(mut rustc: Command) -> Result<(), String> {
    let done = rustc.output().map_err(|error| error.to_string())?;
    if done.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&done.stderr);
    let errors: Vec<_> = words.lines().filter(|line| line.contains("error")).take(3).collect();
    Err(errors.join(" | ").chars().take(400).collect())
}

/// Not every linker takes every script.
fn link(rustc: &mut Command, out: &str, linker: Linker, script: Option<&str>, more: &[&str]) -> Result<(), String> {
    let mut arguments = vec!["-static", "--build-id=none"];
    arguments.extend(more);
    let path = format!("{out}.ld");
    if let Some(script) = script {
        fs::write(&path, script).map_err(|error| error.to_string())?;
        arguments.extend(["-T", &path]);
    }
    match linker {
        Linker::Compiler => {
            if let Ok(linker) = var("RUSTC_LINKER") {
                rustc.args(["-C", &format!("linker={linker}")]);
            }
            rustc.args(["-C", "link-arg=-nostartfiles", "-C", "link-arg=-nostdlib", "-C", "link-arg=-static"]);
            rustc.args(["-C", &format!("link-arg=-Wl,{}", arguments[1..].join(","))]);
        }
        Linker::Lld => {
            rustc.args(["-C", "linker=rust-lld", "-C", "linker-flavor=ld.lld"]);
            for argument in arguments {
                rustc.args(["-C", &format!("link-arg={argument}")]);
            }
        }
    }
    Ok(())
}
