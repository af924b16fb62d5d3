//! How far a task is, as one line at the bottom of a terminal: for `wait`, `run --wait` and `run -f`. On stderr only, and
//! never where nobody can see it.

use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use ringback_core::report::percent_of_usual;
use ringback_host::client::Client;
use ringback_host::quantity::{millis, seconds_text};
use ringback_host::wire::{ProgressObject, Reply, Request, TaskObject};
use ringback_sys::watch::{FileWatch, For, poll};

use super::door::Door;
use super::news::News;
use crate::explain::Failure;
use crate::output::progress;
use crate::render::clean;
use crate::render::style::Style;

/// Nothing is drawn before a command has run this long: most are over by then.
const FIRST_PAUSE: Duration = Duration::from_millis(700);
/// It is drawn again at most this often, and not while output comes faster.
const PAUSE: Duration = Duration::from_millis(200);
/// And at least this often: its clock goes on.
const TICK: Duration = Duration::from_secs(1);
/// How long its words are at most, characters.
const TEXT_CHARS: usize = 48;

/// The line.
pub(super) struct Bar {
    task: TaskObject,
    since: Instant,
    news: Option<News>,
    grown: Option<FileWatch>,
    client: Client,
    /// The daemon has said that something has changed.
    is_old: bool,
    line: Option<ProgressBar>,
    next: Instant,
}

impl Bar {
    /// A line for this task; nothing where nobody could see it, or nobody wants it.
    pub(super) fn start(door: Door, task: &TaskObject, session: &str) -> Option<Self> {
        let hidden = door.json || door.quiet || !io::stderr().is_terminal();
        if hidden || task.has_ended() || std::env::var("TERM").is_ok_and(|term| term == "dumb") {
            return None;
        }
        let now = Instant::now();
        Some(Self {
            since: now.checked_sub(Duration::from_millis(task.duration_ms.unwrap_or(0))).unwrap_or(now),
            client: super::door::client(Some(session)).ok()?,
            news: News::start(session).ok(),
            grown: FileWatch::modify(Path::new(&task.output.path)).ok(),
            task: task.clone(),
            is_old: true,
            line: None,
            next: now + FIRST_PAUSE,
        })
    }

    /// What is to be waited for.
    pub(super) fn awaited(&self) -> Vec<(BorrowedFd<'_>, For)> {
        let news = self.news.as_ref().map(|news| (news.as_fd(), For::Read));
        let grown = self.grown.as_ref().map(|grown| (grown.as_fd(), For::Read));
        news.into_iter().chain(grown).collect()
    }

    /// And for how long at most.
    pub(super) fn pause(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    /// Takes in what has come, and draws if it is time.
    pub(super) fn go_on(&mut self) {
        if let Some(grown) = &self.grown {
            // A watch that fails says nothing more.
            let _any = grown.drain();
        }
        // Whether there is a word is seen by asking: reading one that is not there would wait.
        let told = self.news.as_ref().is_some_and(|news| {
            poll(&[(news.as_fd(), For::Read)], Some(Duration::ZERO)).is_ok_and(|ready| ready == [true])
        });
        if told {
            match self.news.as_mut().map(News::take) {
                Some(Ok(is_new)) => self.is_old |= is_new,
                _ => self.news = None,
            }
            self.next = self.next.min(Instant::now() + PAUSE);
        }
        if Instant::now() >= self.next {
            self.show();
        }
    }

    /// Takes the line away: something else is printed. It comes back when that is over.
    pub(super) fn hide(&mut self) {
        if let Some(line) = self.line.take() {
            line.finish_and_clear();
        }
        self.next = self.next.max(Instant::now() + PAUSE);
    }

    fn show(&mut self) {
        self.next = Instant::now() + TICK;
        if std::mem::take(&mut self.is_old)
            && let Ok(Reply::Task { task, .. }) = self.client.call(Request::Show { id: self.task.id.clone() })
        {
            self.task = *task;
        }
        if self.task.has_ended() {
            return self.hide();
        }
        if self.grown.is_none() {
            self.grown = FileWatch::modify(Path::new(&self.task.output.path)).ok();
        }
        // What the daemon said may be older than what the output shows now.
        progress::look_now(&mut self.task);
        let (percent, words) = words(self.task.progress.as_ref(), self.since.elapsed());
        let line = self.line.get_or_insert_with(|| ProgressBar::new(100));
        line.set_style(style(percent.is_some()));
        line.set_position(u64::from(percent.unwrap_or(0)));
        line.set_message(words);
        line.force_draw();
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.hide();
    }
}

fn style(measured: bool) -> ProgressStyle {
    let template = match (measured, Style::of_stderr().is_plain()) {
        (true, true) => "[{bar:24}] {msg}",
        (true, false) => "[{bar:24.cyan}] {msg}",
        (false, _) => "{msg}",
    };
    // The templates are ours, and a wrong one is a plain line.
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner());
    style.progress_chars("=> ")
}

/// How much is done, and the words beside it. An estimate goes on with the clock.
fn words(progress: Option<&ProgressObject>, elapsed: Duration) -> (Option<u8>, String) {
    let time = seconds_text(millis(elapsed));
    let Some(ProgressObject { percent, text, usual_ms, .. }) = progress else {
        return (None, format!("running {time}"));
    };
    let text = text.as_deref().map(|text| format!("  {}", clean::short(text, TEXT_CHARS))).unwrap_or_default();
    let percent = usual_ms.map_or(*percent, |usual_ms| Some(percent_of_usual(millis(elapsed), usual_ms)));
    let mark = if usual_ms.is_some() { "~" } else { "" };
    let measure = percent.map(|percent| format!("{mark}{percent}%  ")).unwrap_or_default();
    (percent, format!("{measure}{time}{text}"))
}

/// Asks and waits for the answer, with a line if there is one; nothing if `stop` became readable first.
pub(super) fn call_until(
    bar: Option<Bar>,
    client: &mut Client,
    request: Request,
    stop: BorrowedFd<'_>,
) -> Result<Option<Reply>, Failure> {
    let Some(mut bar) = bar else { return Ok(client.call_until(request, stop)?) };
    client.begin(request)?;
    loop {
        let mut others = vec![(stop, For::Read)];
        others.extend(bar.awaited());
        let ready = client.poll(&others, Some(bar.pause()))?;
        if ready.get(1) == Some(&true) {
            return Ok(None);
        }
        if ready.first() == Some(&true)
            && let Some(reply) = client.finish()?
        {
            return Ok(Some(reply));
        }
        bar.go_on();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_say_what_is_known_and_an_estimate_goes_on() {
        let of = |percent, usual_ms| ProgressObject {
            percent,
            text: Some("epoch\u{1b} 2".to_owned()),
            source: String::new(),
            usual_ms,
        };
        let check = |progress: &ProgressObject| words(Some(progress), Duration::from_millis(20_900));
        assert_eq!(check(&of(Some(37), None)), (Some(37), "37%  20s  epoch\\u{1b} 2".to_owned()));
        assert_eq!(check(&of(None, None)), (None, "20s  epoch\\u{1b} 2".to_owned()));
        assert_eq!(check(&of(Some(30), Some(33_300))), (Some(62), "~62%  20s  epoch\\u{1b} 2".to_owned()));
        assert_eq!(check(&of(Some(90), Some(1))).0, Some(99));
        assert_eq!(words(None, Duration::from_secs(2)), (None, "running 2s".to_owned()));
    }
}
