//! The frames of HTTP/2, as they are cut.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_apiserver::fuzz::header_blocks(bytes));
