//! Giving up rights for good: Landlock (landlock(7), Linux 5.13), `no_new_privs` (prctl(2)) and a mark that others can see.

use super::{Fd, Result, call, nr};

/// What a rule can allow below a folder or on a file, and a ruleset can refuse (`linux/landlock.h`).
pub(crate) mod access {
    pub(crate) const WRITE_FILE: u64 = 1 << 1;
    const REMOVE_DIR: u64 = 1 << 4;
    const REMOVE_FILE: u64 = 1 << 5;
    /// Devices, directories, files, sockets, FIFOs, block devices, symbolic links: bits 6 to 12.
    const MAKE: u64 = 0x7f << 6;
    /// Linking and renaming from one directory into another; from version 2 on.
    const REFER: u64 = 1 << 13;
    /// From version 3 on.
    pub(crate) const TRUNCATE: u64 = 1 << 14;
    /// From version 5 on.
    pub(crate) const IOCTL_DEV: u64 = 1 << 15;

    /// Everything that writes, as far as version `abi` knows it.
    pub(crate) fn writing(abi: u32) -> u64 {
        let refer = if abi >= 2 { REFER } else { 0 };
        WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE | refer | on_files(abi)
    }

    /// What of it can be allowed on something that is no directory.
    pub(crate) fn on_files(abi: u32) -> u64 {
        let truncate = if abi >= 3 { TRUNCATE } else { 0 };
        let ioctl = if abi >= 5 { IOCTL_DEV } else { 0 };
        WRITE_FILE | truncate | ioctl
    }
}

/// Signals and abstract sockets of processes outside (`LANDLOCK_SCOPE_*`); from version 6 on.
const SCOPES: u64 = 0b11;

/// The version of Landlock that this kernel has. ENOSYS: it has none; EOPNOTSUPP: it was not switched on at boot.
pub(crate) fn abi() -> Result<u32> {
    const VERSION: usize = 1;
    // SAFETY: no attributes are given, as the flag demands.
    unsafe { call(nr::LANDLOCK_CREATE_RULESET, [0, 0, VERSION]) }.map(|version| version as u32)
}

/// A set of rules for everything that writes and, where the kernel knows that, for reaching processes outside.
pub(crate) fn ruleset(abi: u32) -> Result<Fd> {
    // `struct landlock_ruleset_attr`: file system, network (none is refused), scopes. An older kernel takes less of it.
    let words = [access::writing(abi), 0, if abi >= 6 { SCOPES } else { 0 }];
    let known = match abi {
        0..=3 => 1,
        4 | 5 => 2,
        _ => 3,
    };
    let size = known * size_of::<u64>();
    // SAFETY: the words live until the call is over, and are at least as long as is said.
    unsafe { call(nr::LANDLOCK_CREATE_RULESET, [words.as_ptr() as usize, size, 0]) }.map(Fd::owned)
}

/// Allows `access` on `place` and below it.
pub(crate) fn allow(ruleset: &Fd, place: &Fd, access: u64) -> Result<()> {
    allow_number(ruleset, place.number(), access)
}

/// The same for the file that descriptor `number` has open.
pub(crate) fn allow_number(ruleset: &Fd, number: i32, access: u64) -> Result<()> {
    const PATH_BENEATH: usize = 1;
    // `struct landlock_path_beneath_attr`, packed: 64 bits of rights, 32 bits of a descriptor.
    let mut rule = [0_u8; 12];
    rule[..8].copy_from_slice(&access.to_ne_bytes());
    rule[8..].copy_from_slice(&number.to_ne_bytes());
    let arguments = [ruleset.number() as usize, PATH_BENEATH, rule.as_ptr() as usize, 0];
    // SAFETY: the rule lives until the call is over.
    unsafe { call(nr::LANDLOCK_ADD_RULE, arguments) }.map(drop)
}

/// Puts this thread, and everything that comes of it, under these rules. Wants [`give_up_privileges`] before.
pub(crate) fn restrict(ruleset: &Fd) -> Result<()> {
    // SAFETY: plain numbers.
    unsafe { call(nr::LANDLOCK_RESTRICT_SELF, [ruleset.number() as usize, 0]) }.map(drop)
}

/// From now on no program gives this process, or what comes of it, more rights (prctl(2), `PR_SET_NO_NEW_PRIVS`).
pub(crate) fn give_up_privileges() -> Result<()> {
    const PR_SET_NO_NEW_PRIVS: usize = 38;
    // SAFETY: plain numbers.
    unsafe { call(nr::PRCTL, [PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0]) }.map(drop)
}

/// Puts a seccomp filter on this process that allows everything: one more in `/proc/PID/status` than its starter has.
///
/// Landlock shows nowhere, and `no_new_privs` tells nothing where everybody has it.
pub(crate) fn mark() -> Result<()> {
    const SET_MODE_FILTER: usize = 1;
    /// Without it kernels before 5.16 slow the process down.
    const SPEC_ALLOW: usize = 1 << 2;
    /// `struct sock_filter`: code 6 (`BPF_RET | BPF_K`), no jumps, and the value (`SECCOMP_RET_ALLOW`).
    #[repr(C)]
    struct Filter(u16, u8, u8, u32);
    /// `struct sock_fprog`.
    #[repr(C)]
    struct Program(u16, *const Filter);
    let filter = Filter(6, 0, 0, 0x7fff_0000);
    let program = Program(1, &raw const filter);
    // SAFETY: filter and program live until the call is over.
    unsafe { call(nr::SECCOMP, [SET_MODE_FILTER, SPEC_ALLOW, (&raw const program) as usize]) }.map(drop)
}
