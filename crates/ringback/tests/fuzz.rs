//! Every file of the fuzzer's corpora goes through its target: what was found once is found again at once.
#![expect(clippy::unwrap_used, reason = "a test that cannot read its corpus has failed")]

#[path = "../../../fuzz/src/targets.rs"]
mod targets;

use std::fs;
use std::path::{Path, PathBuf};

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn every_file_of_a_corpus_goes_through_its_target() {
    let mut count = 0;
    for (name, _) in targets::TARGETS {
        let corpus = fuzz().join("corpus").join(name);
        let files = names(&corpus);
        assert!(!files.is_empty(), "{name} has no corpus");
        for file in files {
            let bytes = fs::read(corpus.join(&file)).unwrap();
            println!("{name}/{file}, {} bytes", bytes.len());
            targets::run(name, &bytes);
            // And what a small change makes of it.
            for cut in [1, 2, 3, 5, 8].map(|part| bytes.len() / part) {
                targets::run(name, &bytes[..cut]);
                let mut changed = bytes.clone();
                changed.iter_mut().skip(cut / 2).step_by(cut.max(7)).for_each(|byte| *byte ^= 0x20);
                targets::run(name, &changed);
            }
            count += 1;
        }
    }
    assert!(count > 40, "{count}");
}

#[test]
fn each_target_has_a_program_and_each_corpus_a_target() {
    let mut known: Vec<String> = targets::TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    known.sort();
    let programs: Vec<String> = known.iter().map(|name| format!("{name}.rs")).collect();
    assert_eq!(names(&fuzz().join("corpus")), known);
    assert_eq!(names(&fuzz().join("fuzz_targets")), programs);
    let manifest = fs::read_to_string(fuzz().join("Cargo.toml")).unwrap();
    for name in known {
        assert!(manifest.contains(&format!("name = \"{name}\"\n")), "{name} is not in the manifest");
        let program = fs::read_to_string(fuzz().join("fuzz_targets").join(format!("{name}.rs"))).unwrap();
        assert!(program.contains(&format!("targets::run(\"{name}\", data)")), "{name} runs something else");
    }
}

/// Numbers that look like chance and are the same every time (xorshift64*, Vigna 2016).
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let mixed = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(mixed).unwrap_or(0) % end.max(1)
    }

    /// One change: bytes are flipped, taken out, doubled, or come from another file.
    fn change(&mut self, bytes: &mut Vec<u8>, other: &[u8]) {
        let at = self.below(bytes.len());
        let end = (at + 1 + self.below(16)).min(bytes.len());
        match self.below(6) {
            0 if at < bytes.len() => bytes[at] = u8::try_from(self.below(256)).unwrap(),
            1 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
            2 => drop(bytes.drain(at.min(end)..end)),
            3 => {
                let piece = bytes[at.min(end)..end].to_vec();
                (0..=self.below(40)).for_each(|_| drop(bytes.splice(at..at, piece.iter().copied())));
            }
            4 => {
                let from = self.below(other.len());
                let to = (from + self.below(64)).min(other.len());
                bytes.splice(at..at, other[from..to].iter().copied());
            }
            _ => bytes.truncate(at),
        }
    }
}

/// How long each target runs, seconds; without it, for a fixed number of inputs.
const SECONDS: &str = "RINGBACK_FUZZ_SECONDS";
/// That number.
const INPUTS: u32 = 300;
/// A longer input tells nothing that a shorter one does not.
const INPUT_BYTES_MAX: usize = 8192;

#[test]
fn what_chance_makes_of_the_corpora_goes_through_its_target() {
    let seconds = std::env::var(SECONDS).ok().and_then(|text| text.parse().ok()).map(std::time::Duration::from_secs);
    let only = std::env::var("RINGBACK_FUZZ_TARGET").ok();
    for (name, target) in
        targets::TARGETS.into_iter().filter(|(name, _)| only.as_deref().is_none_or(|only| only == *name))
    {
        let corpus = fuzz().join("corpus").join(name);
        let files: Vec<Vec<u8>> = names(&corpus).iter().map(|file| fs::read(corpus.join(file)).unwrap()).collect();
        let seed = if seconds.is_some() { u64::from(std::process::id()) << 20 | 1 } else { 0x9e37_79b9_7f4a_7c15 };
        let (mut chance, begin, mut count) = (Chance(seed), std::time::Instant::now(), 0);
        while seconds.map_or(count < INPUTS, |seconds| begin.elapsed() < seconds) {
            let mut bytes = files[chance.below(files.len())].clone();
            for _ in 0..=chance.below(8) {
                let other = chance.below(files.len());
                chance.change(&mut bytes, &files[other]);
            }
            bytes.truncate(INPUT_BYTES_MAX);
            if let Err(panic) = std::panic::catch_unwind(|| target(&bytes)) {
                let path = fuzz()
                    .join("corpus")
                    .join(name)
                    .join(format!("found-{:08x}", ringback_sys::form::crc::crc32c(&bytes)));
                fs::write(&path, &bytes).unwrap();
                eprintln!("{name} fails on {}", path.display());
                std::panic::resume_unwind(panic);
            }
            count += 1;
        }
        println!("{name}: {count} inputs in {:.1?}", begin.elapsed());
    }
}
