//! System calls of `aarch64` (syscall(2): number in x8, arguments in x0 to x5).

use core::arch::asm;

/// One raw system call.
///
/// # Safety
/// The arguments must be right for that call.
#[inline]
pub(super) unsafe fn syscall(number: usize, a: [usize; 6]) -> isize {
    let answer;
    // SAFETY: the kernel keeps all registers but x0; the caller answers for the arguments.
    unsafe {
        asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") a[0] as isize => answer,
            in("x1") a[1], in("x2") a[2], in("x3") a[3], in("x4") a[4], in("x5") a[5],
            options(nostack),
        );
    }
    answer
}

/// Makes a process that shares this one's memory, runs `entry(argument)` on its own stack, and stops this one until it
/// has executed a program or is gone: by system call `number`, clone(2) or clone3(2) with `CLONE_VM | CLONE_VFORK`, and
/// its first two arguments.
///
/// # Safety
/// The stack that the arguments name must be unused writable memory with a 16-byte aligned end, large enough for `entry`.
pub(super) unsafe fn clone_with_memory(
    number: usize,
    [first, second]: [usize; 2],
    entry: extern "C" fn(*const ()) -> !,
    argument: *const (),
) -> isize {
    let answer;
    // SAFETY: the child comes back with the parent's registers but its own stack, on which it only calls `entry`.
    unsafe {
        asm!(
            "svc 0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x0, x21",
            "blr x20",
            "brk 1",
            "2:",
            in("x8") number,
            inlateout("x0") first as isize => answer,
            in("x1") second, in("x2") 0, in("x3") 0, in("x4") 0,
            in("x20") entry, in("x21") argument,
        );
    }
    answer
}

/// Whether [`clone_with_memory`] is there.
pub(super) const CLONES_WITH_MEMORY: bool = true;

/// Where the stack ends now.
#[inline]
pub(super) fn stack_pointer() -> usize {
    let pointer;
    // SAFETY: only reads the register.
    unsafe { asm!("mov {}, sp", out(reg) pointer, options(nomem, nostack, preserves_flags)) };
    pointer
}

/// Numbers of the calls (`include/uapi/asm-generic/unistd.h`).
pub(super) mod nr {
    pub(crate) const DUP3: usize = 24;
    pub(crate) const FCNTL: usize = 25;
    pub(crate) const IOCTL: usize = 29;
    pub(crate) const FLOCK: usize = 32;
    pub(crate) const MKDIRAT: usize = 34;
    pub(crate) const UNLINKAT: usize = 35;
    pub(crate) const FSTATFS: usize = 44;
    pub(crate) const FALLOCATE: usize = 47;
    pub(crate) const CHDIR: usize = 49;
    pub(crate) const WAITID: usize = 95;
    pub(crate) const OPENAT: usize = 56;
    pub(crate) const CLOSE: usize = 57;
    pub(crate) const PIPE2: usize = 59;
    pub(crate) const GETDENTS64: usize = 61;
    pub(crate) const LSEEK: usize = 62;
    pub(crate) const READ: usize = 63;
    pub(crate) const WRITE: usize = 64;
    pub(crate) const PREAD64: usize = 67;
    pub(crate) const PWRITE64: usize = 68;
    pub(crate) const SENDFILE: usize = 71;
    pub(crate) const PPOLL: usize = 73;
    pub(crate) const SIGNALFD4: usize = 74;
    pub(crate) const SPLICE: usize = 76;
    pub(crate) const READLINKAT: usize = 78;
    pub(crate) const EXIT_GROUP: usize = 94;
    pub(crate) const CLOCK_GETTIME: usize = 113;
    pub(crate) const KILL: usize = 129;
    pub(crate) const RT_SIGACTION: usize = 134;
    pub(crate) const RT_SIGPROCMASK: usize = 135;
    pub(crate) const SETPRIORITY: usize = 140;
    pub(crate) const SETSID: usize = 157;
    pub(crate) const UMASK: usize = 166;
    pub(crate) const PRCTL: usize = 167;
    pub(crate) const GETPID: usize = 172;
    pub(crate) const MUNMAP: usize = 215;
    pub(crate) const CLONE: usize = 220;
    pub(crate) const EXECVE: usize = 221;
    pub(crate) const MMAP: usize = 222;
    pub(crate) const MADVISE: usize = 233;
    pub(crate) const WAIT4: usize = 260;
    pub(crate) const PRLIMIT64: usize = 261;
    pub(crate) const RENAMEAT2: usize = 276;
    pub(crate) const SECCOMP: usize = 277;
    pub(crate) const STATX: usize = 291;
    pub(crate) const PIDFD_SEND_SIGNAL: usize = 424;
    pub(crate) const PIDFD_OPEN: usize = 434;
    pub(crate) const CLONE3: usize = 435;
    pub(crate) const CLOSE_RANGE: usize = 436;
    pub(crate) const LANDLOCK_CREATE_RULESET: usize = 444;
    pub(crate) const LANDLOCK_ADD_RULE: usize = 445;
    pub(crate) const LANDLOCK_RESTRICT_SELF: usize = 446;
}
