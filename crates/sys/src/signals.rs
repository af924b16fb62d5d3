//! Signals: by number, by name, and as something to read.

use std::{
    io, mem,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    ptr,
};

pub use libc::{
    SIGALRM, SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGKILL, SIGPIPE, SIGQUIT, SIGSTOP, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2,
    SIGWINCH,
};

/// The highest signal number of Linux.
pub const SIGNAL_MAX: i32 = 64;
/// The first real-time signal that programs may use; the C library keeps 32 and 33 for itself (signal(7)).
const REAL_TIME_MIN: i32 = 34;

/// Signals 1 to 31 in the order of their numbers, without `SIG` (signal(7), x86 and ARM).
const NAMES: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM", "TERM",
    "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO",
    "PWR", "SYS",
];
/// Second names of some of them.
const ALIASES: [(&str, i32); 4] = [("IOT", 6), ("CLD", 17), ("POLL", 29), ("UNUSED", 31)];

/// The name of a signal: `SIGSEGV`, `SIGRTMIN+3`; a number without a name is `SIG` and the number.
pub fn name(signal: i32) -> String {
    let named = usize::try_from(signal - 1).ok().and_then(|index| NAMES.get(index));
    match (named, signal - REAL_TIME_MIN) {
        (Some(name), _) => format!("SIG{name}"),
        (None, 0) => "SIGRTMIN".into(),
        (None, above @ 1..) if signal <= SIGNAL_MAX => format!("SIGRTMIN+{above}"),
        (None, _) => format!("SIG{signal}"),
    }
}

/// The number of a signal given as `TERM`, `SIGTERM`, `15`, `RTMIN+3` or `RTMAX-1`, in any case.
pub fn number(text: &str) -> Option<i32> {
    let upper = text.trim().to_ascii_uppercase();
    let bare = upper.strip_prefix("SIG").unwrap_or(&upper);
    let found = if let Some(rest) = bare.strip_prefix("RTMIN") {
        REAL_TIME_MIN + offset(rest, '+')?
    } else if let Some(rest) = bare.strip_prefix("RTMAX") {
        SIGNAL_MAX - offset(rest, '-')?
    } else if let Some(index) = NAMES.iter().position(|name| *name == bare) {
        i32::try_from(index).ok()? + 1
    } else if let Some((_, number)) = ALIASES.iter().find(|(name, _)| *name == bare) {
        return Some(*number);
    } else {
        digits(bare)?
    };
    let lowest = if bare.starts_with("RT") { REAL_TIME_MIN } else { 1 };
    (lowest..=SIGNAL_MAX).contains(&found).then_some(found)
}

fn offset(rest: &str, sign: char) -> Option<i32> {
    if rest.is_empty() { Some(0) } else { digits(rest.strip_prefix(sign)?) }
}

/// A plain number; `str::parse` alone would also take `+5`.
fn digits(text: &str) -> Option<i32> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok().filter(|n| *n <= SIGNAL_MAX) } else { None }
}

/// Signals that arrive as something to read instead of interrupting (signalfd(2)).
#[derive(Debug)]
pub struct SignalFd(OwnedFd);

impl SignalFd {
    /// Blocks these signals in this thread and opens a non-blocking descriptor that they arrive at.
    ///
    /// To be called before other threads are started, so that they inherit the mask.
    pub fn block_and_open(signals: &[i32]) -> io::Result<Self> {
        let set = set_of(signals)?;
        change_mask(libc::SIG_BLOCK, &set)?;
        // SAFETY: `set` is an initialised signal set.
        let fd = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just made this descriptor for us; nobody else has it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// The next signal that has arrived, or nothing.
    pub fn read(&self) -> io::Result<Option<i32>> {
        let mut info = [0; size_of::<libc::signalfd_siginfo>()];
        match rustix::io::read(&self.0, &mut info) {
            Ok(_) => {
                // `ssi_signo` is the first field, 32 bits wide.
                let [a, b, c, d, ..] = info;
                Ok(Some(i32::from_ne_bytes([a, b, c, d])))
            }
            Err(rustix::io::Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for SignalFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Blocks every signal that can be blocked, in this thread and in what it starts.
pub fn block_all() -> io::Result<()> {
    change_mask(libc::SIG_BLOCK, &every()?).map(drop)
}

fn every() -> io::Result<libc::sigset_t> {
    // SAFETY: an all-zero sigset_t is a valid value, and sigfillset(3) then sets it whole.
    let (set, answer) = unsafe {
        let mut set = mem::zeroed();
        let answer = libc::sigfillset(&raw mut set);
        (set, answer)
    };
    if answer == 0 { Ok(set) } else { Err(io::Error::last_os_error()) }
}

fn set_of(signals: &[i32]) -> io::Result<libc::sigset_t> {
    // SAFETY: an all-zero sigset_t is a valid value, and sigemptyset(3) cannot fail on it.
    let mut set = unsafe {
        let mut set = mem::zeroed();
        libc::sigemptyset(&raw mut set);
        set
    };
    for &signal in signals {
        // SAFETY: `set` is an initialised signal set; a bad number gives EINVAL.
        if unsafe { libc::sigaddset(&raw mut set, signal) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(set)
}

/// Changes this thread's mask and gives back the one before.
fn change_mask(how: i32, set: &libc::sigset_t) -> io::Result<libc::sigset_t> {
    // SAFETY: both sets are valid for the call; an all-zero sigset_t is a valid value.
    let (before, answer) = unsafe {
        let mut before = mem::zeroed();
        let answer = libc::pthread_sigmask(how, ptr::from_ref(set), &raw mut before);
        (before, answer)
    };
    if answer == 0 { Ok(before) } else { Err(io::Error::from_raw_os_error(answer)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_name_that_leads_back_to_it() {
        for signal in 1..=SIGNAL_MAX {
            assert_eq!(number(&name(signal)), Some(signal), "{}", name(signal));
        }
        assert_eq!((name(11).as_str(), name(37).as_str(), name(34).as_str()), ("SIGSEGV", "SIGRTMIN+3", "SIGRTMIN"));
        assert_eq!((name(64).as_str(), name(32).as_str(), name(0).as_str()), ("SIGRTMIN+30", "SIG32", "SIG0"));
        assert_eq!((name(libc::SIGSYS).as_str(), name(SIGCHLD).as_str()), ("SIGSYS", "SIGCHLD"));
    }

    #[test]
    fn names_are_taken_in_every_usual_form() {
        for text in ["TERM", "SIGTERM", "15", "term", " sigterm ", "SIG15"] {
            assert_eq!(number(text), Some(15), "{text}");
        }
        assert_eq!((number("RTMAX"), number("SIGRTMAX-3"), number("rtmin")), (Some(64), Some(61), Some(34)));
        assert_eq!((number("CLD"), number("IOT")), (Some(17), Some(6)));
        for text in ["", "SIG", "0", "65", "-9", "+9", "NOPE", "RTMIN+31", "RTMAX-31", "RTMIN3", "99999999999"] {
            assert_eq!(number(text), None, "{text}");
        }
    }

    #[test]
    fn a_blocked_signal_is_read_and_interrupts_nothing() {
        // In a thread of its own, so that the mask of the other tests stays as it is.
        std::thread::spawn(|| {
            let signals = SignalFd::block_and_open(&[SIGUSR1]).unwrap();
            assert_eq!(signals.read().unwrap(), None);
            // SAFETY: raise(3) sends to this thread, where the signal is blocked.
            unsafe { libc::raise(SIGUSR1) };
            assert_eq!(signals.read().unwrap(), Some(SIGUSR1));
            assert_eq!(signals.read().unwrap(), None);
        })
        .join()
        .unwrap();
    }
}
