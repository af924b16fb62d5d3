//! Compiles the keeper into a binary of its own, without a C library, to be embedded by `src/image.rs`.

use std::env::var;
use std::fs;
use std::process::Command;

fn main() {
    println!("cargo::rustc-check-cfg=cfg(crash_points)");
    for watched in ["build.rs", "src/keeper", "src/raw", "src/form"] {
        println!("cargo::rerun-if-changed={watched}");
    }
    let debug = var("PROFILE").is_ok_and(|profile| profile == "debug");
    if debug {
        println!("cargo::rustc-cfg=crash_points");
    }
    let out = format!("{}/ringback-keeper", var("OUT_DIR").unwrap_or_default());
    let target = var("TARGET").unwrap_or_default();
    let supported = target.contains("linux") && (target.starts_with("x86_64-") || target.starts_with("aarch64-"));
    let tries = [(Linker::Compiler, true), (Linker::Compiler, false), (Linker::Lld, true)];
    let compiled = if supported {
        tries.into_iter().try_fold(String::new(), |first, (linker, lean)| {
            match compile(&target, debug, &out, linker, lean) {
                Ok(()) => Err(()),
                Err(why) => Ok(if first.is_empty() { why } else { first }),
            }
        })
    } else {
        Ok("not for this target".into())
    };
    if let Ok(why) = compiled {
        if supported {
            println!("cargo::warning=the keeper is not compiled on its own, tasks will need more memory: {why}");
        }
        if let Err(error) = fs::write(&out, b"") {
            println!("cargo::error=cannot write {out}: {error}");
        }
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

/// Not every linker takes the script for the `lean` form; without it the keeper works as well.
fn compile(target: &str, debug: bool, out: &str, linker: Linker, lean: bool) -> Result<(), String> {
    let mut rustc = Command::new(var("RUSTC").unwrap_or_else(|_| "rustc".into()));
    rustc.args(["src/keeper/bin.rs", "--crate-name", "ringback_keeper", "--crate-type", "bin", "--edition", "2024"]);
    rustc.args(["--target", target, "-o", out, "--cap-lints", "allow", "--check-cfg", "cfg(crash_points)"]);
    rustc.args(["-C", "panic=abort", "-C", "opt-level=z", "-C", "lto=fat", "-C", "codegen-units=1"]);
    rustc.args(["-C", "strip=symbols", "-C", "force-unwind-tables=no", "-C", "relocation-model=static"]);
    rustc.args(["-C", "target-feature=+crt-static"]);
    if target.contains("musl") {
        // Rust brings musl's start files, and there is a start of our own.
        rustc.args(["-C", "link-self-contained=no"]);
    }
    if debug {
        rustc.args(["--cfg", "crash_points"]);
    }
    link(&mut rustc, out, linker, lean)?;
    // A wrapper or flags meant for the workspace (coverage, sanitizers) would ask for a runtime that is not there.
    rustc.env_remove("CARGO_ENCODED_RUSTFLAGS").env_remove("RUSTFLAGS");
    let done = rustc.output().map_err(|error| error.to_string())?;
    if done.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&done.stderr);
    let errors: Vec<_> = words.lines().filter(|line| line.contains("error")).take(3).collect();
    Err(errors.join(" | ").chars().take(400).collect())
}

fn link(rustc: &mut Command, out: &str, linker: Linker, lean: bool) -> Result<(), String> {
    let mut arguments =
        vec!["-static", "--build-id=none", "-z", "norelro", "-z", "noseparate-code", "--no-eh-frame-hdr"];
    let script = format!("{out}.ld");
    if lean {
        fs::write(&script, LEAVE_OUT).map_err(|error| error.to_string())?;
        arguments.extend(["-T", &script]);
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
