//! Cgroups with little room, for commands that want too much: made here, from outside of ringback, of version 1 or 2.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Controller, its limits by file (of version 1 and of version 2), and what they are set to.
const LIMITS: [(&str, &[(&str, &str)]); 2] = [
    ("memory", &[("memory.limit_in_bytes", "24M"), ("memory.max", "24M"), ("memory.swap.max", "0")]),
    ("pids", &[("pids.max", "24")]),
];

/// The rooms that could be made, with their controllers.
pub(crate) struct Rooms(Vec<(&'static str, PathBuf)>);

impl Rooms {
    /// Makes them, under a name that nobody else has.
    pub(crate) fn make(name: &str) -> Self {
        let mut made = Vec::new();
        for (controller, limits) in LIMITS {
            match make(controller, limits, name) {
                Some(room) => made.push((controller, room)),
                None => println!("kills: no {controller} cgroup can be made here, so nothing is run in one"),
            }
        }
        Self(made)
    }

    /// Has each found under its controller's name in the oracle's folder.
    pub(crate) fn link(&self, oracle: &Path) -> Result<(), String> {
        let mut links = self.0.iter().map(|(controller, room)| symlink(room, oracle.join(controller)));
        links.try_for_each(|link| link.map_err(|error| format!("cannot make a link: {error}")))
    }
}

impl Drop for Rooms {
    fn drop(&mut self) {
        for (_, room) in &self.0 {
            if let Err(error) = fs::remove_dir(room) {
                eprintln!("cannot remove {}: {error}", room.display());
            }
        }
    }
}

fn make(controller: &str, limits: &[(&str, &str)], name: &str) -> Option<PathBuf> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    // `number:controllers:path`; of version 2 there is one line, without a controller (cgroups(7)).
    let place = |wanted: &str| {
        own.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (names, path) = rest.split_once(':')?;
            names.split(',').any(|name| name == wanted).then(|| path.trim_start_matches('/').to_owned())
        })
    };
    let parent = match place(controller) {
        Some(path) => Path::new("/sys/fs/cgroup").join(controller).join(path),
        None => Path::new("/sys/fs/cgroup").join(place("")?),
    };
    let room = parent.join(format!("prove-{controller}-{name}"));
    fs::create_dir(&room).ok()?;
    let there = limits.iter().filter(|(file, _)| room.join(file).exists());
    let set = there.map(|(file, limit)| fs::write(room.join(file), limit).is_ok()).collect::<Vec<_>>();
    if set.contains(&true) {
        return Some(room);
    }
    let _ = fs::remove_dir(&room);
    None
}
