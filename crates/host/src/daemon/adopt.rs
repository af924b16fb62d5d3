//! A new daemon takes up what runs: records and locks are read, nothing is guessed.

use ringback_core::board::found;
use ringback_core::task::{Input, Sight};
use ringback_sys::form::record::Phase;
use ringback_sys::{files, identity};

use super::Daemon;
use super::error::{DaemonError, machine};
use super::live::Live;
use crate::store::Row;

impl Daemon {
    /// Takes up every task that the store has not closed.
    pub(super) fn adopt_all(&mut self) -> Result<(), DaemonError> {
        let boot = identity::boot_id().map_err(machine("read the boot id"))?;
        let rebooted = self.was_rebooted(boot);
        for row in self.store.live()? {
            self.adopt(row, boot, rebooted);
        }
        let effects = self.board.open_for_business();
        self.apply(effects);
        self.adopt_sessions(boot)?;
        self.adopt_outbox();
        self.begin_sweep();
        self.plan_packing();
        self.plan_collecting_again();
        let noted = files::read_regular(&self.home.boot()).is_ok_and(|last| last == boot);
        self.round.boot_to_note = (!noted).then_some(boot);
        self.close_round();
        if self.round.retry_at_ms().is_none() {
            self.note_boot();
        }
        self.sweep_cgroups();
        Ok(())
    }

    /// Whether the machine was restarted since a daemon last served this home. One of an earlier version left no word.
    fn was_rebooted(&self, boot: [u8; 16]) -> bool {
        files::read_regular(&self.home.boot()).is_ok_and(|last| last != boot)
    }

    /// From now on this is the boot of everything in this home; called when nothing is left to be recorded, since the next
    /// daemon must find what is not recorded as lost to be of an earlier boot, too.
    pub(super) fn note_boot(&mut self) {
        let Some(boot) = self.round.boot_to_note.take() else { return };
        let path = self.home.boot();
        // Synced: a word that a power cut takes away would let a task start again.
        let written = files::write_whole(&path, &boot)
            .and_then(|()| std::fs::File::open(&path)?.sync_all())
            .and_then(|()| std::fs::File::open(self.home.root())?.sync_all());
        if let Err(error) = written {
            self.round.boot_to_note = Some(boot);
            self.troubles.note("note the boot of this home", &error);
        }
    }

    fn adopt(&mut self, row: Row, boot: [u8; 16], rebooted: bool) {
        let id = row.id;
        let stop = row.stop.clone();
        let ended = row.facts.is_some();
        let live = Live::new(row);
        let ask = live.ask();
        self.lives.insert(id, live);
        let look = self.find(id);
        // A task is recorded after its folder was made: where all of that is gone, nobody knows what it was used for.
        let (has_record, lives) = (look.written || !self.has_folder(id), look.lives);
        let seen = look.record.map(|record| (self.sight(id, &record), record));
        // A record of phase `New`, or none, cannot tell of which boot it is. In an earlier one the command may have been
        // started, and what was written of that was not synced; in this one it was not, and may start late.
        let same_boot = match &seen {
            Some((_, record)) if record.phase != Phase::New => record.boot == boot,
            Some(_) | None => !rebooted,
        };
        if let Some((_, record)) = seen.as_ref().filter(|_| lives) {
            self.adopted += u64::from(!ended);
            if let Some(keeper) = look.keeper {
                self.hold_found(id, keeper);
            }
            self.hold_known(id, record);
        }
        let input = if look.unread && !rebooted && self.put_off(id) {
            // What became of it is seen later. One that cannot be read may say that it was started.
            Input::Saw(if seen.is_some() { Sight::New } else { Sight::Started })
        } else {
            found(same_boot, lives, has_record, seen.map(|(sight, _)| sight))
        };
        let takes_stop = !ended && !matches!(input, Input::KeeperGone(Sight::Closed(_)) | Input::Rebooted(_));
        let effects = self.board.adopt(id, ask, ended, input);
        self.apply(effects);
        // A stop that was recorded and perhaps never handed on: handing it on twice is harmless.
        if let Some(stop) = stop.filter(|_| takes_stop && self.board.get(id).is_some()) {
            let effects = self.board.step(id, Input::StopAsked(stop.to_stop()));
            self.apply(effects);
        }
    }
}
