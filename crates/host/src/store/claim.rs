//! Claims on notices: whoever is about to speak of one takes it for a while, so that two do not speak of it.
//!
//! A claim is a note on an unheard notice and no more: reading the inbox does not mind it, an acknowledgement ends it, and
//! a claim whose time is over stands in nobody's way.

use ringback_core::id::TaskId;
use rusqlite::{Connection, params};

use super::read::id_of;
use super::{Store, StoreError};

/// The longest claim, milliseconds. One that seems to reach further was made before the clock was set back, and does not
/// count.
pub const LEASE_MS_MAX: u64 = 10 * 60 * 1000;

/// A wish to speak.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// Whose notices.
    pub session: String,
    /// Chosen by who asks, so that asking again does not find his own claim in the way.
    pub word: u64,
    /// Who will speak, for people.
    pub rung: String,
    /// Only notices of these tasks; none is all.
    pub tasks: Vec<TaskId>,
    /// Only notices of these kinds; none is all.
    pub kinds: Vec<String>,
    /// At most this many.
    pub limit: u32,
    /// The present, milliseconds after 1970.
    pub now_ms: i64,
    /// How long the claim holds, milliseconds.
    pub lease_ms: u64,
}

impl Claim {
    fn wants(&self, task: TaskId, kind: &str) -> bool {
        (self.tasks.is_empty() || self.tasks.contains(&task))
            && (self.kinds.is_empty() || self.kinds.iter().any(|wanted| wanted == kind))
    }

    /// How long another's claim still holds, if it does.
    fn held_ms(&self, word: Option<i64>, until_ms: Option<i64>) -> Option<u64> {
        let left = until_ms?.saturating_sub(self.now_ms);
        let holds = word != Some(self.word.cast_signed()) && left > 0 && left.unsigned_abs() <= LEASE_MS_MAX;
        holds.then_some(left.unsigned_abs())
    }
}

impl Store {
    /// The numbers of the notices that this claim has, and how long the first of the others is held by somebody else.
    pub fn claimed(&self, claim: &Claim) -> Result<(Vec<u64>, Option<u64>), StoreError> {
        let (mut own, mut held) = (Vec::new(), None::<u64>);
        each(&self.db, claim, |line| {
            match claim.held_ms(line.word, line.until_ms) {
                Some(left) => held = Some(held.map_or(left, |least| least.min(left))),
                None if line.word == Some(claim.word.cast_signed()) => own.push(line.seq.unsigned_abs()),
                None => {}
            }
            Ok(())
        })?;
        Ok((own, held))
    }
}

/// Puts the claim on what nobody else has claimed, the oldest first.
pub(super) fn write(db: &Connection, claim: &Claim) -> Result<(), StoreError> {
    let lease_ms = i64::try_from(claim.lease_ms.min(LEASE_MS_MAX)).unwrap_or(i64::MAX);
    let mut free = Vec::new();
    each(db, claim, |line| {
        if claim.held_ms(line.word, line.until_ms).is_none() {
            free.push(line.seq);
        }
        Ok(())
    })?;
    let mut update = db.prepare_cached(
        "UPDATE notices SET claimed_by = ?, claim = ?, claimed_until_ms = ? WHERE session = ? AND seq = ?",
    )?;
    let until_ms = claim.now_ms.saturating_add(lease_ms);
    for seq in free.into_iter().take(claim.limit as usize) {
        update.execute(params![claim.rung, claim.word.cast_signed(), until_ms, claim.session, seq])?;
    }
    Ok(())
}

/// A notice, as far as a claim looks at it.
struct Line {
    seq: i64,
    word: Option<i64>,
    until_ms: Option<i64>,
}

fn each(db: &Connection, claim: &Claim, mut act: impl FnMut(Line) -> Result<(), StoreError>) -> Result<(), StoreError> {
    let mut statement = db.prepare_cached(
        "SELECT seq, task, kind, claim, claimed_until_ms FROM notices WHERE session = ? ORDER BY seq",
    )?;
    let mut lines = statement.query([&claim.session])?;
    while let Some(line) = lines.next()? {
        let kind: String = line.get(2)?;
        if claim.wants(id_of(line.get(1)?), &kind) {
            act(Line { seq: line.get(0)?, word: line.get(3)?, until_ms: line.get(4)? })?;
        }
    }
    Ok(())
}
