//! The first and the last rendered lines of an output, and what is between them.

use std::collections::VecDeque;

use crate::progress::Progress;
use crate::render::{Line, Options, Renderer};
use crate::text::shorten;

/// Most lines kept of the begin and of the end.
const HEAD_MAX: usize = 64;
const TAIL_MAX: usize = 512;
/// How much of a line is kept; a digest shows less.
const LINE_BYTES_MAX: usize = 2100;

/// A rendered line that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) number: u64,
    pub(super) last_number: u64,
    pub(super) text: String,
}

/// The lines that may be shown.
#[derive(Debug, Default)]
pub(super) struct Edges {
    pub(super) head: Vec<Shown>,
    pub(super) tail: VecDeque<Shown>,
    /// First and last raw line of rendered lines that are kept nowhere.
    pub(super) dropped: Option<(u64, u64)>,
    /// Whether lines between head and tail were never rendered.
    pub(super) is_cut: bool,
    /// The text of the row in which the cursor stood at the end.
    pub(super) current: String,
    /// How far it says it is, and how it says it.
    pub(super) progress: Option<(u8, &'static str)>,
    /// Whether the output ends in the middle of a line.
    pub(super) ends_open: bool,
}

impl Edges {
    /// Renders an output that is there as a whole.
    pub(super) fn render(&mut self, bytes: &[u8], options: &Options) {
        self.run(bytes, options, |edges, line| {
            if edges.head.len() < HEAD_MAX {
                edges.head.push(line);
            } else {
                edges.push_tail(line);
            }
        });
    }

    /// Renders the begin of an output that is not held.
    pub(super) fn render_head(&mut self, bytes: &[u8], options: &Options) {
        self.is_cut = true;
        self.run(bytes, options, |edges, line| {
            if edges.head.len() < HEAD_MAX {
                edges.head.push(line);
            }
        });
    }

    /// Renders the end of an output that is not held.
    pub(super) fn render_tail(&mut self, bytes: &[u8], options: &Options) {
        self.run(bytes, options, Self::push_tail);
    }

    fn run(&mut self, bytes: &[u8], options: &Options, mut take: impl FnMut(&mut Self, Shown)) {
        let mut out = |line: Line<'_>| {
            let text = shorten(&line.to_string(), LINE_BYTES_MAX);
            take(self, Shown { number: line.number, last_number: line.last_number, text });
        };
        let mut renderer = Renderer::new(options);
        renderer.push(bytes, &mut out);
        let current = renderer.current();
        let said = renderer.progress().and_then(|progress| progress.percent).map(|percent| (percent, "OSC 9;4"));
        renderer.finish(&mut out);
        let last = || self.tail.back().or(self.head.last()).map_or("", |line| &line.text);
        let text = if current.is_empty() { last() } else { &current };
        let seen = || Some((Progress::of_text(text)?.percent?, "last line"));
        self.progress = said.or_else(seen);
        self.current = current;
        self.ends_open = bytes.last().is_some_and(|byte| *byte != b'\n');
    }

    fn push_tail(&mut self, line: Shown) {
        self.tail.push_back(line);
        if self.tail.len() > TAIL_MAX
            && let Some(Shown { number, last_number, .. }) = self.tail.pop_front()
        {
            let (from, to) = self.dropped.unwrap_or((number, last_number));
            self.dropped = Some((from.min(number), to.max(last_number)));
        }
    }

    /// Whether the kept lines are all that there are.
    pub(super) fn is_complete(&self) -> bool {
        !self.is_cut && self.dropped.is_none()
    }

    /// The raw lines between the first `head` and the last `tail` lines, if any are left out.
    pub(super) fn between(&self, head: usize, tail: usize) -> Option<(u64, u64)> {
        let first = self.tail.len().saturating_sub(tail);
        let (shown_head, left_head) = self.head.split_at(head.min(self.head.len()));
        let left = left_head.iter().chain(self.tail.iter().take(first));
        let left = left.map(|line| (line.number, line.last_number)).chain(self.dropped);
        let left = left.reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)));
        if !self.is_cut {
            return left;
        }
        // What was not rendered has no lines to name; its numbers are those between what is shown.
        let after = shown_head.iter().map(|line| line.last_number).max().map_or(1, |last| last + 1);
        let end = || self.tail.iter().map(|line| line.last_number + 1).max();
        let before = self.tail.iter().skip(first).map(|line| line.number).min().or_else(end)?;
        // Else it is the middle of an endless line: between the kept begin and the kept end there is always something.
        let cut = if after < before { (after, before - 1) } else { (before, before) };
        left.into_iter().chain([cut]).reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)))
    }
}
