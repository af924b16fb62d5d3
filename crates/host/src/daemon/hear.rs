//! What a session says that it has heard, held against what it was given.

use mio::Token;

use super::Daemon;
use super::error::store_fault;
use super::tell::Say;
use crate::store::{Ack, Record};
use crate::wire::{ACK_ALL, Caller, Fault};

impl Daemon {
    pub(super) fn ask_inbox(
        &mut self,
        to: Token,
        caller: &Caller,
        after: Option<u64>,
        wait_ms: Option<u64>,
        limit: u32,
    ) -> Result<(), Fault> {
        if let Some(seq) = after {
            self.check_cursor(&caller.session, seq)?;
            self.round.records.push(Record::Ack { session: caller.session.clone(), which: Ack::UpTo(seq) });
        }
        let (wait_ms, acknowledges) = (wait_ms.unwrap_or(0), after.is_some());
        self.say(to, Say::Inbox { caller: caller.clone(), newer_than: None, limit, wait_ms, acknowledges });
        Ok(())
    }

    pub(super) fn ask_ack(
        &mut self,
        to: Token,
        caller: &Caller,
        up_to: Option<u64>,
        seqs: &[u64],
        tasks: &[String],
        mut which: Vec<Ack>,
    ) -> Result<(), Fault> {
        let session = &caller.session;
        if let Some(seq) = up_to {
            if seq != ACK_ALL {
                self.check_cursor(session, seq)?;
            }
            which.push(Ack::UpTo(seq));
        }
        let mut faults = Vec::new();
        let highest = if seqs.is_empty() { 0 } else { self.highest_seq(session)? };
        for seq in seqs {
            if *seq > highest {
                faults.push(unknown_notice(session, *seq, highest));
            } else {
                which.push(Ack::One(*seq));
            }
        }
        if !tasks.is_empty() {
            let (found, unknown) = self.sort_out(tasks);
            which.extend(found.into_iter().map(Ack::Task));
            faults.extend(unknown);
        }
        if let ([fault], []) = (faults.as_slice(), which.as_slice()) {
            return Err(fault.clone());
        }
        let records: Vec<Record> =
            which.into_iter().map(|which| Record::Ack { session: session.clone(), which }).collect();
        let first = self.round.acks_so_far();
        let count = records.len();
        self.round.records.extend(records);
        self.say(to, Say::Acknowledged { first, count, faults });
        Ok(())
    }

    /// Whoever says that he has read further than anything that he was given would miss what comes next.
    fn check_cursor(&self, session: &str, seq: u64) -> Result<(), Fault> {
        let highest = self.highest_seq(session)?;
        if seq <= highest {
            return Ok(());
        }
        Err(Fault {
            code: "cursor_ahead".into(),
            message: format!(
                "cannot acknowledge up to {seq}: the highest number of session {session} is {highest}; nothing was acknowledged"
            ),
            hint: Some(look_hint(session)),
        })
    }

    fn highest_seq(&self, session: &str) -> Result<u64, Fault> {
        self.store.highest_seq(session).map_err(|error| store_fault(&error))
    }
}

fn unknown_notice(session: &str, seq: u64, highest: u64) -> Fault {
    Fault {
        code: "unknown_notice".into(),
        message: format!("session {session} has no notice {seq}: its highest number is {highest}"),
        hint: Some(look_hint(session)),
    }
}

fn look_hint(session: &str) -> String {
    let word = shlex::try_quote(session).map_or_else(|_| session.to_owned(), std::borrow::Cow::into_owned);
    format!("`ringback inbox -s {word}` shows what is unheard")
}
