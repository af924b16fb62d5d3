//! What a test needs for itself: a folder, gone when the test is over, or a process.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

pub(crate) struct Scratch(PathBuf);

impl Scratch {
    #[expect(clippy::disallowed_methods, reason = "the one place where tests get their folder from")]
    pub(crate) fn new() -> Self {
        let name = format!("ringback-sys-{}-{:016x}", std::process::id(), crate::process::random_u64().unwrap());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs the test that calls it in a process of its own, for what belongs to a whole process (umask, children, session).
///
/// True inside that process; false outside it, after it has passed.
pub(crate) fn alone(test: &str) -> bool {
    const ALONE: &str = "RINGBACK_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let own = std::env::current_exe().unwrap();
    let answer = Command::new(own).args(["--exact", test, "--nocapture"]).env(ALONE, "1").output().unwrap();
    let told = String::from_utf8_lossy(&answer.stdout);
    assert!(answer.status.success() && told.contains("1 passed"), "{told}{}", String::from_utf8_lossy(&answer.stderr));
    false
}
