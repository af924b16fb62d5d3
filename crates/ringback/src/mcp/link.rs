//! The way to the daemon: blocking calls on threads of their own, each of which can be given up at any time.

use std::collections::VecDeque;
use std::io::{PipeReader, PipeWriter, pipe};
use std::mem;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ringback_host::client::{Client, ClientError};
use ringback_host::home::Home;
use ringback_host::quantity::millis;
use ringback_host::wire::{Caller, Command, Notice, Reply, Request, TaskObject, Until};

use crate::caller;
use crate::explain::Failure;

/// How many unused connections are kept; a connection is cheap to make again.
const IDLE_MAX: usize = 8;
/// How many endings may wait to be reported as heard; more than this means that no daemon has answered for long, and what
/// is forgotten is offered again.
const UNSAID_MAX: usize = 1000;

/// How many answers that went out over HTTP may wait for a next request; the oldest are offered again.
#[cfg(feature = "mcp-http")]
const UNCERTAIN_MAX: usize = 1000;

/// How long the thread that reads may stand still for one answer of the daemon: a message that comes meanwhile waits so long. A
/// submission takes a fifth of it.
const AT_ONCE_WAIT: Duration = Duration::from_millis(4);
/// The largest environment and command that is handed over on that thread, bytes: it fits into the socket, whether or not the
/// daemon reads (unix(7): 208 KiB by default).
const AT_ONCE_BYTES_MAX: usize = 64 << 10;

/// Endings that were shown to a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    /// To which session.
    pub(super) session: String,
    /// Of which tasks: full ids.
    pub(super) tasks: Vec<String>,
}

/// All connections of this process.
#[derive(Default)]
pub(super) struct Link {
    idle: Mutex<Vec<Client>>,
    unsaid: Mutex<Vec<Shown>>,
    /// What answers have shown that went out, but that may not have arrived.
    uncertain: Mutex<VecDeque<Shown>>,
    /// Held while endings are reported, so that a later call never lists what an earlier answer has shown.
    saying: Mutex<()>,
    busy: AtomicUsize,
}

impl Link {
    /// Does `job` on a thread of its own. When `patience` is over, or when this future is dropped, its blocking calls are given up;
    /// the tasks they were about are not touched.
    pub(super) async fn ask<T: Send + 'static>(
        self: &Arc<Self>,
        caller: Caller,
        patience: impl Future<Output = ()>,
        job: impl FnOnce(&mut Line) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let _busy = Busy::begin(self);
        let (stop, guard) = pipe()?;
        let all = Arc::clone(self);
        let mut work = tokio::task::spawn_blocking(move || {
            all.report_shown();
            let mut line = Line { link: all, caller, client: None, stop, awaited: Awaited::default() };
            let done = job(&mut line);
            line.hang_up();
            done
        });
        let done = tokio::select! {
            done = &mut work => done,
            () = patience => {
                drop::<PipeWriter>(guard);
                work.await
            }
        };
        done.unwrap_or_else(|_| Err(Failure::new("internal", "the call broke off", None)))
    }

    /// Asks on the thread that reads, without waking another, where that is as good as sure to be answered at once: over a
    /// connection that is there. What takes longer is left to a thread.
    pub(super) fn ask_at_once(&self, caller: &Caller, request: Request) -> AtOnce {
        // What is being reported is not to be listed by this answer as if nobody had heard it.
        let Ok(_order) = self.saying.try_lock() else { return AtOnce::NotAsked(Box::new(request)) };
        if bytes(&request) > AT_ONCE_BYTES_MAX || !lock(&self.unsaid).is_empty() {
            return AtOnce::NotAsked(Box::new(request));
        }
        let Some(mut client) = self.idle_client(caller).filter(Client::is_at_hand) else {
            return AtOnce::NotAsked(Box::new(request));
        };
        let ready = client.begin(request).and_then(|()| client.poll(&[], Some(AT_ONCE_WAIT)));
        let done = match ready.as_deref() {
            Ok([true, ..]) => client.finish(),
            Ok(_) => Ok(None),
            Err(_) => ready.map(|_| None),
        };
        match done {
            Ok(None) => AtOnce::Asked(Box::new(client)),
            Ok(Some(reply)) => {
                self.keep(client);
                AtOnce::Answered(Ok(reply))
            }
            Err(error) => {
                if matches!(error, ClientError::Fault(_)) {
                    self.keep(client);
                }
                AtOnce::Answered(Err(error.into()))
            }
        }
    }

    /// How many calls are going on.
    pub(super) fn busy(&self) -> usize {
        self.busy.load(Ordering::Relaxed)
    }

    /// The session was shown these endings; the daemon is told as soon as may be, and at the latest before the next call.
    pub(super) fn shown(self: &Arc<Self>, shown: Shown) {
        let mut unsaid = lock(&self.unsaid);
        if unsaid.len() < UNSAID_MAX {
            unsaid.push(shown);
        }
        let link = Arc::clone(self);
        // Not waited for; if this process ends first, the ending is offered again.
        drop(tokio::task::spawn_blocking(move || link.report_shown()));
    }

    /// An answer that shows this has gone out, to a client that may have left: it counts as heard with the session's next
    /// request, and until then it is offered like what was never shown.
    #[cfg(feature = "mcp-http")]
    pub(super) fn went_out(&self, shown: Shown) {
        let mut uncertain = lock(&self.uncertain);
        if uncertain.len() >= UNCERTAIN_MAX {
            uncertain.pop_front();
        }
        uncertain.push_back(shown);
    }

    /// The session asks for something: it has what it was shown before.
    pub(super) fn asks_again(&self, session: &str) {
        let mut uncertain = lock(&self.uncertain);
        if uncertain.is_empty() {
            return;
        }
        let mut arrived = Vec::new();
        for shown in mem::take(&mut *uncertain) {
            if shown.session == session { arrived.push(shown) } else { uncertain.push_back(shown) }
        }
        drop(uncertain);
        // Reported by the call itself, before anything is looked up for it.
        lock(&self.unsaid).extend(arrived);
    }

    fn report_shown(&self) {
        let _order = lock(&self.saying);
        let batch = mem::take(&mut *lock(&self.unsaid));
        for Shown { session, tasks } in batch {
            let caller = caller::of(session);
            // `Ack` rather than `Heard`: it is answered, so a daemon that restarts meanwhile is asked again. The lines that a
            // task is watched for stay: the answer has not shown them.
            let request = Request::Ack { up_to: None, seqs: Vec::new(), tasks: Vec::new(), endings: tasks };
            let Ok(mut client) = self.client(&caller) else { return };
            if let Ok(_) | Err(ClientError::Fault(_)) = client.call(request) {
                self.keep(client);
            }
        }
    }

    fn client(&self, caller: &Caller) -> Result<Client, Failure> {
        match self.idle_client(caller) {
            Some(client) => Ok(client),
            None => Ok(caller::client(&Home::find()?, caller.clone())?),
        }
    }

    fn idle_client(&self, caller: &Caller) -> Option<Client> {
        let mut idle = lock(&self.idle);
        let at = idle.iter().position(|client| client.caller() == caller)?;
        Some(idle.swap_remove(at))
    }

    fn keep(&self, client: Client) {
        let mut idle = lock(&self.idle);
        if idle.len() >= IDLE_MAX {
            idle.remove(0);
        }
        idle.push(client);
    }
}

/// How far a question has come on the thread that reads.
pub(super) enum AtOnce {
    /// It is answered.
    Answered(Result<Reply, Failure>),
    /// It was asked, and the answer is still to come.
    Asked(Box<Client>),
    /// It was not asked.
    NotAsked(Box<Request>),
}

/// The parts of a request that can be long, in bytes.
fn bytes(request: &Request) -> usize {
    let Request::Run(run) = request else { return 0 };
    let command: usize = match &run.command {
        Command::Argv(argv) => argv.iter().map(|word| word.len()).sum(),
        Command::Script { text, .. } => text.len(),
    };
    command + run.env.iter().map(|entry| entry.len()).sum::<usize>()
}

/// Counts one call for as long as somebody waits for it.
struct Busy(Arc<Link>);

impl Busy {
    fn begin(link: &Arc<Link>) -> Self {
        link.busy.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(link))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The tasks that one call waits for, once it has come to waiting.
#[derive(Clone, Debug, Default)]
pub(super) struct Awaited(Arc<Mutex<Vec<String>>>);

impl Awaited {
    /// It waits for these.
    pub(super) fn set(&self, ids: &[String]) {
        *lock(&self.0) = ids.to_vec();
    }

    pub(super) fn ids(&self) -> Vec<String> {
        lock(&self.0).clone()
    }
}

/// What one job speaks through.
pub(super) struct Line {
    link: Arc<Link>,
    caller: Caller,
    client: Option<Client>,
    stop: PipeReader,
    /// What it waits for, for whoever reports how far that is.
    pub(super) awaited: Awaited,
}

impl Line {
    /// The session this is for.
    pub(super) fn session(&self) -> &str {
        &self.caller.session
    }

    /// Asks, and waits for the answer; nothing if the call was given up.
    pub(super) fn call_until_stopped(&mut self, request: Request) -> Result<Option<Reply>, Failure> {
        let mut client = self.take_client()?;
        let done = client.call_until(request, self.stop.as_fd());
        self.put_back(client, done)
    }

    /// Asks something that is answered at once.
    pub(super) fn call(&mut self, request: Request) -> Result<Reply, Failure> {
        let mut client = self.take_client()?;
        let done = client.call(request).map(Some);
        self.put_back(client, done)?.ok_or_else(unexpected)
    }

    /// The answer to what [`Link::ask_at_once`] has left to this thread.
    pub(super) fn finish(&mut self, left: AtOnce) -> Result<Reply, Failure> {
        match left {
            AtOnce::Answered(done) => done,
            AtOnce::NotAsked(request) => self.call(*request),
            AtOnce::Asked(mut client) => {
                let done = client.answer().map(Some);
                self.put_back(*client, done)?.ok_or_else(unexpected)
            }
        }
    }

    /// One task as it stands.
    pub(super) fn show(&mut self, id: &str) -> Result<TaskObject, Failure> {
        match self.call(Request::Show { id: id.to_owned() })? {
            Reply::Task { task, .. } => Ok(*task),
            _ => Err(unexpected()),
        }
    }

    /// Waits for tasks until they have come that far, the time is over, or the call is given up; then as they stand.
    pub(super) fn wait(
        &mut self,
        ids: &[String],
        any: bool,
        until: Until,
        timeout_ms: u64,
    ) -> Result<Vec<TaskObject>, Failure> {
        self.awaited.set(ids);
        let request = Request::Wait { ids: ids.to_vec(), any, timeout_ms: Some(timeout_ms), until };
        match self.call_until_stopped(request)? {
            Some(Reply::Tasks { tasks, .. }) => Ok(tasks),
            Some(_) => Err(unexpected()),
            None => ids.iter().map(|id| self.show(id)).collect(),
        }
    }

    /// What this session has not heard, oldest first.
    pub(super) fn unheard(&mut self, limit: u32) -> Result<(Vec<Notice>, bool), Failure> {
        match self.call(Request::Inbox { after: None, wait_ms: None, limit })? {
            Reply::Notices { notices, more } => Ok((notices, more)),
            _ => Err(unexpected()),
        }
    }

    /// Takes unheard notices of these kinds to speak of them; and how long others hold what they have taken.
    pub(super) fn claim(
        &mut self,
        rung: &str,
        lease: Duration,
        kinds: Vec<String>,
        limit: u32,
    ) -> Result<(Vec<Notice>, Option<u64>), Failure> {
        let word = ringback_sys::process::random_u64()?;
        let (rung, lease_ms) = (rung.to_owned(), millis(lease));
        let claim = Request::Claim { rung, word, lease_ms, tasks: Vec::new(), kinds, limit, ahead: false };
        match self.call(claim)? {
            Reply::Claimed { notices, held_ms } => Ok((notices, held_ms)),
            _ => Err(unexpected()),
        }
    }

    /// Says that this rung will tell the end of a task: nobody else speaks of it for so long after it has come.
    pub(super) fn foretell(&mut self, rung: &str, lease: Duration, task: &str) -> Result<(), Failure> {
        let word = ringback_sys::process::random_u64()?;
        let (rung, lease_ms, tasks) = (rung.to_owned(), millis(lease), vec![task.to_owned()]);
        let claim = Request::Claim { rung, word, lease_ms, tasks, kinds: Vec::new(), limit: 1, ahead: true };
        self.call(claim).map(|_| ())
    }

    /// A connection for something that takes one for itself, and what says that the call was given up.
    pub(super) fn lend(&mut self) -> Result<(Client, &PipeReader), Failure> {
        let client = self.take_client()?;
        Ok((client, &self.stop))
    }

    fn take_client(&mut self) -> Result<Client, Failure> {
        match self.client.take() {
            Some(client) => Ok(client),
            None => self.link.client(&self.caller),
        }
    }

    fn put_back(&mut self, client: Client, done: Result<Option<Reply>, ClientError>) -> Result<Option<Reply>, Failure> {
        // A connection with an open question cannot be used again; dropping it tells the daemon that nobody waits.
        if let Ok(Some(_)) | Err(ClientError::Fault(_)) = &done {
            self.client = Some(client);
        }
        Ok(done?)
    }

    fn hang_up(mut self) {
        if let Some(client) = self.client.take() {
            self.link.keep(client);
        }
    }
}

/// The failure for an answer that does not belong to the question.
pub(super) fn unexpected() -> Failure {
    ClientError::Unexpected.into()
}
