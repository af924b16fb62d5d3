//! The server's loop: requests in, tasks started, outputs copied, endings written down.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::Duration;

use ringback_host::client::{Client, ClientError};
use ringback_host::home::Home;
use ringback_host::wire::{Reply, Request as Ask, TaskObject, Until};
use ringback_sys::signals::{SIGINT, SIGTERM, SignalFd};
use ringback_sys::task_files::STREAMS;
use ringback_sys::watch::{FolderWatch, For, Happened, What, poll};
use serde_json::json;

use super::Options;
use super::asking::{self, Asked};
use super::copy::Copy;
use super::desk::{Desk, Found};
use super::name::{Name, Role};
use super::record::{self, Outputs};
use super::request::{Bad, Claimed, Record, Request};
use crate::cli::door::{self, Door, caller};
use crate::exact;
use crate::explain::{Done, Failure};
use crate::render::task::verdict;

/// How many requests one server works on at once; each costs a connection. More wait, unclaimed.
const SERVED_MAX: usize = 512;
/// How long after a fault that passes (a full disk) it is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// Serves a folder until SIGTERM or SIGINT; tasks run on.
pub(crate) fn serve(door: Door, options: Options) -> Done {
    let home = Home::find()?;
    let desk = Desk::open(door, &options)?;
    let stop = SignalFd::block_and_open(&[SIGTERM, SIGINT])?;
    let watch = FolderWatch::new()?;
    // Watched first and then looked through, so that nothing falls between.
    watch.arrivals(&desk.folder.path())?;
    let client = crate::caller::client(&home, caller(Some(&options.session))?)?;
    door.note(&format!("serving {}; its tasks are of session {}", options.dir.display(), options.session));
    let mut server = Server {
        door,
        home: home.root().to_string_lossy().into_owned(),
        place: home,
        options,
        desk,
        watch,
        client,
        jobs: BTreeMap::new(),
        folders: BTreeMap::new(),
        line: BTreeSet::new(),
        behind: BTreeSet::new(),
        later: BTreeMap::new(),
    };
    server.look_through()?;
    while !server.turn(&stop)? {}
    server.door.note("stopped; its tasks run on");
    Ok(0)
}

struct Server {
    door: Door,
    /// Our home as text, so that a server of another home leaves our tasks alone.
    home: String,
    place: Home,
    options: Options,
    desk: Desk,
    watch: FolderWatch,
    client: Client,
    jobs: BTreeMap<Name, Job>,
    /// Whose task folder a watch is on.
    folders: BTreeMap<i32, Name>,
    /// Requests over [`SERVED_MAX`].
    line: BTreeSet<Name>,
    /// Jobs with more to copy than one turn takes.
    behind: BTreeSet<Name>,
    /// Requests that cannot be started for now.
    later: BTreeMap<Name, Later>,
}

/// Why a request was put off.
struct Later {
    why: String,
    /// Known to have no task: nothing is to be searched before it is asked for.
    unstarted: bool,
}

/// A request and its task.
struct Job {
    request: Request,
    task: TaskObject,
    wait: Client,
    folder: Option<i32>,
    out: Copy,
    err: Copy,
    /// The ending, while it could not be written down.
    ended: Option<Box<TaskObject>>,
    /// Kept open until the end, so that a stop is not given up.
    stop: Option<Client>,
}

impl Server {
    /// Waits for what comes next and carries it out; true if it was time to leave.
    fn turn(&mut self, stop: &SignalFd) -> Result<bool, Failure> {
        let waiting: Vec<Name> =
            self.jobs.iter().filter(|(_, job)| job.ended.is_none()).map(|(n, _)| n.clone()).collect();
        let mut fds = vec![(stop.as_fd(), For::Read), (self.watch.as_fd(), For::Read)];
        fds.extend(waiting.iter().filter_map(|name| Some((self.jobs.get(name)?.wait.as_fd(), For::Read))));
        let unwritten = self.jobs.len() > waiting.len() || !self.later.is_empty();
        let limit = if self.behind.is_empty() { unwritten.then_some(RETRY) } else { Some(Duration::ZERO) };
        let ready = poll(&fds, limit)?;
        if ready.first() == Some(&true) {
            return Ok(true);
        }
        if ready.get(1) == Some(&true) {
            let happened = self.watch.read()?;
            self.hear(&happened)?;
        }
        for name in std::mem::take(&mut self.behind) {
            self.pump(&name);
        }
        let ended = waiting.into_iter().zip(ready.iter().skip(2)).filter(|(_, ready)| **ready);
        for (name, _) in ended {
            self.hear_of_end(&name)?;
        }
        if unwritten && !ready.contains(&true) {
            self.retry()?;
        }
        self.serve_line()?;
        Ok(false)
    }

    fn hear(&mut self, happened: &[Happened]) -> Result<(), Failure> {
        let mut grown = BTreeSet::new();
        for one in happened {
            match (&one.name, one.what) {
                (_, What::Overflow) => {
                    grown.extend(self.jobs.keys().cloned());
                    self.look_through()?;
                }
                (Some(file), what @ (What::Changed | What::Whole)) => match self.folders.get(&one.folder) {
                    Some(name) if STREAMS.iter().any(|stream| file == *stream) => {
                        grown.insert(name.clone());
                    }
                    Some(_) => {}
                    None => self.look(file, what == What::Whole)?,
                },
                (None, What::Changed | What::Whole) | (_, What::Gone) => {}
            }
        }
        for name in grown {
            self.pump(&name);
        }
        Ok(())
    }

    /// Looks at every name in the folder: at the start, and when the kernel could not keep up telling us.
    fn look_through(&mut self) -> Result<(), Failure> {
        let mut names = self.desk.folder.names()?;
        // Names that carry a time come in their order; wishes to stop come after what they are about.
        names.sort_by_key(|name| (matches!(Role::of(name), Role::Stop(_)), name.clone()));
        for file in &names {
            self.look(file, true)?;
        }
        Ok(())
    }

    fn look(&mut self, file: &OsStr, whole: bool) -> Result<(), Failure> {
        match Role::of(file) {
            Role::Other => {}
            Role::Hostile => {
                if self.desk.refuse_name(file)? {
                    door::talk("refused a file whose name cannot be used; see refused-*.error");
                }
            }
            Role::Stop(name) => self.stop(&name)?,
            Role::Record(name) if self.jobs.contains_key(&name) => {}
            Role::Record(name) => self.look_at(name, whole)?,
        }
        Ok(())
    }

    fn look_at(&mut self, name: Name, whole: bool) -> Result<(), Failure> {
        let before = self.later.remove(&name);
        let bytes = match self.desk.read(&name, whole) {
            Found::Nothing => return Ok(()),
            Found::Refused(why) => return self.refuse(&name, &why, None),
            Found::Bytes(bytes) => bytes,
        };
        match Record::read(&name, &bytes) {
            Ok(Record::Pending(_)) if self.jobs.len() >= SERVED_MAX => {
                self.line.insert(name);
                Ok(())
            }
            Ok(Record::Pending(request)) => match exact::rounded(&bytes) {
                None => self.start(&name, request, before.as_ref()),
                // In the record it would be another.
                Some(number) => {
                    let why = format!("{}; {}", exact::why(number), exact::CURE);
                    self.refuse(&name, &why, Some(&request.fields))
                }
            },
            Ok(Record::Running(request, claimed)) => self.attach(&name, request, &claimed),
            Ok(Record::Settled) => {
                self.desk.unclaim(&name);
                Ok(())
            }
            Err(Bad::Unreadable(why)) => self.refuse(&name, &format!("it cannot be read as JSON: {why}"), None),
            Err(Bad::Wrong(why, fields)) => self.refuse(&name, &why, fields.as_ref()),
        }
    }

    fn refuse(
        &mut self,
        name: &Name,
        why: &str,
        fields: Option<&serde_json::Map<String, serde_json::Value>>,
    ) -> Result<(), Failure> {
        self.tell(name, "refused", json!({ "error": why }), why)?;
        Ok(self.desk.refuse(name, why, fields)?)
    }

    /// Makes a request a task. The claim is on disk before the task is asked for, and its word in the task: after a death
    /// between the two, the task is found again by it, and only if there is none it is asked for.
    fn start(&mut self, name: &Name, request: Request, before: Option<&Later>) -> Result<(), Failure> {
        let claim = match self.desk.claim(name) {
            Ok(claim) => claim,
            Err(error) => return self.put_off(name, before, error.to_string(), false),
        };
        let found = if claim.inherited && !before.is_some_and(|before| before.unstarted) {
            asking::find(&mut self.client, &self.options.session, &claim.word)?
        } else {
            // Outputs of an earlier request of this name are no beginning of this one's.
            let cleared = self.desk.folder.remove(&name.stdout()).and_then(|_| self.desk.folder.remove(&name.stderr()));
            if let Err(error) = cleared {
                return self.put_off(name, before, error.to_string(), true);
            }
            None
        };
        let (task, resumed) = match found {
            Some(task) => (task, true),
            None => match asking::run(&mut self.client, &self.options, name, &request, &claim.word)? {
                Asked::Task(task) => (*task, false),
                Asked::Later(why) => return self.put_off(name, before, why, true),
                Asked::Refused(why) => {
                    let record = request.interrupted(name, &why);
                    self.desk.refuse(name, &why, None)?;
                    self.desk.write(name, &record)?;
                    self.desk.unclaim(name);
                    return self.tell(name, "refused", json!({ "error": why }), &why);
                }
            },
        };
        self.desk.unrefuse(name);
        self.follow(name, request, task, resumed)
    }

    /// Tries a request again later. It stays `pending`, and its claim stays.
    fn put_off(&mut self, name: &Name, before: Option<&Later>, why: String, unstarted: bool) -> Result<(), Failure> {
        let is_news = before.is_none_or(|before| before.why != why);
        let text = format!("cannot be started for now, and is tried again: {why}");
        let fields = json!({ "error": why });
        self.later.insert(name.clone(), Later { why, unstarted });
        if is_news { self.tell(name, "put_off", fields, &text) } else { Ok(()) }
    }

    /// Takes up a request that ran when its server left.
    fn attach(&mut self, name: &Name, request: Request, claimed: &Claimed) -> Result<(), Failure> {
        self.desk.unclaim(name);
        if claimed.home.as_ref().is_some_and(|home| *home != self.home) {
            let why = format!("{name} is a task of another home; a server of that home takes it up");
            return self.tell(name, "left", json!({ "home": claimed.home }), &why);
        }
        let task = match &claimed.task {
            None => Err("it was running when its server left, and names no task".to_owned()),
            Some(id) => match self.client.call(Ask::Show { id: id.clone() }) {
                // Whoever can write here must not be shown the output of any task he can name.
                Ok(Reply::Task { task, .. }) if self.is_ours(name, &task) => Ok(*task),
                Ok(_) => Err(format!("task {id} is not of this request")),
                Err(ClientError::Fault(fault)) => Err(fault.message),
                Err(error) => return Err(error.into()),
            },
        };
        match task {
            Ok(task) => self.follow(name, request, task, true),
            Err(why) => {
                self.desk.write(name, &request.interrupted(name, &why))?;
                self.tell(name, "interrupted", json!({ "error": why }), &why)
            }
        }
    }

    fn is_ours(&self, name: &Name, task: &TaskObject) -> bool {
        task.session == self.options.session
            && task.key.as_deref() == Some(name.as_str())
            && task.binding.as_ref().is_some_and(|binding| binding["spool"].is_string())
    }

    /// Watches a task to its end.
    fn follow(&mut self, name: &Name, request: Request, task: TaskObject, resumed: bool) -> Result<(), Failure> {
        let mut wait = crate::caller::client(&self.place, self.client.caller().clone())?;
        wait.begin(Ask::Wait { ids: vec![task.id.clone()], any: false, timeout_ms: None, until: Until::End })?;
        let path = |path: &Option<String>| path.clone().unwrap_or_default().into();
        let cap = self.options.max_output;
        let out = Copy::new(path(&task.stdout_path), name.stdout(), cap, resumed);
        let err = Copy::new(path(&task.stderr_path), name.stderr(), cap, resumed);
        let dir = task.stdout_path.as_deref().and_then(|path| Path::new(path).parent());
        // A folder that is gone has nothing more to copy.
        let folder = dir.and_then(|dir| self.watch.growth(dir).ok());
        if let Some(folder) = folder {
            self.folders.insert(folder, name.clone());
        }
        if !task.has_ended() {
            match self.desk.write(name, &record::running(&request, name, &task, &self.home)) {
                Ok(()) => self.desk.unclaim(name),
                // The claim stays and speaks for it.
                Err(error) => door::talk(&format!("{name}: cannot write its record: {error}")),
            }
        }
        let word = if resumed { "taken up" } else { "started" };
        self.tell(name, "running", json!({ "task": task.id }), &format!("{word} as {}", task.id))?;
        let job = Job { request, task, wait, folder, out, err, ended: None, stop: None };
        self.jobs.insert(name.clone(), job);
        self.pump(name);
        // It may have been wished while the request waited for its turn.
        if self.desk.folder.open_file(&name.stop()).is_ok() { self.stop(name) } else { Ok(()) }
    }

    /// Copies what has come of a job's output.
    fn pump(&mut self, name: &Name) {
        let Some(job) = self.jobs.get_mut(name) else { return };
        // What fails here is tried again when more comes, and at the end, where the record says what is missing.
        let out = job.out.pump(&self.desk).unwrap_or(false);
        let err = job.err.pump(&self.desk).unwrap_or(false);
        if out || err {
            self.behind.insert(name.clone());
        }
    }

    fn hear_of_end(&mut self, name: &Name) -> Result<(), Failure> {
        let Some(job) = self.jobs.get_mut(name) else { return Ok(()) };
        let ended = match job.wait.finish() {
            // The daemon went away and was asked again.
            Ok(None) => return Ok(()),
            Ok(Some(reply)) => door::tasks(reply)?.list.pop(),
            Err(ClientError::Fault(fault)) => {
                let why = fault.message;
                let record = job.request.interrupted(name, &why);
                self.drop_job(name);
                self.desk.write(name, &record)?;
                return self.tell(name, "interrupted", json!({ "error": why }), &why);
            }
            Err(error) => return Err(error.into()),
        };
        job.ended = Some(Box::new(ended.unwrap_or_else(|| job.task.clone())));
        self.write_end(name)
    }

    /// Writes an ending down: first all of the output, then the record, then the notice counts as heard.
    fn write_end(&mut self, name: &Name) -> Result<(), Failure> {
        let Some(Job { request, ended: Some(task), out, err, .. }) = self.jobs.get_mut(name) else { return Ok(()) };
        let outputs = match finish(&self.desk, out, err) {
            Ok(outputs) => outputs,
            Err(error) if is_space(&error) => return Ok(()),
            // Something lies in the way of the copy; the record is worth more.
            Err(_) => outputs_of(out, err),
        };
        let record = record::ended(request, name, task, &self.home, &outputs);
        let (id, status, text) = (task.id.clone(), task.state.clone(), verdict(task));
        match self.desk.write(name, &record) {
            Ok(()) => {}
            Err(error) if is_space(&error) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        self.drop_job(name);
        self.desk.unclaim(name);
        self.tell(name, &status, json!({ "task": id }), &text)?;
        if self.options.hears {
            // Unsaid, the notice stays in the inbox, which is the safe side.
            let _unheard =
                self.client.call(Ask::Ack { up_to: None, seqs: Vec::new(), tasks: Vec::new(), endings: vec![id] });
        }
        Ok(())
    }

    fn retry(&mut self) -> Result<(), Failure> {
        let unwritten: Vec<Name> =
            self.jobs.iter().filter(|(_, job)| job.ended.is_some()).map(|(name, _)| name.clone()).collect();
        unwritten.iter().try_for_each(|name| self.write_end(name))?;
        let later: Vec<Name> = self.later.keys().cloned().collect();
        later.into_iter().try_for_each(|name| self.look_at(name, true))
    }

    fn drop_job(&mut self, name: &Name) {
        let folder = self.jobs.remove(name).and_then(|job| job.folder);
        if let Some(folder) = folder {
            self.folders.remove(&folder);
            self.watch.remove(folder);
        }
    }

    /// A file wishes that a request be stopped; the file is taken away.
    fn stop(&mut self, name: &Name) -> Result<(), Failure> {
        let Some(job) = self.jobs.get_mut(name) else { return Ok(()) };
        self.desk.folder.remove(&name.stop())?;
        let mut client = crate::caller::client(&self.place, self.client.caller().clone())?;
        client.begin(Ask::Kill { ids: vec![job.task.id.clone()], session: None, grace_ms: None })?;
        job.stop = Some(client);
        self.tell(name, "stopping", json!({}), "asked to stop")
    }

    /// Requests that waited for their turn.
    fn serve_line(&mut self) -> Result<(), Failure> {
        while self.jobs.len() < SERVED_MAX {
            let Some(name) = self.line.pop_first() else { return Ok(()) };
            self.look_at(name, true)?;
        }
        Ok(())
    }

    /// Says what became of a request: a line for people, or a document.
    fn tell(&self, name: &Name, event: &str, fields: serde_json::Value, text: &str) -> Result<(), Failure> {
        if !self.door.json {
            self.door.note(&format!("{name}: {}", crate::render::clean::line(text)));
            return Ok(());
        }
        let mut all = json!({ "request": name.as_str(), "event": event });
        if let (Some(all), serde_json::Value::Object(fields)) = (all.as_object_mut(), fields) {
            all.extend(fields);
        }
        door::document(&crate::render::json::document(all))
    }
}

/// Copies all that there is.
fn finish(desk: &Desk, out: &mut Copy, err: &mut Copy) -> io::Result<Outputs> {
    while out.pump(desk)? {}
    while err.pump(desk)? {}
    Ok(outputs_of(out, err))
}

fn outputs_of(out: &mut Copy, err: &mut Copy) -> Outputs {
    // An output that cannot be read has no tail; its length says that something is missing.
    let (stdout_bytes, stderr_bytes) = (out.source_bytes().unwrap_or(0), err.source_bytes().unwrap_or(0));
    Outputs {
        stdout_tail: out.tail().unwrap_or_default(),
        stderr_tail: err.tail().unwrap_or_default(),
        cut: out.copied_bytes() < stdout_bytes || err.copied_bytes() < stderr_bytes,
        stdout_bytes,
        stderr_bytes,
    }
}

fn is_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
