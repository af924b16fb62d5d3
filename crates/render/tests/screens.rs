//! What a terminal of a known size shows: regions that scroll, full-screen programs, sizes that change.

use ringback_render::{Options, Renderer};

fn renderer(columns: u16, rows: u16) -> Renderer {
    Renderer::new(&Options { columns: Some(columns), rows, fold: false, ..Options::default() })
}

/// What is shown at the end, and what has left the screen before.
fn shown(size: (u16, u16), bytes: &[u8]) -> (Vec<String>, Vec<String>) {
    let mut renderer = renderer(size.0, size.1);
    let mut left = Vec::new();
    renderer.push(bytes, &mut |line| left.push(line.text.to_owned()));
    (renderer.picture().rows, left)
}

#[test]
fn a_picture_has_the_rows_and_the_cursor() {
    let mut renderer = renderer(10, 3);
    renderer.push(b"one\r\ntwo\r\nthree\r\n$ ls", &mut |_| {});
    let picture = renderer.picture();
    assert_eq!(picture.rows, ["two", "three", "$ ls"]);
    assert_eq!((picture.row, picture.column, picture.is_alternate), (2, 4, false));
    renderer.push(b"\x1b[?1049h\x1b[2;3Hfull", &mut |_| {});
    let picture = renderer.picture();
    assert_eq!(picture.rows, ["", "  full"]);
    assert_eq!((picture.row, picture.column, picture.is_alternate), (1, 6, true));
}

#[test]
fn a_region_scrolls_and_the_rest_stays() {
    // As apt does: the last row is a progress bar, the others scroll above it.
    let (rows, left) = shown((20, 4), b"\x1b[1;3r\x1b[4;1H[50%]\x1b[1;1Ha\r\nb\r\nc\r\nd\r\ne");
    assert_eq!(
        (rows, left),
        (["c", "d", "e", "[50%]"].map(str::to_owned).to_vec(), vec!["a".to_owned(), "b".to_owned()])
    );
    let (rows, left) = shown((20, 4), b"top\r\n\x1b[2;3r\x1b[2;1Ha\r\nb\r\nc\x1b[r\x1b[4;1Hend");
    assert_eq!((rows, left), (["top", "b", "c", "end"].map(str::to_owned).to_vec(), Vec::new()));
}

#[test]
fn rows_move_down_as_well() {
    let (rows, _) = shown((20, 3), b"a\r\nb\r\nc\x1b[1;1H\x1bMnew");
    assert_eq!(rows, ["new", "a", "b"]);
    let (rows, _) = shown((20, 3), b"a\r\nb\r\nc\x1b[2;1H\x1b[Lin");
    assert_eq!(rows, ["a", "in", "b"]);
    let (rows, _) = shown((20, 4), b"a\r\nb\r\nc\r\nd\x1b[1;3r\x1b[1;1H\x1b[M");
    assert_eq!(rows, ["b", "c", "", "d"]);
    let (rows, _) = shown((20, 3), b"a\r\nb\x1b[T");
    assert_eq!(rows, ["", "a", "b"]);
}

#[test]
fn a_smaller_terminal_keeps_what_is_at_the_cursor() {
    let mut renderer = renderer(20, 4);
    let mut left = Vec::new();
    renderer.push(b"a\r\nb\r\nc\r\nd", &mut |line| left.push(line.text.to_owned()));
    renderer.resize(10, 2, &mut |line| left.push(line.text.to_owned()));
    assert_eq!(
        (renderer.picture().rows, left),
        (["c", "d"].map(str::to_owned).to_vec(), vec!["a".to_owned(), "b".to_owned()])
    );
    renderer.push(b"\r\n0123456789x", &mut |_| {});
    assert_eq!(renderer.picture().rows, ["0123456789", "x"]);
}
