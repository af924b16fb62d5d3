//! Watches over an idle session, and wakes its agent for what it is to hear: ends, and what was asked to be noticed.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringback_core::notice::Kind;
use ringback_host::client::Client;
use ringback_host::home::Home;
use ringback_host::wire::{Notice, Reply, Request};
use ringback_sys::lock;

use super::Options;
use super::agent::Hook;
use super::event::Event;
use super::speech::SPOKEN_MAX;
use super::told::{Wish, acknowledge, claim, client};
use super::wait::{EXIT_WAKE, GATHER, is_print_mode, pause, say};
use crate::cli::door::{self, tasks};
use crate::explain::{Done, Failure};

/// How many notices are looked at to see what has come.
const LOOKED_AT_MAX: u32 = 1000;
/// How long one look blocks before it is looked whether anything is left to wait for; whatever comes ends it at once.
const LOOK: Duration = Duration::from_hours(1);

/// Watches, and wakes or not.
pub(super) fn watch(hook: Hook, event: &Event, options: &Options) -> Done {
    let Some(session) = event.session().filter(|_| !is_print_mode()) else { return Ok(0) };
    let Some(mut client) = client(session)? else { return Ok(0) };
    let Some(_alone) = alone(client.home(), session)? else { return Ok(0) };
    let usual = || Kind::waking().map(str::to_owned).collect();
    let kinds: Vec<String> = if options.kinds.is_empty() { usual() } else { options.kinds.clone() };
    let (mut newer_than, mut is_last_look) = (0, false);
    loop {
        let wish = Wish { tasks: Vec::new(), kinds: kinds.clone() };
        let (notices, held_ms) = claim(&mut client, hook.name, wish, SPOKEN_MAX)?;
        if !notices.is_empty() {
            let told = say(&notices, &[])?;
            acknowledge(&mut client, told)?;
            return Ok(EXIT_WAKE);
        }
        if held_ms.is_none() {
            if is_last_look {
                return Ok(0);
            }
            // The last one may have ended since the look.
            is_last_look = !runs(&mut client, session)?;
            if is_last_look {
                continue;
            }
        }
        // What somebody else has claimed is ours when his time is over and it was not heard.
        let most = held_ms.map_or(LOOK, |held| Duration::from_millis(held + 1));
        let news = news(&mut client, newer_than, most)?;
        newer_than = news.last().map_or(newer_than, |notice| notice.seq);
        if news.iter().any(|notice| kinds.contains(&notice.kind)) {
            pause(GATHER)?;
        }
    }
}

/// The place of the one who watches over a session. The kernel frees it with the end of this process; its file goes when it
/// is given up.
struct Alone {
    path: PathBuf,
    /// Its lock is the place.
    _locked: File,
}

impl Drop for Alone {
    fn drop(&mut self) {
        // While the lock is held, so that it is ours that goes. One that stays is taken up by the next.
        let _stays = fs::remove_file(&self.path);
    }
}

/// Takes the place for this session; nothing if somebody watches over it already.
fn alone(home: &Home, session: &str) -> io::Result<Option<Alone>> {
    let folder = home.root().join("watch");
    ringback_sys::files::private_dir(&folder)?;
    let path = folder.join(format!("{:032x}.lock", ringback_sys::launch::hash(session.as_bytes())));
    loop {
        let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path)?;
        if !lock::try_exclusive(&file)? {
            return Ok(None);
        }
        // Whoever had it before may have taken the file away between our two steps.
        if is_file_at(&file, &path)? {
            return Ok(Some(Alone { path, _locked: file }));
        }
    }
}

fn is_file_at(file: &File, path: &Path) -> io::Result<bool> {
    let own = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(there) => Ok((there.dev(), there.ino()) == (own.dev(), own.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn runs(client: &mut Client, session: &str) -> Result<bool, Failure> {
    let list = Request::List { session: Some(session.to_owned()), ended: false, before: None, limit: 1 };
    Ok(tasks(client.call(list)?)?.list.iter().any(|task| !task.has_ended()))
}

fn news(client: &mut Client, newer_than: u64, most: Duration) -> Result<Vec<Notice>, Failure> {
    let wait_ms = ringback_host::quantity::millis(most);
    match client.call(Request::News { newer_than, wait_ms, limit: LOOKED_AT_MAX })? {
        Reply::Notices { notices, .. } => Ok(notices),
        _ => Err(door::unexpected()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_watches_over_a_session_and_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path()).unwrap();
        let first = alone(&home, "s1").unwrap().expect("nobody watches yet");
        assert!(alone(&home, "s1").unwrap().is_none());
        assert!(alone(&home, "s2").unwrap().is_some(), "another session is another place");
        drop(first);
        assert_eq!(fs::read_dir(folder.path().join("watch")).unwrap().count(), 0);
        assert!(alone(&home, "s1").unwrap().is_some());
    }
}
