//! What the terminal of a task shows at a byte of its output.

use std::io;

use ringback_host::client::output::{Output, Piece};
use ringback_host::wire::{TaskObject, TerminalSize};
use ringback_render::{Options, Picture, Renderer};

use super::Sizes;
use super::modes::is_alternate;

/// How far back it is begun: more than any program paints between two whole pictures.
const LOOK_BACK_BYTES: u64 = 1 << 20;

/// The picture after the first `end` bytes.
pub(crate) fn picture(task: &TaskObject, output: &mut Output, end: u64) -> io::Result<Picture> {
    let sizes = Sizes::of(task);
    let start = end.saturating_sub(LOOK_BACK_BYTES);
    let TerminalSize { columns, rows } = sizes.at(start).unwrap_or(TerminalSize::USUAL);
    let mut renderer = Renderer::new(&Options { columns: Some(columns), rows, fold: false, ..Options::default() });
    if is_alternate(output, start)? {
        renderer.push(b"\x1b[?1049h", &mut |_| {});
    }
    output.scan(start..end, false, &mut |piece| {
        if let Piece::Bytes { offset, bytes, .. } = piece {
            push(&mut renderer, &sizes, offset, bytes);
        }
        Ok(())
    })?;
    Ok(renderer.picture())
}

fn push(renderer: &mut Renderer, sizes: &Sizes, offset: u64, bytes: &[u8]) {
    let mut done = 0;
    for (at, _, size) in sizes.changes(offset, offset + bytes.len() as u64) {
        let until = usize::try_from(at - offset).unwrap_or(bytes.len());
        renderer.push(&bytes[done..until], &mut |_| {});
        renderer.resize(size.columns, size.rows, &mut |_| {});
        done = until;
    }
    renderer.push(&bytes[done..], &mut |_| {});
}
