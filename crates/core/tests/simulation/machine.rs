//! The machine: folders, keepers and processes of tasks. What is here outlives a daemon; what really happened is known.

use std::collections::{BTreeMap, BTreeSet};

use ringback_core::id::TaskId;
use ringback_core::outcome::{Cause, Evidence, StartError};
use ringback_core::task::{Sight, Stop};

use crate::chance::Chance;

/// What the command will do: decided when it is asked for, and known to nobody but the model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// The wait status with which it ends by itself.
    pub(crate) status: i32,
    /// Whether it runs on until somebody stops it.
    pub(crate) endless: bool,
    /// Whether it cannot be executed.
    pub(crate) fails: bool,
    /// How many processes outlive its main process.
    pub(crate) leaves: u8,
    /// The wait status with which it answers a stop.
    pub(crate) on_stop: i32,
    /// Whether it has a limit that ends it.
    pub(crate) limited: bool,
}

impl Plan {
    pub(crate) fn chosen(chance: &mut Chance) -> Self {
        let status = chance.pick(&[0, 0, 3 << 8, 11, 0x8b, 255 << 8]).unwrap_or(0);
        Self {
            status,
            endless: chance.once_in(3),
            fails: chance.once_in(12),
            leaves: u8::from(chance.once_in(4)),
            on_stop: chance.pick(&[15, 9, 0, 143 << 8]).unwrap_or(15),
            limited: chance.once_in(8),
        }
    }
}

/// A process that may be the main one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Main {
    /// It was never executed.
    Never,
    /// It runs.
    Alive,
    /// It ended like this.
    Dead(i32),
}

/// Who keeps a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeper {
    /// Nobody.
    Nobody,
    /// The parent of the main process, who will know its status.
    Parent,
    /// One that took over, who will not.
    Successor,
}

/// One task as the machine has it.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) plan: Plan,
    /// The record in its folder.
    pub(crate) record: Option<Sight>,
    /// In which life of the machine the record was written.
    pub(crate) boot: u32,
    pub(crate) requests: Vec<Stop>,
    pub(crate) read: usize,
    pub(crate) cause: Option<Cause>,
    /// A status that a daemon wrote down for the next keeper.
    pub(crate) witnessed: Option<i32>,
    /// Who has the lock.
    pub(crate) keeper: Keeper,
    pub(crate) main: Main,
    pub(crate) left: u8,
    /// How often the command was executed.
    pub(crate) starts: u32,
    /// Whether anything happened to it that may cost its outcome: a killed keeper, a restart, a damaged record.
    pub(crate) harmed: bool,
    /// Whether the machine went down while it was not over.
    pub(crate) rebooted: bool,
    /// Whether it was told that its tree is gone: nothing of it may ever run again.
    pub(crate) gone_told: bool,
}

impl Job {
    pub(crate) fn new(plan: Plan, boot: u32) -> Self {
        Self {
            plan,
            record: None,
            boot,
            requests: Vec::new(),
            read: 0,
            cause: None,
            witnessed: None,
            keeper: Keeper::Nobody,
            main: Main::Never,
            left: 0,
            starts: 0,
            harmed: false,
            rebooted: false,
            gone_told: false,
        }
    }

    /// Whether a keeper has the lock.
    pub(crate) fn is_kept(&self) -> bool {
        self.keeper != Keeper::Nobody
    }

    /// Whether anything of its tree lives.
    pub(crate) fn lives(&self) -> bool {
        self.main == Main::Alive || self.left > 0
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Machine {
    pub(crate) jobs: BTreeMap<TaskId, Job>,
    pub(crate) boot: u32,
    /// Hints on their way to a daemon: of records that changed, and of keepers that are gone.
    pub(crate) news: BTreeSet<TaskId>,
    pub(crate) gone: BTreeSet<TaskId>,
    /// Whether a daemon lives, which is then the parent of what keepers leave behind.
    pub(crate) watched: bool,
    /// Main processes that ended under a living daemon whose keeper was dead.
    pub(crate) orphans: Vec<(TaskId, i32)>,
    /// Whether nothing can be written.
    pub(crate) full: bool,
    /// Whether no process can be made.
    pub(crate) exhausted: bool,
}

impl Machine {
    pub(crate) fn job(&mut self, id: TaskId) -> &mut Job {
        self.jobs.get_mut(&id).expect("a task that was asked for")
    }

    /// Writes a record and hints at it. A record needs no room on a full disk: its place is there already.
    fn write(&mut self, id: TaskId, sight: Sight) {
        self.job(id).record = Some(sight);
        if self.watched {
            self.news.insert(id);
        }
    }

    /// A keeper ends or is killed.
    fn end_keeper(&mut self, id: TaskId) {
        let job = self.job(id);
        job.keeper = Keeper::Nobody;
        if self.watched {
            self.gone.insert(id);
        }
    }

    /// Launches a keeper. One that finds another, or a record that does not want it, ends at once.
    pub(crate) fn launch(&mut self, id: TaskId, takeover: bool) -> bool {
        if self.exhausted {
            return false;
        }
        let boot = self.boot;
        let job = self.job(id);
        let wanted = match job.record {
            Some(Sight::New) => !takeover,
            Some(Sight::Started | Sight::Ended(_)) => takeover && job.boot == boot,
            Some(Sight::StartFailed { .. } | Sight::Closed(_)) | None => false,
        };
        if job.is_kept() || !wanted {
            self.gone.insert(id);
        } else {
            job.keeper = if takeover { Keeper::Successor } else { Keeper::Parent };
            job.boot = boot;
            // A new one reads all requests again.
            job.read = 0;
        }
        true
    }

    /// One thing that this task's keeper or processes do. False if there was nothing to do.
    pub(crate) fn act(&mut self, id: TaskId, chance: &mut Chance) -> bool {
        let job = self.job(id);
        if job.is_kept() {
            match job.record.clone() {
                Some(Sight::New) => self.start(id),
                Some(Sight::Started) => self.hold_main(id, chance),
                Some(Sight::Ended(evidence)) => self.hold_rest(id, &evidence),
                Some(Sight::StartFailed { .. } | Sight::Closed(_)) | None => self.end_keeper(id),
            }
            return true;
        }
        if job.main == Main::Alive && !job.plan.endless {
            self.end_main(id, None);
            return true;
        }
        if job.left > 0 && !job.plan.endless {
            job.left -= 1;
            return true;
        }
        false
    }

    fn start(&mut self, id: TaskId) {
        let job = self.job(id);
        if job.plan.fails {
            self.write(id, Sight::StartFailed { why: StartError::NotFound, errno: 2 });
            return self.end_keeper(id);
        }
        assert!(!job.gone_told, "{id} starts after it was told to be gone");
        job.starts += 1;
        assert_eq!(job.starts, 1, "{id} is started again");
        (job.main, job.left) = (Main::Alive, job.plan.leaves);
        self.write(id, Sight::Started);
    }

    fn hold_main(&mut self, id: TaskId, chance: &mut Chance) {
        let job = self.job(id);
        let asked = job.requests.get(job.read).map(|stop| stop.cause);
        if let Some(cause) = asked.or_else(|| job.cause.filter(|_| job.main == Main::Alive)) {
            job.read = job.requests.len();
            if job.main == Main::Alive {
                // The reason is on disk before the first signal.
                job.cause = job.cause.or(Some(cause));
                let status = job.plan.on_stop;
                self.end_main(id, Some(status));
            }
            self.job(id).left = 0;
            return self.tell_main(id);
        }
        if job.main == Main::Alive {
            if job.plan.limited && chance.once_in(4) {
                job.cause = Some(Cause::Wall);
                let status = job.plan.on_stop;
                self.end_main(id, Some(status));
                self.job(id).left = 0;
            } else if !job.plan.endless {
                self.end_main(id, None);
            }
            return;
        }
        self.tell_main(id);
    }

    /// The record says how the main process ended: by its parent, or by what a witness left.
    fn tell_main(&mut self, id: TaskId) {
        let job = self.job(id);
        let seen = match job.main {
            Main::Dead(status) if job.keeper == Keeper::Parent => Some(status),
            Main::Dead(_) | Main::Never => job.witnessed,
            Main::Alive => return,
        };
        let evidence = Evidence { status: seen, cause: job.cause, oom: false };
        let empty = job.left == 0;
        self.write(id, if empty { Sight::Closed(evidence) } else { Sight::Ended(evidence) });
        if empty {
            self.end_keeper(id);
        }
    }

    fn hold_rest(&mut self, id: TaskId, evidence: &Evidence) {
        let job = self.job(id);
        let asked = job.requests.len() > job.read;
        job.read = job.requests.len();
        if asked || !job.plan.endless {
            job.left = 0;
            // After a damaged record the main process itself may be among those that are left.
            if job.main == Main::Alive {
                self.end_main(id, asked.then_some(9));
            }
        }
        if !self.job(id).lives() {
            let evidence = evidence.clone();
            self.write(id, Sight::Closed(evidence));
            self.end_keeper(id);
        }
    }

    /// The main process ends, by itself or with this status.
    pub(crate) fn end_main(&mut self, id: TaskId, with: Option<i32>) {
        let watched = self.watched;
        let job = self.job(id);
        let status = with.unwrap_or(job.plan.status);
        job.main = Main::Dead(status);
        if job.keeper != Keeper::Parent && watched {
            self.orphans.push((id, status));
        }
    }

    /// SIGKILL for a keeper; sometimes its record is damaged besides, as no SIGKILL does.
    pub(crate) fn kill_keeper(&mut self, id: TaskId, damage: bool) {
        let job = self.job(id);
        job.harmed = true;
        if damage && job.record.is_some() {
            job.record = None;
        }
        if job.is_kept() {
            self.end_keeper(id);
        }
    }

    /// The machine restarts: no process is left, what was written stays.
    pub(crate) fn reboot(&mut self) {
        self.boot += 1;
        self.watched = false;
        self.forget_hints();
        for job in self.jobs.values_mut() {
            let over = matches!(job.record, Some(Sight::Closed(_) | Sight::StartFailed { .. }));
            job.rebooted |= !over;
            job.harmed |= !over;
            (job.keeper, job.left) = (Keeper::Nobody, 0);
            if job.main == Main::Alive {
                job.main = Main::Dead(9);
            }
        }
    }

    /// A daemon died: nobody holds the other end of the FIFO of hints, or the pidfds.
    pub(crate) fn forget_hints(&mut self) {
        self.watched = false;
        self.news.clear();
        self.gone.clear();
        self.orphans.clear();
    }
}
