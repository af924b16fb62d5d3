//! Secrets are looked for only in what may be shown: a line that is looked at, the begin and the end. In the rest of a long
//! output nothing is hidden, because nobody sees it.

use std::fmt;
use std::ops::Range;

/// How much more is read over at once where one look follows another, at most.
const AHEAD_BYTES_MAX: usize = 64 << 10;

/// Hides what must not be shown.
pub struct Veil {
    margin: usize,
    hide: Hide,
}

/// Stars what is secret in a text that stays as long as it is; and, if the text `goes_on` in a way that is not known yet, what
/// may be the begin of a secret at its end.
type Hide = Box<dyn Fn(&mut [u8], bool)>;

impl Veil {
    /// What hides, and how many bytes before and after a text it has to see.
    pub fn new(margin: usize, hide: impl Fn(&mut [u8], bool) + 'static) -> Self {
        Self { margin, hide: Box::new(hide) }
    }
}

impl fmt::Debug for Veil {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Veil").field("margin", &self.margin).finish_non_exhaustive()
    }
}

/// A part of a buffer as it may be shown. The buffer keeps the bytes as they are: a secret of which a part is hidden already
/// would not be known by its rest.
#[derive(Debug, Default)]
pub(super) struct Veiled {
    veil: Option<Veil>,
    text: Vec<u8>,
    /// Where `text` begins, and what of it may be shown: offsets in everything that was given.
    begin: u64,
    shown: Range<u64>,
    /// How much more than was asked for is read over.
    ahead: usize,
}

impl Veiled {
    pub(super) fn new(veil: Option<Veil>) -> Self {
        Self { veil, ..Self::default() }
    }

    /// How much has to be held before and after what is shown.
    pub(super) fn margin(&self) -> usize {
        self.veil.as_ref().map_or(0, |veil| veil.margin)
    }

    /// Hides in a text of which the last bytes, as many as a secret may have, will not be shown.
    pub(super) fn hide(&self, text: &mut [u8]) {
        if let Some(veil) = &self.veil {
            (veil.hide)(text, false);
        }
    }

    /// Nothing more will come: hides in all of the buffer, but for what begins before it.
    pub(super) fn lift(&mut self, buffer: &mut [u8]) {
        if let Some(veil) = self.veil.take() {
            (veil.hide)(buffer, true);
        }
    }

    /// A part of the buffer, which begins at `offset`. The buffer goes on for as long as a secret may.
    pub(super) fn show<'a>(&'a mut self, buffer: &'a [u8], offset: u64, part: Range<usize>) -> &'a [u8] {
        let Some(veil) = &self.veil else { return &buffer[part] };
        let asked = offset + part.start as u64..offset + part.end as u64;
        if asked.start < self.shown.start || self.shown.end < asked.end {
            // Looks that follow each other closely have their text in common, and one that is alone costs little.
            let is_near = asked.start.saturating_sub(self.shown.end) < 2 * veil.margin as u64;
            self.ahead = if is_near { (2 * self.ahead).clamp(veil.margin, AHEAD_BYTES_MAX) } else { 0 };
            let start = part.start.saturating_sub(veil.margin);
            let end = (part.end + self.ahead + veil.margin).min(buffer.len());
            self.text.clear();
            self.text.extend_from_slice(&buffer[start..end]);
            (veil.hide)(&mut self.text, false);
            self.begin = offset + start as u64;
            self.shown = asked.start..(offset + end.saturating_sub(veil.margin) as u64).max(asked.end);
        }
        // Both are within the text.
        let place = |at: u64| usize::try_from(at - self.begin).unwrap_or(usize::MAX);
        &self.text[place(asked.start)..place(asked.end)]
    }
}
