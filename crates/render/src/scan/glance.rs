//! What has to be known of a block to pass over it: how many lines, and whether there may be a word. A glance needs nothing of
//! what was before, so that several threads glance at several blocks.

use aho_corasick::Span;

use super::{SEARCHER, newlines};

/// How much before a block is glanced at with it: a word may begin there. Longer than the longest word.
pub const GLANCE_BACK_BYTES: usize = 32;

/// What was seen in a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Glance {
    pub(crate) newlines: u64,
    pub(crate) has_word: bool,
}

impl Glance {
    /// Looks at more of the block: the text after its first `before` bytes, which were looked at or are of the block before.
    pub fn add(&mut self, text: &[u8], before: usize) {
        self.newlines += newlines(&text[before..]);
        let span = Span { start: before.saturating_sub(GLANCE_BACK_BYTES), end: text.len() };
        self.has_word =
            self.has_word || SEARCHER.as_ref().is_none_or(|searcher| searcher.find_in(text, span).is_some());
    }
}
