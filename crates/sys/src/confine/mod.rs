//! How confined a process is, so that nobody leaves a sandbox by asking us to run something outside it.
//!
//! The daemon runs commands with its own rights. A process that has fewer (an agent's sandboxed shell) must not gain them
//! through the socket, and must not become the one whose daemon serves everybody. Both questions are answered from
//! `/proc`, by comparing what the kernel says of two processes.
//!
//! **Peer against daemon** ([`Confinement::beyond`]): other user, other namespace (user, mount, pid, net), another root
//! folder (chroot), a seccomp filter more, `no_new_privs`, a capability or a group less. The peer is read while its pidfd
//! is held, so a reused pid cannot lend its freedom.
//!
//! A peer over TCP is looked for by the socket that it holds ([`Confinement::beyond_over_tcp`]).
//!
//! **A first caller against its surroundings** ([`own_is_confined`]): there is no daemon to compare with, so pid 1 of the
//! visible `/proc` stands for "an ordinary process here".
//!
//! | caller | what is seen | verdict |
//! |---|---|---|
//! | plain user on a host | same flags as init; `/proc/1/ns` unreadable, same mount ids and uid map | free |
//! | root in a container, `docker exec`, a hardened pod | pid 1 has the same filter, `no_new_privs`, namespaces | free |
//! | rootless container | a user namespace of many ids, the same as pid 1's | free |
//! | Landlock or seccomp shell (both set `no_new_privs`) | flags that init does not have | confined |
//! | `capsh --drop`, `setpriv --bounding-set` | a bounding set smaller than init's | confined |
//! | chroot(8) with a `/proc` of the machine | another root folder than pid 1, where that may be read | confined |
//! | bubblewrap, host pids visible | `no_new_privs`, other mount ids, uid map or network files than pid 1, pid numbers of its own | confined |
//! | bubblewrap with its own pid namespace | pid 1 is as confined as we, but it is the sandbox's own program, or the user namespace holds a single id, as only an unprivileged process makes for itself | confined |
//! | container with the host's pids (`--pid=host`) | other mount ids than pid 1 | confined: it is, compared with what it sees |
//!
//! Not seen: Landlock, which shows nowhere in `/proc` but comes with `no_new_privs`, unless a process with `CAP_SYS_ADMIN`
//! put it on; a sandbox whose pid 1 is confined
//! just like us and has neither mark; flags of one thread alone (threads share their memory, so no boundary runs
//! between them); an already connected socket that somebody outside hands in.

mod surroundings;
mod tcp;

pub use surroundings::own_is_confined;

use std::{fs, io, io::Read as _, os::fd::OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags};

use crate::{pidfd::PidFd, socket::Peer};

/// The namespaces that decide what a command can reach, and how we call them.
const NAMESPACES: [(&str, &str); 4] = [
    ("user", "it is in another user namespace"),
    ("mnt", "it is in another mount namespace"),
    ("pid", "it is in another pid namespace"),
    ("net", "it is in another network namespace"),
];
const OTHER_ROOT: &str = "it is in another root folder (chroot)";
const FEWER_CAPABILITIES: &str = "it has fewer capabilities";
const FEWER_GROUPS: &str = "it is in fewer groups";
const FILTERED: &str = "it is under a seccomp filter";
const NO_NEW_PRIVS: &str = "it may gain no privileges (no_new_privs)";

/// What the kernel says of a process's freedom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confinement {
    uid: u32,
    /// Identity of each of [`NAMESPACES`], such as `mnt:[4026531841]`.
    namespaces: [Vec<u8>; 4],
    /// Device and inode of its root folder.
    root: (u64, u64),
    flags: Flags,
    /// What it may do beyond its user (capabilities(7)): permitted and effective.
    capabilities: [u64; 2],
    /// Its effective group and its supplementary ones, in order.
    groups: Vec<u32>,
}

/// The lines of `/proc/PID/status` that confine (proc(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct Flags {
    no_new_privs: bool,
    /// 0 none, 1 strict, 2 filter.
    seccomp_mode: u32,
    /// How many filters; 0 also on kernels before 5.9, which do not count them.
    seccomp_filters: u32,
    /// The capabilities that it can ever have (`CapBnd`).
    bounding: u64,
}

impl Flags {
    fn beyond(self, other: Self) -> Option<&'static str> {
        let more = |ours: u32, theirs: u32| ours > theirs;
        if more(self.seccomp_mode, other.seccomp_mode) || more(self.seccomp_filters, other.seccomp_filters) {
            Some(FILTERED)
        } else if self.no_new_privs && !other.no_new_privs {
            Some(NO_NEW_PRIVS)
        } else if other.bounding & !self.bounding != 0 {
            Some(FEWER_CAPABILITIES)
        } else {
            None
        }
    }
}

impl Confinement {
    /// Reads it for a process that we may see; [`io::ErrorKind::PermissionDenied`] means that we may not, and that the
    /// question has no answer.
    pub fn of(pid: i32) -> io::Result<Self> {
        Self::of_entry(&format!("/proc/{pid}"))
    }

    /// Reads it for this process.
    pub fn own() -> io::Result<Self> {
        Self::of_entry("/proc/self")
    }

    /// Reads it for the process that connected; [`io::ErrorKind::NotFound`] if it has ended meanwhile.
    ///
    /// A peer without a visible pid lives in a pid namespace that is not ours nor below it:
    /// [`io::ErrorKind::PermissionDenied`].
    pub fn of_peer(peer: &Peer) -> io::Result<Self> {
        if peer.pid <= 0 {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is not visible from our pid namespace"));
        }
        let hold: &PidFd = peer.hold.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let found = Self::of(peer.pid)?;
        // A process that is still alive after the look had its pid during the look.
        if hold.has_ended()? { Err(io::ErrorKind::NotFound.into()) } else { Ok(found) }
    }

    /// One look at each of six names, all below one descriptor: what a caller costs is counted in these.
    fn of_entry(entry: &str) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let entry = rustix::fs::open(entry, flags, Mode::empty()).map_err(gone)?;
        let status = status(&entry)?;
        let mut namespaces = [const { Vec::new() }; 4];
        for ((kind, _), place) in NAMESPACES.iter().zip(&mut namespaces) {
            *place = namespace(&entry, kind)?;
        }
        let root = rustix::fs::statat(&entry, "root", AtFlags::empty()).map_err(gone)?;
        let Status { uid, groups, capabilities, flags, .. } = Status::of(&status);
        let uid = uid.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
        Ok(Self { uid, namespaces, root: (root.st_dev, root.st_ino), flags, capabilities, groups })
    }

    /// Why this one is more confined than `other`; nothing if it is not.
    pub fn beyond(&self, other: &Self) -> Option<&'static str> {
        let lacks = |(ours, theirs): (&u64, &u64)| theirs & !ours != 0;
        if let Some(why) = self.apart(other) {
            Some(why)
        } else if self.capabilities.iter().zip(&other.capabilities).any(lacks) {
            Some(FEWER_CAPABILITIES)
        } else if other.groups.iter().any(|group| self.groups.binary_search(group).is_err()) {
            Some(FEWER_GROUPS)
        } else {
            None
        }
    }

    /// Why this one lives in another place than `other`, or in a sandbox that the other one is not in; nothing if it does
    /// not. The same place with other rights, as after a new login, is none.
    pub fn apart(&self, other: &Self) -> Option<&'static str> {
        if self.uid != other.uid {
            return Some("it runs as another user");
        }
        let mut pairs = NAMESPACES.iter().zip(self.namespaces.iter().zip(&other.namespaces));
        match pairs.find(|(_, (ours, theirs))| ours != theirs) {
            Some(((_, why), _)) => Some(why),
            None if self.root != other.root => Some(OTHER_ROOT),
            None => self.flags.beyond(other.flags),
        }
    }
}

fn gone(error: rustix::io::Errno) -> io::Error {
    crate::identity::gone(error.into())
}

/// The text of `status` below an entry of `/proc`.
fn status(entry: &OwnedFd) -> io::Result<String> {
    let file = rustix::fs::openat(entry, "status", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(gone)?;
    // One read is enough for all but a process with hundreds of groups.
    let mut bytes = Vec::with_capacity(4096);
    fs::File::from(file).read_to_end(&mut bytes).map_err(crate::identity::gone)?;
    // Only the name of a program can be something else than ASCII.
    Ok(match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })
}

fn namespace(entry: &OwnedFd, kind: &str) -> io::Result<Vec<u8>> {
    // As long as every such name: the call allocates for one that is longer.
    let name = Vec::with_capacity(32);
    Ok(rustix::fs::readlinkat(entry, format!("ns/{kind}"), name).map_err(gone)?.into_bytes())
}

/// What is taken from `status`.
#[derive(Default)]
struct Status {
    uid: Option<u32>,
    groups: Vec<u32>,
    capabilities: [u64; 2],
    flags: Flags,
    /// How many pids it has, one for each pid namespace from that of the visible `/proc` inwards; 0 on old kernels.
    pids: usize,
}

impl Status {
    /// One pass: every call of a door is looked at twice, here and by the daemon.
    fn of(text: &str) -> Self {
        let mut status = Self::default();
        for line in text.lines() {
            // Most lines are of no interest: their names are not even looked for.
            let Some((name, value)) = line.split_once(':').filter(|_| line.starts_with(['U', 'G', 'C', 'N', 'S']))
            else {
                continue;
            };
            let value = value.trim();
            let number = || value.parse().unwrap_or(0);
            let mask = || u64::from_str_radix(value, 16).unwrap_or(0);
            match name {
                "Uid" => status.uid = effective(value),
                "Gid" => status.groups.extend(effective(value)),
                "Groups" => {
                    status.groups.extend(value.split_ascii_whitespace().filter_map(|id| id.parse::<u32>().ok()));
                }
                "CapPrm" => status.capabilities[0] = mask(),
                "CapEff" => status.capabilities[1] = mask(),
                "CapBnd" => status.flags.bounding = mask(),
                "NoNewPrivs" => status.flags.no_new_privs = number() != 0,
                "NSpid" => status.pids = value.split_ascii_whitespace().count(),
                "Seccomp" => status.flags.seccomp_mode = number(),
                "Seccomp_filters" => status.flags.seccomp_filters = number(),
                _ => {}
            }
        }
        status.groups.sort_unstable();
        status
    }
}

/// The effective one of the four ids in a line: the second.
fn effective(value: &str) -> Option<u32> {
    value.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{scratch::Scratch, socket};
    use std::process::{Command, Stdio};

    #[test]
    fn fields_are_read_by_their_whole_name() {
        let status = "Name:\tx\nUid:\t1\t2\t3\t4\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t3\n";
        let filtered = Flags { no_new_privs: true, seccomp_mode: 2, seccomp_filters: 3, bounding: 0 };
        assert_eq!(Status::of(status).flags, filtered);
        assert_eq!(Status::of(status).uid, Some(2));
        assert_eq!(Status::of("Name:\tx\n").flags, Flags::default());
        let some = Status::of("Gid:\t7\t8\t7\t7\nGroups:\t9 3 \nCapInh:\t0\nCapBnd:\t000001ffffffffff\nCapEff:\t3\n");
        assert_eq!((some.flags.bounding, some.capabilities, some.groups), (0x01ff_ffff_ffff, [0, 3], vec![3, 8, 9]));
    }

    /// This machine does not let us run a program that way.
    #[derive(Debug, PartialEq)]
    struct CannotWrap;

    /// Runs a waiting cat(1) below `wrap`, which must exec it, and compares it with us.
    fn beyond_of(wrap: &[&str]) -> Result<Option<&'static str>, CannotWrap> {
        let (program, args) = wrap.split_first().unwrap();
        let mut command = Command::new(program);
        command.args(args).args(["sh", "-c", "echo ready; exec cat"]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|_| CannotWrap)?;
        let mut said = [0; 6];
        let ready = io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut said).is_ok();
        let found = Confinement::of(i32::try_from(child.id()).unwrap());
        drop(child.stdin.take());
        child.wait().unwrap();
        if ready { Ok(found.unwrap().beyond(&Confinement::own().unwrap())) } else { Err(CannotWrap) }
    }

    #[test]
    fn a_child_is_as_free_as_we_until_it_gives_something_up() {
        assert_eq!(beyond_of(&["env"]), Ok(None));
        for (wrap, why) in [
            (["setpriv", "--no-new-privs"].as_slice(), NO_NEW_PRIVS),
            (&["unshare", "--mount"], "it is in another mount namespace"),
            (&["unshare", "--net"], "it is in another network namespace"),
            (&["unshare", "--user"], "it is in another user namespace"),
            (&["setpriv", "--bounding-set", "-sys_boot"], FEWER_CAPABILITIES),
            (&["setpriv", "--regid", "4321", "--clear-groups"], FEWER_GROUPS),
        ] {
            // Where this machine does not let us make the namespace, there is nothing to see.
            if let Ok(found) = beyond_of(wrap) {
                assert_eq!(found, Some(why), "{wrap:?}");
            }
        }
    }

    #[test]
    fn what_another_process_may_do_less_is_seen() {
        let own = Confinement::own().unwrap();
        let with = |change: fn(&mut Confinement)| {
            let mut other = own.clone();
            change(&mut other);
            other
        };
        let able = with(|one| one.capabilities = [3, 3]);
        for fewer in [[1, 1], [3, 1]] {
            let weak = Confinement { capabilities: fewer, ..own.clone() };
            assert_eq!(weak.beyond(&able), Some(FEWER_CAPABILITIES));
            assert_eq!((able.beyond(&weak), weak.apart(&able)), (None, None), "it is in the same place");
        }
        let grouped = with(|one| one.groups = vec![4, 27]);
        let alone = with(|one| one.groups = vec![27]);
        assert_eq!((alone.beyond(&grouped), alone.apart(&grouped)), (Some(FEWER_GROUPS), None));
        assert_eq!(grouped.beyond(&alone), None);
        let jailed = with(|one| one.root.1 += 1);
        assert_eq!((jailed.beyond(&own), jailed.apart(&own)), (Some(OTHER_ROOT), Some(OTHER_ROOT)));
    }

    #[test]
    fn a_caller_in_another_root_folder_is_seen() {
        // Only root may; elsewhere there is nothing to see.
        let Ok(found) = beyond_of(&["unshare", "--root=/usr"]) else { return };
        assert_eq!(found, Some(OTHER_ROOT));
    }

    #[test]
    fn another_user_is_more_confined_whoever_it_is() {
        let own = Confinement::own().unwrap();
        let other = Confinement { uid: own.uid + 1, ..own.clone() };
        assert_eq!(other.beyond(&own), Some("it runs as another user"));
        assert_eq!(own.beyond(&own), None);
    }

    #[test]
    fn a_peer_is_read_through_its_connection() {
        let scratch = Scratch::new();
        let listener = socket::listen(scratch.path(), "s").unwrap();
        let client = socket::connect(scratch.path(), "s", std::time::Duration::from_secs(30)).unwrap();
        let (server, _) = listener.accept().unwrap();
        for end in [&client, &server] {
            let peer = socket::peer(end).unwrap();
            assert_eq!(Confinement::of_peer(&peer).unwrap(), Confinement::own().unwrap());
        }
        let hidden = Peer { pid: 0, ..socket::peer(&server).unwrap() };
        assert_eq!(Confinement::of_peer(&hidden).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        let dead = Peer { hold: None, ..socket::peer(&server).unwrap() };
        assert_eq!(Confinement::of_peer(&dead).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
