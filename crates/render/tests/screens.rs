//! What a terminal of a known size shows: regions that scroll, full-screen programs, sizes that change.

use ringback_render::{Line, Options, Renderer, render_all};

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

/// What is shown of bytes that nobody knows the terminal of.
fn unsized_text(bytes: &[u8]) -> String {
    let whole = render_all(bytes, &Options::default());
    let (mut pieces, mut renderer) = (Vec::new(), Renderer::new(&Options::default()));
    let mut out = |line: Line<'_>| pieces.push(line.to_string());
    for byte in bytes {
        renderer.push(&[*byte], &mut out);
    }
    renderer.finish(&mut out);
    assert_eq!(pieces.concat(), whole.replace('\n', ""));
    whole
}

/// Rows filled up to this width, as indicatif paints them: without newlines.
fn filled(width: usize, rows: &[&str]) -> String {
    rows.iter().map(|row| format!("{row:width$}")).collect::<Vec<_>>().concat()
}

#[test]
fn rows_without_newlines_are_rows_where_nobody_knows_the_width() {
    let clear = "\x1b[1A\r\x1b[2K\x1b[1B\r\x1b[2K\x1b[1A";
    let area = |done| filled(90, &[&format!("Running {done}/3"), "  slow::test"]);
    let first = format!("{}\r\x1b[2K", filled(90, &["Running 0/3"]));
    let frames = format!("{first}{}{clear}{}{}{clear}", area(0), filled(90, &["PASS one", "PASS two"]), area(2));
    assert_eq!(unsized_text(format!("begin\r\n{frames}end\r\n").as_bytes()), "begin\nPASS one\nPASS two\nend\n");
    // One row alone says how wide it is by being filled up again and again; what is printed above it is as wide.
    let clear = "\r\x1b[2K";
    let bar = |done| filled(90, &[&format!("Running {done}/3")]);
    let frames =
        format!("{}{clear}{}{clear}{}{}{clear}", bar(0), bar(1), filled(90, &["PASS one", "PASS two"]), bar(2));
    assert_eq!(unsized_text(format!("begin\r\n{frames}end\r\n").as_bytes()), "begin\nPASS one\nPASS two\nend\n");
}

#[test]
fn an_area_with_newlines_says_nothing_of_the_width() {
    let clear = "\x1b[1A\r\x1b[2K\x1b[1B\r\x1b[2K\x1b[1A";
    let area = |done| format!("one {done}/9\r\n{}", filled(120, &[&format!("{:70}12 MB/s", "two")]));
    let long = "x".repeat(200);
    let bytes = format!("begin\r\n{}{clear}{}{clear}{long}\r\n", area(1), area(2));
    assert_eq!(unsized_text(bytes.as_bytes()), format!("begin\n{long}\n"));
}

#[test]
fn a_program_that_addresses_rows_paints_over_nothing_that_was_before_it() {
    let log = (1..=100).map(|n| format!("log {n}\n")).collect::<Vec<_>>().concat();
    let frame = |n| format!("\x1b[H\x1b[Kframe {n}\r\n\x1b[K{n} of 9\r\n\x1b[J");
    let bytes = format!("{log}{}{}", frame(1), frame(2));
    assert_eq!(unsized_text(bytes.as_bytes()), format!("{log}frame 2\n2 of 9\n"));
    // As apt does on a terminal of 24 rows.
    let unpack = |n| format!("unpack {n}\r\n\x1b7\x1b[24;0f[{n} %]\x1b8");
    let steps = (1..=50).map(unpack).collect::<Vec<_>>().concat();
    let region = |rows| format!("\n\x1b[s\x1b[0;{rows}r\x1b[u\x1b[1A");
    let bytes = format!("{log}{}{steps}{}\x1b[Jdone\n", region(23), region(24));
    let text = unsized_text(bytes.as_bytes());
    let unpacked = (1..=50).map(|n| format!("unpack {n}\n")).collect::<Vec<_>>().concat();
    assert_eq!(text.replace("\n\n", "\n"), format!("{log}{unpacked}done\n"));
}

#[test]
fn a_screen_that_is_erased_from_its_first_cell_on_is_kept() {
    for erase in ["\x1b[2J\x1b[H", "\x1b[H\x1b[2J", "\x1b[H\x1b[J", "\x1b[1;1H\x1b[0J", "\x1bc"] {
        for columns in [None, Some(80)] {
            let text =
                render_all(format!("one\ntwo\n{erase}three\n").as_bytes(), &Options { columns, ..Options::default() });
            assert_eq!(text, "one\ntwo\nthree\n", "{erase:?}");
        }
    }
    // But an area that happens to begin there is painted over.
    assert_eq!(unsized_text(b"\x1b[2J\x1b[Hone\r\ntwo\r\n\x1b[2A\x1b[Jthree\r\n"), "three\n");
}

#[test]
fn a_blank_at_the_end_of_a_row_is_between_words_where_the_text_goes_on() {
    let options = Options { columns: Some(10), ..Options::default() };
    assert_eq!(
        render_all(b"one two 3 four\nonetwo    \nonetwo3456 \nnext", &options),
        "one two 3 four\nonetwo\nonetwo3456\nnext\n"
    );
}
