//! The fuzz input is a recording of requests and responses.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_recorder::fuzz::recording(bytes));
