//! Pseudo-terminals (pty(7), `ioctl_tty(2)`).

use super::{Errno, Fd, Result, call, nr};
use crate::form::spec::Size;

/// The numbers below are those of `asm-generic/ioctls.h`; a few machines have others, and get no terminals.
const KNOWN: bool = !cfg!(any(
    target_arch = "mips",
    target_arch = "mips64",
    target_arch = "powerpc",
    target_arch = "powerpc64",
    target_arch = "sparc64"
));

fn control(fd: &Fd, what: usize, argument: usize) -> Result<usize> {
    if !KNOWN {
        return Err(Errno::ENOTTY);
    }
    // SAFETY: every caller gives a plain number, or the address of a value that lives until the call is over and is as
    // large as the kernel takes this one to be.
    unsafe { call(nr::IOCTL, [fd.number() as usize, what, argument]) }
}

/// Whether this is the master of a pseudo-terminal (`TIOCGPTN`).
pub(crate) fn is_master(fd: &Fd) -> bool {
    const TIOCGPTN: usize = 0x8004_5430;
    let mut number = 0_u32;
    control(fd, TIOCGPTN, &raw mut number as usize).is_ok()
}

/// Opens the other side of a master, by no path that somebody could have put something else at (`TIOCGPTPEER`, Linux 4.13).
pub(crate) fn open_peer(master: &Fd) -> Result<Fd> {
    const TIOCGPTPEER: usize = 0x5441;
    const RDWR_NOCTTY_CLOEXEC: usize = 0o2 | 0o400 | 0o2_000_000;
    control(master, TIOCGPTPEER, RDWR_NOCTTY_CLOEXEC).map(Fd::owned)
}

/// Makes it the controlling terminal of this process, which leads a session (`TIOCSCTTY`).
pub(crate) fn control_session(fd: &Fd) -> Result<()> {
    const TIOCSCTTY: usize = 0x540E;
    control(fd, TIOCSCTTY, 0).map(drop)
}

/// Changes the size; who is in the foreground gets SIGWINCH if it is another one (`TIOCSWINSZ`).
pub(crate) fn set_size(fd: &Fd, size: Size) -> Result<()> {
    const TIOCSWINSZ: usize = 0x5414;
    let window = [size.rows, size.columns, 0, 0];
    control(fd, TIOCSWINSZ, window.as_ptr() as usize).map(drop)
}

/// Tells the line discipline that characters are UTF-8, so that a backspace takes a whole one (`IUTF8`, termios(3)).
pub(crate) fn expect_utf8(fd: &Fd) -> Result<()> {
    const TCGETS: usize = 0x5401;
    const TCSETS: usize = 0x5402;
    const IUTF8: u32 = 0o40000;
    // `struct termios` of the kernel: four words of flags, then a line discipline and 19 characters.
    let mut modes = [0_u32; 16];
    control(fd, TCGETS, modes.as_mut_ptr() as usize)?;
    modes[0] |= IUTF8;
    control(fd, TCSETS, modes.as_ptr() as usize).map(drop)
}
