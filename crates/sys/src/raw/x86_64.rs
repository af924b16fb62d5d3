//! System calls of `x86_64` (syscall(2): number in rax, arguments in rdi, rsi, rdx, r10, r8, r9).

use core::arch::asm;

/// One raw system call.
///
/// # Safety
/// The arguments must be right for that call.
#[inline]
pub(super) unsafe fn syscall(number: usize, a: [usize; 6]) -> isize {
    let answer;
    // SAFETY: the kernel keeps all registers but rax, rcx and r11; the caller answers for the arguments.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => answer,
            in("rdi") a[0], in("rsi") a[1], in("rdx") a[2], in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _,
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
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r13",
            "call r12",
            "ud2",
            "2:",
            inlateout("rax") number => answer,
            in("rdi") first, in("rsi") second, in("rdx") 0, in("r10") 0, in("r8") 0,
            in("r12") entry, in("r13") argument,
            lateout("rcx") _, lateout("r11") _,
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
    unsafe { asm!("mov {}, rsp", out(reg) pointer, options(nomem, nostack, preserves_flags)) };
    pointer
}

/// Numbers of the calls (`arch/x86/entry/syscalls/syscall_64.tbl`).
pub(super) mod nr {
    pub(crate) const READ: usize = 0;
    pub(crate) const WRITE: usize = 1;
    pub(crate) const CLOSE: usize = 3;
    pub(crate) const LSEEK: usize = 8;
    pub(crate) const MMAP: usize = 9;
    pub(crate) const MUNMAP: usize = 11;
    pub(crate) const RT_SIGACTION: usize = 13;
    pub(crate) const RT_SIGPROCMASK: usize = 14;
    pub(crate) const IOCTL: usize = 16;
    pub(crate) const PREAD64: usize = 17;
    pub(crate) const PWRITE64: usize = 18;
    pub(crate) const MADVISE: usize = 28;
    pub(crate) const GETPID: usize = 39;
    pub(crate) const SENDFILE: usize = 40;
    pub(crate) const CLONE: usize = 56;
    pub(crate) const EXECVE: usize = 59;
    pub(crate) const WAIT4: usize = 61;
    pub(crate) const KILL: usize = 62;
    pub(crate) const FCNTL: usize = 72;
    pub(crate) const FLOCK: usize = 73;
    pub(crate) const CHDIR: usize = 80;
    pub(crate) const UMASK: usize = 95;
    pub(crate) const SETSID: usize = 112;
    pub(crate) const FSTATFS: usize = 138;
    pub(crate) const SETPRIORITY: usize = 141;
    pub(crate) const PRCTL: usize = 157;
    pub(crate) const GETDENTS64: usize = 217;
    pub(crate) const CLOCK_GETTIME: usize = 228;
    pub(crate) const EXIT_GROUP: usize = 231;
    pub(crate) const WAITID: usize = 247;
    pub(crate) const OPENAT: usize = 257;
    pub(crate) const MKDIRAT: usize = 258;
    pub(crate) const UNLINKAT: usize = 263;
    pub(crate) const READLINKAT: usize = 267;
    pub(crate) const PPOLL: usize = 271;
    pub(crate) const SPLICE: usize = 275;
    pub(crate) const FALLOCATE: usize = 285;
    pub(crate) const SIGNALFD4: usize = 289;
    pub(crate) const DUP3: usize = 292;
    pub(crate) const PIPE2: usize = 293;
    pub(crate) const PRLIMIT64: usize = 302;
    pub(crate) const RENAMEAT2: usize = 316;
    pub(crate) const SECCOMP: usize = 317;
    pub(crate) const STATX: usize = 332;
    pub(crate) const PIDFD_SEND_SIGNAL: usize = 424;
    pub(crate) const PIDFD_OPEN: usize = 434;
    pub(crate) const CLONE3: usize = 435;
    pub(crate) const CLOSE_RANGE: usize = 436;
    pub(crate) const LANDLOCK_CREATE_RULESET: usize = 444;
    pub(crate) const LANDLOCK_ADD_RULE: usize = 445;
    pub(crate) const LANDLOCK_RESTRICT_SELF: usize = 446;
}
