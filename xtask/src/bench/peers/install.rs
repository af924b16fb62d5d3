//! Fetches the peers from their registries, in the versions that were compared; what cannot be had is left out with a word.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{find, folder};
use crate::Done;

/// From the crate registry: name and version.
const CRATE: (&str, &str) = ("pueue", "4.0.4");
/// From npm. Their install scripts fetch browsers, which nobody needs here.
const NODE: [&str; 2] = ["@wonderwhy-er/desktop-commander@0.2.52", "bash-command-mcp@0.1.5"];
/// From `PyPI`, each in an environment of its own.
const PYTHON: [(&str, &str); 3] =
    [("mcp-background-job", "0.1.2"), ("mcp-yieldshell", "1.1.2"), ("backburner-mcp", "1.0.0")];
/// One of them wants 3.12 or later, which Debian 12 does not have.
const PYTHONS: [&str; 4] = ["python3.14", "python3.13", "python3.12", "python3"];
/// From Debian: program and package.
const DEBIAN: [(&str, &str); 2] = [("tsp", "task-spooler"), ("nq", "nq")];

/// Installs what is missing.
pub(crate) fn install() -> Done {
    let folder = folder();
    fs::create_dir_all(&folder)?;
    let missing: Vec<&str> =
        DEBIAN.iter().filter(|(program, _)| find(program).is_none()).map(|(_, name)| *name).collect();
    if !missing.is_empty() {
        let word = format!("sudo apt-get install {}", missing.join(" "));
        attempt(&word, Command::new("apt-get").args(["install", "--yes", "--no-install-recommends"]).args(&missing));
    }
    if find("pueued").is_none() {
        let (name, version) = CRATE;
        let mut cargo = Command::new("cargo");
        cargo.args(["install", "--quiet", "--locked", "--version", version, name, "--root"]);
        attempt(name, cargo.arg(&folder));
    }
    let npm = folder.join("npm");
    if !npm.join("node_modules").exists() {
        fs::create_dir_all(&npm)?;
        fs::write(npm.join("package.json"), "{\"private\":true}\n")?;
        let mut command = Command::new("npm");
        command.args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]).args(NODE);
        attempt("the servers from npm", command.current_dir(&npm));
    }
    for (name, version) in PYTHON {
        let place = folder.join("py").join(name);
        if !place.join("installed").exists() {
            python(&place, &format!("{name}=={version}"));
        }
    }
    Ok(())
}

fn python(place: &Path, package: &str) {
    let interpreter =
        PYTHONS.into_iter().find(|name| Command::new(name).arg("-V").output().is_ok_and(|said| said.status.success()));
    let Some(interpreter) = interpreter else { return eprintln!("  {package}: there is no Python") };
    let made = attempt(&format!("{interpreter} -m venv"), Command::new(interpreter).args(["-m", "venv"]).arg(place));
    let pip = place.join("bin/pip");
    if made && attempt(package, Command::new(pip).args(["install", "--quiet", package])) {
        drop(fs::write(place.join("installed"), package));
    }
}

/// Whether it succeeded; says so where not.
fn attempt(what: &str, command: &mut Command) -> bool {
    eprintln!("  {what} …");
    match command.status() {
        Ok(status) if status.success() => true,
        Ok(status) => {
            eprintln!("  {what}: {status}");
            false
        }
        Err(error) => {
            eprintln!("  {what}: {error}");
            false
        }
    }
}
