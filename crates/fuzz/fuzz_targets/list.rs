//! The fuzz input is the body of a list response.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_restreq::fuzz::list(bytes));
