//! The fuzz input is an error response's body.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_restreq::fuzz::failure_body(bytes));
