//! Claims of those who are about to speak: written in the round, and answered with what was got.

use mio::Token;
use ringback_core::id::TaskId;
use ringback_core::notice::Kind;
use ringback_sys::process;

use super::Daemon;
use super::ask::check_session;
use super::error::store_fault;
use super::tell::{Say, Tell};
use crate::store::{Claim, LEASE_MS_MAX, Record};
use crate::wire::{Caller, Fault, Reply, Request};

/// How many notices one claim takes at most: one who speaks of more is not understood.
const CLAIMED_MAX: u32 = 1000;

impl Daemon {
    /// Takes notices for a while.
    pub(super) fn ask_claim(&mut self, to: Token, caller: &Caller, request: Request) -> Result<(), Fault> {
        let Request::Claim { rung, word, lease_ms, tasks, kinds, limit, ahead } = request else { return Ok(()) };
        check_session(&caller.session)?;
        // A whole id need not be looked up: a notice may be left of a task that was removed.
        let find = |text: &String| TaskId::parse(text).or_else(|_| self.resolve(text));
        let tasks = tasks.iter().map(find).collect::<Result<Vec<TaskId>, Fault>>()?;
        let claim = Claim {
            session: caller.session.clone(),
            word,
            rung,
            tasks,
            kinds,
            limit: limit.clamp(1, CLAIMED_MAX),
            now_ms: process::wall_ms(),
            lease_ms: lease_ms.clamp(1, LEASE_MS_MAX),
        };
        if !(ahead && self.foretell(&claim)) {
            self.round.records.push(Record::Claim(Box::new(claim.clone())));
        }
        self.round.tells.push(Tell { to, say: Say::Claimed(Box::new(claim)) });
        Ok(())
    }

    /// Keeps the claim for the endings that are to come; whether all of its tasks are of that kind.
    fn foretell(&mut self, claim: &Claim) -> bool {
        let mut all = !claim.tasks.is_empty();
        for id in &claim.tasks {
            let own = self.lives.get_mut(id).filter(|live| live.row.session == claim.session);
            match own.filter(|live| live.row.facts.is_none()) {
                Some(live) => {
                    let kinds = vec![Kind::ToolResult.word().to_owned()];
                    live.foretold = Some(Box::new(Claim { tasks: vec![*id], kinds, limit: 1, ..claim.clone() }));
                }
                None => all = false,
            }
        }
        all
    }

    /// The claim on an ending that comes now, if somebody has said that he will tell it.
    pub(super) fn claim_ending(&mut self, id: TaskId, now_ms: i64) {
        if let Some(claim) = self.lives.get_mut(&id).and_then(|live| live.foretold.take()) {
            self.round.records.push(Record::Claim(Box::new(Claim { now_ms, ..*claim })));
        }
    }

    /// What a claim of this round has got.
    pub(super) fn claimed_reply(&mut self, claim: &Claim) -> Result<Reply, Fault> {
        let (seqs, held_ms) = self.store.claimed(claim).map_err(|error| store_fault(&error))?;
        let mut notices = Vec::new();
        for seq in seqs {
            let row = self.store.notice(&claim.session, seq).map_err(|error| store_fault(&error))?;
            notices.extend(row.map(|row| self.notice(&claim.session, row)));
        }
        Ok(Reply::Claimed { notices, held_ms })
    }
}
