//! Commits, each synced, on the disk of the build folder: `cargo bench -p ringback-host --bench store`.
#![expect(clippy::unwrap_used, reason = "a measurement that cannot set up its task has failed")]

use std::path::Path;

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use ringback_core::id::TaskId;
use ringback_host::store::{Asked, Facts, Page, Record, Store, StoredCommand, StoredOutcome};
use ringback_host::wire::ByteBuf;
use tempfile::TempDir;

fn main() {
    divan::main();
}

fn id(number: u64) -> TaskId {
    TaskId::from_bits(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn submission(number: u64) -> Record {
    let words = ["cargo", "test"].map(|word| ByteBuf::from(word.as_bytes().to_vec()));
    let command = StoredCommand { words: words.into(), ..StoredCommand::default() };
    let asked = Asked { command, cwd: ByteBuf::from(b"/srv/project".to_vec()), ..Asked::default() };
    Record::Insert { id: id(number), session: "bench".into(), lease: "awaited", created_ms: 1, asked: Box::new(asked) }
}

fn ending(number: u64) -> [Record; 2] {
    let outcome = StoredOutcome { state: "exited".into(), code: Some(0), ..StoredOutcome::default() };
    let facts = Box::new(Facts { outcome, ended_ms: Some(2), ..Facts::default() });
    [
        Record::Conclude {
            id: id(number),
            session: "bench".into(),
            facts,
            at_ms: 2,
            text: "`cargo test` exited with 0 after 1 ms".into(),
        },
        Record::Close { id: id(number), facts: None, disk_bytes: 4096 },
    ]
}

struct Disk {
    _dir: TempDir,
    store: Store,
    tasks: u64,
}

impl Disk {
    fn with(tasks: u64) -> Self {
        let dir = tempfile::tempdir_in(Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap();
        let mut store = Store::open(&dir.path().join("db")).unwrap();
        let all: Vec<u64> = (1..=tasks).collect();
        for some in all.chunks(1_000) {
            let records: Vec<Record> =
                some.iter().flat_map(|n| std::iter::once(submission(*n)).chain(ending(*n))).collect();
            store.write(&records).unwrap();
        }
        Self { _dir: dir, store, tasks }
    }
}

/// One transaction with this many submissions in it.
#[divan::bench(args = [1, 8, 64])]
fn submissions(bencher: Bencher<'_, '_>, together: u64) {
    let mut disk = Disk::with(100);
    bencher.counter(ItemsCount::new(together)).bench_local(|| {
        let records: Vec<Record> = (1..=together).map(|n| submission(disk.tasks + n)).collect();
        disk.tasks += together;
        disk.store.write(&records).unwrap()
    });
}

/// An outcome, its notice and the close, after this many ended tasks.
#[divan::bench(args = [100, 10_000])]
fn ending_after(bencher: Bencher<'_, '_>, ended: u64) {
    let mut disk = Disk::with(ended);
    bencher.with_inputs(|| ()).bench_local_values(|()| {
        disk.tasks += 1;
        let records: Vec<Record> = std::iter::once(submission(disk.tasks)).chain(ending(disk.tasks)).collect();
        disk.store.write(&records).unwrap()
    });
}

/// A page of the list, and one task by its id.
#[divan::bench(args = [100, 10_000])]
fn page_of_100_after(bencher: Bencher<'_, '_>, ended: u64) {
    let disk = Disk::with(ended);
    let page = || Page { session: Some("bench"), ended: true, before: None, limit: 100 };
    bencher.bench_local(|| disk.store.page(black_box(page())).unwrap().len());
}

/// One task by its id.
#[divan::bench(args = [100, 10_000])]
fn task_after(bencher: Bencher<'_, '_>, ended: u64) {
    let disk = Disk::with(ended);
    bencher.bench_local(|| disk.store.task(black_box(id(ended / 2))).unwrap().is_some());
}
