//! Carrying out what the daemon asks for in the file `requests`.

use super::Keeper;
use super::crash::crash;
use super::members::{Members, Order};
use crate::form::record::{Record, Who};
use crate::form::request::{Ask, ENTRY_BYTES, Request};
use crate::raw::{file, process, signal};

impl Keeper {
    /// Reads on from the last request that was carried out.
    #[inline(never)]
    pub(super) fn read_requests(&mut self) {
        while let Some(entry) = entry_at(self.ledger.record.requests_done) {
            self.ledger.record.requests_done += 1;
            crash!("keeper.request-read");
            // A whole entry that is none of ours is passed over, so that it does not hide the next ones.
            if let Some(request) = Request::decode(&entry) {
                self.carry_out(request);
            }
            self.ledger.write();
        }
    }

    fn carry_out(&mut self, request: Request) {
        match request.ask {
            Ask::Stop => self.stop_tree(request.cause, request.grace_ms),
            Ask::Signal => self.signal_main_group(request.signal),
            Ask::CloseStdin => self.stdin = None,
            Ask::Witness => self.hear_witness(request.status),
            Ask::Adopt => self.hear_of_orphan(),
            Ask::Resize => self.capture.resize(request.size, &mut self.ledger),
        }
    }

    /// A process group's number is its own while the main process is not reaped; later only known members are signalled.
    fn signal_main_group(&mut self, number: i32) {
        if !(1..=signal::LAST).contains(&number) {
            return;
        }
        if self.main_is_held() {
            let _ = process::kill(-self.ledger.record.main.pid, number);
        } else if let Ok(mut members) = Members::new(self.hold) {
            members.scan(Order { signals: [number, 0], ..Order::default() });
        }
    }
}

/// Calls `each` with every process that the daemon has said to be of this tree.
pub(super) fn adopted(mut each: impl FnMut(Who)) {
    for position in 0.. {
        let Some(entry) = entry_at(position) else { return };
        if let Some(request) = Request::decode(&entry).filter(|request| request.ask == Ask::Adopt) {
            each(request.who);
        }
    }
}

/// Whether `wanted` says so of any request that was carried out.
pub(super) fn done(record: &Record, mut wanted: impl FnMut(&Request) -> bool) -> bool {
    let mut requests = (0..record.requests_done).filter_map(|position| Request::decode(&entry_at(position)?));
    requests.any(|request| wanted(&request))
}

/// The entry at that position, if the file is that long.
fn entry_at(position: u64) -> Option<[u8; ENTRY_BYTES]> {
    let mut entry = [0; ENTRY_BYTES];
    let file = file::open_to_read(c"requests").ok()?;
    let length = file::read_at(&file, &mut entry, position * ENTRY_BYTES as u64).ok()?;
    (length == ENTRY_BYTES).then_some(entry)
}
