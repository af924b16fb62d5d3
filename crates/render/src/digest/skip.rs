//! Passes over the blocks of a long output in which there is nothing to look at.

use super::Digester;
use crate::scan::{Glance, TAIL_BYTES};

/// Gives blocks to a digester, or only counts them; the digest is the same as if each byte had been given.
///
/// (Of a line over 128 KiB, which is looked at in parts, the parts may be others.)
#[derive(Debug)]
pub struct Skipper<B> {
    /// The last block, which is needed if there is something in the next one, or if it is the end.
    held: Option<(B, Glance)>,
    /// Whether there was nothing in the block before it.
    was_quiet: bool,
}

impl<B> Default for Skipper<B> {
    fn default() -> Self {
        Self { held: None, was_quiet: false }
    }
}

impl<B: AsRef<[u8]>> Skipper<B> {
    /// Takes the next block, and gives back one that is no longer needed.
    pub fn next(&mut self, to: &mut Digester, block: B, glance: Glance) -> Option<B> {
        // Else the end would not be there if this is the last one.
        let is_long = block.as_ref().len() >= TAIL_BYTES + to.scanner.margin();
        let (held, seen) = self.held.replace((block, glance))?;
        let is_tired = to.scanner.is_tired();
        let is_quiet = |glance: Glance| !glance.has_word || is_tired;
        // A line that begins before the block may have its word in it, one that ends after it there.
        if self.was_quiet && is_quiet(seen) && is_quiet(glance) && is_long && to.scanner.can_skip() {
            to.bytes += held.as_ref().len() as u64;
            to.scanner.skip(held.as_ref().len() as u64, seen.newlines);
        } else {
            to.push(held.as_ref());
        }
        self.was_quiet = is_quiet(seen);
        Some(held)
    }

    /// Gives the last block to the digester: what comes now is no block, or nothing.
    pub fn flush(&mut self, to: &mut Digester) -> Option<B> {
        let (held, _) = self.held.take()?;
        to.push(held.as_ref());
        self.was_quiet = false;
        Some(held)
    }
}
