//! The fuzz input is the body of a watch response.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_restreq::fuzz::frames(bytes));
