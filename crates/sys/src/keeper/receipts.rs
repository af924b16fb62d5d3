//! Writing the receipt of a stop: whole or not at all.

use super::crash::crash;
use super::members::{By, Hold, Member};
use super::sink;
use super::stop::Stop;
use crate::form::receipt::{Doubt, ENTRIES_MAX, ENTRY_BYTES, Ended, Entry, HEAD_BYTES, Head, Layer};
use crate::raw::memory::Mapping;
use crate::raw::{Result, file, time};

/// Takes the receipt of an earlier stop away, into the place where the next one is written: so one that a dead keeper
/// left is of its last stop.
pub(super) fn set_aside() {
    let _ = file::rename(c"receipt", c"receipt.new");
}

/// Writes the file `receipt`; whether it is there.
pub(super) fn write(stop: &Stop, hold: Hold, doubt: Doubt) -> bool {
    let members = stop.members.all();
    let survivors = members.iter().filter(|member| member.ended == Ended::Alive).count();
    let entries = members.len().min(ENTRIES_MAX);
    let head = Head {
        layer: match hold.by {
            By::Parent | By::Marks { .. } if hold.in_cgroup => Layer::Cgroup,
            By::Parent => Layer::Subreaper,
            By::Marks { .. } => Layer::Marks,
        },
        cause: stop.cause,
        verified_empty: doubt == Doubt::None,
        signals: stop.signals,
        observed: count(members.len()),
        reaped: stop.reaped,
        survivors: count(survivors),
        scans: stop.members.scans,
        duration_ms: time::mono_ms().saturating_sub(stop.began_ms),
        entries: count(entries),
        doubt,
    };
    // A stop that was begun by a keeper that died just before its last record is on its receipt already.
    if head.observed == 0 && file::open_to_read(c"receipt").is_ok() {
        return true;
    }
    put(&head, members).is_ok()
}

/// Survivors come first, so that none is left out of a receipt that cannot name everybody.
fn put(head: &Head, members: &[Member]) -> Result<()> {
    let entries = head.entries as usize;
    let mut bytes = Mapping::scratch(HEAD_BYTES + entries * ENTRY_BYTES)?;
    let (head_place, entry_places) = bytes.bytes_mut().split_at_mut(HEAD_BYTES);
    head_place.copy_from_slice(&head.encode());
    let alive = members.iter().filter(|member| member.ended == Ended::Alive);
    let ended = members.iter().filter(|member| member.ended != Ended::Alive);
    for (place, member) in entry_places.chunks_exact_mut(ENTRY_BYTES).zip(alive.chain(ended)) {
        place.copy_from_slice(&entry(member).encode());
    }
    drop(sink::open_own(c"receipt.new")?);
    let how = file::flag::WRONLY | file::flag::NOFOLLOW | file::flag::NONBLOCK | file::flag::TRUNC;
    let to = file::open(c"receipt.new", how)?;
    let mut rest = bytes.bytes();
    while !rest.is_empty() {
        let done = file::write(&to, rest)?;
        rest = rest.get(done..).unwrap_or_default();
    }
    crash!("keeper.before-receipt-rename");
    file::rename(c"receipt.new", c"receipt")
}

fn entry(member: &Member) -> Entry {
    let survivor = member.ended == Ended::Alive;
    Entry {
        pid: member.pid,
        parent_pid: member.parent,
        depth: member.depth,
        ended: member.ended,
        how: member.how,
        errno: if survivor { member.errno } else { 0 },
        state: if survivor { member.state } else { 0 },
        comm: member.comm,
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
