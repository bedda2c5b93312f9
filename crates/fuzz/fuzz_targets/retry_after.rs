//! The fuzz input is a `Retry-After` header value.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_restreq::fuzz::retry_after_header(bytes));
