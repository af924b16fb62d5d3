//! The reader of a session's inbox: by cursor, killed now and then, it may see each ending once and no more.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use super::round::Shared;
use super::subject::{Subject, finish};

/// More pages than all tasks of a round fill, many times over.
const PAGES_MAX: u32 = 2000;

/// What was read.
#[derive(Default)]
pub(crate) struct Read {
    pub(crate) cursor: u64,
    /// By task: how often its ending was told, each under a number of its own.
    pub(crate) told: BTreeMap<String, u64>,
    /// Notices that came although they had been acknowledged.
    pub(crate) again: u64,
    pub(crate) foreign: u64,
}

impl Read {
    /// Reads on; false if there was nothing, or the client was killed.
    pub(crate) fn read(&mut self, subject: &Subject, session: &str, shared: &Shared) -> Result<bool, String> {
        let after = self.cursor.to_string();
        let args = ["inbox", "--after", &after, "--limit", "40", "--json"];
        let client =
            subject.client(session, &args).spawn().map_err(|error| format!("cannot start a client: {error}"))?;
        let pid = shared.expose(&client);
        let said = finish(client).ok_or("an inbox that hangs")?;
        shared.hide(pid);
        let Ok(page) = serde_json::from_str::<Value>(&said.out) else { return Ok(false) };
        let notices = page["notices"].as_array().cloned().unwrap_or_default();
        for notice in &notices {
            let seq = notice["seq"].as_u64().unwrap_or(0);
            if seq <= self.cursor {
                self.again += 1;
                continue;
            }
            // Whatever it is, so that the next look is behind it.
            self.cursor = seq;
            if notice["kind"] != "tool_result" {
                continue;
            }
            self.foreign += u64::from(notice["session"] != *session);
            *self.told.entry(notice["task"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
        }
        Ok(!notices.is_empty())
    }

    /// Reads until nothing is left; a session that has no end is an error.
    pub(crate) fn read_all(&mut self, subject: &Subject, session: &str, shared: &Shared) -> Result<(), String> {
        for _ in 0..PAGES_MAX {
            if !self.read(subject, session, shared)? {
                return Ok(());
            }
        }
        Err(format!("after {PAGES_MAX} pages the inbox has more, {} of it again", self.again))
    }

    /// Reads until it is `over`.
    pub(crate) fn follow(
        &mut self,
        subject: &Subject,
        session: &str,
        shared: &Shared,
        over: &AtomicBool,
    ) -> Result<(), String> {
        while !over.load(Ordering::Relaxed) {
            if !self.read(subject, session, shared)? {
                super::chance::pause(std::time::Duration::from_millis(50));
            }
        }
        Ok(())
    }
}
