//! The fuzz input is a token file.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_restreq::fuzz::token_file(bytes));
