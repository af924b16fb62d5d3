//! Who wants to know that something has changed, without what: a live view looks for itself then.

use std::mem;

use mio::Token;

/// A number that rises with every change, and those who wait for it to rise.
#[derive(Default)]
pub(super) struct Changes {
    at: u64,
    waiting: Vec<(Token, u64)>,
}

impl Changes {
    /// Something has changed that a list shows.
    pub(super) fn note(&mut self) {
        self.at += 1;
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Somebody wants to know when the number is no longer this one.
    pub(super) fn ask(&mut self, to: Token, since: Option<u64>) {
        // A number of another daemon is never reached here: it is answered at once.
        self.waiting.push((to, since.unwrap_or(u64::MAX)));
    }

    /// A client is gone.
    pub(super) fn drop_client(&mut self, to: Token) {
        self.waiting.retain(|(other, _)| *other != to);
    }

    /// Who is to be answered, and with which number.
    pub(super) fn take(&mut self) -> (Vec<Token>, u64) {
        let at = self.at;
        let (news, waiting) = mem::take(&mut self.waiting).into_iter().partition(|(_, since)| *since != at);
        self.waiting = waiting;
        let news: Vec<(Token, u64)> = news;
        (news.into_iter().map(|(to, _)| to).collect(), at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_seen_everything_waits_for_the_next_change() {
        let mut changes = Changes::default();
        changes.ask(Token(1), None);
        assert_eq!(changes.take(), (vec![Token(1)], 0));
        changes.ask(Token(1), Some(0));
        changes.ask(Token(2), Some(7));
        assert_eq!(changes.take(), (vec![Token(2)], 0), "what another daemon counted is news");
        changes.note();
        assert_eq!(changes.take(), (vec![Token(1)], 1));
        changes.ask(Token(3), Some(1));
        changes.drop_client(Token(3));
        changes.note();
        assert_eq!(changes.take().0, []);
    }
}
