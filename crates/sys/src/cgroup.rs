//! Cgroups of tasks (cgroups(7), version 2): whether they can be had here, what they are called, and removing them.
//!
//! Only below the cgroup that this process is in, in the tree that the system mounts at `/sys/fs/cgroup` or
//! `/sys/fs/cgroup/unified`: what is delegated to us is that, and nothing else is touched.

use std::{
    ffi::OsString,
    fs, io,
    os::unix::{
        ffi::OsStringExt as _,
        fs::{DirBuilderExt as _, MetadataExt as _},
    },
    path::{Component, Path, PathBuf},
};

use rustix::fs::{Access, AtFlags, CWD};

use crate::{files, folder, launch};

/// Where the version 2 tree is: alone, or beside version 1 (systemd's "unified" and "hybrid").
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
/// How the name of a cgroup of ours begins; the home's and the task's follow.
const NAME_START: &str = "ringback-";
/// Hexadecimal digits of the home in a name.
const HOME_DIGITS: usize = 16;
/// Characters of a task's id.
const ID_CHARACTERS: usize = 12;
/// The most that a note of where one is has, bytes (`PATH_MAX` of Linux).
const NOTE_BYTES_MAX: u64 = 4096;
/// How deep cgroups that a task made in its own are removed.
const DEPTH_MAX: u32 = 8;

/// What limits a cgroup: the controllers, and the file in which each of them takes a limit (cgroup-v2.rst).
const CONTROLLERS: [(&str, &str); 3] = [("memory", "memory.max"), ("pids", "pids.max"), ("cpu", "cpu.max")];
/// What the daemon's own cgroup is called after the home, where it has to leave the one that its tasks' are in.
const DAEMON: &str = "daemon";

/// The cgroups of one home's tasks.
#[derive(Clone, Debug)]
pub struct Cgroups {
    parent: PathBuf,
    prefix: String,
    controls: Controls,
}

/// What cgroups can limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Controls {
    /// Memory.
    pub memory: bool,
    /// Processes and threads.
    pub processes: bool,
    /// CPU time.
    pub cpu: bool,
}

impl Cgroups {
    /// The cgroups that tasks of the home at `home` can have; the error says why they can have none.
    ///
    /// Tried by making and removing one.
    pub fn find(home: &Path) -> io::Result<Self> {
        let parent = own_directory()?;
        rustix::fs::accessat(CWD, parent.join("cgroup.procs"), Access::WRITE_OK, AtFlags::EACCESS)?;
        // The same folder under another name is the same home; another one under the same name (in a container) is not.
        let meta = fs::metadata(home)?;
        let place = [meta.dev().to_ne_bytes(), meta.ino().to_ne_bytes()].concat();
        let prefix = format!("{NAME_START}{:0HOME_DIGITS$x}-", launch::hash(&place) >> 64);
        let mut cgroups = Self { parent, prefix, controls: Controls::default() };
        let probe = cgroups.of_task("000000000000");
        remove(&probe)?;
        fs::DirBuilder::new().mode(0o700).create(&probe)?;
        // A controller of version 1 below it would have other files.
        let listed = fs::read(probe.join("cgroup.procs")).map(drop);
        cgroups.controls = controls_of(&probe);
        remove(&probe)?;
        listed.map(|()| cgroups)
    }

    /// Switches on what limits the cgroups of tasks, as far as it is delegated. For the daemon, before it starts anything.
    ///
    /// A cgroup with processes in it gives no memory controller to those below, and given others those below could hold
    /// nobody (cgroup-v2.rst, "No Internal Process Constraint" and "Threads"). So it is done at the root of all, which is
    /// free of that, or where this process is alone and can move into a cgroup of its own beside the tasks'.
    pub fn switch_on_limits(&mut self) -> io::Result<()> {
        let on = self.parent.join("cgroup.subtree_control");
        let offered = fs::read_to_string(self.parent.join("cgroup.controllers"))?;
        let wanted = missing_controllers(&offered, &fs::read_to_string(&on)?);
        // Only the root of all has no type (cgroup-v2.rst, `cgroup.type`).
        let is_root = !self.parent.join("cgroup.type").exists();
        if wanted.is_empty() || !(is_root || self.step_aside()?) {
            return Ok(());
        }
        let switched: Vec<&str> =
            wanted.into_iter().filter(|name| fs::write(&on, format!("+{name}")).is_ok()).collect();
        let probe = self.of_task("000000000000");
        fs::DirBuilder::new().mode(0o700).create(&probe)?;
        let can_hold = fs::read_to_string(probe.join("cgroup.type"))?.trim() == "domain";
        self.controls = if can_hold { controls_of(&probe) } else { Controls::default() };
        remove(&probe)?;
        if !can_hold {
            // Somebody came in meanwhile.
            switched.iter().try_for_each(|name| fs::write(&on, format!("-{name}")))?;
        }
        Ok(())
    }

    /// What they could limit once a daemon has switched on what it may switch on from here, as far as that can be said before.
    pub fn controls_to_come(&self) -> Controls {
        let is_root = !self.parent.join("cgroup.type").exists();
        let offered =
            if is_root { fs::read_to_string(self.parent.join("cgroup.controllers")) } else { Ok(String::new()) };
        let offered = offered.unwrap_or_default();
        let [memory, processes, cpu] =
            CONTROLLERS.map(|(name, _)| offered.split_ascii_whitespace().any(|word| word == name));
        Controls {
            memory: memory || self.controls.memory,
            processes: processes || self.controls.processes,
            cpu: cpu || self.controls.cpu,
        }
    }

    /// Moves this process into a cgroup of its own, if nobody else is in the one that it is in.
    ///
    /// Not in a service of systemd, which could not start it there again while tasks of it live.
    fn step_aside(&self) -> io::Result<bool> {
        let is_service = self.parent.extension().is_some_and(|kind| kind == "service");
        let own = std::process::id().to_string();
        if is_service || fs::read_to_string(self.parent.join("cgroup.procs"))?.trim() != own {
            return Ok(false);
        }
        let aside = self.of_task(DAEMON);
        fs::DirBuilder::new().mode(0o700).recursive(true).create(&aside)?;
        fs::write(aside.join("cgroup.procs"), "0")?;
        Ok(true)
    }

    /// What the cgroups of tasks can limit.
    pub fn controls(&self) -> Controls {
        self.controls
    }

    /// The cgroup of this task.
    pub fn of_task(&self, id: &str) -> PathBuf {
        self.parent.join(format!("{}{id}", self.prefix))
    }

    /// Where they are.
    pub fn parent(&self) -> &Path {
        &self.parent
    }

    /// Removes those that nobody is in, but for the tasks that `keep` names.
    pub fn sweep(&self, keep: impl Fn(&str) -> bool) -> io::Result<()> {
        for entry in fs::read_dir(&self.parent)?.flatten() {
            let name = entry.file_name();
            let id = name.to_str().and_then(|name| name.strip_prefix(&self.prefix));
            if id.is_some_and(|id| !keep(id)) {
                // One that somebody is in stays.
                let _ = remove(&entry.path());
            }
        }
        Ok(())
    }

    /// Those of other homes' tasks that nobody is in, as far as they are ours to remove. As a rule their home is gone, and nobody
    /// else will; but one may have been made this moment, or be asked by its keeper for what happened in it. So many are named at most.
    pub fn strange(&self, max: usize) -> io::Result<Vec<PathBuf>> {
        let entries = fs::read_dir(&self.parent)?.flatten().map(|entry| entry.path());
        Ok(entries.filter(|path| self.is_strange(path)).take(max).collect())
    }

    /// Whether this is the cgroup of another home's task, nobody is in it, and it is ours to remove.
    fn is_strange(&self, path: &Path) -> bool {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_empty = || {
            let events = fs::read_to_string(path.join("cgroup.events")).unwrap_or_default();
            events.lines().any(|line| line == "populated 0")
        };
        let own = rustix::process::geteuid().as_raw();
        let is_own = || fs::symlink_metadata(path).is_ok_and(|meta| meta.uid() == own);
        is_of_task(path) && !name.starts_with(&self.prefix) && is_empty() && is_own()
    }

    /// Removes those of them that are so still.
    pub fn sweep_strange(&self, noted: &[PathBuf]) {
        for path in noted.iter().filter(|path| self.is_strange(path)) {
            // One that somebody went into meanwhile stays: the kernel removes none with processes in it.
            let _ = remove(path);
        }
    }
}

/// Which controllers are offered, and not switched on yet.
fn missing_controllers(offered: &str, on: &str) -> Vec<&'static str> {
    let has = |list: &str, name: &str| list.split_ascii_whitespace().any(|word| word == name);
    let names = CONTROLLERS.iter().map(|(name, _)| *name);
    names.filter(|name| has(offered, name) && !has(on, name)).collect()
}

/// What can be limited in this cgroup.
fn controls_of(path: &Path) -> Controls {
    let [memory, processes, cpu] = CONTROLLERS.map(|(_, file)| path.join(file).exists());
    Controls { memory, processes, cpu }
}

/// Removes the cgroup that the file `note` in the folder of task `id` names, if it is one of ours, there, and empty.
pub fn remove_noted(note: &Path, id: &str) -> io::Result<()> {
    let read = files::open_regular(note).and_then(|note| folder::read_at_most(&note, NOTE_BYTES_MAX));
    let path = match read {
        Ok(path) => PathBuf::from(OsString::from_vec(path)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let mounted = MOUNTS.iter().any(|mount| path.starts_with(mount));
    let straight = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if mounted && straight && task_of(name) == Some(id) { remove(&path) } else { Ok(()) }
}

/// Moves this process out of the cgroup of a task that it was started in, so that it is not ended with the task.
///
/// Gives whether it was in one.
pub fn leave_task() -> io::Result<bool> {
    let own = own_directory()?;
    // The outermost: a task may have made others in its own.
    let Some(task) = own.ancestors().filter(|path| is_of_task(path)).last() else { return Ok(false) };
    let outside = task.parent().ok_or(io::ErrorKind::NotFound)?;
    fs::write(outside.join("cgroup.procs"), "0")?;
    Ok(true)
}

fn is_of_task(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).and_then(task_of).is_some()
}

/// The task's id in the name of a cgroup of ours.
fn task_of(name: &str) -> Option<&str> {
    let (home, id) = name.strip_prefix(NAME_START)?.split_once('-')?;
    let ours = home.len() == HOME_DIGITS && home.bytes().all(|b| b.is_ascii_hexdigit());
    (ours && id.len() == ID_CHARACTERS && id.bytes().all(|b| b.is_ascii_alphanumeric())).then_some(id)
}

/// Removes a cgroup, and those in it, if nobody is in any; one that is not there is no error.
fn remove(path: &Path) -> io::Result<()> {
    remove_to_depth(path, DEPTH_MAX)
}

fn remove_to_depth(path: &Path, depth: u32) -> io::Result<()> {
    match fs::remove_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if depth == 0 => Err(error),
        Err(_) => {
            for entry in fs::read_dir(path)?.flatten() {
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    remove_to_depth(&entry.path(), depth - 1)?;
                }
            }
            fs::remove_dir(path)
        }
        Ok(()) => Ok(()),
    }
}

/// The directory of the version 2 cgroup that this process is in.
fn own_directory() -> io::Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let (mount, root) = mounted(&mounts).ok_or_else(|| missing("no cgroup version 2 is mounted at /sys/fs/cgroup"))?;
    let own = fs::read_to_string("/proc/self/cgroup")?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::")).ok_or_else(|| missing("no cgroup version 2"))?;
    within(mount, root, own).ok_or_else(|| missing("our cgroup is not visible at /sys/fs/cgroup"))
}

/// Where the tree is mounted, and which part of it (fields 5 and 4 of `/proc/self/mountinfo`, proc(5)).
fn mounted(mountinfo: &str) -> Option<(&'static str, &str)> {
    mountinfo.lines().rev().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let (root, at) = (place.next()?, place.next()?);
        let mount = MOUNTS.into_iter().find(|mount| *mount == at)?;
        (kind.split(' ').next() == Some("cgroup2")).then_some((mount, root))
    })
}

/// The directory of cgroup `own`, where the part of the tree below `root` is mounted.
fn within(mount: &str, root: &str, own: &str) -> Option<PathBuf> {
    let own = Path::new(own.strip_suffix(" (deleted)").unwrap_or(own));
    let below = own.strip_prefix(root).ok()?;
    // Outside of our cgroup namespace paths begin with `/..` (cgroup_namespaces(7)).
    let straight = below.components().all(|part| matches!(part, Component::Normal(_)));
    straight.then(|| Path::new(mount).join(below))
}

fn missing(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn the_tree_of_version_2_is_found_alone_and_beside_version_1() {
        let pure = "24 1 0:22 / /proc rw - proc proc rw\n30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";
        assert_eq!(mounted(pure), Some(("/sys/fs/cgroup", "/")));
        let hybrid = "31 24 0:27 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n32 31 0:28 / /sys/fs/cgroup/unified rw shared:4 - \
                      cgroup2 cgroup2 rw\n33 31 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        assert_eq!(mounted(hybrid), Some(("/sys/fs/cgroup/unified", "/")));
        let old =
            "31 24 0:27 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n33 31 0:29 / /sys/fs/cgroup/memory rw - cgroup c rw\n";
        assert_eq!(mounted(old), None);
        assert_eq!(mounted("40 1 0:30 / /mnt/cgroup rw - cgroup2 none rw\n"), None, "never another path");
    }

    #[test]
    fn our_place_is_seen_from_where_it_is_mounted() {
        let own = "/user.slice/user-1000.slice/a.scope";
        let at = |root: &str, own: &str| within("/sys/fs/cgroup", root, own);
        assert_eq!(at("/", own), Some(PathBuf::from("/sys/fs/cgroup/user.slice/user-1000.slice/a.scope")));
        assert_eq!(at("/", "/"), Some(PathBuf::from("/sys/fs/cgroup")));
        assert_eq!(at("/docker/abc", "/docker/abc/x"), Some(PathBuf::from("/sys/fs/cgroup/x")));
        assert_eq!((at("/docker/abc", "/docker/ab"), at("/", "/../../x")), (None, None));
    }

    #[test]
    fn only_what_is_named_as_ours_is_ours() {
        assert_eq!(task_of("ringback-0123456789abcdef-0123456789ab"), Some("0123456789ab"));
        for foreign in ["ringback-0123456789abcdef-", "ringback-0-0123456789ab", "system.slice", "ringback.service"] {
            assert_eq!(task_of(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn a_note_that_leads_elsewhere_removes_nothing() {
        let scratch = Scratch::new();
        let elsewhere = scratch.path().join("ringback-0123456789abcdef-0123456789ab");
        fs::create_dir(&elsewhere).unwrap();
        let note = scratch.path().join("cgroup");
        remove_noted(&note, "0123456789ab").unwrap();
        for said in
            [elsewhere.as_os_str(), "".as_ref(), "/sys/fs/cgroup/../ringback-0123456789abcdef-0123456789ab".as_ref()]
        {
            fs::write(&note, said.as_encoded_bytes()).unwrap();
            remove_noted(&note, "0123456789ab").unwrap();
            assert!(elsewhere.is_dir());
        }
    }

    #[test]
    fn only_what_is_offered_and_not_on_is_switched_on() {
        assert_eq!(missing_controllers("cpuset cpu io memory pids", "io cpu\n"), ["memory", "pids"]);
        assert_eq!(missing_controllers("hugetlb\n", ""), Vec::<&str>::new());
    }

    #[test]
    fn limits_are_switched_on_only_where_that_harms_nobody() {
        let own = std::process::id();
        let check = |place: &str, processes: &str| {
            let scratch = Scratch::new();
            let parent = scratch.path().join(place);
            fs::create_dir(&parent).unwrap();
            for (name, text) in [
                ("cgroup.controllers", "cpu memory pids"),
                ("cgroup.subtree_control", ""),
                ("cgroup.type", "domain"),
                ("cgroup.procs", processes),
            ] {
                fs::write(parent.join(name), text).unwrap();
            }
            let prefix = "ringback-0123456789abcdef-".to_owned();
            let mut cgroups = Cgroups { parent: parent.clone(), prefix, controls: Controls::default() };
            // In folders that are none of the kernel's the children have no files.
            let _ = cgroups.switch_on_limits();
            let aside = fs::read_to_string(cgroups.of_task(DAEMON).join("cgroup.procs")).ok();
            (aside, fs::read_to_string(parent.join("cgroup.subtree_control")).unwrap().is_empty(), cgroups.controls)
        };
        let alone = format!("{own}\n");
        let none = Controls::default();
        assert_eq!(check("a.scope", &alone), (Some("0".to_owned()), false, none), "it steps aside first");
        assert_eq!(check("a.scope", &format!("1\n{own}\n")), (None, true, none), "others are in it");
        assert_eq!(check("a.service", &alone), (None, true, none), "systemd could not start it again");
    }

    #[test]
    fn cgroups_are_made_and_swept_where_they_can_be_had() {
        let scratch = Scratch::new();
        let Ok(cgroups) = Cgroups::find(scratch.path()) else { return eprintln!("no cgroups here") };
        let [kept, swept] = ["00000000000a", "00000000000b"].map(|id| cgroups.of_task(id));
        fs::create_dir_all(&kept).unwrap();
        fs::create_dir_all(swept.join("below/deeper")).unwrap();
        cgroups.sweep(|id| id == "00000000000a").unwrap();
        assert!(kept.is_dir() && !swept.exists());
        let note = scratch.path().join("cgroup");
        fs::write(&note, kept.as_os_str().as_encoded_bytes()).unwrap();
        remove_noted(&note, "00000000000b").unwrap();
        assert!(kept.is_dir(), "the name is another task's");
        remove_noted(&note, "00000000000a").unwrap();
        assert!(!kept.exists());
        remove_noted(&note, "00000000000a").unwrap();
    }

    #[test]
    fn what_a_home_that_is_gone_has_left_is_swept_by_another_if_it_stays_empty() {
        let [scratch, gone] = [Scratch::new(), Scratch::new()];
        let (Ok(cgroups), Ok(others)) = (Cgroups::find(scratch.path()), Cgroups::find(gone.path())) else {
            return eprintln!("no cgroups here");
        };
        let own = cgroups.of_task("00000000000a");
        let [left, held, made_now] = ["00000000000a", "00000000000b", "00000000000c"].map(|id| others.of_task(id));
        for path in [&own, &left, &held] {
            fs::create_dir_all(path).unwrap();
        }
        let mut sleeper = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        fs::write(held.join("cgroup.procs"), sleeper.id().to_string()).unwrap();
        let before = cgroups.strange(usize::MAX).unwrap();
        assert_eq!(cgroups.strange(1).unwrap(), before[..1]);
        assert!(before.contains(&left) && ![&own, &held].into_iter().any(|path| before.contains(path)));
        fs::create_dir(&made_now).unwrap();
        cgroups.sweep_strange(&[left.clone(), held.clone(), own.clone()]);
        assert!(!left.exists() && own.exists() && held.exists() && made_now.exists());
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        for path in [own, held, made_now] {
            remove(&path).unwrap();
        }
    }
}
