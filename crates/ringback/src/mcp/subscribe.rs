//! Subscriptions: says that a task's output has grown, as the kernel tells, and that it has ended, as the daemon tells.
//!
//! Nothing is looked at again and again. What changes faster than a client can read is told once per pause.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ringback_host::client::{Client, ClientError};
use ringback_host::wire::{Caller, Reply, Request, TaskObject, Until};
use ringback_sys::task_files::OUTPUT;
use ringback_sys::watch::{FolderWatch, For, What, poll};
use rmcp::model::SubscriptionFilter;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::link::{Line, Link};
use super::resource::{Address, Part, is_not_there};
use crate::explain::Failure;

/// How many resources one stream of the client may be about; what is beyond is not accepted.
const ADDRESSES_MAX: usize = 64;
/// How many streams one process serves: each has a thread, a connection and an inotify instance, of which a user often has
/// 128 (inotify(7)).
const STREAMS_MAX: usize = 16;
/// The least time between two notices of one growing output.
const PAUSE: Duration = Duration::from_millis(500);

/// What of a wish for notices can be granted: resources of ours that can change.
pub(super) fn accepted(requested: &SubscriptionFilter) -> SubscriptionFilter {
    let mut accepted = SubscriptionFilter::new();
    if let Some(uris) = &requested.resource_subscriptions {
        let ours = uris.iter().filter(|uri| changing(uri).is_some());
        accepted.resource_subscriptions = Some(ours.take(ADDRESSES_MAX).cloned().collect());
    }
    accepted
}

/// The resource at this address, if it is one that can change.
pub(super) fn changing(uri: &str) -> Option<Address> {
    Address::parse(uri).filter(|address| !matches!(address.part, Part::Page(_)))
}

/// The streams of all connections of a process, so that there are not too many.
#[derive(Clone, Debug, Default)]
pub(super) struct Streams(Arc<AtomicUsize>);

/// One stream's place.
#[derive(Debug)]
pub(super) struct Place(Streams);

impl Streams {
    /// A place for one more stream, if there is one.
    pub(super) fn take(&self) -> Option<Place> {
        let one_more = |count| (count < STREAMS_MAX).then_some(count + 1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok().map(|_| Place(self.clone()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What one connection of the older generation has subscribed to, each with what follows it. Dropped, all of it ends.
#[derive(Debug, Default)]
pub(super) struct Subscribed(Mutex<BTreeMap<String, AbortHandle>>);

impl Subscribed {
    /// This address is followed by that from now on; whoever followed it before is ended.
    pub(super) fn set(&self, uri: String, follower: AbortHandle) {
        if let Some(before) = self.lock().insert(uri, follower) {
            before.abort();
        }
    }

    /// Nobody follows this address any more.
    pub(super) fn clear(&self, uri: &str) {
        if let Some(follower) = self.lock().remove(uri) {
            follower.abort();
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, AbortHandle>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Subscribed {
    fn drop(&mut self) {
        self.lock().values().for_each(AbortHandle::abort);
    }
}

/// Follows these resources and tells of every change, until `end`, until the telling fails, or until the daemon cannot be
/// reached. The first notice comes at once where there is something to read already.
pub(super) async fn follow<T: Future<Output = bool>>(
    link: Arc<Link>,
    caller: Caller,
    addresses: Vec<Address>,
    end: impl Future<Output = ()>,
    mut tell: impl FnMut(String) -> T,
) {
    let (sender, mut changes) = mpsc::channel(ADDRESSES_MAX);
    let mut job = std::pin::pin!(link.ask(caller, end, move |line| watch(line, addresses, &sender)));
    loop {
        tokio::select! {
            _over = &mut job => return,
            change = changes.recv() => match change {
                Some(address) if tell(address.text()).await => {}
                _ => return,
            },
        }
    }
}

fn watch(line: &mut Line, addresses: Vec<Address>, tell: &mpsc::Sender<Address>) -> Result<(), Failure> {
    let mut watched = Watched::new(addresses)?;
    for id in watched.ids() {
        match line.show(&id) {
            Ok(task) => watched.begin(&task)?,
            // At an address where nothing is nothing changes.
            Err(failure) if is_not_there(&failure) => {}
            Err(failure) => return Err(failure),
        }
    }
    let (mut client, stop) = line.lend()?;
    watched.ask_for_ends(&mut client)?;
    loop {
        if !watched.tell(tell) {
            return Ok(());
        }
        let fds = [(stop.as_fd(), For::Read), (client.as_fd(), For::Read), (watched.folders.as_fd(), For::Read)];
        let ready = poll(&fds, watched.next_due())?;
        if ready.first() == Some(&true) {
            return Ok(());
        }
        if ready.get(1) == Some(&true) {
            watched.take_ends(&mut client)?;
        }
        watched.take_growth()?;
    }
}

/// What is followed, and what of it has changed.
struct Watched {
    addresses: BTreeSet<Address>,
    folders: FolderWatch,
    /// Which task a watched folder is of.
    tasks: BTreeMap<i32, String>,
    running: BTreeSet<String>,
    /// What has changed, and from when on it may be told.
    changed: BTreeMap<Address, Instant>,
    told: BTreeMap<Address, Instant>,
}

impl Watched {
    fn new(addresses: Vec<Address>) -> Result<Self, Failure> {
        Ok(Self {
            addresses: addresses.into_iter().collect(),
            folders: FolderWatch::new()?,
            tasks: BTreeMap::new(),
            running: BTreeSet::new(),
            changed: BTreeMap::new(),
            told: BTreeMap::new(),
        })
    }

    fn ids(&self) -> BTreeSet<String> {
        self.addresses.iter().map(|address| address.id.clone()).collect()
    }

    /// Begins with one task. An output may grow after the end of its task: by what the task has left behind.
    fn begin(&mut self, task: &TaskObject) -> Result<(), Failure> {
        if let Some(folder) = Path::new(&task.output.path).parent() {
            match self.folders.growth(folder) {
                Ok(number) => drop(self.tasks.insert(number, task.id.clone())),
                // It never ran, or was removed.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        if task.has_ended() {
            self.change(&task.id, Part::State);
        } else {
            self.running.insert(task.id.clone());
        }
        if task.output.bytes > 0 || Path::new(&task.output.path).metadata().is_ok_and(|file| file.len() > 0) {
            self.change(&task.id, Part::Output);
        }
        Ok(())
    }

    fn change(&mut self, id: &str, part: Part) {
        let address = Address { id: id.to_owned(), part };
        if self.addresses.contains(&address) {
            let now = Instant::now();
            let due = self.told.get(&address).map_or(now, |told| (*told + PAUSE).max(now));
            self.changed.entry(address).or_insert(due);
        }
    }

    /// The last change of a task is not held back.
    fn end(&mut self, id: &str) {
        self.running.remove(id);
        for part in [Part::State, Part::Output] {
            self.change(id, part);
            if let Some(due) = self.changed.get_mut(&Address { id: id.to_owned(), part }) {
                *due = Instant::now();
            }
        }
    }

    fn ask_for_ends(&self, client: &mut Client) -> Result<(), ClientError> {
        if self.running.is_empty() {
            return Ok(());
        }
        let ids = self.running.iter().cloned().collect();
        client.begin(Request::Wait { ids, any: true, timeout_ms: None, until: Until::End })
    }

    fn take_ends(&mut self, client: &mut Client) -> Result<(), Failure> {
        let Some(reply) = client.finish()? else { return Ok(()) };
        let Reply::Tasks { tasks, faults, .. } = reply else { return Err(super::link::unexpected()) };
        for task in tasks.iter().filter(|task| task.has_ended()) {
            self.end(&task.id);
        }
        if !faults.is_empty() {
            // One was removed meanwhile; the kernel tells of its folder.
            let known: BTreeSet<&String> = tasks.iter().map(|task| &task.id).collect();
            self.running.retain(|id| known.contains(id));
        }
        Ok(self.ask_for_ends(client)?)
    }

    fn take_growth(&mut self) -> Result<(), Failure> {
        loop {
            let batch = self.folders.read()?;
            if batch.is_empty() {
                return Ok(());
            }
            for happened in batch {
                let id = self.tasks.get(&happened.folder).cloned();
                match (happened.what, id) {
                    (What::Overflow, _) => {
                        let all: Vec<String> = self.tasks.values().cloned().collect();
                        for id in &all {
                            self.change(id, Part::Output);
                        }
                    }
                    (What::Gone, Some(id)) => {
                        self.tasks.remove(&happened.folder);
                        self.end(&id);
                    }
                    (What::Changed | What::Whole, Some(id)) if happened.name.as_deref() == Some(OUTPUT.as_ref()) => {
                        self.change(&id, Part::Output);
                    }
                    (What::Changed | What::Whole | What::Gone, _) => {}
                }
            }
        }
    }

    fn next_due(&self) -> Option<Duration> {
        self.changed.values().min().map(|due| due.saturating_duration_since(Instant::now()))
    }

    /// Tells what is due; whether somebody listens.
    fn tell(&mut self, tell: &mpsc::Sender<Address>) -> bool {
        let now = Instant::now();
        let due: Vec<Address> =
            self.changed.iter().filter(|(_, due)| **due <= now).map(|(address, _)| address.clone()).collect();
        for address in due {
            self.changed.remove(&address);
            self.told.insert(address.clone(), now);
            // Blocks while the client does not read: meanwhile changes gather into one.
            if tell.blocking_send(address).is_err() {
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_change_is_accepted_and_not_without_end() {
        let mut wish = SubscriptionFilter::new();
        wish.tools_list_changed = Some(true);
        let ours = "ringback://task/0k3f5m7p9r1t/output".to_owned();
        let others = ["file:///etc/passwd".to_owned(), format!("{ours}?offset=3")];
        wish.resource_subscriptions = Some(others.into_iter().chain([ours.clone()]).collect());
        let granted = accepted(&wish);
        assert_eq!(granted.resource_subscriptions, Some(vec![ours.clone()]));
        assert_eq!(granted.tools_list_changed, None);
        wish.resource_subscriptions = Some(vec![ours; 1000]);
        assert_eq!(accepted(&wish).resource_subscriptions.unwrap().len(), ADDRESSES_MAX);
    }

    #[test]
    fn there_are_only_so_many_places_and_one_that_is_left_is_free() {
        let streams = Streams::default();
        let mut places: Vec<Place> = (0..STREAMS_MAX).map_while(|_| streams.take()).collect();
        assert_eq!(places.len(), STREAMS_MAX);
        assert!(streams.take().is_none());
        places.pop();
        assert!(streams.take().is_some());
    }
}
