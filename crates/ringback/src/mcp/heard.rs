//! What an answer has shown counts only once the answer was written: until then it is kept here.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rmcp::model::RequestId;

use super::bell::Attention;
#[cfg(feature = "mcp-http")]
use super::link::Link;
use super::link::Shown;
#[cfg(feature = "mcp-http")]
use std::sync::Arc;

/// How many answers may be on their way. Those of cancelled requests are never written; the oldest make room.
const ANSWERS_MAX: usize = 1024;

/// Answers that are on their way, and what they show.
#[derive(Default)]
pub(super) struct OnTheWay(Mutex<VecDeque<(RequestId, OnItsWay)>>);

/// What happens when one answer has been written.
pub(super) struct OnItsWay {
    /// What the reader will have been shown.
    pub(super) shown: Shown,
    /// What keeps the bell quiet until then.
    pub(super) attention: Option<Attention>,
}

impl OnTheWay {
    /// The answer to this request will show this.
    pub(super) fn add(&self, request: RequestId, answer: OnItsWay) {
        if answer.shown.tasks.is_empty() && answer.attention.is_none() {
            return;
        }
        let mut answers = self.lock();
        answers.retain(|(other, _)| *other != request);
        if answers.len() >= ANSWERS_MAX {
            answers.pop_front();
        }
        answers.push_back((request, answer));
    }

    /// The answer to this request was written.
    pub(super) fn written(&self, request: &RequestId) -> Option<OnItsWay> {
        let mut answers = self.lock();
        let at = answers.iter().position(|(other, _)| other == request)?;
        answers.remove(at).map(|(_, answer)| answer)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(RequestId, OnItsWay)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One exchange over HTTP, where request ids of different clients may be the same: what its answer shows.
#[cfg(feature = "mcp-http")]
pub(super) struct Exchange {
    link: Arc<Link>,
    shown: Mutex<Vec<Shown>>,
}

#[cfg(feature = "mcp-http")]
impl Exchange {
    /// An exchange that shows nothing so far.
    pub(super) fn new(link: Arc<Link>) -> Self {
        Self { link, shown: Mutex::default() }
    }

    /// The answer will show this.
    pub(super) fn add(&self, shown: Shown) {
        if !shown.tasks.is_empty() {
            self.shown.lock().unwrap_or_else(PoisonError::into_inner).push(shown);
        }
    }

    /// The answer has gone out: hyper has taken it. Whether the client has it is known when it asks again.
    pub(super) fn written(&self) {
        let all = std::mem::take(&mut *self.shown.lock().unwrap_or_else(PoisonError::into_inner));
        for shown in all {
            self.link.went_out(shown);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(id: &str) -> OnItsWay {
        OnItsWay { shown: Shown { session: "s".to_owned(), tasks: vec![id.to_owned()] }, attention: None }
    }

    fn written(all: &OnTheWay, request: i64) -> Option<String> {
        all.written(&RequestId::Number(request)).map(|answer| answer.shown.tasks.concat())
    }

    #[test]
    fn only_what_was_written_was_shown_and_only_once() {
        let all = OnTheWay::default();
        all.add(RequestId::Number(1), answer("a"));
        all.add(RequestId::Number(2), answer("b"));
        assert_eq!(written(&all, 2).as_deref(), Some("b"));
        assert_eq!(written(&all, 2), None);
        all.add(RequestId::Number(1), answer("c"));
        assert_eq!(written(&all, 1).as_deref(), Some("c"), "a request id that is used again");
    }

    #[test]
    fn answers_that_are_never_written_do_not_pile_up() {
        let all = OnTheWay::default();
        for number in 0..=i64::try_from(ANSWERS_MAX).unwrap() {
            all.add(RequestId::Number(number), answer("a"));
        }
        assert_eq!(written(&all, 0), None);
        assert_eq!(all.lock().len(), ANSWERS_MAX);
    }
}
