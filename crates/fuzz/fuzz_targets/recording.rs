//! The fuzz input is a recording.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_recorder::fuzz::recording(bytes));
