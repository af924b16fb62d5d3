//! Error numbers of the kernel (errno(3)), as far as the keeper tells them apart.

/// What a system call answers.
pub(crate) type Result<T> = core::result::Result<T, Errno>;

/// An error number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) i32);

impl Errno {
    pub(crate) const EPERM: Self = Self(1);
    pub(crate) const ENOENT: Self = Self(2);
    pub(crate) const EINTR: Self = Self(4);
    pub(crate) const EIO: Self = Self(5);
    pub(crate) const ENOEXEC: Self = Self(8);
    pub(crate) const EAGAIN: Self = Self(11);
    pub(crate) const EACCES: Self = Self(13);
    pub(crate) const EBUSY: Self = Self(16);
    pub(crate) const EEXIST: Self = Self(17);
    pub(crate) const ENODEV: Self = Self(19);
    pub(crate) const ENOTDIR: Self = Self(20);
    pub(crate) const EINVAL: Self = Self(22);
    pub(crate) const ESPIPE: Self = Self(29);
    pub(crate) const ENOTTY: Self = Self(25);
    pub(crate) const ETXTBSY: Self = Self(26);
    pub(crate) const EPIPE: Self = Self(32);
    pub(crate) const ENOSPC: Self = Self(28);
    pub(crate) const ENOSYS: Self = Self(38);
    pub(crate) const EOPNOTSUPP: Self = Self(95);
    #[cfg(any(front, all(test, target_arch = "x86_64")))]
    pub(crate) const ECONNRESET: Self = Self(104);
    pub(crate) const EDQUOT: Self = Self(122);
}
