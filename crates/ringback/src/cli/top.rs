//! `ringback top`: what a session has to see to, drawn anew whenever something changes.

use std::io::IsTerminal as _;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;
use ringback_host::client::Client;
use ringback_sys::growth::FilesWatch;
use ringback_sys::watch::{For, poll};
use serde_json::Value;

use super::door::{self, Door};
use super::follow;
use super::look::Look;
use super::news::News;
use super::screen::{Key, Screen};
use crate::explain::{Done, EXIT_INTERRUPTED, Failure};

/// It is not drawn or printed more often than this: nobody reads faster, and a thousand ends may come at once.
const PAUSE: Duration = Duration::from_millis(200);
/// On a terminal its clocks go on at least this often.
const TICK: Duration = Duration::from_secs(1);
/// Of how many running tasks the output is watched for progress: more do not fit on a screen.
const WATCHED_MAX: usize = 100;

/// Watch what this session has to see to, as it changes
///
/// The same as `ps`, drawn anew when the daemon or an output says something new. q or Ctrl-C leaves. Off a terminal it prints
/// one frame; with --json one document per change, for as long as somebody reads.
#[derive(Debug, Args)]
pub(crate) struct Top {
    /// Watch this session
    #[arg(short, long, conflicts_with = "all_sessions")]
    session: Option<String>,
    /// Watch the live tasks of every session
    #[arg(long)]
    all_sessions: bool,
}

impl Top {
    /// Watches.
    pub(crate) fn perform(self, door: Door) -> Done {
        let mut view = View::open(&self)?;
        if door.json {
            return view.stream();
        }
        if door.quiet {
            return door::out_lines(view.look()?.ids().into_iter()).map(|()| 0);
        }
        if std::io::stdout().is_terminal() && std::io::stdin().is_terminal() {
            return view.draw();
        }
        let look = view.look()?;
        let page = look.page();
        door::out(&page)?;
        if page.is_empty() {
            door.note(&look.nothing());
        }
        Ok(0)
    }
}

struct View {
    client: Client,
    news: News,
    outputs: FilesWatch,
    everywhere: bool,
}

impl View {
    fn open(top: &Top) -> Result<Self, Failure> {
        let client = door::client(top.session.as_deref())?;
        let news = News::start(&client.caller().session)?;
        Ok(Self { client, news, outputs: FilesWatch::new()?, everywhere: top.all_sessions })
    }

    fn look(&mut self) -> Result<Look, Failure> {
        if self.everywhere { Look::at_all(&mut self.client) } else { Look::at_session(&mut self.client, None) }
    }

    /// Looks, with the outputs armed before: what grows meanwhile is told by the next event.
    fn look_armed(&mut self, last: Option<&Look>) -> Result<Look, Failure> {
        for task in last.iter().flat_map(|look| &look.tasks.list).take(WATCHED_MAX) {
            // One that is not there yet, or no more, does not grow.
            let _number = self.outputs.arm(Path::new(&task.output.path));
        }
        self.look()
    }

    /// Waits until there is something new, and then for as long as nothing may be shown yet; whether `stop` came first.
    fn wait(&mut self, stop: BorrowedFd<'_>, shown: Instant, tick: Option<Duration>) -> Result<Woken, Failure> {
        let ready = self.news.poll(&[(stop, For::Read), (self.outputs.as_fd(), For::Read)], tick)?;
        let is_new = match ready.as_slice() {
            [_, true, _] => return Ok(Woken::Stopped),
            [true, ..] => self.news.take()?,
            [_, _, true] => !self.outputs.read()?.is_empty(),
            _ => return Ok(Woken::Tick),
        };
        let left = PAUSE.saturating_sub(shown.elapsed());
        if is_new && poll(&[(stop, For::Read)], Some(left))? == [true] {
            return Ok(Woken::Stopped);
        }
        Ok(if is_new { Woken::New } else { Woken::Tick })
    }

    /// One document per change.
    fn stream(&mut self) -> Done {
        let interrupt = follow::catch_interrupt()?;
        let (mut last, mut look) = (Value::Null, None);
        loop {
            let fresh = self.look_armed(look.as_ref())?;
            let shown = Instant::now();
            let steady = steady(serde_json::to_value(fresh.document()).unwrap_or_default());
            if steady != last {
                door::document(&fresh.document())?;
                last = steady;
            }
            look = Some(fresh);
            loop {
                match self.wait(interrupt.as_fd(), shown, None)? {
                    Woken::Stopped => return Ok(EXIT_INTERRUPTED),
                    Woken::New => break,
                    Woken::Tick => {}
                }
            }
        }
    }

    /// Frame after frame.
    fn draw(&mut self) -> Done {
        let mut screen = Screen::open()?;
        let mut look = self.look()?;
        loop {
            let page = look.page();
            let page = if page.is_empty() { look.nothing() + "\n" } else { page };
            screen.draw(&page, "q leaves")?;
            let shown = Instant::now();
            match self.wait(screen.as_fd(), shown, Some(TICK))? {
                Woken::Stopped => match screen.key()? {
                    Key::Leave => return Ok(0),
                    Key::Other => {}
                },
                Woken::New => look = self.look_armed(Some(&look))?,
                Woken::Tick => {}
            }
        }
    }
}

/// Why a wait was over.
enum Woken {
    /// The person wants something.
    Stopped,
    /// There is something new.
    New,
    /// Time has passed.
    Tick,
}

/// A document without what changes by itself.
fn steady(mut document: Value) -> Value {
    for list in ["tasks", "notices"] {
        let Some(all) = document[list].as_array_mut() else { continue };
        for task in all {
            task["duration_ms"] = Value::Null;
            task["silence_ms"] = Value::Null;
            if task["progress"]["source"] == "usual_duration" {
                task["progress"] = Value::Null;
            }
        }
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn time_that_passes_is_no_change() {
        let document = |duration_ms, percent, state: &str| {
            let progress = json!({ "percent": percent, "source": "usual_duration" });
            json!({ "tasks": [{ "state": state, "duration_ms": duration_ms, "progress": progress }], "notices": [] })
        };
        assert_eq!(steady(document(1, 5, "running")), steady(document(2, 9, "running")));
        assert_ne!(steady(document(1, 5, "running")), steady(document(1, 5, "queued")));
    }
}
