//! The fuzz input is the body of an error response.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_restreq::fuzz::failure_body(bytes));
