//! The fuzz input is the value of a `Retry-After` header.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_restreq::fuzz::retry_after_header(bytes));
