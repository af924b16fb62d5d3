//! System calls of the other machines, through the C library; there the keeper is part of the main binary.

/// One raw system call.
///
/// # Safety
/// The arguments must be right for that call.
pub(super) unsafe fn syscall(number: usize, a: [usize; 6]) -> isize {
    // SAFETY: the caller answers for the arguments.
    let answer = unsafe { libc::syscall(number as libc::c_long, a[0], a[1], a[2], a[3], a[4], a[5]) };
    if answer == -1 {
        // SAFETY: the location is the thread's own.
        return -(unsafe { *libc::__errno_location() } as isize);
    }
    answer as isize
}

/// Not there: sharing memory with a child needs a stack switch in assembly.
///
/// # Safety
/// None is needed.
pub(super) unsafe fn clone_with_memory(
    _number: usize,
    _arguments: [usize; 2],
    _entry: extern "C" fn(*const ()) -> !,
    _argument: *const (),
) -> isize {
    -(libc::ENOSYS as isize)
}

/// Whether [`clone_with_memory`] is there.
pub(super) const CLONES_WITH_MEMORY: bool = false;

/// Not known here.
pub(super) fn stack_pointer() -> usize {
    0
}

/// Numbers of the calls.
pub(super) mod nr {
    macro_rules! numbers {
        ($($name:ident = $sys:ident),+ $(,)?) => { $(pub(crate) const $name: usize = libc::$sys as usize;)+ };
    }
    numbers!(
        READ = SYS_read,
        WRITE = SYS_write,
        CLOSE = SYS_close,
        LSEEK = SYS_lseek,
        MMAP = SYS_mmap,
        MUNMAP = SYS_munmap,
        RT_SIGACTION = SYS_rt_sigaction,
        RT_SIGPROCMASK = SYS_rt_sigprocmask,
        IOCTL = SYS_ioctl,
        PREAD64 = SYS_pread64,
        PWRITE64 = SYS_pwrite64,
        MADVISE = SYS_madvise,
        GETPID = SYS_getpid,
        SENDFILE = SYS_sendfile,
        CLONE = SYS_clone,
        EXECVE = SYS_execve,
        FSTATFS = SYS_fstatfs,
        WAIT4 = SYS_wait4,
        WAITID = SYS_waitid,
        PIPE2 = SYS_pipe2,
        KILL = SYS_kill,
        FCNTL = SYS_fcntl,
        FLOCK = SYS_flock,
        CHDIR = SYS_chdir,
        UMASK = SYS_umask,
        SETSID = SYS_setsid,
        SETPRIORITY = SYS_setpriority,
        PRCTL = SYS_prctl,
        GETDENTS64 = SYS_getdents64,
        CLOCK_GETTIME = SYS_clock_gettime,
        EXIT_GROUP = SYS_exit_group,
        OPENAT = SYS_openat,
        MKDIRAT = SYS_mkdirat,
        UNLINKAT = SYS_unlinkat,
        READLINKAT = SYS_readlinkat,
        RENAMEAT2 = SYS_renameat2,
        STATX = SYS_statx,
        PPOLL = SYS_ppoll,
        SPLICE = SYS_splice,
        FALLOCATE = SYS_fallocate,
        SIGNALFD4 = SYS_signalfd4,
        DUP3 = SYS_dup3,
        PRLIMIT64 = SYS_prlimit64,
        PIDFD_SEND_SIGNAL = SYS_pidfd_send_signal,
        PIDFD_OPEN = SYS_pidfd_open,
        CLONE3 = SYS_clone3,
        CLOSE_RANGE = SYS_close_range,
        SECCOMP = SYS_seccomp,
        LANDLOCK_CREATE_RULESET = SYS_landlock_create_ruleset,
        LANDLOCK_ADD_RULE = SYS_landlock_add_rule,
        LANDLOCK_RESTRICT_SELF = SYS_landlock_restrict_self,
    );
}
