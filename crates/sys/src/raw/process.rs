//! Processes: making, executing, waiting, signalling.

use core::ffi::CStr;

use super::memory::Mapping;
use super::{Errno, Fd, Result, arch, call, nr};

/// The process id of this process.
pub(crate) fn id() -> i32 {
    // SAFETY: no arguments.
    unsafe { call(nr::GETPID, []) }.map_or(0, |pid| pid as i32)
}

/// Ends this process.
pub(crate) fn exit(code: i32) -> ! {
    loop {
        // SAFETY: plain number; does not come back.
        let _ = unsafe { call(nr::EXIT_GROUP, [code as usize]) };
    }
}

const SIGCHLD: usize = 17;
const CLONE_VM: usize = 0x100;
const CLONE_VFORK: usize = 0x4000;

/// Runs `entry(argument)` in a child; comes back when the child has executed a program or is gone.
///
/// The child may share this process's memory, so `entry` must end by execve(2) or exit and free nothing of ours.
pub(crate) fn vfork<T>(entry: extern "C" fn(*const ()) -> !, argument: &T, stack: &Mapping) -> Result<i32> {
    let argument = (&raw const *argument).cast();
    if arch::CLONES_WITH_MEMORY {
        let arguments = [CLONE_VM | CLONE_VFORK | SIGCHLD, stack.end() as usize];
        // SAFETY: the mapping is page aligned, and nobody but the child uses it while this process is stopped.
        let answer = unsafe { arch::clone_with_memory(nr::CLONE, arguments, entry, argument) };
        return if answer < 0 { Err(Errno(-answer as i32)) } else { Ok(answer as i32) };
    }
    // SAFETY: without CLONE_VM the child has a copy of everything, this stack too.
    match unsafe { call(nr::CLONE, [CLONE_VFORK | SIGCHLD, 0, 0, 0, 0]) }? {
        0 => entry(argument),
        pid => Ok(pid as i32),
    }
}

/// As [`vfork`], with the child in that cgroup from its first moment (clone3(2), `CLONE_INTO_CGROUP`, Linux 5.7).
pub(crate) fn vfork_into<T>(
    cgroup: &Fd,
    entry: extern "C" fn(*const ()) -> !,
    argument: &T,
    stack: &Mapping,
) -> Result<i32> {
    const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
    if !arch::CLONES_WITH_MEMORY {
        return Err(Errno::ENOSYS);
    }
    // `struct clone_args`: flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid,
    // set_tid_size, cgroup.
    let mut words = [0_u64; 11];
    words[0] = (CLONE_VM | CLONE_VFORK) as u64 | CLONE_INTO_CGROUP;
    words[4] = SIGCHLD as u64;
    words[5] = stack.bytes().as_ptr() as u64;
    words[6] = stack.bytes().len() as u64;
    words[10] = cgroup.number() as u64;
    let arguments = [words.as_ptr() as usize, size_of_val(&words)];
    // SAFETY: the words live until the call is over; the mapping is page aligned, and nobody but the child uses it while
    // this process is stopped.
    let answer = unsafe { arch::clone_with_memory(nr::CLONE3, arguments, entry, (&raw const *argument).cast()) };
    if answer < 0 { Err(Errno(-answer as i32)) } else { Ok(answer as i32) }
}

/// Executes a program; comes back only with the error.
///
/// # Safety
/// `arguments` and `environment` must point to arrays of NUL-terminated strings that end with a null pointer.
pub(crate) unsafe fn execute(path: &CStr, arguments: *const usize, environment: *const usize) -> Errno {
    // SAFETY: the caller answers for the arrays.
    let answer = unsafe { call(nr::EXECVE, [path.as_ptr() as usize, arguments as usize, environment as usize]) };
    answer.err().unwrap_or(Errno::EINVAL)
}

/// CPU time and memory of a process that was waited for.
#[derive(Clone, Copy, Default)]
pub(crate) struct Usage {
    pub(crate) user_us: u64,
    pub(crate) system_us: u64,
    pub(crate) max_rss_kb: u64,
}

impl Usage {
    /// From the words of `struct rusage`.
    fn of(words: &[u64; 18]) -> Self {
        Self {
            user_us: words[0] * 1_000_000 + words[1],
            system_us: words[2] * 1_000_000 + words[3],
            max_rss_kb: words[4],
        }
    }
}

/// The status word and the usage of a child of ours that has ended, without reaping it (waitid(2), `WNOWAIT`).
///
/// So its end can be recorded first: if this process dies in between, the next parent still finds the zombie.
pub(crate) fn peek(pid: i32) -> Option<(i32, Usage)> {
    const P_PID: usize = 1;
    const EXITED_NOHANG_NOWAIT: usize = 4 | 1 | 0x0100_0000;
    const CLD_EXITED: i32 = 1;
    const CLD_DUMPED: i32 = 3;
    let mut info = [0_i32; 32];
    let mut usage = [0_u64; 18];
    let places = (info.as_mut_ptr() as usize, usage.as_mut_ptr() as usize);
    // SAFETY: info (`siginfo_t`, 128 bytes) and usage (`struct rusage`, 144 bytes) live until the call is over.
    unsafe { call(nr::WAITID, [P_PID, pid as usize, places.0, EXITED_NOHANG_NOWAIT, places.1]) }.ok()?;
    let [_, _, code, _, ended, _, status, ..] = info;
    if ended != pid {
        return None;
    }
    let word = match code {
        CLD_EXITED => status << 8,
        CLD_DUMPED => status | 0x80,
        _ => status,
    };
    Some((word, Usage::of(&usage)))
}

/// Whether a child of ours was stopped (`true`) or continued since the last look, the later of both (waitid(2)).
pub(crate) fn pause(pid: i32) -> Option<bool> {
    const P_PID: usize = 1;
    const STOPPED_CONTINUED_NOHANG: usize = 2 | 8 | 1;
    const CLD_CONTINUED: i32 = 6;
    let mut last = None;
    loop {
        let mut info = [0_i32; 32];
        let place = info.as_mut_ptr() as usize;
        // SAFETY: info (`siginfo_t`, 128 bytes) lives until the call is over; no usage is asked for.
        let answer = unsafe { call(nr::WAITID, [P_PID, pid as usize, place, STOPPED_CONTINUED_NOHANG, 0]) };
        let [_, _, code, _, who, ..] = info;
        if answer.is_err() || who != pid {
            return last;
        }
        last = Some(code != CLD_CONTINUED);
    }
}

/// What [`reap`] found.
pub(crate) enum Reaped {
    /// This child ended with this status word.
    Ended { pid: i32, status: i32 },
    /// The spared one has ended, and was left as it is.
    Spared,
    /// There are children, all alive.
    AllAlive,
    /// There are no children.
    NoChildren,
}

/// Waits for any child that has ended, without blocking (wait4(2)), but for the one that is `spared`.
///
/// Who has ended is looked up first (`WNOWAIT`): a wait for any child would also take the one whose end has to be recorded
/// before it is reaped, when it ends between the caller's look and the wait.
pub(crate) fn reap(spared: i32) -> Reaped {
    const P_ALL: usize = 0;
    const EXITED_NOHANG_NOWAIT_ALL: usize = 4 | 1 | 0x0100_0000 | 0x4000_0000; // the last is __WALL
    const NOHANG_ALL: usize = 1 | 0x4000_0000;
    loop {
        let mut info = [0_i32; 32];
        let place = info.as_mut_ptr() as usize;
        // SAFETY: info (`siginfo_t`, 128 bytes) lives until the call is over; no usage is asked for.
        match unsafe { call(nr::WAITID, [P_ALL, 0, place, EXITED_NOHANG_NOWAIT_ALL, 0]) } {
            Err(Errno::EINTR) => continue,
            Err(_) => return Reaped::NoChildren,
            Ok(_) => {}
        }
        let [_, _, _, _, pid, ..] = info;
        if pid == 0 {
            return Reaped::AllAlive;
        }
        if pid == spared {
            return Reaped::Spared;
        }
        let mut status = 0_i32;
        // SAFETY: the status lives until the call is over; no usage is asked for.
        match unsafe { call(nr::WAIT4, [pid as usize, &raw mut status as usize, NOHANG_ALL, 0]) } {
            Ok(0) | Err(Errno::EINTR) => {}
            Ok(pid) => return Reaped::Ended { pid: pid as i32, status },
            Err(_) => return Reaped::NoChildren,
        }
    }
}

/// Signals a process by number; only for our own children that were not waited for, and for process groups.
pub(crate) fn kill(pid: i32, signal: i32) -> Result<()> {
    // SAFETY: plain numbers.
    unsafe { call(nr::KILL, [pid as usize, signal as usize]) }.map(drop)
}

/// A handle that cannot come to mean another process (`pidfd_open(2)`, Linux 5.3).
pub(crate) fn handle(pid: i32) -> Result<Fd> {
    // SAFETY: plain numbers.
    unsafe { call(nr::PIDFD_OPEN, [pid as usize, 0]) }.map(Fd::owned)
}

/// Signals the process of a handle.
pub(crate) fn kill_handle(handle: &Fd, signal: i32) -> Result<()> {
    // SAFETY: plain numbers and no siginfo.
    unsafe { call(nr::PIDFD_SEND_SIGNAL, [handle.number() as usize, signal as usize, 0, 0]) }.map(drop)
}

/// The status word of a process that somebody else has already waited for (`PIDFD_INFO_EXIT`, Linux 6.15).
pub(crate) fn status_of_handle(handle: &Fd) -> Option<i32> {
    const GET_INFO: usize = 0xC040_FF0B; // _IOWR(0xFF, 11, struct pidfd_info), 64 bytes
    const WANT_EXIT: u32 = 1 << 3;
    let mut info = [0_u32; 16];
    info[0] = WANT_EXIT;
    // SAFETY: the kernel writes at most the 64 bytes that the number of the call names.
    unsafe { call(nr::IOCTL, [handle.number() as usize, GET_INFO, info.as_mut_ptr() as usize]) }.ok()?;
    (info[0] & WANT_EXIT != 0).then_some(info[15] as i32)
}

/// Starts a session and a process group of its own.
pub(crate) fn new_session() {
    // SAFETY: no arguments. A process that already leads a group keeps it.
    let _ = unsafe { call(nr::SETSID, []) };
}

/// Makes orphans below this process its children (prctl(2), `PR_SET_CHILD_SUBREAPER`, Linux 3.4).
pub(crate) fn become_subreaper() {
    const PR_SET_CHILD_SUBREAPER: usize = 36;
    // SAFETY: plain numbers.
    let _ = unsafe { call(nr::PRCTL, [PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0]) };
}

/// Lets every process of the same user look into this one, as without the Yama module (prctl(2), `PR_SET_PTRACER`).
pub(crate) fn allow_tracers() {
    const PR_SET_PTRACER: usize = 0x5961_6d61;
    const ANY: usize = usize::MAX;
    // SAFETY: plain numbers. Where there is no Yama this is an error that changes nothing.
    let _ = unsafe { call(nr::PRCTL, [PR_SET_PTRACER, ANY, 0, 0, 0]) };
}

/// Sets the name that `ps` shows (prctl(2), `PR_SET_NAME`).
pub(crate) fn set_name(name: &CStr) {
    const PR_SET_NAME: usize = 15;
    // SAFETY: the name ends with NUL; the kernel copies at most 16 bytes.
    let _ = unsafe { call(nr::PRCTL, [PR_SET_NAME, name.as_ptr() as usize, 0, 0, 0]) };
}

/// Changes the working directory.
pub(crate) fn change_directory(path: &CStr) -> Result<()> {
    // SAFETY: `path` ends with NUL and outlives the call.
    unsafe { call(nr::CHDIR, [path.as_ptr() as usize]) }.map(drop)
}

/// Sets the file mode creation mask.
pub(crate) fn set_umask(mask: u32) {
    // SAFETY: plain number.
    let _ = unsafe { call(nr::UMASK, [mask as usize]) };
}

/// Sets the nice value; only root can go below the present one, and then the present one stays.
pub(crate) fn set_nice(nice: i32) {
    const PROCESS: usize = 0;
    // SAFETY: plain numbers.
    let _ = unsafe { call(nr::SETPRIORITY, [PROCESS, 0, nice as usize]) };
}

/// Sets a soft resource limit, as far as the hard one allows (prlimit(2)).
pub(crate) fn set_limit(resource: usize, soft: u64) {
    let mut pair = [0_u64; 2];
    // SAFETY: the pair (`struct rlimit64`) lives until the call is over.
    let asked = unsafe { call(nr::PRLIMIT64, [0, resource, 0, pair.as_mut_ptr() as usize]) };
    let soft = soft.min(pair[1]);
    if asked.is_ok() && soft != pair[0] {
        pair[0] = soft;
        // SAFETY: the pair lives until the call is over.
        let _ = unsafe { call(nr::PRLIMIT64, [0, resource, pair.as_ptr() as usize, 0]) };
    }
}

/// Lowers a resource limit of this process, the hard one too, so that its own program cannot take it back (prlimit(2)).
pub(crate) fn lower_limit(resource: usize, limit: u64) -> Result<()> {
    let mut pair = [0_u64; 2];
    // SAFETY: the pair (`struct rlimit64`) lives until the call is over.
    unsafe { call(nr::PRLIMIT64, [0, resource, 0, pair.as_mut_ptr() as usize]) }?;
    pair = pair.map(|present| present.min(limit));
    // SAFETY: the pair lives until the call is over.
    unsafe { call(nr::PRLIMIT64, [0, resource, pair.as_ptr() as usize, 0]) }.map(drop)
}
