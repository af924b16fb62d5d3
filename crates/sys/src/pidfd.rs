//! A process held by a file descriptor: signals and witness that cannot hit a stranger.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
};

use crate::identity::{self, Who};

/// Length of `struct pidfd_info` as first published.
const INFO_BYTES: u32 = 64;
const _: () = assert!(size_of::<Info>() == INFO_BYTES as usize);
/// `PIDFD_GET_INFO` of `linux/pidfd.h`: `_IOWR(0xFF, 11, struct pidfd_info)`, Linux 6.13.
const GET_INFO: u32 = (3 << 30) | (INFO_BYTES << 16) | (0xFF << 8) | 0x0B;
/// `PIDFD_INFO_EXIT`: the wait status of a process that was reaped, Linux 6.15.
const INFO_EXIT: u64 = 1 << 3;

/// `struct pidfd_info`.
#[repr(C)]
#[derive(Default)]
struct Info {
    mask: u64,
    cgroup_id: u64,
    ids: [u32; 11],
    exit_code: i32,
}

/// A process, as long as it is this one. Readable (poll(2)) once the process has ended.
#[derive(Debug)]
pub struct PidFd(OwnedFd);

impl PidFd {
    /// Takes hold of exactly this process; if the pid now belongs to another one, [`io::ErrorKind::NotFound`].
    pub fn open(who: Who) -> io::Result<Self> {
        let pidfd = Self::open_pid(who.pid)?;
        // The pid may have been given away before the open, but not since: so the look comes after it.
        if identity::who(who.pid)? == who { Ok(pidfd) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    /// Like [`PidFd::open`], and one that has ended and waits to be reaped is [`io::ErrorKind::NotFound`] too.
    pub fn open_living(who: Who) -> io::Result<Self> {
        let pidfd = Self::open_pid(who.pid)?;
        let now = identity::stat(who.pid)?;
        if now.who() == who && now.is_alive() { Ok(pidfd) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    /// Takes hold of our child, which cannot be somebody else before we reap it.
    pub fn open_child(pid: i32) -> io::Result<Self> {
        Self::open_pid(pid)
    }

    /// Kills the process group that this child of ours leads. As long as we have not reaped it, the number of the group is its
    /// own; a group that is empty is [`io::ErrorKind::NotFound`].
    pub fn kill_group_of_child(pid: i32) -> io::Result<()> {
        let leader = rustix::process::Pid::from_raw(pid).ok_or(io::ErrorKind::NotFound)?;
        let killed = rustix::process::kill_process_group(leader, rustix::process::Signal::KILL);
        killed.map_err(|error| identity::gone(error.into()))
    }

    /// Takes hold of whichever process has this pid now.
    pub(crate) fn open_pid(pid: i32) -> io::Result<Self> {
        let pid = rustix::process::Pid::from_raw(pid).ok_or(io::ErrorKind::NotFound)?;
        match rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) {
            Ok(fd) => Ok(Self(fd)),
            Err(error) => Err(identity::gone(error.into())),
        }
    }

    pub(crate) fn from_owned(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// Sends a signal; a process that has already ended is [`io::ErrorKind::NotFound`].
    pub fn signal(&self, signal: i32) -> io::Result<()> {
        // SAFETY: no pointer is passed but the null siginfo, which pidfd_send_signal(2) allows.
        let answer = unsafe {
            libc::syscall(libc::SYS_pidfd_send_signal, self.as_raw_fd(), signal, std::ptr::null::<libc::siginfo_t>(), 0)
        };
        if answer == 0 { Ok(()) } else { Err(identity::gone(io::Error::last_os_error())) }
    }

    /// Whether the process has ended (it may still wait to be reaped).
    pub fn has_ended(&self) -> io::Result<bool> {
        Ok(crate::watch::poll(&[(self.as_fd(), crate::watch::For::Read)], Some(std::time::Duration::ZERO))?[0])
    }

    /// The status word of wait(2), once the process was reaped by whoever its parent was.
    ///
    /// Nothing before that, and nothing on a kernel before 6.15, which does not keep it.
    pub fn exit_status(&self) -> io::Result<Option<i32>> {
        let mut info = Info { mask: INFO_EXIT, ..Info::default() };
        // SAFETY: the request's size field is the size of `Info`, and the kernel writes no more than that.
        let answer = unsafe { libc::ioctl(self.as_raw_fd(), libc::Ioctl::from(GET_INFO), &raw mut info) };
        if answer == 0 {
            return Ok((info.mask & INFO_EXIT != 0).then_some(info.exit_code));
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            // An older kernel does not know the request (ENOTTY, EINVAL) or the dead (ESRCH, EREMOTE).
            Some(libc::ENOTTY | libc::EINVAL | libc::ESRCH | libc::EREMOTE) => Ok(None),
            _ => Err(error),
        }
    }
}

impl AsFd for PidFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for PidFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// The process at the other end of a connected socket (`SO_PEERPIDFD`, Linux 6.5), or nothing on an older kernel.
pub(crate) fn of_socket(socket: BorrowedFd<'_>) -> io::Result<Option<PidFd>> {
    // SAFETY: the option is an `int` (unix(7)).
    match unsafe { crate::socket::option::<RawFd>(socket, libc::SO_PEERPIDFD, -1) } {
        // SAFETY: the kernel just made this descriptor for us; nobody else has it.
        Ok(fd) => Ok(Some(PidFd::from_owned(unsafe { OwnedFd::from_raw_fd(fd) }))),
        Err(error) => match error.raw_os_error() {
            // A peer that was reaped already is EINVAL: that is no old kernel, and its pid may be another's by now.
            Some(libc::ENOPROTOOPT) => Ok(None),
            _ => Err(identity::gone(error)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::{For, poll};
    use std::process::{Child, Command, Stdio};

    fn cat() -> (Child, Who) {
        let child = Command::new("/bin/cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let who = identity::who(i32::try_from(child.id()).unwrap()).unwrap();
        (child, who)
    }

    #[test]
    fn a_reused_pid_is_not_opened() {
        let (mut child, who) = cat();
        let stranger = Who { start_ticks: who.start_ticks - 1, ..who };
        assert_eq!(PidFd::open(stranger).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(PidFd::open(Who::default()).unwrap_err().kind(), io::ErrorKind::NotFound);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(PidFd::open(who).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_signal_reaches_it_and_the_status_is_there_once_it_was_reaped() {
        let (mut child, who) = cat();
        let pidfd = PidFd::open(who).unwrap();
        assert!(!pidfd.has_ended().unwrap());
        assert_eq!(pidfd.exit_status().unwrap(), None);
        pidfd.signal(libc::SIGTERM).unwrap();
        assert_eq!(poll(&[(pidfd.as_fd(), For::Read)], None).unwrap(), [true]);
        child.wait().unwrap();
        // 6.15 and later keep the status; an older kernel says nothing rather than something wrong.
        assert!(matches!(pidfd.exit_status().unwrap(), Some(libc::SIGTERM) | None));
        if kernel_keeps_status() {
            assert_eq!(pidfd.exit_status().unwrap(), Some(libc::SIGTERM));
        }
        assert_eq!(pidfd.signal(libc::SIGTERM).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    fn kernel_keeps_status() -> bool {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let mut parts = release.split(['.', '-']).map(|part| part.trim().parse::<u32>().unwrap_or(0));
        (parts.next().unwrap(), parts.next().unwrap()) >= (6, 15)
    }

    #[test]
    fn a_socket_names_the_process_at_its_other_end() {
        let (ours, _theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        if let Some(peer) = of_socket(ours.as_fd()).unwrap() {
            assert!(!peer.has_ended().unwrap());
        }
    }
}
