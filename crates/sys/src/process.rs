//! What this process is and has: its session, its limits, its clock, its user.

use std::{
    fs, io,
    os::fd::{AsFd, RawFd},
};

use crate::form::spec::LIMITS;

/// How many descriptors [`raise_fd_limit`] asks for at most: one per live task and client, and room above 10,000.
pub const FDS_MAX: u64 = 65_536;

/// Leaves the session of the caller, so that no terminal of his can signal us (setsid(2)).
pub fn set_own_session() -> io::Result<()> {
    rustix::process::setsid()?;
    Ok(())
}

/// Closes every descriptor above `last`, so that nothing of our starter is kept open (`close_range(2)`, Linux 5.9).
///
/// For the first lines of a program, before it has opened anything that it still wants.
pub fn close_above(last: RawFd) -> io::Result<()> {
    let first = u32::try_from(last + 1).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: no pointers; the caller promises that nothing here still uses those descriptors.
    if unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) } == 0 {
        return Ok(());
    }
    let open: Vec<RawFd> = fs::read_dir("/proc/self/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|fd| *fd > last)
        .collect();
    for fd in open {
        // SAFETY: as above; the listing's own descriptor is closed by now, which close(2) answers with EBADF.
        unsafe { libc::close(fd) };
    }
    Ok(())
}

/// How far the clock that files are stamped by may be behind, milliseconds (`CLOCK_REALTIME_COARSE`, `clock_gettime(2)`): a tick
/// of the kernel, 1 to 10 ms, and what rounding takes.
pub fn stamp_slack_ms() -> i64 {
    let tick = rustix::time::clock_getres(rustix::time::ClockId::RealtimeCoarse);
    tick.tv_nsec / 1_000_000 + tick.tv_sec * 1000 + 1
}

/// Goes by this name from now on, where others see one (`comm`, proc(5)); for the first thread. A sandbox that lets nobody write
/// to `/proc/self/comm` does not keep from it.
pub fn go_by(name: &std::ffi::CStr) {
    // SAFETY: a string that ends with NUL, of which the kernel copies 16 bytes at most (PR_SET_NAME(2const)).
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// Lets everybody else go first (nice value 19); where that is refused, nothing changes.
pub fn be_nice() {
    let _ = rustix::process::setpriority_process(None, 19);
}

/// The nice value of this process, −20 to 19.
pub fn nice() -> i32 {
    rustix::process::getpriority_process(None).unwrap_or(0)
}

/// The soft resource limits of this process by number (getrlimit(2)); no limit is `u64::MAX`.
pub fn soft_limits() -> [u64; LIMITS] {
    let mut limits = [crate::form::spec::LIMIT_KEEP; LIMITS];
    for (number, limit) in (0..).zip(&mut limits) {
        if let Ok(found) = limits_of(number) {
            *limit = found.rlim_cur;
        }
    }
    limits
}

/// Whether a limit of the processes of our user (`RLIMIT_NPROC`, setrlimit(2)) means something to us: the kernel does not hold
/// it against root, nor against who may set any limit.
pub fn is_user_limited() -> bool {
    /// `CAP_SYS_ADMIN` and `CAP_SYS_RESOURCE` (capabilities(7)).
    const UNLIMITED: u64 = 1 << 21 | 1 << 24;
    let own = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let uid = status_value(&own, "Uid:").and_then(|users| users.split_ascii_whitespace().next());
    let capabilities = status_value(&own, "CapEff:").and_then(|mask| u64::from_str_radix(mask, 16).ok());
    uid.is_some_and(|real| real != "0") && capabilities.is_some_and(|mask| mask & UNLIMITED == 0)
}

fn status_value<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// Raises our limit of open descriptors as far as we may, at most to [`FDS_MAX`], and says what it is now.
pub fn raise_fd_limit() -> u64 {
    let Ok(now) = limits_of(libc::RLIMIT_NOFILE) else { return 0 };
    let wanted = now.rlim_max.min(FDS_MAX).max(now.rlim_cur);
    let raised = libc::rlimit { rlim_cur: wanted, rlim_max: now.rlim_max };
    // SAFETY: `raised` is valid for the read.
    let answer = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) };
    if answer == 0 { wanted } else { now.rlim_cur }
}

/// How many descriptors this process has open (`/proc/self/fd`).
pub fn open_fds() -> io::Result<u64> {
    // One of them is the listing's own.
    Ok(fs::read_dir("/proc/self/fd")?.count().saturating_sub(1) as u64)
}

fn limits_of(number: libc::__rlimit_resource_t) -> io::Result<libc::rlimit> {
    let mut found = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `found` is valid for the write; an unknown number gives EINVAL.
    let answer = unsafe { libc::getrlimit(number, &raw mut found) };
    if answer == 0 { Ok(found) } else { Err(io::Error::last_os_error()) }
}

/// The resident memory of this process, in bytes (`/proc/self/statm`, proc(5)).
pub fn rss_bytes() -> io::Result<u64> {
    let statm = fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = statm.split(' ').nth(1).and_then(|n| n.parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
    // SAFETY: a number goes in and comes out.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    Ok(pages * u64::try_from(page_bytes).map_err(|_| io::Error::last_os_error())?)
}

/// `CLOCK_MONOTONIC`, milliseconds: time awake, the same for all processes of one boot.
pub fn monotonic_ms() -> u64 {
    u64::try_from(milliseconds(libc::CLOCK_MONOTONIC)).unwrap_or(0)
}

/// The wall clock, milliseconds after 1970.
pub fn wall_ms() -> i64 {
    milliseconds(libc::CLOCK_REALTIME)
}

/// Asked of the C library: rustix looks for the fast way by itself, with a call and a table of the kernel's that show it a
/// page which is not there under valgrind (prctl(2), `PR_GET_AUXV`, Linux 6.4), and this program's cost is counted there.
fn milliseconds(clock: libc::clockid_t) -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for the write; it fails only for a clock that the kernel does not have (clock_gettime(2)).
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec * 1000 + time.tv_nsec / 1_000_000
}

/// 64 random bits from the kernel (getrandom(2)).
pub fn random_u64() -> io::Result<u64> {
    let mut bytes = [0; 8];
    // Up to 256 bytes come whole and without interruption (getrandom(2)).
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(bytes))
}

/// The user whose rights this process has.
pub fn effective_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Ends this process as `kill -9` does: nothing is flushed, nothing is cleaned up. For tests of what survives that.
pub fn die() -> ! {
    #[expect(clippy::disallowed_methods, reason = "our own pid is given to nobody else while we live")]
    loop {
        // Nobody can refuse to kill themselves; the loop is for the type.
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

/// Whether a descriptor is a terminal.
pub fn is_terminal(fd: impl AsFd) -> bool {
    rustix::termios::isatty(fd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::alone;
    use std::process::Command;

    #[test]
    fn clocks_go_on_and_chance_does_not_repeat() {
        let before = monotonic_ms();
        assert!(before > 0);
        assert!(monotonic_ms() >= before);
        assert!(wall_ms() > 1_700_000_000_000);
        assert_ne!(random_u64().unwrap(), random_u64().unwrap());
    }

    #[test]
    fn nothing_of_the_starter_is_kept() {
        if !alone("process::tests::nothing_of_the_starter_is_kept") {
            return;
        }
        let own = i32::try_from(std::process::id()).unwrap();
        assert_ne!(crate::identity::stat(own).unwrap().session, own);
        set_own_session().unwrap();
        assert_eq!(crate::identity::stat(own).unwrap().session, own);

        let high = rustix::io::fcntl_dupfd_cloexec(fs::File::open("/dev/null").unwrap(), 100).unwrap();
        let open = |fd: RawFd| fs::exists(format!("/proc/self/fd/{fd}")).unwrap();
        let number = std::os::fd::IntoRawFd::into_raw_fd(high);
        assert!(open(number));
        close_above(number).unwrap();
        assert!(open(number));
        close_above(number - 1).unwrap();
        assert!(!open(number));
        assert!(open(2));
    }

    #[test]
    fn limits_are_the_ones_the_shell_would_tell() {
        let limits = soft_limits();
        let told = Command::new("sh").args(["-c", "ulimit -Sn; ulimit -Sc"]).output().unwrap().stdout;
        let told = String::from_utf8(told).unwrap();
        let mut told = told.lines().map(|line| line.parse().unwrap_or(u64::MAX));
        assert_eq!(limits[libc::RLIMIT_NOFILE as usize], told.next().unwrap());
        // `ulimit -c` counts blocks of 512 bytes.
        let core = limits[libc::RLIMIT_CORE as usize];
        assert_eq!(if core == u64::MAX { core } else { core / 512 }, told.next().unwrap());
        assert!(raise_fd_limit() >= limits[libc::RLIMIT_NOFILE as usize]);
    }

    #[test]
    fn we_know_our_size_our_user_and_our_nice_value() {
        assert!(rss_bytes().unwrap() > 100_000);
        let told = |args: &[&str]| String::from_utf8(Command::new(args[0]).args(&args[1..]).output().unwrap().stdout);
        assert_eq!(told(&["id", "-u"]).unwrap().trim(), effective_uid().to_string());
        assert_eq!(told(&["nice"]).unwrap().trim(), nice().to_string());
        assert!(!is_terminal(fs::File::open("/dev/null").unwrap()));
    }
}
