//! Fuzzes the target `mask`.
#![no_main]

#[path = "../src/targets.rs"]
#[allow(dead_code, reason = "one of its targets is this one")]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::run("mask", data));
