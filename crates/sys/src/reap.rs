//! Taking in the dead: as a subreaper, by wait(2), and by the word of a zombie.

use std::{fs, io};

use crate::identity::{self, Who};

/// Makes this process the one that orphans below it come back to (prctl(2), Linux 3.4).
pub fn become_subreaper() -> io::Result<()> {
    // Any number but zero switches it on.
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

/// The pid of one dead child that was not taken in yet; nothing if none is dead or there is none.
///
/// Until [`take_in`] the pid is given to nobody else, so what is asked of `/proc` is about this child.
pub fn dead_child() -> io::Result<Option<i32>> {
    look_for_child(libc::WEXITED | libc::WNOWAIT)
}

/// The pid of one child that was stopped (SIGSTOP) since this was last asked; each stop is told once.
pub fn stopped_child() -> io::Result<Option<i32>> {
    look_for_child(libc::WSTOPPED)
}

fn look_for_child(what: libc::c_int) -> io::Result<Option<i32>> {
    // SAFETY: all zeros are a valid `siginfo_t`.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: `info` is valid for the write.
    if unsafe { libc::waitid(libc::P_ALL, 0, &raw mut info, what | libc::WNOHANG) } == -1 {
        return match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::ECHILD) => Ok(None),
            error => Err(error),
        };
    }
    // SAFETY: waitid(2) leaves the pid 0 where there is none, and fills it in otherwise.
    let pid = unsafe { info.si_pid() };
    Ok((pid != 0).then_some(pid))
}

/// All our children, the dead that were not taken in among them.
pub fn children() -> io::Result<Vec<i32>> {
    let mut pids = Vec::new();
    // Each thread has its own (proc(5)); an orphan comes to any of them.
    for thread in fs::read_dir("/proc/self/task")?.flatten() {
        let list = fs::read_to_string(thread.path().join("children"))?;
        pids.extend(list.split_ascii_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
    }
    Ok(pids)
}

/// Takes in this dead child, as the status word of wait(2); nothing if it is not dead, or not ours.
pub fn take_in(pid: i32) -> io::Result<Option<i32>> {
    let mut status = 0;
    // SAFETY: `status` is valid for the write.
    match unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) } {
        0 => Ok(None),
        -1 => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::ECHILD) => Ok(None),
            error => Err(error),
        },
        _ => Ok(Some(status)),
    }
}

/// The status word that a zombie carries until its parent takes it in: field 52 of `/proc/PID/stat`.
///
/// Nothing if this very process is not a zombie or we may not see it.
pub fn zombie_status(who: Who) -> Option<i32> {
    zombie_field(who)?;
    // To one who may not trace the process, the field reads 0 (proc(5), marked [PT]): a killed program of another user
    // would seem to have succeeded. Reading a namespace link needs the same permission, so it tells the two apart.
    // Looked at between two identical readings, so it is about this process and no other.
    fs::read_link(format!("/proc/{}/ns/user", who.pid)).ok()?;
    zombie_field(who)
}

fn zombie_field(who: Who) -> Option<i32> {
    let line = identity::read_stat(who.pid).ok()?;
    let stat = identity::parse_stat(&line)?;
    if stat.who() != who || stat.state != b'Z' {
        return None;
    }
    // The iterator starts at field 3, so field 52 is 49 further on.
    identity::fields(&line)?.nth(49)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        pidfd::PidFd,
        scratch::alone,
        watch::{For, poll},
    };
    use std::{
        os::fd::AsFd as _,
        process::{Command, Stdio},
    };

    #[test]
    fn an_orphan_comes_back_to_the_subreaper_with_its_status() {
        if !alone("reap::tests::an_orphan_comes_back_to_the_subreaper_with_its_status") {
            return;
        }
        assert_eq!(dead_child().unwrap(), None, "no child at all");
        become_subreaper().unwrap();
        // The shell starts a grandchild in the background, names it, and leaves it.
        let script = "exec 3<&0; (read x <&3; exit 7) & echo $!";
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        let mut told = String::new();
        io::BufRead::read_line(&mut io::BufReader::new(shell.stdout.take().unwrap()), &mut told).unwrap();
        let orphan: i32 = told.trim().parse().unwrap();
        let pidfd = PidFd::open(identity::who(orphan).unwrap()).unwrap();
        // wait() would close our end of the pipe, which the orphan waits at.
        let end = shell.stdin.take();
        assert_eq!(shell.wait().unwrap().code(), Some(0));
        assert_eq!(dead_child().unwrap(), None, "it still runs");
        assert_eq!(take_in(orphan).unwrap(), None, "it still runs");
        drop(end);
        poll(&[(pidfd.as_fd(), For::Read)], None).unwrap();
        assert_eq!(dead_child().unwrap(), Some(orphan));
        assert_eq!(take_in(orphan).unwrap(), Some(7 << 8));
        assert_eq!(dead_child().unwrap(), None);
    }

    #[test]
    fn a_zombie_tells_its_status_and_a_living_process_does_not() {
        for (script, status) in [("read x; exit 42", 42 << 8), ("read x; kill -9 $$", 9), ("read x", 1 << 8)] {
            let mut child = Command::new("/bin/sh").args(["-c", script]).stdin(Stdio::piped()).spawn().unwrap();
            let who = identity::who(i32::try_from(child.id()).unwrap()).unwrap();
            let pidfd = PidFd::open(who).unwrap();
            assert_eq!(zombie_status(who), None, "alive");
            drop(child.stdin.take());
            poll(&[(pidfd.as_fd(), For::Read)], None).unwrap();
            assert_eq!(zombie_status(who), Some(status), "{script}");
            assert_eq!(zombie_status(Who { start_ticks: who.start_ticks + 1, ..who }), None, "another one");
            child.wait().unwrap();
            assert_eq!(zombie_status(who), None, "reaped");
        }
    }
}
