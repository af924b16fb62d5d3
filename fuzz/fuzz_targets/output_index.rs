//! Fuzzes the target `output_index`.
#![no_main]

#[path = "../src/targets.rs"]
#[allow(dead_code, reason = "one of its targets is this one")]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::run("output_index", data));
