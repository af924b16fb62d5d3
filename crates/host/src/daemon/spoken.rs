//! A command line that is carried out as it came: where its caller would have seen nothing to warn of, and has nothing to hide.

use mio::Token;
use ringback_core::id::TaskId;

use super::Daemon;
use super::tell::Say;
use super::view::Detail;
use crate::limits::Limits;
use crate::spoken::{Said, Saying, Understood};
use crate::wire::{Fault, Reply, Spoken};

impl Daemon {
    /// Somebody sent a command line of our own version.
    pub(super) fn ask_spoken(&mut self, to: Token, spoken: &Spoken) -> Result<(), Fault> {
        // What its caller would have compared is compared here; where that could not be done, it does so itself.
        let is_alike = self.connections.get(to).is_some_and(|conn| conn.is_alike);
        let understood = if is_alike { (self.reader)(spoken) } else { None };
        let understood = understood.filter(|one| one.is_quiet || !self.has_warning(one));
        if let Some(Understood { caller, run, say, .. }) = understood {
            return self.ask_run(to, &caller, run, Some(say));
        }
        self.say(to, Say::Reply(Reply::OldWay));
        Ok(())
    }

    /// Whether there may be something that its caller has to look at: a limit that does not hold, or a live task of the same name.
    fn has_warning(&self, understood: &Understood) -> bool {
        let session = &understood.caller.session;
        let has_name = |name: &String| {
            self.lives.values().any(|live| live.row.session == *session && live.row.asked.name.as_ref() == Some(name))
        };
        self.config.limit != Limits::default() || understood.run.name.as_ref().is_some_and(has_name)
    }

    /// What a command line says of the task that it has started.
    pub(super) fn said_reply(&mut self, id: TaskId, say: &Saying) -> Result<Reply, Fault> {
        let task = self.task(id, Detail::Brief)?;
        let Said { stdout, stderr } = say(&task);
        Ok(Reply::Said { id: task.id, stdout: stdout.into_bytes().into(), stderr: stderr.into_bytes().into() })
    }
}
