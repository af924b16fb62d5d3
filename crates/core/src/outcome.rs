//! How a task ended, from the kernel's wait status and nothing else.

use alloc::string::String;

/// Why we ended a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The wall-clock limit.
    Wall,
    /// The silence limit.
    Idle,
    /// Somebody asked.
    Request,
    /// Its session ended.
    SessionEnd,
    /// Its output reached the cap, and the policy is to kill.
    OutputLimit,
    /// A newer task of the same key took its place.
    Replaced,
}

impl Cause {
    /// The word in `reason`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Wall => "wall",
            Self::Idle => "idle",
            Self::Request => "request",
            Self::SessionEnd => "session_end",
            Self::OutputLimit => "output_limit",
            Self::Replaced => "replaced",
        }
    }

    /// Whether it is one of our limits.
    pub fn is_timeout(self) -> bool {
        match self {
            Self::Wall | Self::Idle => true,
            Self::Request | Self::SessionEnd | Self::OutputLimit | Self::Replaced => false,
        }
    }
}

/// The status word of wait(2), read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitStatus {
    /// It returned this code, 0–255.
    Exited(i32),
    /// This signal ended it.
    Signaled {
        /// 1–64.
        signal: i32,
        /// Whether it left a core.
        core: bool,
    },
}

impl WaitStatus {
    /// Reads a status word of Linux (bits/waitstatus.h): low seven bits the signal, bit seven the core, then the code.
    pub fn read(word: i32) -> Self {
        match word & 0x7f {
            0 => Self::Exited(word >> 8 & 0xff),
            signal => Self::Signaled { signal, core: word & 0x80 != 0 },
        }
    }
}

/// Why a start failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartError {
    /// No such program.
    NotFound,
    /// The program may not be executed.
    Permission,
    /// The working directory is not there (or is none, or may not be entered).
    Cwd,
    /// The file is no program.
    Format,
    /// stdin, stdout or stderr could not be opened.
    Stdio,
    /// The machine had no process, memory or descriptor to give.
    Resources,
    /// Arguments and environment are longer than the kernel takes.
    TooLong,
    /// The machine went down before it was its turn; in homes of earlier versions only, as nobody can know that.
    Reboot,
    /// Somebody killed it before its program was executed.
    Killed,
    /// The sandbox that was asked for could not be put around it.
    Sandbox,
    /// In the folder of the task there was already something where its output was to be.
    InTheWay,
    /// Something else; the errno says what.
    Other,
}

impl StartError {
    /// The word in `reason`.
    pub fn word(self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::Permission => "permission",
            Self::Cwd => "cwd_missing",
            Self::Format => "exec_format",
            Self::Stdio => "stdio",
            Self::Resources => "resources",
            Self::TooLong => "too_long",
            Self::Reboot => "reboot",
            Self::Killed => "killed_before_start",
            Self::Sandbox => "sandbox",
            Self::InTheWay => "file_in_the_way",
            Self::Other => "start_error",
        }
    }
}

/// Why an outcome cannot be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostWhy {
    /// The machine went down.
    Reboot,
    /// The keeper was killed and nobody else saw the end.
    MonitorDied,
}

impl LostWhy {
    /// The word in `reason`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Reboot => "reboot",
            Self::MonitorDied => "monitor_died",
        }
    }
}

/// How a task ended. Terminal: nothing follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The main process returned.
    Exited {
        /// 0–255.
        code: i32,
    },
    /// A signal that is not ours.
    Signaled {
        /// 1–64.
        signal: i32,
        /// Whether it left a core.
        core: bool,
        /// Whether the kernel's out-of-memory killer sent it.
        oom: bool,
    },
    /// Our limit ended it.
    TimedOut {
        /// `Wall` or `Idle`.
        cause: Cause,
        /// What really happened, as the kernel saw it.
        real: WaitStatus,
    },
    /// We ended it.
    Killed {
        /// Why.
        cause: Cause,
        /// Which session, or `person`.
        by: Option<String>,
        /// What really happened; nothing if it was stopped before it ever ran.
        real: Option<WaitStatus>,
    },
    /// It never ran.
    StartFailed {
        /// Why.
        why: StartError,
        /// The system's error number, 0 if there is none.
        errno: i32,
    },
    /// It cannot be known.
    Lost {
        /// Why.
        why: LostWhy,
    },
}

/// What is known of an ended main process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// The status word, if anybody saw it.
    pub status: Option<i32>,
    /// Our reason, if a signal of ours went out before the end.
    pub cause: Option<Cause>,
    /// Whether the kernel's out-of-memory killer was at work.
    pub oom: bool,
}

impl Outcome {
    /// The outcome that this evidence shows. Without a status it is lost, whatever we had asked for.
    pub fn of(evidence: &Evidence, by: Option<String>) -> Self {
        let Some(status) = evidence.status.map(WaitStatus::read) else {
            return Self::Lost { why: LostWhy::MonitorDied };
        };
        match (evidence.cause, status) {
            (Some(cause), real) if cause.is_timeout() => Self::TimedOut { cause, real },
            (Some(cause), real) => Self::Killed { cause, by, real: Some(real) },
            (None, WaitStatus::Exited(code)) => Self::Exited { code },
            (None, WaitStatus::Signaled { signal, core }) => Self::Signaled { signal, core, oom: evidence.oom },
        }
    }

    /// The word in `state`.
    pub fn state(&self) -> &'static str {
        match self {
            Self::Exited { .. } => "exited",
            Self::Signaled { .. } => "signaled",
            Self::TimedOut { .. } => "timed_out",
            Self::Killed { .. } => "killed",
            Self::StartFailed { .. } => "start_failed",
            Self::Lost { .. } => "lost",
        }
    }

    /// The word in `reason`.
    pub fn reason(&self) -> Option<&'static str> {
        match self {
            Self::Exited { .. } | Self::Signaled { oom: false, .. } => None,
            Self::Signaled { oom: true, .. } => Some("oom"),
            Self::TimedOut { cause, .. } | Self::Killed { cause, .. } => Some(cause.word()),
            Self::StartFailed { why, .. } => Some(why.word()),
            Self::Lost { why } => Some(why.word()),
        }
    }

    /// The code in `exit_code`: only a process that returned by itself has one.
    pub fn exit_code(&self) -> Option<i32> {
        match self {
            Self::Exited { code } => Some(*code),
            Self::Signaled { .. }
            | Self::TimedOut { .. }
            | Self::Killed { .. }
            | Self::StartFailed { .. }
            | Self::Lost { .. } => None,
        }
    }

    /// What really ended it, where that is known.
    pub fn real(&self) -> Option<WaitStatus> {
        match self {
            Self::Exited { code } => Some(WaitStatus::Exited(*code)),
            Self::Signaled { signal, core, .. } => Some(WaitStatus::Signaled { signal: *signal, core: *core }),
            Self::TimedOut { real, .. } => Some(*real),
            Self::Killed { real, .. } => *real,
            Self::StartFailed { .. } | Self::Lost { .. } => None,
        }
    }

    /// Whether it may be read as success. Only an exit with 0 may.
    pub fn is_success(&self) -> bool {
        self.exit_code() == Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: Option<i32>, cause: Option<Cause>) -> Outcome {
        Outcome::of(&Evidence { status, cause, oom: false }, Some("a".into()))
    }

    #[test]
    fn every_code_and_every_signal_is_read_exactly() {
        for code in 0..256 {
            assert_eq!(of(Some(code << 8), None), Outcome::Exited { code });
        }
        for signal in 1..=64 {
            assert_eq!(of(Some(signal | 0x80), None), Outcome::Signaled { signal, core: true, oom: false });
        }
    }

    #[test]
    fn what_we_ended_is_never_a_success_even_when_it_returned_zero() {
        let outcome = of(Some(0), Some(Cause::Request));
        assert_eq!(outcome.exit_code(), None);
        assert_eq!(outcome.real(), Some(WaitStatus::Exited(0)));
        assert!(!outcome.is_success());
        assert_eq!(of(Some(0), Some(Cause::Wall)).state(), "timed_out");
    }

    #[test]
    fn without_a_witness_it_is_lost_whatever_we_had_asked_for() {
        assert_eq!(of(None, None), Outcome::Lost { why: LostWhy::MonitorDied });
        assert_eq!(of(None, Some(Cause::Request)), Outcome::Lost { why: LostWhy::MonitorDied });
    }
}
