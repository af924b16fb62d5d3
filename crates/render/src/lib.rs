//! Output bytes in, safe and bounded text out: a terminal model, a digest, and what test and build tools said.
//!
//! Everything here is pure: no clock, no terminal, no file is opened. The same bytes give the same text, however they were
//! cut into pieces. Memory does not grow with the output.
//!
//! **Line numbers** are those of the raw output: line *n* is what follows the (*n* − 1)th newline byte. They never change
//! while a task runs. A rendered line has the number of the raw line that wrote its last character, so that
//! `logs --lines n:n` finds it; where a program went up and painted over, numbers may go down.

#![forbid(unsafe_code)]

mod character;
pub mod digest;
mod fold;
pub mod junit;
pub mod kept;
pub mod lines;
mod modes;
mod progress;
pub mod recognise;
mod render;
pub mod scan;
mod screen;
mod terminal;
pub mod text;

pub use digest::{Digest, Digester, Verdict};
pub use modes::Modes;
pub use progress::Progress;
pub use render::{Line, Options, Renderer, render_all};
pub use screen::Picture;
