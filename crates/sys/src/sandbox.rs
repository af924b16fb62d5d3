//! Whether this kernel can hold a command back from writing (landlock(7)).

use std::io;

use crate::form::spec::LANDLOCK_WHOLE;

/// Why there is no whole sandbox here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lack {
    /// The kernel has no Landlock, or it was not switched on at boot.
    Missing,
    /// This version is too old.
    Partial(u32),
}

impl std::fmt::Display for Lack {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing => to.write_str("this kernel has no Landlock, or it is switched off"),
            Self::Partial(abi) => write!(
                to,
                "version {abi} of Landlock, which this kernel has, does not keep files from being shortened; \
                 {LANDLOCK_WHOLE} does"
            ),
        }
    }
}

/// The version of Landlock of this kernel, if it makes a whole sandbox.
#[cfg(target_os = "linux")]
pub fn landlock() -> Result<u32, Lack> {
    match crate::raw::landlock::abi() {
        Ok(abi) if abi >= LANDLOCK_WHOLE => Ok(abi),
        Ok(abi) => Err(Lack::Partial(abi)),
        Err(_) => Err(Lack::Missing),
    }
}

/// There is none.
#[cfg(not(target_os = "linux"))]
pub fn landlock() -> Result<u32, Lack> {
    Err(Lack::Missing)
}

/// Why a sandbox that was asked for is not, or not wholly, there: `abi` is the version that was put on, `errno` what the
/// kernel said.
pub fn lack_of(abi: u32, errno: i32) -> String {
    match (abi, errno) {
        (1.., _) => Lack::Partial(abi).to_string(),
        (0, libc::ENOSYS | libc::EOPNOTSUPP | 0) => Lack::Missing.to_string(),
        (0, errno) => format!("the kernel refused it: {}", io::Error::from_raw_os_error(errno)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandbox_that_is_not_whole_is_called_that() {
        assert!(lack_of(2, 0).starts_with("version 2 of Landlock"));
        assert_eq!(lack_of(0, libc::ENOSYS), Lack::Missing.to_string());
        assert!(lack_of(0, libc::EPERM).contains("not permitted"));
    }
}
