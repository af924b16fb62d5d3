//! Waiting for a pattern: output that came before is searched too, and nothing falls between two pieces.

use std::os::fd::AsFd as _;
use std::time::Duration;

use regex::bytes::Regex;
use ringback_host::client::output::{Follow, Output, Turn};
use ringback_host::wire::TaskObject;
use ringback_sys::watch::For;

use super::super::answer::Answer;
use super::super::args::wrong;
use super::super::excerpt::quote_line;
use super::super::link::Line;
use super::{Job, Work};
use crate::explain::Failure;

/// How much is searched at once.
const BLOCK_BYTES: u64 = 64 << 10;
/// The longest line in which a match is found whole.
const LINE_BYTES_MAX: usize = 64 << 10;

/// The job of waiting for `text` in the output of a task, from `offset` on.
pub(super) fn job(id: String, text: &str, offset: u64, limit: Duration) -> Result<Job, Failure> {
    let pattern = compile(text)?;
    let work = move |line: &mut Line| wait_for(line, &id, Search { pattern, held: Vec::new(), held_at: offset });
    Ok(Job { limit, work: Work::call(work) })
}

/// A pattern as a model wrote it.
pub(super) fn compile(text: &str) -> Result<Regex, Failure> {
    ringback_host::pattern::of_lines(text).map_err(|why| {
        wrong(format!("the pattern cannot be used: {why}"), "escape . ( [ * + ? to mean them literally".to_owned())
    })
}

enum Found {
    Match(Hit),
    Ended(Box<TaskObject>),
    Late,
}

struct Hit {
    start: u64,
    end: u64,
    line: Vec<u8>,
}

fn wait_for(line: &mut Line, id: &str, mut search: Search) -> Result<Answer, Failure> {
    let task = line.show(id)?;
    line.awaited.set(std::slice::from_ref(&task.id));
    let (client, stop) = line.lend()?;
    let mut follow = Follow::start(client, &task)?;
    let mut output = None;
    let found = loop {
        if let Some(hit) = search.look(&mut output, &task)? {
            break Found::Match(hit);
        }
        match follow.next(&[(stop.as_fd(), For::Read)])? {
            Turn::Grown => {}
            Turn::Ready(_) => break Found::Late,
            Turn::Ended(task) => match search.look(&mut output, &task)? {
                Some(hit) => break Found::Match(hit),
                None => break Found::Ended(task),
            },
        }
    };
    drop(follow);
    tell(line, &task, found)
}

fn tell(line: &mut Line, task: &TaskObject, found: Found) -> Result<Answer, Failure> {
    match found {
        Found::Match(hit) => {
            let verdict =
                format!("MATCHED at bytes {}-{} of {}", hit.start, hit.end.saturating_sub(1).max(hit.start), task.id);
            let mut answer =
                Answer::plain(verdict, format!("output {{\"id\":\"{}\",\"offset\":{}}} reads on", task.id, hit.end));
            answer.set_tail(quote_line(&hit.line));
            let now = line.show(&task.id)?;
            answer.field("id", now.id);
            answer.field("state", now.state);
            answer.field("matched", true);
            answer.field("cursor", hit.end);
            Ok(answer.complete(line, &[]))
        }
        Found::Ended(task) => {
            let mut answer = Answer::of_ended(&task);
            answer.line("it ended without a match".to_owned());
            answer.field("matched", false);
            Ok(answer.complete(line, std::slice::from_ref(&*task)))
        }
        Found::Late => {
            let now = line.show(&task.id)?;
            let mut answer = Answer::of_task(&now, "no match so far; call wait again with the same pattern");
            answer.field("matched", false);
            Ok(answer.complete(line, std::slice::from_ref(&now)))
        }
    }
}

/// Searches an output as it grows, line by line; an unfinished last line is searched again when it has grown.
struct Search {
    pattern: Regex,
    held: Vec<u8>,
    held_at: u64,
}

impl Search {
    fn look(&mut self, output: &mut Option<Output>, task: &TaskObject) -> Result<Option<Hit>, Failure> {
        if output.is_none() {
            *output = Output::open(task)?;
        }
        let Some(output) = output else { return Ok(None) };
        output.update_gaps(task);
        loop {
            let from = self.held_at + self.held.len() as u64;
            let end = output.len()?.min(from + BLOCK_BYTES);
            if from >= end {
                return Ok(None);
            }
            if let Some(gap) = output.gaps().iter().find(|gap| gap.from < end && from < gap.to) {
                // Nothing can match across what is not there.
                let (to, before) = (gap.to, gap.from.max(from));
                let bytes = output.read(from..before)?;
                let hit = self.push(&bytes);
                self.held.clear();
                self.held_at = to;
                if hit.is_some() {
                    return Ok(hit);
                }
                continue;
            }
            let bytes = output.read(from..end)?;
            if bytes.is_empty() {
                return Ok(None);
            }
            if let Some(hit) = self.push(&bytes) {
                return Ok(Some(hit));
            }
        }
    }

    fn push(&mut self, bytes: &[u8]) -> Option<Hit> {
        self.held.extend_from_slice(bytes);
        if let Some(found) = self.pattern.find(&self.held) {
            let line = line_around(&self.held, found.start());
            let (start, end) = (self.held_at + found.start() as u64, self.held_at + found.end() as u64);
            return Some(Hit { start, end, line: line.to_vec() });
        }
        let whole = self.held.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let cut = whole.max(self.held.len().saturating_sub(LINE_BYTES_MAX));
        self.held.drain(..cut);
        self.held_at += cut as u64;
        None
    }
}

fn line_around(bytes: &[u8], at: usize) -> &[u8] {
    let start = bytes[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |before| before + 1);
    let end = bytes[at..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |after| at + after);
    &bytes[start..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(pattern: &str, pieces: &[&str]) -> Option<(u64, u64)> {
        let mut search = Search { pattern: compile(pattern).unwrap(), held: Vec::new(), held_at: 10 };
        pieces.iter().find_map(|piece| search.push(piece.as_bytes())).map(|hit| (hit.start, hit.end))
    }

    #[test]
    fn a_match_is_found_across_pieces_and_in_an_unfinished_line() {
        assert_eq!(search("ready", &["starting\nre", "ady"]), Some((19, 24)));
        assert_eq!(search("^Password: $", &["x\nPassword: "]), Some((12, 22)));
        assert_eq!(search("never", &["a\n", "b"]), None);
    }

    #[test]
    fn memory_stays_bounded_on_an_endless_line() {
        let mut search = Search { pattern: compile("z").unwrap(), held: Vec::new(), held_at: 0 };
        for _ in 0..10 {
            assert!(search.push(&vec![b'x'; 60 << 10]).is_none());
        }
        assert!(search.held.len() <= LINE_BYTES_MAX);
        assert_eq!(search.held_at + search.held.len() as u64, 10 * (60 << 10));
    }

    #[test]
    fn a_bad_pattern_is_explained_and_a_huge_one_refused() {
        assert!(compile("a(").unwrap_err().message.contains("unclosed group"));
        assert!(compile("(\\w{1000}){1000}").is_err());
    }
}
