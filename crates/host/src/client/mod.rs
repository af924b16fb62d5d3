//! The library that every door speaks through: it reaches the daemon, starts it where none runs, asks, and answers.
//!
//! One connection, one request at a time. A daemon that goes away in the middle is found or started again, and what may
//! be asked twice is asked again; a `run` never is.

mod capture;
mod conn;
mod error;
pub mod output;
mod reach;
mod request;
mod silence;
mod spoken;
mod start;

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

pub use capture::{Capture, EnvMode, own_umask, variables};
pub use error::ClientError;
pub use spoken::Said;
pub use start::Launcher;

use conn::{Broken, Conn};
use request::{asked_once, leaves_traces, shorten, starts_task};
use ringback_sys::pidfd::PidFd;
use ringback_sys::watch::{For, poll};
use silence::{Look, Vigil, answer_wait, is_stopped, silent};

use crate::config::Config;
use crate::home::Home;
use crate::wire::{Answer, Caller, PROTOCOL, Reply, Request, VERSION, refusal};

/// How often a request is taken up again after the daemon went away, before we stop believing in it.
const RETRIES_MAX: u32 = 256;
/// How long a daemon that was asked to leave may take.
const LEAVE_WAIT: Duration = Duration::from_secs(30);

/// A connection to the daemon of one home, for one caller.
pub struct Client {
    home: Home,
    caller: Caller,
    launcher: Launcher,
    autostart: bool,
    conn: Conn,
    /// The daemon is about to let this connection go: the next request takes another one.
    stale: bool,
    asked: Option<Asked>,
}

/// A request that has no answer yet.
struct Asked {
    request: Request,
    since: Instant,
    tries: u32,
    upgraded: bool,
    vigil: Vigil,
}

impl Client {
    /// Reaches the daemon of this home, and starts one if none runs.
    pub fn open(home: &Home, caller: Caller) -> Result<Self, ClientError> {
        Self::open_with(home, caller, Launcher::default())
    }

    /// As [`Client::open`], with this program as the daemon.
    pub fn open_with(home: &Home, caller: Caller, launcher: Launcher) -> Result<Self, ClientError> {
        let stream = start::connect_or_start(home, &launcher)?;
        Ok(Self {
            home: home.clone(),
            caller,
            launcher,
            autostart: true,
            conn: Conn::new(stream),
            stale: false,
            asked: None,
        })
    }

    /// Reaches a daemon that runs already.
    pub fn open_existing(home: &Home, caller: Caller) -> Result<Self, ClientError> {
        let stream = start::connect(home)?.ok_or_else(|| start::nobody(home))?;
        let conn = Conn::new(stream);
        Ok(Self {
            home: home.clone(),
            caller,
            launcher: Launcher::default(),
            autostart: false,
            conn,
            stale: false,
            asked: None,
        })
    }

    /// The home whose daemon this is.
    pub fn home(&self) -> &Home {
        &self.home
    }

    /// Who asks.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Asks, and waits for the answer. An answer that is a fault comes as [`ClientError::Fault`].
    pub fn call(&mut self, request: Request) -> Result<Reply, ClientError> {
        self.begin(request)?;
        self.answer()
    }

    /// Waits for the answer to the last [`Client::begin`].
    pub fn answer(&mut self) -> Result<Reply, ClientError> {
        loop {
            self.await_word(None)?;
            if let Some(reply) = self.finish()? {
                return Ok(reply);
            }
        }
    }

    /// Asks, and waits for the answer or until `stop` is readable; then nothing comes, the request is given up, and the
    /// client is to be dropped (which frees the daemon's side).
    pub fn call_until(&mut self, request: Request, stop: BorrowedFd<'_>) -> Result<Option<Reply>, ClientError> {
        self.begin(request)?;
        loop {
            if !self.await_word(Some(stop))? {
                return Ok(None);
            }
            if let Some(reply) = self.finish()? {
                return Ok(Some(reply));
            }
        }
    }

    /// Asks, and does not wait: the client is readable ([`Client::poll`], or [`AsFd`]) when [`Client::finish`] has something to
    /// read.
    pub fn begin(&mut self, request: Request) -> Result<(), ClientError> {
        if self.stale {
            self.reconnect()?;
        }
        if asked_once(&request).is_some() {
            self.pass_dead_daemons()?;
        }
        if starts_task(&request) && !self.conn.is_alike {
            self.refuse_confined_daemon()?;
            self.conn.is_alike = true;
        }
        let since = Instant::now();
        let vigil = Vigil::begin(&request, since);
        self.asked = Some(Asked { request, since, tries: 0, upgraded: false, vigil });
        self.send_asked()
    }

    /// The answer to the last [`Client::begin`], or nothing if the daemon went away and the request was sent anew.
    pub fn finish(&mut self) -> Result<Option<Reply>, ClientError> {
        match self.conn.receive() {
            Ok(answer) => self.judge(answer),
            Err(Broken::Error(error)) => Err(error),
            Err(Broken::Silent) => Err(self.silent()?),
            Err(broken @ (Broken::BeforeSent | Broken::AfterSent)) => {
                let Some(asked) = &self.asked else { return Err(ClientError::Unexpected) };
                match asked_once(&asked.request).filter(|_| matches!(broken, Broken::AfterSent)) {
                    // It has done that.
                    _ if matches!(asked.request, Request::Stop) => Ok(Some(Reply::Done)),
                    Some(_) if !leaves_traces(&asked.request) && self.has_lost_home() => Err(self.home_moved()),
                    Some(what) => Err(ClientError::Gone { what }),
                    None => {
                        self.reconnect()?;
                        self.send_asked()?;
                        Ok(None)
                    }
                }
            }
        }
    }

    /// The process id of the daemon.
    pub fn daemon_pid(&self) -> Result<i32, ClientError> {
        Ok(ringback_sys::socket::peer(self.conn.stream())?.pid)
    }

    /// Asks the daemon to leave, waits until it is gone, and starts one of our version. Tasks run on.
    ///
    /// The next one reads the config, too: a bad one must not cost the daemon that runs.
    pub fn replace_daemon(&mut self) -> Result<(), ClientError> {
        Config::load()?;
        self.dismiss_daemon()?;
        self.conn = Conn::new(start::connect_or_start(&self.home, &self.launcher)?);
        Ok(())
    }

    /// Asks the daemon to leave and waits until its process is gone. Tasks run on.
    pub fn dismiss_daemon(&mut self) -> Result<(), ClientError> {
        let pid = self.daemon_pid()?;
        let process = ringback_sys::identity::who(pid).and_then(PidFd::open);
        match self.conn.send(&self.caller, &Request::Stop) {
            Ok(()) | Err(Broken::BeforeSent | Broken::AfterSent) => {}
            Err(Broken::Silent) => return Err(silent(pid, None)),
            Err(Broken::Error(error)) => return Err(error),
        }
        // The answer says that it will leave; the pidfd says that it has.
        if poll(&[(self.as_fd(), For::Read)], Some(answer_wait()))? != [true] {
            return Err(silent(pid, None));
        }
        if let Ok(Answer { reply: Reply::Fault(fault), .. }) = self.conn.receive() {
            return Err(ClientError::Fault(fault));
        }
        // Without a pidfd it was gone before we looked.
        let Ok(process) = process else { return Ok(()) };
        let ended = poll(&[(process.as_fd(), For::Read)], Some(LEAVE_WAIT))? == [true];
        if ended { Ok(()) } else { Err(silent(pid, None)) }
    }

    /// Waits until there is something to read, or until `stop` is readable: then false.
    fn await_word(&mut self, stop: Option<BorrowedFd<'_>>) -> Result<bool, ClientError> {
        let stop: Vec<_> = stop.into_iter().map(|stop| (stop, For::Read)).collect();
        Ok(self.poll(&stop, None)?.get(1) != Some(&true))
    }

    /// Waits until there is something to read, or until one of `others` is ready, for this long at most; then which are ready,
    /// the client itself first.
    ///
    /// An answer may take as long as it will. But it is looked whether a daemon that is silent for long is there at all.
    pub fn poll(
        &mut self,
        others: &[(BorrowedFd<'_>, For)],
        timeout: Option<Duration>,
    ) -> Result<Vec<bool>, ClientError> {
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let now = Instant::now();
            let left = end.map(|end| end.saturating_duration_since(now));
            let rest = self.asked.as_ref().map(|asked| asked.vigil.rest(now));
            let mut fds = vec![(self.as_fd(), For::Read)];
            fds.extend_from_slice(others);
            let ready = poll(&fds, left.into_iter().chain(rest).min())?;
            if ready.contains(&true) {
                return Ok(ready);
            }
            self.look_after()?;
            if end.is_some_and(|end| Instant::now() >= end) {
                return Ok(ready);
            }
        }
    }

    /// Looks whether a silent daemon is there, if it is time to.
    fn look_after(&mut self) -> Result<(), ClientError> {
        let Some(asked) = &mut self.asked else { return Ok(()) };
        match asked.vigil.due(Instant::now()) {
            None => Ok(()),
            Some(Look::AtProcess) if !is_stopped(self.daemon_pid()?) => Ok(()),
            Some(Look::AtAnswer) => self.see_that_it_answers(),
            Some(Look::AtProcess | Look::Over) => Err(self.silent()?),
        }
    }

    /// Asks for what every daemon answers at once, over another connection.
    fn see_that_it_answers(&self) -> Result<(), ClientError> {
        if is_stopped(self.daemon_pid()?) {
            return Err(self.silent()?);
        }
        // Of one that has left, or that somebody else has replaced, our own connection tells.
        let Some(stream) = start::connect(&self.home)? else { return Ok(()) };
        let mut other = Conn::new(stream);
        match other.send(&self.caller, &Request::Status) {
            Ok(()) if poll(&[(other.as_fd(), For::Read)], Some(answer_wait()))? == [true] => Ok(()),
            Ok(()) | Err(Broken::Silent) => Err(self.silent()?),
            Err(_) => Ok(()),
        }
    }

    /// The daemon has the request, and has said nothing for too long.
    fn silent(&self) -> Result<ClientError, ClientError> {
        let open = self.asked.as_ref().map(|asked| &asked.request).filter(|request| leaves_traces(request));
        Ok(silent(self.daemon_pid()?, open.and_then(asked_once)))
    }

    fn send_asked(&mut self) -> Result<(), ClientError> {
        loop {
            let Some(asked) = &mut self.asked else { return Ok(()) };
            if asked.tries > RETRIES_MAX {
                return Err(ClientError::Unsteady { tries: asked.tries });
            }
            shorten(&mut asked.request, &mut asked.since);
            asked.vigil = Vigil::begin(&asked.request, asked.since);
            match self.conn.send(&self.caller, &asked.request) {
                Ok(()) => return Ok(()),
                Err(Broken::Error(error)) => return Err(error),
                // It has not the whole of it, so it will not do it.
                Err(Broken::Silent) => return Err(silent(self.daemon_pid()?, None)),
                Err(Broken::BeforeSent | Broken::AfterSent) => self.reconnect()?,
            }
        }
    }

    /// Looks at who answered before looking at the answer.
    fn judge(&mut self, answer: Answer) -> Result<Option<Reply>, ClientError> {
        let Some(asked) = &mut self.asked else { return Err(ClientError::Unexpected) };
        let older = is_older(&answer.version, VERSION);
        let any_version = matches!(asked.request, Request::Status | Request::Stop);
        let refused = matches!(&answer.reply, Reply::Fault(fault) if fault.code == refusal::DAEMON_OLDER);
        if refused || (answer.proto != PROTOCOL && !any_version) {
            // Only a newer client replaces an older daemon, never the other way round, or two versions would take turns.
            if !older || asked.upgraded || !self.autostart {
                return Err(ClientError::Protocol { theirs: answer.version, older });
            }
            asked.upgraded = true;
            self.replace_daemon()?;
            self.send_asked()?;
            return Ok(None);
        }
        let starts = starts_task(&asked.request);
        self.asked = None;
        match answer.reply {
            Reply::Fault(fault) => {
                self.stale = fault.is_farewell();
                Err(ClientError::Fault(fault))
            }
            reply => {
                if older && starts && self.autostart {
                    // It understood us; the next request finds the new one. The task runs, so its id is answered whatever
                    // becomes of this: an error instead would have the caller run it again.
                    self.stale = self.replace_daemon().is_err();
                }
                Ok(Some(reply))
            }
        }
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.conn.as_fd()
    }
}

/// Whether version `a` is older than `b`; what cannot be read is not older.
fn is_older(a: &str, b: &str) -> bool {
    let numbers = |version: &str| -> Option<[u64; 3]> {
        let core = version.split(['-', '+']).next()?;
        let mut parts = core.split('.').map(|part| part.parse().ok());
        Some([parts.next()??, parts.next()??, parts.next()??])
    };
    matches!((numbers(a), numbers(b)), (Some(a), Some(b)) if a < b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Fault;
    use std::io::{Read as _, Write as _};

    #[test]
    fn versions_compare_by_number() {
        assert!(is_older("0.9.0", "0.10.0"));
        assert!(!is_older("0.10.0", "0.10.0") && !is_older("1.0.0", "0.10.0"));
        assert!(!is_older("strange", "0.1.0") && !is_older("0.1", "0.1.1"));
        assert!(is_older("0.1.0-rc.1", "0.1.1"));
    }

    #[test]
    fn a_wait_that_is_taken_up_again_is_shorter() {
        let mut request =
            Request::Wait { ids: Vec::new(), any: false, timeout_ms: Some(10_000), until: crate::wire::Until::End };
        let mut since = Instant::now().checked_sub(Duration::from_secs(4)).unwrap();
        shorten(&mut request, &mut since);
        assert!(matches!(request, Request::Wait { timeout_ms: Some(5_000..=6_000), .. }));
    }

    fn exchange(stream: &mut std::os::unix::net::UnixStream, answer: Option<Answer>) -> String {
        let mut prefix = [0; 4];
        stream.read_exact(&mut prefix).unwrap();
        let mut body = vec![0; crate::wire::frame::body_length(prefix).unwrap()];
        stream.read_exact(&mut body).unwrap();
        let call: crate::wire::Call = crate::wire::decode(&body).unwrap();
        if let Some(answer) = answer {
            let mut bytes = Vec::new();
            crate::wire::encode(&answer, &mut bytes).unwrap();
            stream.write_all(&bytes).unwrap();
        }
        format!("{:?}", call.request)
    }

    /// A daemon that takes one request per entry and answers it, or leaves without a word.
    fn serve(home: &Home, script: Vec<Option<Answer>>) -> std::thread::JoinHandle<Vec<String>> {
        home.prepare().unwrap();
        let listener = ringback_sys::socket::listen(home.socket_dir(), crate::home::SOCKET_NAME).unwrap();
        std::thread::spawn(move || {
            let answer = |answer: Option<Answer>| {
                let (mut stream, _) = listener.accept().unwrap();
                exchange(&mut stream, answer)
            };
            script.into_iter().map(answer).collect()
        })
    }

    fn answer(proto: u16, version: &str, reply: Reply) -> Answer {
        Answer { proto, version: version.to_owned(), reply }
    }

    fn check(script: Vec<Option<Answer>>, request: Request) -> (Result<Reply, ClientError>, Vec<String>) {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path().join("home")).unwrap();
        let served = serve(&home, script);
        let reply = Client::open_existing(&home, Caller::default()).and_then(|mut client| client.call(request));
        (reply, served.join().unwrap())
    }

    fn wait() -> Request {
        Request::Wait { ids: vec!["k3".to_owned()], any: false, timeout_ms: None, until: crate::wire::Until::End }
    }

    #[test]
    fn a_wait_is_asked_again_when_the_daemon_goes_away() {
        let (reply, asked) = check(vec![None, None, Some(answer(PROTOCOL, VERSION, Reply::Done))], wait());
        assert!(matches!(reply, Ok(Reply::Done)), "{reply:?}");
        assert_eq!(asked.len(), 3);
        assert!(asked.iter().all(|request| *request == asked[0]));
    }

    #[test]
    fn a_run_is_never_asked_twice() {
        let (reply, asked) = check(vec![None], Request::Run(Box::default()));
        let error = reply.unwrap_err();
        assert!(matches!(error, ClientError::Gone { what: "run" }), "{error:?}");
        assert!(error.hint().unwrap().contains("ringback ps"));
        assert_eq!(asked.len(), 1);
    }

    #[test]
    fn an_old_daemon_that_does_not_leave_takes_no_id_away() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path().join("home")).unwrap();
        home.prepare().unwrap();
        let listener = ringback_sys::socket::listen(home.socket_dir(), crate::home::SOCKET_NAME).unwrap();
        let served = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let run = exchange(&mut stream, Some(answer(PROTOCOL, "0.0.1", Reply::Done)));
            let fault = Fault { code: "no".to_owned(), message: "it stays".to_owned(), hint: None };
            let stop = exchange(&mut stream, Some(answer(PROTOCOL, "0.0.1", Reply::Fault(fault))));
            let (mut again, _) = listener.accept().unwrap();
            [run, stop, exchange(&mut again, Some(answer(PROTOCOL, "0.0.1", Reply::Done)))]
        });
        let mut client = Client::open_existing(&home, Caller::default()).unwrap();
        client.autostart = true;
        assert!(matches!(client.call(Request::Run(Box::default())), Ok(Reply::Done)));
        assert!(matches!(client.call(wait()), Ok(Reply::Done)), "the next request has a connection of its own");
        let [run, stop, next] = served.join().unwrap();
        assert!(run.starts_with("Run") && stop == "Stop" && next.starts_with("Wait"), "{run} {stop} {next}");
    }

    #[test]
    fn a_stop_that_is_answered_by_leaving_is_done() {
        assert!(matches!(check(vec![None], Request::Stop).0, Ok(Reply::Done)));
    }

    #[test]
    fn another_protocol_is_told_and_status_works_across() {
        let strange = |version| Some(answer(PROTOCOL + 1, version, Reply::Done));
        let older = check(vec![strange("0.0.1")], wait()).0.unwrap_err();
        assert!(
            matches!(older, ClientError::Protocol { older: true, .. }) && older.hint().unwrap().contains("restart")
        );
        let newer = check(vec![strange("99.0.0")], wait()).0.unwrap_err();
        assert!(matches!(newer, ClientError::Protocol { older: false, .. }), "{newer:?}");
        assert!(matches!(check(vec![strange("99.0.0")], Request::Status).0, Ok(Reply::Done)));
    }

    #[test]
    fn a_fault_comes_with_its_code_and_hint() {
        let fault = Fault { code: "unknown_id".to_owned(), message: "no".to_owned(), hint: Some("look".to_owned()) };
        let error = check(vec![Some(answer(PROTOCOL, VERSION, Reply::Fault(fault)))], wait()).0.unwrap_err();
        assert_eq!(
            (error.code(), error.to_string(), error.hint()),
            ("unknown_id", "no".to_owned(), Some("look".to_owned()))
        );
    }

    #[test]
    fn nobody_there_is_no_daemon() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path()).unwrap();
        let error = Client::open_existing(&home, Caller::default()).map(|_| ()).unwrap_err();
        assert!(matches!(error, ClientError::NoDaemon { .. }), "{error:?}");
    }
}
