//! Links the doors statically where that is possible: an agent pays the start of `ringback` at every command.
//!
//! Measured on two cores: `ringback --version` takes 2.7 ms as a dynamic position-independent program (symbol look-up and
//! thousands of relocations at each start) and 0.9 ms as a static one; bare `sh -c true` takes 0.8 ms. Rust offers this as
//! `-C target-feature=+crt-static`, but only together with `--target`, because compiler plugins cannot be built that
//! way; a plain `cargo build` must do. So the linker is led to the archives instead: a folder that is searched first
//! holds a script per C library, and each script names the archive (GNU ld, "Implicit linker scripts").
//!
//! What is asked most often does not even wait for the C library: a static program starts with the front.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What Rust's standard library asks the linker for, and the archives that serve it.
const LIBRARIES: [(&str, &[&str]); 7] = [
    ("libc.so", &["libc.a", "libgcc.a"]),
    ("libgcc_s.so", &["libgcc_eh.a", "libgcc.a", "libc.a"]),
    ("libm.so", &["libm.a"]),
    ("libpthread.so", &["libpthread.a"]),
    ("libdl.so", &["libdl.a"]),
    ("librt.so", &["librt.a"]),
    ("libutil.so", &["libutil.a"]),
];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let target = env::var("TARGET").unwrap_or_default();
    let native = env::var("HOST").is_ok_and(|host| host == target);
    if !(native && target.ends_with("-linux-gnu")) {
        return;
    }
    let Some(out) = env::var_os("OUT_DIR").map(PathBuf::from) else { return };
    // A machine without the archives gets a dynamic program, which is slower to start and no worse otherwise.
    if write_scripts(&out.join("static")).is_some() {
        println!("cargo:rustc-link-arg-bins=-L{}", out.join("static").display());
        println!("cargo:rustc-link-arg-bins=-static");
        println!("cargo:rustc-link-arg-bins=-no-pie");
        if env::var("PROFILE").is_ok_and(|profile| profile == "release") {
            // A sixth of a megabyte by which an unwinder finds its way; a release program aborts and has no names to show.
            println!("cargo:rustc-link-arg-bins=-Wl,--no-eh-frame-hdr");
        }
        if target.starts_with("x86_64-") {
            // Before the C library: `entry.rs` of ringback-sys.
            println!("cargo:rustc-link-arg-bins=-Wl,-e,ringback_start");
        }
    }
}

fn write_scripts(folder: &Path) -> Option<()> {
    fs::create_dir_all(folder).ok()?;
    for (library, archives) in LIBRARIES {
        let paths: Option<Vec<String>> = archives.iter().map(|archive| find(archive)).collect();
        fs::write(folder.join(library), format!("GROUP ( {} )\n", paths?.join(" "))).ok()?;
    }
    Some(())
}

/// Where the C compiler would take an archive from; it answers with the bare name if it has none.
fn find(archive: &str) -> Option<String> {
    let answer = Command::new("cc").arg(format!("-print-file-name={archive}")).output().ok()?;
    let path = String::from_utf8(answer.stdout).ok()?.trim().to_owned();
    Path::new(&path).is_absolute().then_some(path)
}
