//! Whether this process is more confined than what it sees around it: the question of a first caller, who has no daemon to
//! be compared with.

use std::{fs, os::unix::fs::MetadataExt as _};

use super::{Flags, NAMESPACES, OTHER_ROOT, Status};

/// Programs that are pid 1 only inside a sandbox they have made, as `/proc/1/comm` (15 bytes) shows them.
const SANDBOX_INITS: [&str; 4] = ["bwrap", "firejail", "nsjail", "codex-linux-san"];

/// Why this process should not start a daemon for everybody; nothing if it is as free as its surroundings.
pub fn own_is_confined() -> Option<&'static str> {
    let read = |name: &str| fs::read_to_string(name).ok();
    let (Some(own), Some(init)) = (read("/proc/self/status"), read("/proc/1/status")) else {
        return Some("it cannot see the processes of the machine (/proc)");
    };
    let (own, init) = (Status::of(&own), Status::of(&init));
    let seen = Surroundings {
        own: own.flags,
        init: init.flags,
        other_namespace: other_namespace(),
        other_root: other_root(),
        own_mounts: read("/proc/self/mountinfo"),
        init_mounts: read("/proc/1/mountinfo"),
        own_uid_map: read("/proc/self/uid_map"),
        init_uid_map: read("/proc/1/uid_map"),
        own_net: network("/proc/self"),
        init_net: network("/proc/1"),
        own_pids: own.pids.max(1),
        init_name: read("/proc/1/comm"),
    };
    seen.verdict()
}

/// The first namespace that differs from init's, of those that we may compare.
fn other_namespace() -> Option<&'static str> {
    let name = |who: &str, kind: &str| fs::read_link(format!("/proc/{who}/ns/{kind}")).ok();
    let differs = |kind: &str| Some(name("self", kind)? != name("1", kind)?);
    NAMESPACES.iter().find(|(kind, _)| differs(kind) == Some(true)).map(|(_, why)| *why)
}

/// Whether our root folder is another one than init's, where we may compare them.
fn other_root() -> bool {
    let root = |who: &str| fs::metadata(format!("/proc/{who}/root/.")).ok().map(|root| (root.dev(), root.ino()));
    root("self").zip(root("1")).is_some_and(|(own, init)| own != init)
}

/// What a process sees of itself and of pid 1.
struct Surroundings {
    own: Flags,
    init: Flags,
    other_namespace: Option<&'static str>,
    other_root: bool,
    own_mounts: Option<String>,
    init_mounts: Option<String>,
    own_uid_map: Option<String>,
    init_uid_map: Option<String>,
    /// Inode of `/proc/PID/net/dev`, of which each network namespace has its own.
    own_net: Option<u64>,
    init_net: Option<u64>,
    /// How many pids we have, from the namespace of the visible `/proc` inwards (`NSpid`, proc(5)).
    own_pids: usize,
    init_name: Option<String>,
}

impl Surroundings {
    fn verdict(&self) -> Option<&'static str> {
        let other_root = self.other_root.then_some(OTHER_ROOT);
        let seen = self.own.beyond(self.init).or(self.other_namespace).or(other_root);
        seen.or_else(|| self.other_maps()).or_else(|| self.sandbox())
    }

    /// Differences that show also where the links in `/proc/1/ns` may not be read.
    fn other_maps(&self) -> Option<&'static str> {
        let [(_, other_user), (_, other_mount), (_, other_pid), (_, other_net)] = NAMESPACES;
        if let (Some(own), Some(init)) = (&self.own_uid_map, &self.init_uid_map)
            && own != init
        {
            return Some(other_user);
        }
        if let (Some(own), Some(init)) = (&self.own_mounts, &self.init_mounts)
            && !own.is_empty()
            && !init.is_empty()
            && !share_a_mount(own, init)
        {
            return Some(other_mount);
        }
        if self.own_pids > 1 {
            return Some(other_pid);
        }
        let nets = self.own_net.zip(self.init_net);
        nets.is_some_and(|(own, init)| own != init).then_some(other_net)
    }

    /// Marks of a sandbox whose pid 1 is inside it.
    fn sandbox(&self) -> Option<&'static str> {
        let single = self.own_uid_map.as_deref().is_some_and(maps_a_single_user);
        let known = self.init_name.as_deref().is_some_and(|name| SANDBOX_INITS.contains(&name.trim()));
        (single || known).then_some("it is inside a sandbox")
    }
}

/// Whether two mount tables are of the same namespace: a mount id belongs to one mount only, and each namespace has
/// mounts of its own (`/proc/PID/mountinfo`, first field).
fn share_a_mount(one: &str, other: &str) -> bool {
    let ids =
        |table: &str| -> Vec<u64> { table.lines().filter_map(|line| line.split(' ').next()?.parse().ok()).collect() };
    let known = ids(other);
    ids(one).iter().any(|id| known.contains(id))
}

/// Whether a user namespace has only one user in it (`/proc/PID/uid_map`: inside, outside, count; `user_namespaces(7)`).
fn maps_a_single_user(map: &str) -> bool {
    let mut lines = map.lines();
    let only = lines.next().and_then(|line| line.split_ascii_whitespace().nth(2)) == Some("1");
    only && lines.next().is_none()
}

fn network(entry: &str) -> Option<u64> {
    Some(fs::metadata(format!("{entry}/net/dev")).ok()?.ino())
}

#[cfg(test)]
mod tests {
    use super::super::{FEWER_CAPABILITIES, FILTERED, NO_NEW_PRIVS};
    use super::*;
    use std::process::Command;

    const HOST_MAP: &str = "         0          0 4294967295\n";

    fn free() -> Surroundings {
        Surroundings {
            own: Flags::default(),
            init: Flags::default(),
            other_namespace: None,
            other_root: false,
            own_mounts: Some("21 1 8:1 / / rw - ext4 /dev/sda rw\n30 21 0:5 / /proc rw - proc proc rw\n".into()),
            init_mounts: Some("21 1 8:1 / / rw - ext4 /dev/sda rw\n".into()),
            own_uid_map: Some(HOST_MAP.into()),
            init_uid_map: Some(HOST_MAP.into()),
            own_net: Some(7),
            init_net: Some(7),
            own_pids: 1,
            init_name: Some("systemd\n".into()),
        }
    }

    fn filtered(no_new_privs: bool, seccomp_filters: u32) -> Flags {
        Flags { no_new_privs, seccomp_mode: if seccomp_filters > 0 { 2 } else { 0 }, seccomp_filters, bounding: 0 }
    }

    #[test]
    fn an_ordinary_place_is_not_taken_for_a_sandbox() {
        assert_eq!(free().verdict(), None);
        // A container: everything in it has the same filter and may gain nothing.
        let pod = Surroundings { own: filtered(true, 1), init: filtered(true, 1), ..free() };
        assert_eq!(pod.verdict(), None);
        // nsenter(1) from the host has fewer filters than the container's pid 1.
        assert_eq!(Surroundings { init: filtered(true, 1), ..free() }.verdict(), None);
        let rootless = "0 1000 1\n1 100000 65536\n";
        let podman = Surroundings { own_uid_map: Some(rootless.into()), init_uid_map: Some(rootless.into()), ..free() };
        assert_eq!(podman.verdict(), None);
        // What may not be read speaks neither for nor against.
        let blind = Surroundings {
            own_mounts: None,
            init_mounts: None,
            init_uid_map: None,
            init_net: None,
            init_name: None,
            ..free()
        };
        assert_eq!(blind.verdict(), None);
    }

    #[test]
    fn every_kind_of_sandbox_is_seen() {
        let landlock = Surroundings { own: filtered(true, 0), ..free() };
        assert_eq!(landlock.verdict(), Some(NO_NEW_PRIVS));
        let seccomp = Surroundings { own: filtered(true, 2), init: filtered(true, 1), ..free() };
        assert_eq!(seccomp.verdict(), Some(FILTERED));
        let own_mounts = Some("700 699 8:1 / / ro - ext4 /dev/sda rw\n".into());
        let mounts = Surroundings { own_mounts, ..free() };
        assert_eq!(mounts.verdict(), Some("it is in another mount namespace"));
        let init = Flags { bounding: 0x1ff, ..Flags::default() };
        let dropped = Surroundings { own: Flags { bounding: 0xff, ..init }, init, ..free() };
        assert_eq!(dropped.verdict(), Some(FEWER_CAPABILITIES));
        assert_eq!(Surroundings { own: init, ..free() }.verdict(), None, "more is no less");
        assert_eq!(Surroundings { other_root: true, ..free() }.verdict(), Some(OTHER_ROOT));
        let one = Some("      1000       1000          1\n".to_string());
        let users = Surroundings { own_uid_map: one.clone(), ..free() };
        assert_eq!(users.verdict(), Some("it is in another user namespace"));
        let net = Surroundings { own_net: Some(8), ..free() };
        assert_eq!(net.verdict(), Some("it is in another network namespace"));
        let pids = Surroundings { own_pids: 2, ..free() };
        assert_eq!(pids.verdict(), Some("it is in another pid namespace"));
        // bubblewrap with its own pid namespace: pid 1 is in the sandbox as well.
        let inner = Surroundings { own_uid_map: one.clone(), init_uid_map: one, ..free() };
        assert_eq!(inner.verdict(), Some("it is inside a sandbox"));
        let root_bwrap = Surroundings { init_name: Some("bwrap\n".into()), ..free() };
        assert_eq!(root_bwrap.verdict(), Some("it is inside a sandbox"));
    }

    #[test]
    fn a_sandboxed_shell_knows_it() {
        // The question is asked of the child itself: this very test binary runs below the wrapper.
        if own_is_confined().is_some() {
            return;
        }
        for (wrap, why) in [
            (["setpriv", "--no-new-privs"].as_slice(), NO_NEW_PRIVS),
            (&["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"], "it is inside a sandbox"),
            (&["unshare", "--pid", "--fork"], "it is in another pid namespace"),
            (&["unshare", "--net"], "it is in another network namespace"),
            (&["unshare", "--mount"], "it is in another mount namespace"),
        ] {
            let mut command = Command::new(wrap[0]);
            command.args(&wrap[1..]).arg(std::env::current_exe().unwrap());
            command.args(["--exact", "confine::surroundings::tests::tells_its_confinement", "--nocapture"]);
            let answer = command.env("RINGBACK_TEST_TELL", "1").output().unwrap();
            let told = String::from_utf8_lossy(&answer.stdout);
            // Where this machine does not let us make the namespace, nothing is told.
            assert!(!answer.status.success() && wrap[0] == "unshare" || told.contains(why), "{wrap:?} {answer:?}");
        }
    }

    #[test]
    fn tells_its_confinement() {
        if std::env::var_os("RINGBACK_TEST_TELL").is_some() {
            println!("{:?}", own_is_confined());
        }
    }
}
