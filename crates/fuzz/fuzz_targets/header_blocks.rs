//! The fuzz input is a sequence of HTTP/2 frames, split at any position.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_apiserver::fuzz::header_blocks(bytes));
