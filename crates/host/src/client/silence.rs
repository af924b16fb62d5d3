//! A daemon that does not answer: how long that is borne, and what is said of it then.

use std::env;
use std::time::{Duration, Instant};

use ringback_sys::identity;

use super::error::ClientError;
use super::request::own_wait;
use crate::wire::Request;

/// How long a daemon may take for what it answers at once, and another client to start one: a disk that is busy holds them up
/// for some seconds.
const ANSWER_WAIT: Duration = Duration::from_secs(10);
/// The variable that has a build for tests wait for another time, milliseconds.
const ANSWER_WAIT_VARIABLE: &str = "RINGBACK_ANSWER_WAIT_MS";

/// How long is waited for what a daemon answers at once.
pub(super) fn answer_wait() -> Duration {
    let asked = if cfg!(debug_assertions) { env::var(ANSWER_WAIT_VARIABLE).ok() } else { None };
    asked.and_then(|text| text.parse().ok()).map_or(ANSWER_WAIT, Duration::from_millis)
}

/// Whether somebody has stopped this process (SIGSTOP; state `T`, proc(5)).
pub(super) fn is_stopped(pid: i32) -> bool {
    identity::stat(pid).is_ok_and(|process| process.state == b'T')
}

/// The error of a daemon with this process, which has or may have `what` already.
pub(super) fn silent(pid: i32, what: Option<&'static str>) -> ClientError {
    ClientError::Silent { pid, stopped: is_stopped(pid), what }
}

/// When to look after a daemon that has a request and has said nothing yet. Nobody rings when a process is stopped, so it is
/// looked again for as long as the wait lasts, once in [`ANSWER_WAIT`].
pub(super) struct Vigil {
    pause: Duration,
    next: Instant,
    /// How many pauses are over, and after how many it is asked next.
    looks: u32,
    ask_at: u32,
    /// Nothing that has a time of its own is awaited beyond that and one pause.
    end: Option<Instant>,
}

/// What a vigil wants to know.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Whether its process is stopped: the kernel knows, and the daemon is not woken.
    AtProcess,
    /// Whether it answers what it answers at once. Asked after one pause, two, four, eight and so on.
    AtAnswer,
    /// Nothing more: it should have answered.
    Over,
}

impl Vigil {
    pub(super) fn begin(request: &Request, now: Instant) -> Self {
        let pause = answer_wait();
        let end = own_wait(request).and_then(|own| now.checked_add(own.saturating_add(pause)));
        Self { pause, next: now + pause, looks: 0, ask_at: 1, end }
    }

    /// How long nothing is to be looked at.
    pub(super) fn rest(&self, now: Instant) -> Duration {
        self.end.map_or(self.next, |end| end.min(self.next)).saturating_duration_since(now)
    }

    /// What is to be looked at now, if anything.
    pub(super) fn due(&mut self, now: Instant) -> Option<Look> {
        if self.end.is_some_and(|end| now >= end) {
            return Some(Look::Over);
        }
        if now < self.next {
            return None;
        }
        self.next = now + self.pause;
        self.looks = self.looks.saturating_add(1);
        if self.looks < self.ask_at {
            return Some(Look::AtProcess);
        }
        self.ask_at = self.looks.saturating_mul(2);
        Some(Look::AtAnswer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Until;

    fn wait(timeout_ms: Option<u64>) -> Request {
        Request::Wait { ids: Vec::new(), any: false, timeout_ms, until: Until::End }
    }

    #[test]
    fn a_daemon_is_looked_after_as_long_as_it_is_silent_and_asked_ever_more_seldom() {
        let begun = Instant::now();
        let mut vigil = Vigil::begin(&wait(None), begun);
        let asked: Vec<u32> = (1..=20)
            .filter(|pauses| {
                let now = begun + ANSWER_WAIT * *pauses;
                assert_eq!(vigil.due(now.checked_sub(Duration::from_millis(1)).unwrap()), None);
                let look = vigil.due(now);
                assert_eq!((vigil.due(now), vigil.rest(now)), (None, ANSWER_WAIT));
                look.expect("a look after each pause") == Look::AtAnswer
            })
            .collect();
        assert_eq!(asked, [1, 2, 4, 8, 16]);
    }

    #[test]
    fn what_has_a_time_of_its_own_is_awaited_no_longer_than_that_and_one_pause() {
        let begun = Instant::now();
        let mut vigil = Vigil::begin(&wait(Some(3_000)), begun);
        assert_eq!(vigil.due(begun + ANSWER_WAIT), Some(Look::AtAnswer));
        let end = begun + ANSWER_WAIT + Duration::from_secs(3);
        assert_eq!(vigil.rest(begun + ANSWER_WAIT), Duration::from_secs(3));
        assert_eq!(vigil.due(end.checked_sub(Duration::from_millis(1)).unwrap()), None);
        assert_eq!(vigil.due(end), Some(Look::Over));
        // So long that no clock shows its end.
        let mut vigil = Vigil::begin(&wait(Some(u64::MAX)), begun);
        assert_eq!(vigil.due(begun + ANSWER_WAIT), Some(Look::AtAnswer));
    }
}
