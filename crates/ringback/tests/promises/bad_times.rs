//! Bad times: a full disk, a home that cannot be written, no descriptors, no processes. Nothing recorded is lost.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::mount::{MountFlags, UnmountFlags, mount, mount_remount, unmount};

use crate::support::{MINE, World, finish, has_ended, id_of, machine};

/// A small file system of our own under a home; it can be filled, or made read-only.
struct SmallDisk {
    world: World,
    /// A private copy of the folder's name; unmounted when the test is over.
    home: std::path::PathBuf,
}

impl SmallDisk {
    /// Only root may mount; elsewhere there is no such disk, and the tests with it have nothing to say.
    fn new(size: &str) -> Option<Self> {
        let world = World::new();
        std::fs::create_dir(world.home()).unwrap();
        let options = std::ffi::CString::new(format!("size={size},mode=0700")).unwrap();
        let mounted = mount("none", world.home(), "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, &*options);
        let home = world.home().to_path_buf();
        mounted.is_ok().then_some(Self { world, home })
    }

    /// Writes until not a byte more fits.
    fn fill(&self) {
        use std::io::Write;
        let mut file = std::fs::File::create(self.home.join("filler")).unwrap();
        let block = [0u8; 4096];
        while file.write_all(&block).is_ok() {}
    }

    fn free(&self) {
        std::fs::remove_file(self.home.join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: the world is dropped after this and still has its processes there.
        let _ = unmount(&self.home, UnmountFlags::DETACH);
    }
}

#[test]
fn a_full_disk_breaks_neither_list_nor_stop_nor_inbox_and_loses_no_ending() {
    let Some(disk) = SmallDisk::new("24m") else { return };
    let world = &disk.world;
    let go = world.fifo("go");
    let up = world.fifo("up");
    let heard = world.sh("exit 3");
    world.end(&heard);
    let wait = format!("echo early; echo up > {}; read x < {}", up.word(), go.word());
    let ending: Vec<String> = (0..3).map(|n| world.sh(&format!("{wait}; exit {}", 10 + n))).collect();
    let stopped = world.sh(&format!("{wait}; sleep 8301"));
    up.lines(4);
    disk.fill();

    let refused = world.rb(&["run", "--", "true"]);
    if refused.code != Some(0) {
        assert_eq!(refused.code, Some(125), "{refused:?}");
        assert!(refused.err.contains("hint:"), "{refused:?}");
    }
    let listed = world.look(&["ps", "-a", "--all-sessions", "--json"]).ok().json();
    assert!(listed["tasks"].as_array().unwrap().len() >= 5);
    world.inbox(MINE);
    let killer = world.onlooker(&["kill", "--grace", "1s", &stopped]).spawn().unwrap();
    let killer = finish(killer);
    assert!(matches!(killer.code, Some(0 | 125)), "{killer:?}");
    assert_eq!(world.tree(&stopped), [], "a stop needs no disk");
    // These end while nothing can be written.
    let keepers: Vec<_> = ending.iter().filter_map(|id| world.keeper(id)).collect();
    go.release(3);
    drop(keepers);
    for id in &ending {
        world.look(&["wait", "--timeout", "2s", id]);
    }
    world.kill_daemon();
    disk.free();
    for (n, id) in ending.iter().enumerate() {
        let task = world.end(id);
        assert_eq!((&task["state"], &task["exit_code"]), (&"exited".into(), &(10 + n).into()), "{task:#}");
        assert!(world.output(id).starts_with(b"early\n"));
    }
    assert_eq!(world.end(&stopped)["state"], "killed");
    assert_eq!(world.show(&heard)["exit_code"], 3);
    let told = world.inbox(MINE);
    for id in ending.iter().chain([&stopped, &heard]) {
        assert_eq!(told.iter().filter(|notice| notice["task"] == **id).count(), 1);
    }
}

#[test]
fn a_read_only_home_is_told_and_nothing_of_it_is_lost() {
    let Some(disk) = SmallDisk::new("24m") else { return };
    let world = &disk.world;
    let id = world.sh("exit 3");
    world.end(&id);
    if let Some(keeper) = world.keeper(&id) {
        machine::until_gone(keeper);
    }
    world.kill_daemon();
    remount(&disk.home, MountFlags::RDONLY);
    for args in [&["run", "--", "true"][..], &["ps"]] {
        let said = world.rb(args);
        assert_eq!(said.code, Some(125), "{said:?}");
        assert!(said.err.starts_with("error: ") && said.err.contains("hint: "), "{said:?}");
    }
    remount(&disk.home, MountFlags::empty());
    assert_eq!(world.show(&id)["exit_code"], 3);
    assert_eq!(world.inbox(MINE).len(), 1);
}

fn remount(home: &Path, flags: MountFlags) {
    mount_remount(home, flags | MountFlags::NOSUID | MountFlags::NODEV, "").unwrap();
}

/// The daemon under a limit of bash's `ulimit`, once it listens.
fn limited_daemon(world: &World, limit: &str) -> Child {
    let client = world.client::<&str>(&[]);
    let mut command = Command::new("bash");
    command.env_clear().envs(client.get_envs().filter_map(|(key, value)| Some((key, value?))));
    let daemon = env!("CARGO_BIN_EXE_ringback");
    command.args(["-c", &format!("ulimit {limit}; exec {daemon} daemon run")]).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    assert!(machine::until_listening(&mut child));
    child
}

#[test]
fn a_file_size_limit_of_the_daemon_loses_no_ending() {
    let world = World::new();
    // In blocks of 1024 bytes: enough to start, not enough for the log of many commits.
    let mut daemon = limited_daemon(&world, "-f 300");
    let mut ids = Vec::new();
    for n in 0..40 {
        let said = world.rb(&["run", "-c", &format!("exit {n}")]);
        match said.code {
            Some(0) => ids.push((n, id_of(&said))),
            _ => assert!(said.err.contains("hint:"), "{said:?}"),
        }
    }
    let _ = daemon.kill();
    daemon.wait().unwrap();
    for (n, id) in &ids {
        assert_eq!(world.end(id)["exit_code"], *n, "a handle is a record");
    }
    assert_eq!(
        world.inbox(MINE).iter().filter(|notice| ids.iter().any(|(_, id)| notice["task"] == **id)).count(),
        ids.len()
    );
}

#[test]
fn a_machine_without_processes_to_give_fails_the_start_and_nothing_else() {
    let world = World::new();
    // `ulimit -u` binds all but root, so the daemon runs as somebody who has no other process: a uid of our own making.
    if !machine::is_root() {
        return;
    }
    let uid = 1_900_000_000 + std::process::id() % 100_000;
    let top = world.home().parent().unwrap().to_path_buf();
    chown_all(&top, uid);
    let run = |args: &str| {
        let client = world.client::<&str>(&[]);
        let mut command = Command::new("setpriv");
        command.env_clear().envs(client.get_envs().filter_map(|(key, value)| Some((key, value?))));
        command.args(["--reuid", &uid.to_string(), "--regid", &uid.to_string(), "--clear-groups", "bash", "-c", args]);
        command.current_dir(world.work("")).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let binary = top.join("ringback");
    std::fs::copy(env!("CARGO_BIN_EXE_ringback"), &binary).unwrap();
    std::fs::set_permissions(&binary, std::fs::Permissions::from_mode(0o755)).unwrap();
    let word = binary.display().to_string();
    let mut daemon = run(&format!("ulimit -u 4; exec {word} daemon run")).spawn().unwrap();
    assert!(machine::until_listening(&mut daemon));
    let mut refused = 0;
    for _ in 0..6 {
        let said = finish(run(&format!("exec {word} run -- sleep 8303")).spawn().unwrap());
        if said.code == Some(0) {
            let id = id_of(&said);
            let shown = finish(run(&format!("exec {word} show --json {id}")).spawn().unwrap()).ok().json();
            refused += u32::from(shown["state"] == "start_failed");
            assert!(!has_ended(&shown) || shown["reason"] == "resources", "{shown:#}");
        } else {
            assert!(said.err.contains("hint:"), "{said:?}");
            refused += 1;
        }
    }
    assert!(machine::is_alive(machine::pid_of(&daemon)), "the daemon lives");
    assert!(refused > 0, "nothing was refused, so the limit did not bind");
    daemon.kill().unwrap();
    daemon.wait().unwrap();
}

fn chown_all(folder: &Path, uid: u32) {
    std::fs::create_dir(folder.join("h")).unwrap();
    std::fs::set_permissions(folder.join("h"), std::fs::Permissions::from_mode(0o700)).unwrap();
    for path in [folder.to_path_buf(), folder.join("work"), folder.join("user"), folder.join("h")] {
        std::os::unix::fs::chown(&path, Some(uid), Some(uid)).unwrap();
    }
}
