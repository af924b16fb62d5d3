//! Compiles the keeper into a binary of its own, without a C library, to be embedded by `src/image.rs`.

use std::env::var;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rustc-check-cfg=cfg(crash_points)");
    for watched in ["src/keeper", "src/raw", "src/form"] {
        println!("cargo::rerun-if-changed={watched}");
    }
    let debug = var("PROFILE").is_ok_and(|profile| profile == "debug");
    if debug {
        println!("cargo::rustc-cfg=crash_points");
    }
    let out = format!("{}/ringback-keeper", var("OUT_DIR").unwrap_or_default());
    let _ = std::fs::remove_file(&out);
    let target = var("TARGET").unwrap_or_default();
    let supported = target.contains("linux") && (target.starts_with("x86_64-") || target.starts_with("aarch64-"));
    // Not every linker takes the script that leaves the unwind tables out; with them it works as well.
    if supported && let Err(why) = compile(&target, debug, &out, true).or_else(|_| compile(&target, debug, &out, false))
    {
        println!("cargo::warning=the keeper is not compiled on its own, tasks will need more memory: {why}");
    }
    if !Path::new(&out).exists()
        && let Err(why) = std::fs::write(&out, b"")
    {
        println!("cargo::error=cannot write {out}: {why}");
    }
}

/// Unwind tables that nobody reads: they come with `core`, and are a fifth of the file.
const LEAVE_OUT: &str = "SECTIONS { /DISCARD/ : { *(.eh_frame) *(.comment) } } INSERT AFTER .text;";

fn compile(target: &str, debug: bool, out: &str, lean: bool) -> Result<(), String> {
    let mut rustc = Command::new(var("RUSTC").unwrap_or_else(|_| "rustc".into()));
    rustc.args(["src/keeper/bin.rs", "--crate-name", "ringback_keeper", "--crate-type", "bin", "--edition", "2024"]);
    rustc.args(["--target", target, "-o", out, "--cap-lints", "allow", "--check-cfg", "cfg(crash_points)"]);
    for setting in [
        "panic=abort",
        "opt-level=z",
        "lto=fat",
        "codegen-units=1",
        "strip=symbols",
        "force-unwind-tables=no",
        "relocation-model=static",
        "target-feature=+crt-static",
        "link-arg=-nostartfiles",
        "link-arg=-nostdlib",
        "link-arg=-static",
        "link-arg=-Wl,--build-id=none",
        "link-arg=-Wl,-z,norelro",
        "link-arg=-Wl,-z,noseparate-code",
        "link-arg=-Wl,--no-eh-frame-hdr",
    ] {
        rustc.args(["-C", setting]);
    }
    if lean {
        let script = format!("{out}.ld");
        std::fs::write(&script, LEAVE_OUT).map_err(|error| error.to_string())?;
        rustc.args(["-C", &format!("link-arg=-Wl,-T,{script}")]);
    }
    if let Ok(linker) = var("RUSTC_LINKER") {
        rustc.args(["-C", &format!("linker={linker}")]);
    }
    if debug {
        rustc.args(["--cfg", "crash_points"]);
    }
    // A wrapper or flags meant for the workspace (coverage, sanitizers) would ask for a runtime that is not there.
    rustc.env_remove("CARGO_ENCODED_RUSTFLAGS").env_remove("RUSTFLAGS");
    let done = rustc.output().map_err(|error| error.to_string())?;
    if done.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&done.stderr);
    Err(words.lines().take(40).collect::<Vec<_>>().join(" | "))
}
