//! Says that a call that blocks is alive, and how far what it waits for has come.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use ringback_host::wire::{ProgressObject, Reply, Request, TaskObject, Until};
use rmcp::RoleServer;
use rmcp::model::ProgressNotificationParam;
use rmcp::service::RequestContext;
use tokio::time::{Instant, sleep};

use super::link::{Awaited, Line, Link, unexpected};
use crate::caller;
use crate::explain::Failure;
use crate::output::progress;
use crate::render::clean;

/// When a call that blocks first says that it is alive; after that in pauses that double.
const PAUSE_FIRST: Duration = Duration::from_secs(2);
/// The longest of them. The shortest patience known is a minute, and it is a person who looks, not a model.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// How long a look may take: the word that the call is alive must not wait for a daemon that is not.
const LOOK_WAIT: Duration = Duration::from_secs(1);
/// With more calls than these at once only the time is told: the looks would take the threads of the calls.
const CALLS_MAX: usize = 64;
/// How much of what a task says of its progress is passed on, characters.
const WORDS_CHARS: usize = 100;

/// Tells a client that wants to know, for as long as it is asked to.
pub(super) async fn report(
    link: &Arc<Link>,
    context: &RequestContext<RoleServer>,
    session: &str,
    awaited: &Awaited,
) -> Infallible {
    let Some(token) = context.meta.get_progress_token() else { return pending().await };
    let began = Instant::now();
    let mut pause = PAUSE_FIRST;
    loop {
        sleep(pause).await;
        pause = (2 * pause).min(PAUSE_MAX);
        let mut tasks = look(link, session, awaited.ids()).await;
        let elapsed = began.elapsed();
        let (percent, words) = words(&mut tasks, elapsed);
        // The measure is the time that the call has taken, since it must rise with every word; the whole is put so that
        // the ratio is that of the task.
        let mut params = ProgressNotificationParam::new(token.clone(), elapsed.as_secs_f64()).with_message(words);
        if let Some(percent) = percent.filter(|percent| *percent > 0) {
            params = params.with_total(elapsed.as_secs_f64() * 100.0 / f64::from(percent));
        }
        // A client that is gone is noticed elsewhere.
        let _unsent = context.peer.notify_progress(params).await;
    }
}

/// The tasks as they stand; none where that cannot be seen just now. To look is no hearing.
async fn look(link: &Arc<Link>, session: &str, ids: Vec<String>) -> Vec<TaskObject> {
    if ids.is_empty() || link.busy() > CALLS_MAX {
        return Vec::new();
    }
    let job = move |line: &mut Line| -> Result<Vec<TaskObject>, Failure> {
        let now = Request::Wait { ids, any: true, timeout_ms: Some(0), until: Until::End };
        match line.call_until_stopped(now)? {
            Some(Reply::Tasks { tasks, .. }) => Ok(tasks),
            _ => Err(unexpected()),
        }
    };
    link.ask(caller::of(session.to_owned()), sleep(LOOK_WAIT), job).await.unwrap_or_default()
}

/// How much is done, and the words beside it.
fn words(tasks: &mut [TaskObject], elapsed: Duration) -> (Option<u8>, String) {
    let time = format!("waiting, {} s so far", elapsed.as_secs());
    match tasks {
        [] => (None, time),
        [task] => {
            // What the daemon said may be older than what the output shows now.
            progress::look_now(task);
            let Some(ProgressObject { percent, text, source, .. }) = &task.progress else { return (None, time) };
            let estimate = if source == ProgressObject::USUAL_DURATION { "~" } else { "" };
            let measure = percent.map(|percent| format!("{estimate}{percent}%"));
            let text = text.as_deref().map(|text| clean::short(text, WORDS_CHARS)).filter(|text| !text.is_empty());
            (*percent, [measure, text, Some(time)].into_iter().flatten().collect::<Vec<_>>().join(" · "))
        }
        several => {
            let ended = several.iter().filter(|task| task.has_ended()).count();
            (None, format!("{ended} of {} ended · {time}", several.len()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(percent: Option<u8>, text: &str, source: &str) -> TaskObject {
        let progress = ProgressObject {
            percent,
            text: Some(text.to_owned()),
            source: source.to_owned(),
            ..ProgressObject::default()
        };
        TaskObject { state: "running".to_owned(), progress: Some(progress), ..TaskObject::default() }
    }

    #[test]
    fn the_words_say_what_is_known() {
        let check = |tasks: &mut [TaskObject]| words(tasks, Duration::from_millis(20_900));
        assert_eq!(check(&mut []), (None, "waiting, 20 s so far".to_owned()));
        assert_eq!(
            check(&mut [task(Some(42), "epoch\u{1b} 2", ProgressObject::REPORTED)]),
            (Some(42), "42% · epoch\\u{1b} 2 · waiting, 20 s so far".to_owned())
        );
        let usual = check(&mut [task(Some(7), "usually 3m 12s", ProgressObject::USUAL_DURATION)]);
        assert_eq!(usual.1, "~7% · usually 3m 12s · waiting, 20 s so far");
        let ended = TaskObject { state: "exited".to_owned(), ..TaskObject::default() };
        let two = check(&mut [task(Some(42), "x", ProgressObject::REPORTED), ended]);
        assert_eq!(two, (None, "1 of 2 ended · waiting, 20 s so far".to_owned()));
    }
}
