//! The rules alone: `cargo bench -p ringback-core`.

use divan::{Bencher, black_box};
use ringback_core::board::{Ask, Board};
use ringback_core::id::TaskId;
use ringback_core::outcome::Evidence;
use ringback_core::spec::{IfRunning, Lease};
use ringback_core::task::{Input, Sight};

fn main() {
    divan::main();
}

fn id(number: u64) -> TaskId {
    // Spread over the range, as chance does it.
    TaskId::from_bits(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn ask() -> Ask {
    Ask { session: "bench".into(), lease: Lease::Awaited, key: None, if_running: IfRunning::Reuse }
}

fn begin(board: &mut Board, number: u64) {
    black_box(board.ask(id(number), ask(), "bench"));
    black_box(board.step(id(number), Input::Saw(Sight::Started)));
}

fn end(board: &mut Board, number: u64) {
    let evidence = Evidence { status: Some(0), cause: None, oom: false };
    black_box(board.step(id(number), Input::Saw(Sight::Closed(evidence))));
}

fn with_live(count: u64) -> Board {
    let mut board = Board::new(usize::MAX);
    (1..=count).for_each(|number| begin(&mut board, number));
    board
}

/// Asked for, started, ended and closed, beside this many others.
#[divan::bench(args = [0, 1_000, 100_000])]
fn life_of_a_task(bencher: Bencher<'_, '_>, live: u64) {
    let mut board = with_live(live);
    bencher.bench_local(|| {
        begin(&mut board, live + 1);
        end(&mut board, live + 1);
    });
}

/// Whose tasks end with their session, among this many.
#[divan::bench(args = [1_000, 100_000])]
fn end_of_an_empty_session(bencher: Bencher<'_, '_>, live: u64) {
    let mut board = with_live(live);
    bencher.bench_local(|| board.end_session(black_box("another"), None));
}
