//! Another user of the machine: real where the test is root and may become one, and else said not to be there.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{World, machine};

/// `nobody`: a user that owns nothing.
pub(crate) const STRANGER: u32 = 65_534;

/// The words that make a command another user's.
pub(crate) fn become_user(uid: u32) -> Vec<String> {
    let uid = uid.to_string();
    ["setpriv", "--reuid", &uid, "--regid", &uid, "--clear-groups"].map(str::to_owned).into()
}

/// Whether there can be another user here.
#[track_caller]
pub(crate) fn has_stranger() -> bool {
    if !machine::is_root() {
        eprintln!("not tried: only root can be a second user");
        return false;
    }
    let words = become_user(STRANGER);
    let tried = Command::new(&words[0]).args(&words[1..]).arg("true").output().expect("setpriv(1)");
    if !tried.status.success() {
        let why = String::from_utf8_lossy(&tried.stderr);
        // No right to that, or no such number in this user namespace (setresuid(2)).
        assert!(why.contains("not permitted") || why.contains("Invalid argument"), "{why}");
        eprintln!("not tried: root may not be a second user here: {}", why.trim());
    }
    tried.status.success()
}

/// Opens the folder of a world, and puts a program there that others may execute; the home stays as it is.
pub(crate) fn let_in(world: &World) -> PathBuf {
    let folder = world.home().parent().unwrap();
    mode(folder, 0o755);
    let program = folder.join("ringback");
    fs::copy(env!("CARGO_BIN_EXE_ringback"), &program).unwrap();
    mode(&program, 0o755);
    program
}

/// The same, and what is not there yet is made by this user, whose world it becomes.
pub(crate) fn hand_over(world: &World, uid: u32) -> PathBuf {
    let program = let_in(world);
    let folder = world.home().parent().unwrap();
    for place in [folder, &folder.join("work"), &folder.join("user")] {
        chown(place, Some(uid), Some(uid)).unwrap();
    }
    program
}

/// Who may do what with this.
pub(crate) fn mode(path: &Path, bits: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(bits)).unwrap();
}
