//! Every text file of the project, as the rules see it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::source::File;

/// What is not ours to judge (in a linked worktree `.git` is a file).
const SKIPPED: [&str; 3] = ["target", ".git", "node_modules"];

pub(crate) struct House {
    pub(crate) files: Vec<File>,
}

impl House {
    /// Reads the workspace that this test belongs to.
    pub(crate) fn open() -> Self {
        let root = root();
        let mut files = Vec::new();
        gather(&root, &root, &mut files);
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Self { files }
    }
}

/// The names in the root of the workspace.
pub(crate) fn entries() -> Vec<String> {
    let names = fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names.collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn gather(root: &Path, dir: &Path, files: &mut Vec<File>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let kind = fs::symlink_metadata(&path).unwrap();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if SKIPPED.contains(&name.as_str()) {
            continue;
        }
        if kind.is_dir() {
            gather(root, &path, files);
        } else if kind.is_file()
            && let Ok(text) = fs::read_to_string(&path)
        {
            // What is not UTF-8 (a saved database, a picture) is data, not text.
            let path = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
            files.push(File::new(&path, &text));
        }
    }
}
