//! Frames of the wire, written and read: `cargo bench -p ringback-host --bench frame`.
#![expect(clippy::unwrap_used, reason = "a measurement that cannot set up its task has failed")]

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use ringback_host::client::Capture;
use ringback_host::wire::frame::PREFIX_BYTES;
use ringback_host::wire::{
    Answer, ByteBuf, Call, Caller, Command, PROTOCOL, Reply, Request, TaskObject, VERSION, decode, encode,
};

fn main() {
    divan::main();
}

/// What `ringback run -- cargo test` sends, with the environment of whoever runs this.
fn submission() -> Call {
    let words = ["cargo", "test"].map(|word| ByteBuf::from(word.as_bytes().to_vec()));
    let run = Capture::default().request(Command::Argv(words.into())).unwrap();
    let caller = Caller { session: "bench".into(), by: "bench".into() };
    Call { proto: PROTOCOL, version: VERSION.into(), caller, request: Request::Run(Box::new(run)) }
}

/// A list of this many tasks.
fn list(tasks: usize) -> Answer {
    let task = TaskObject {
        id: "0123456789ab".into(),
        session: "bench".into(),
        state: "exited".into(),
        ..TaskObject::default()
    };
    let reply = Reply::Tasks { tasks: vec![task; tasks], timed_out: false, next: None, faults: Vec::new() };
    Answer { proto: PROTOCOL, version: VERSION.into(), reply }
}

fn frame(value: &impl serde::Serialize) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(value, &mut bytes).unwrap();
    bytes
}

#[divan::bench]
fn write_a_submission(bencher: Bencher<'_, '_>) {
    let call = submission();
    let mut bytes = frame(&call);
    bencher.counter(BytesCount::new(bytes.len())).bench_local(|| {
        bytes.clear();
        encode(black_box(&call), &mut bytes)
    });
}

#[divan::bench]
fn read_a_submission(bencher: Bencher<'_, '_>) {
    let bytes = frame(&submission());
    bencher
        .counter(BytesCount::new(bytes.len()))
        .bench_local(|| decode::<Call>(black_box(&bytes[PREFIX_BYTES..])).unwrap());
}

#[divan::bench(args = [1, 100])]
fn write_a_list(bencher: Bencher<'_, '_>, tasks: usize) {
    let answer = list(tasks);
    let mut bytes = frame(&answer);
    bencher.counter(BytesCount::new(bytes.len())).bench_local(|| {
        bytes.clear();
        encode(black_box(&answer), &mut bytes)
    });
}

#[divan::bench(args = [1, 100])]
fn read_a_list(bencher: Bencher<'_, '_>, tasks: usize) {
    let bytes = frame(&list(tasks));
    bencher
        .counter(BytesCount::new(bytes.len()))
        .bench_local(|| decode::<Answer>(black_box(&bytes[PREFIX_BYTES..])).unwrap());
}
